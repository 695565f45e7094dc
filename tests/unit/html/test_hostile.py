"""Nobody's words can do anything on a page: not a log's, a name's, a self-report's, a trajectory's."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_researchenv.model import (
    Audit,
    Cause,
    Claim,
    EnvironmentKey,
    Examination,
    Finding,
    FindingKind,
    Outcome,
    SelfReport,
    Sign,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.report.html.of_attempt import attempt_page
from pytest_researchenv.report.html.of_runs import run_page
from pytest_researchenv.report.html.places import Places
from pytest_researchenv.report.html.plots import figure_svg
from pytest_researchenv.report.html.reasons import reasons_of
from pytest_researchenv.report.html.rendering import render_environment, render_run
from pytest_researchenv.report.html.text import visible
from pytest_researchenv.runs.values import AttemptRecord, Subject
from tests.unit.html.made import environment, run
from tests.unit.html.reading import Page, read


PIECES = (
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    '"><svg onload="window.pwned=1">',
    "' onmouseover='window.pwned=1",
    "{{ 7 * 7 }}{% include 'x' %}",
    "</style></title></textarea><!--",
    "]]>&lt;&#60;\\u003c",
    "javascript:window.pwned=1",
    "\u202egnp.exe",
    "\x1b[2J\x00\x7f",
    "\ud800",
    "\udcff",
    "x" * 5000,
)
RESULTS = Path("results")
HOSTILE = st.lists(st.sampled_from(PIECES) | st.text(st.characters(), max_size=20), max_size=4).map("".join)

#: What no name of a folder holds: the halves that are left stand for bytes.
NO_NAME = {"/", "\0", *map(chr, range(0xD800, 0xDC80)), *map(chr, range(0xDD00, 0xE000))}

SETTINGS = {"suppress_health_check": [HealthCheck.function_scoped_fixture, HealthCheck.too_slow], "deadline": None}


def folder_name(words: str) -> str:
    """What of some words a folder can be called: all but slashes, zeros, and halves of characters that are no bytes."""
    return "".join(letter for letter in words if letter not in NO_NAME) or "x"


def hostile_attempt(folder: Path, words: str, raw: bytes) -> AttemptRecord:
    """An attempt in which every word is somebody's."""
    name = folder_name(words)
    key = EnvironmentKey("default", name, f"quickstart/{name}", 1)
    claim = Claim(words, words, words, Outcome.FALSE, FindingKind.CAPABILITY)
    finding = Finding(Sign.TRACKED, words, words, words)
    tiers: dict[Subject, TierResult] = {
        tier: TierResult(
            tier,
            Verdict.FAILED,
            Cause.EXIT_CODE,
            reason=words,
            decisive=f"{words}!",
            evidence={words: words, "list": [words]},
            claims=(claim,),
            log="C1-001.log",
            created=words,
            harness=words,
            accelerator=words,
        )
        for tier in Tier
    }
    audit = TierResult(Examination.INTEGRITY, Verdict.FAILED, Cause.TAMPERED, words, findings=(finding,))
    (folder / "C1-001.log").write_bytes(raw)
    (folder / "transcript.log").write_bytes(raw)
    (folder / "prompt.md").write_bytes(words.encode("utf-8", "surrogatepass"))
    step = {
        "source": words,
        "message": words,
        "reasoning_content": words,
        "timestamp": words,
        "tool_calls": [{"tool_call_id": words, "function_name": words, "arguments": {"command": words, words: words}}],
        "observation": {"results": [{"source_call_id": words, "content": words}]},
    }
    (folder / "trajectory.json").write_text(json.dumps({"steps": [step]}))
    left = environment(
        key,
        report=SelfReport(words, words, words, env_tool=words, env_name=words, notes=words),
        report_problem=words,
        changed=(words,),
        ended=words,
        created=words,
        refused=(words,),
        notes=(words,),
        image=words,
    )
    return AttemptRecord(
        key, folder, environment=left, error=words, results={**tiers, Examination.INTEGRITY: audit}, audit=Audit(audit)
    )


def pages_of(attempt: AttemptRecord) -> tuple[str, str]:
    """The page of its run, and its own."""
    reasons = reasons_of([run(attempt)])
    run_html = render_run(run_page([run(attempt)], descriptions={}, reasons=reasons, version="1"))
    page = attempt_page(attempt, results=RESULTS, places=Places(), reasons=reasons, version="1")
    return run_html, render_environment(page)


OURS = re.compile(
    r"html|head|meta|title|link|style|body|a|header|p|h[1-3]|dl|div|dt|dd|nav|ul|ol|li|main|section|table|caption|thead|"
    r"tbody|tr|th|td|b|i|span|small|svg|g|rect|line|circle|path|text|figure|figcaption|strong|details|summary|form|label|"
    r"input|select|option|button|abbr|dialog|pre|code|footer|br|script"
)


def check(page: Page, scripts: int) -> None:
    """Only our own elements and attributes are there."""
    assert page.tags.count("script") == scripts
    assert all(OURS.fullmatch(tag) for tag in page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name == "style"]
    links = [value for _, name, value in page.attributes if name == "href"]
    assert all(re.match(r"#|data:,$|environments/[\w./%~-]*(#C\d)?$|(\.\./)+index\.html$", link) for link in links)


def escapes_everything(folder: Path, words: str, raw: bytes) -> None:
    """Whatever the words are, they are shown as text, and are nothing else."""
    run_html, environment_html = pages_of(hostile_attempt(folder, words, raw))

    for html in (run_html, environment_html):
        html.encode()
        assert visible(html) == html
    check(read(run_html), 2)
    page = read(environment_html)
    check(page, 0)
    assert visible(words)[:200] in page.text


@settings(max_examples=100, **SETTINGS)  # type: ignore[arg-type]
@given(words=HOSTILE, raw=st.binary(max_size=300) | HOSTILE.map(lambda text: text.encode("utf-8", "surrogatepass")))
def test_everything_is_escaped(tmp_path: Path, words: str, raw: bytes) -> None:
    """Names, messages, claims, steps and logs."""
    escapes_everything(tmp_path, words, raw)


@pytest.mark.slow
@settings(max_examples=10_000, **SETTINGS)  # type: ignore[arg-type]
@given(words=HOSTILE, raw=st.binary(max_size=300))
def test_everything_is_escaped_ten_thousand_times(tmp_path: Path, words: str, raw: bytes) -> None:
    """Likewise, for as long as it takes to believe it."""
    escapes_everything(tmp_path, words, raw)


@pytest.mark.parametrize("words", PIECES)
def test_figures_are_escaped_as_files_too(tmp_path: Path, words: str) -> None:
    """They are opened in browsers and put into papers."""
    page = run_page([run(hostile_attempt(tmp_path, words, b""))], descriptions={}, reasons={}, version="1")

    for figure in (figure for section in page.sections for figure in section.figures):
        svg = figure_svg(figure)
        drawn = read(svg)
        assert set(drawn.tags) <= {"svg", "title", "style", "rect", "g", "text", "line", "circle", "path"}
        assert not [name for _, name, _ in drawn.attributes if name.startswith("on")]
