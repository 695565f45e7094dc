"""What the pages say, and that they say it of what was read."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.manifest import EngineFacts, GitState, Host, Manifest
from pytest_researchenv.model import (
    Audit,
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
from pytest_researchenv.report.html.environment_view import EnvironmentPage
from pytest_researchenv.report.html.of_attempt import attempt_page
from pytest_researchenv.report.html.of_runs import run_page
from pytest_researchenv.report.html.places import Places
from pytest_researchenv.report.html.reasons import reasons_of
from pytest_researchenv.report.html.rendering import render_environment, render_run
from pytest_researchenv.report.html.view import RunPage
from pytest_researchenv.runs.values import AttemptRecord, Damage, Run
from tests.unit.html.made import attempt, descriptions, environment, quickstart, result, run
from tests.unit.html.reading import read


RESULTS = Path("results")
NAMES = ("kvpress", "LettuceDetect", "long-context-attention", "tinyddp")
FAILED = Verdict.FAILED


def page_of(*runs: Run) -> RunPage:
    """The page of some runs."""
    return run_page(runs, descriptions=descriptions(), reasons={}, version="1.2")


def own_page(one: AttemptRecord, results: Path = RESULTS) -> EnvironmentPage:
    """The page of an environment."""
    return attempt_page(one, results=results, places=Places(), reasons={}, version="1.2")


def environment_text(one: AttemptRecord) -> str:
    """What the page of an environment says."""
    return read(render_environment(own_page(one))).text


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two agents with three attempts each."""
    return quickstart(tmp_path_factory.mktemp("results"))


# --- the page of a run ------------------------------------------------------------------------------------


def test_every_part_is_there(made: Run) -> None:
    """Who is better, where it fails, every repository, whether it can be believed, what it took."""
    page = read(render_run(page_of(made)))

    titles = {"Who is better", "Where it fails", "Every repository", "Can it be believed", "What it took"}
    assert titles <= set(page.texts)
    assert {*NAMES, "claude-sonnet", "codex", "C3 single-GPU execution"} <= set(page.texts)


def test_every_session_stands_with_its_command(made: Run) -> None:
    """How it ended, on which machine, by which command and code; one without an end is not called finished."""
    host = Host("digest", "Linux 6.1", "x86_64", 2, 24_000_000_000)
    versions = {"pytest": "9.0.1"}
    engine = EngineFacts("Docker 20", "sha256:0", "cuda", ("H200", "H200"), "550.1", "12.4", "")
    command = ("pytest", "-k", "C3 or <b>")
    first = Manifest(
        "one", "default", command, "2026-11-30T09:00:00+00:00", ("codex",), "1.2 abc", "3.11.7", versions, host, None,
        ended="2026-11-30T11:30:00+00:00", exit_status=1, tests=24, outcomes={"failed": 4, "passed": 20},
        engines=(engine, engine), suites={"quickstart": "0123"},
    )  # fmt: skip
    second = replace(first, session="two", ended="", exit_status=None, git=GitState("c0ffee", 3), python="3.12.1")

    texts = read(render_run(page_of(replace(made, manifests=(first, second))))).texts

    for said in (
        "How it was made", "some failed", "2.5 h", "24: 4 failed, 20 passed", "H200, H200, driver 550.1 (Docker 20)",
        "no end on record", "Linux 6.1, 2 CPUs, 24.0 GB", "pytest -k 'C3 or <b>'", "c0ffee, 3 paths changed",
        "quickstart 0123", "3.11.7 (one); 3.12.1 (two)", "9.0.1",
    ):  # fmt: skip
        assert said in texts


def test_pages_fetch_nothing(made: Run) -> None:
    """No address leads anywhere but to our own pages and to places within them."""
    for html in (
        render_run(page_of(made)),
        render_environment(own_page(made.attempts[0])),
    ):
        page = read(html)
        addresses = [value for _, name, value in page.attributes if name in {"href", "src", "action", "srcset"}]
        assert addresses
        assert all(re.match(r"#|data:,$|environments/|(\.\./)+index\.html$", value) for value in addresses)
        assert "url(" not in html
        assert "@import" not in html


@pytest.mark.parametrize("kind", ["run", "environment"])
def test_only_our_own_style_and_script_are_allowed(made: Run, kind: str) -> None:
    """The policy names their digests; nothing else could run, and nothing has a style of its own."""
    run_html = render_run(page_of(made))
    html = run_html if kind == "run" else render_environment(own_page(made.attempts[0]))
    page = read(html)
    (policy,) = (value for _, name, value in page.attributes if name == "content" and value.startswith("default-src"))

    allowed = {f"'sha256-{base64.b64encode(hashlib.sha256(raw.encode()).digest()).decode()}'" for raw in page.raw}

    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert set(re.findall(r"'sha256-[^']+'", policy)) <= allowed
    assert ("script-src" in policy) == (kind == "run")
    assert not [name for _, name, _ in page.attributes if name == "style" or name.startswith("on")]


def test_the_best_agent_and_the_difference_are_told_first() -> None:
    """Who is better, by how much, and how sure: twelve repositories that only one of two passes."""
    attempts = []
    for number in range(12):
        name = f"quickstart/repository-{number}"
        attempts += [
            attempt(1, result(tier=Tier.C3), agent="good", repository=name),
            attempt(1, result(FAILED, Tier.C3), agent="bad", repository=name),
        ]

    answers = page_of(run(*attempts)).answers

    assert answers[0] == (
        "In C3, single-GPU execution, good passes most: 12 of 12 repositories (100 %, 95 % interval 76 to 100 %). "
        "bad follows with 0 %."
    )
    assert answers[1].endswith("(p < 0.05, corrected for the tiers of each pair): good above bad by 100 points.")


def test_a_difference_by_chance_is_said_to_be_one() -> None:
    """One repository tells nothing."""
    attempts = [
        attempt(1, result(tier=Tier.C3), agent="lucky"),
        attempt(1, result(FAILED, Tier.C3), agent="unlucky"),
    ]

    assert page_of(run(*attempts)).answers[1] == (
        "No difference between two agents in C3 is more than chance would make. The smallest corrected p is 1."
    )


def test_two_that_do_as_well_are_both_named() -> None:
    """Nobody is put first for the name."""
    attempts = [attempt(1, result(tier=Tier.C3), agent=name) for name in ("a", "b")]

    assert page_of(run(*attempts)).answers[0].endswith(". b does as well.")


def test_where_nothing_is_lost_nothing_is_said_to_be() -> None:
    """Of environments that passed a tier, all passed the next one; one that passed none has nothing to lose."""
    passing, failing = ([result(verdict, tier) for tier in Tier] for verdict in (Verdict.PASSED, FAILED))
    attempts = [attempt(1, *passing), attempt(1, *failing, repository="quickstart/tinyddp")]

    answers = page_of(run(*attempts)).answers

    assert "No environment that passed a tier failed the next one." in answers
    assert not [answer for answer in answers if answer.startswith("Most is lost")]


def test_agents_stand_in_the_order_of_their_rates() -> None:
    """The best comes first, wherever agents are listed."""
    attempts = [attempt(1, result(FAILED), agent="a"), attempt(1, result(), agent="b")]

    assert page_of(run(*attempts)).agents == ("b", "a")


def test_one_agent_alone_is_not_compared() -> None:
    """No pairs, no winner."""
    page = page_of(run(attempt(1, result(tier=Tier.C3))))

    assert page.sections[0].title == "How good it is"
    assert page.answers[0] == (
        "In C3, single-GPU execution, codex passes 1 of 1 repositories (100 %, 95 % interval 21 to 100 %)."
    )


def test_emulated_verdicts_are_warned_of_and_never_beside_the_paper() -> None:
    """They say nothing about CUDA."""
    emulated = attempt(1, result(tier=Tier.C3, emulated=True), repository="researchenvbench/kvpress")

    page = run_page([run(emulated)], descriptions=descriptions("researchenvbench"), reasons={}, version="")

    assert page.warnings[0].startswith("1 of 1 verdict in C2 to C4 were emulated")
    (paper,) = (section for section in page.sections if section.name == "paper")
    assert "emulated" in " ".join(paper.lead)
    assert [name for name, _ in paper.grid.rows if not name.startswith("paper: ")] == [] if paper.grid else False


def test_records_that_cannot_be_read_are_told(tmp_path: Path) -> None:
    """What is missing is missing in sight."""
    damaged = attempt(1, result(), damage=(Damage(tmp_path / "C2-001.json", "does not hold what was written there"),))

    assert "1 record cannot be read" in " ".join(page_of(run(damaged)).warnings)


def test_several_runs_stand_side_by_side(tmp_path: Path) -> None:
    """Agents of one name are told apart by their runs, in tables, too, and so are their pages."""
    runs = quickstart(tmp_path, "before", attempts=1), quickstart(tmp_path, "after", attempts=1)

    page = page_of(*runs)

    assert set(page.agents) == {
        f"{name}:{agent}" for name in ("before", "after") for agent in ("codex", "claude-sonnet")
    }
    assert "environments/before/codex/quickstart/kvpress/attempt-001.html" in render_run(page)


def test_a_run_without_a_verdict_still_has_a_page() -> None:
    """Nothing was judged yet: nothing is claimed."""
    page = page_of(run(attempt(1, environment=None, error="the engine did not answer")))

    assert page.answers == ()
    assert "0" in [headline.value for headline in page.headlines]
    assert read(render_run(page)).text


def test_the_script_reads_what_the_cells_show(made: Run) -> None:
    """Of each cell, every attempt with its verdict."""
    page = page_of(made)
    html = render_run(page)
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    assert found
    data = json.loads(found[1])

    assert page.matrix is not None
    for row, shown in zip(page.matrix.rows, data["rows"], strict=True):
        for cells, of_agent in zip(row.cells, shown, strict=True):
            for cell, listed in zip(cells, of_agent["t"], strict=True):
                assert [data["verdicts"][one[1]] for one in listed] == [one.verdict for one in cell.attempts]
                assert [of_agent["p"][one[0]][0] for one in listed] == [one.attempt for one in cell.attempts]


# --- the page of an environment ---------------------------------------------------------------------------


def test_a_failure_shows_cause_line_evidence_and_log(tmp_path: Path) -> None:
    """All that decides, without another click."""
    (tmp_path / "C1-001.log").write_bytes(b"Traceback\nImportError: libGL.so.1\n")
    failed = result(
        FAILED,
        reason="the probe exited with code 1",
        decisive="ImportError: libGL.so.1",
        evidence={"exit_code": 1, "files": []},
        log="C1-001.log",
    )

    text = environment_text(attempt(1, failed, folder=tmp_path))

    for part in ("non-zero exit", "the probe exited with code 1", "ImportError: libGL.so.1", "exit_code", "Traceback"):
        assert part in text


def test_a_diagnosis_says_why_and_what_to_do(tmp_path: Path) -> None:
    """On the page of the environment, and as the cause in the matrix."""
    (tmp_path / "C1-001.log").write_bytes(b"ImportError: libGL.so.1: cannot open shared object file: No such file\n")
    failed = run(attempt(1, result(FAILED, log="C1-001.log"), folder=tmp_path))
    reasons = reasons_of([failed])

    page = attempt_page(failed.attempts[0], results=RESULTS, places=Places(), reasons=reasons, version="")
    whole = run_page([failed], descriptions={}, reasons=reasons, version="")

    text = read(render_environment(page)).text
    assert "system library" in text
    assert page.tiers[1].diagnosis is not None
    assert page.tiers[1].diagnosis.next in text
    assert whole.matrix is not None
    assert whole.matrix.causes == ("system library",)


def test_a_log_of_another_folder_is_not_shown(tmp_path: Path) -> None:
    """A record that was edited cannot have a page tell what lies elsewhere."""
    (tmp_path / "secret").write_text("hunter2")
    (tmp_path / "attempt-001").mkdir()

    text = environment_text(attempt(1, result(FAILED, log="../secret"), folder=tmp_path / "attempt-001"))

    assert "hunter2" not in text


def test_the_self_report_stands_beside_what_was_observed() -> None:
    """Every field, also those that C5 does not judge."""
    key = EnvironmentKey("default", "codex", "quickstart/kvpress", 1)
    report = SelfReport(cuda_available=True, env_tool="uv")
    claim = Claim("cuda_available", "true", "torch sees no device", Outcome.FALSE, FindingKind.CAPABILITY)
    doubt = Claim("ddp_expected_ok", "null", "C4 passed", Outcome.ABSTAINED, FindingKind.CAPABILITY, would_hold=True)
    c5 = TierResult(Tier.C5, FAILED, claims=(claim, doubt))

    page = attempt_page(
        attempt(1, c5, environment=environment(key, report=report)),
        results=RESULTS,
        places=Places(),
        reasons={},
        version="",
    )

    rows = {row.field: row for row in page.claims}
    assert (rows["cuda_available"].observed, rows["cuda_available"].outcome) == ("torch sees no device", "false")
    assert rows["ddp_expected_ok"].observed == "C4 passed; the claim would have held"
    assert (rows["env_tool"].claimed, rows["env_tool"].outcome) == ('"uv"', "")


def test_signs_of_tampering_are_shown_with_what_should_be() -> None:
    """Of each sign: where, what should be there, what is."""
    finding = Finding(Sign.TRACKED, "setup.py", "as pinned", "3 lines were changed")
    audit = TierResult(Examination.INTEGRITY, FAILED, findings=(finding,))

    text = environment_text(attempt(1, audit, audit=Audit(audit)))

    for part in ("tracked files changed", "setup.py", "as pinned", "3 lines were changed"):
        assert part in text


def test_commands_to_see_it_again_are_quoted(tmp_path: Path) -> None:
    """They can be pasted into a shell, whatever names are in them."""
    folder = tmp_path / "it's" / "default" / "codex" / "quickstart" / "kvpress" / "attempt-001"

    page = attempt_page(
        attempt(1, result(FAILED), folder=folder), results=tmp_path, places=Places(), reasons={}, version=""
    )

    commands = dict(page.commands)
    assert commands["A shell in a copy of the environment"].endswith(
        """it'"'"'s/default/codex/quickstart/kvpress/attempt-001'"""
    )
    assert commands["Judge it again, and compare"].endswith("--agent codex --repository kvpress")
    assert commands["Probe what failed once more, in the newest attempt"].endswith("-k 'kvpress and (C1)'")


def test_an_attempt_without_an_environment_says_why() -> None:
    """The error is what there is to tell."""
    text = environment_text(attempt(1, environment=None, error="the engine did not answer"))

    assert "This attempt left no environment: the engine did not answer" in text
