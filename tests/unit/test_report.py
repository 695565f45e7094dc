"""What people see: the summary's numbers and a failure's words."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.harness import Judged
from pytest_researchenv.model import Cause, Tier, TierResult, Verdict
from pytest_researchenv.report.message import failure_message
from pytest_researchenv.report.properties import judged_properties
from pytest_researchenv.report.summary import Row, render


def _rows(*verdicts: Verdict) -> list[Row]:
    return [Row("oracle", f"repo{number}", Tier.C1, verdict) for number, verdict in enumerate(verdicts)]


def test_errors_and_skips_stay_out_of_the_rate() -> None:
    """The denominator is passed and failed; skips and errors are counted apart."""
    rows = _rows(Verdict.PASSED, Verdict.PASSED, Verdict.FAILED, Verdict.SKIPPED, Verdict.ERROR, Verdict.ERROR)

    lines = [line.split() for line in render(rows, width=100).splitlines()]

    assert ["passed", "of", "judged", "2", "of", "3"] in lines
    assert ["skipped", "1"] in lines
    assert ["errors", "2"] in lines


def test_an_emulated_verdict_is_marked_and_explained() -> None:
    """Nobody can take a run on the CPU for one on a GPU."""
    text = render([Row("oracle", "x", Tier.C3, Verdict.PASSED, emulated=True)], width=80)

    assert "passed*" in text
    assert "* emulated on the CPU" in text


def test_the_table_of_all_tiers_fits_a_usual_terminal() -> None:
    """Six tiers and a long name stand on one line each in 80 columns."""
    rows = [Row("oracle", "quickstart/long-context-attention", tier, Verdict.PASSED, emulated=True) for tier in Tier]

    assert any(
        line.split() == ["long-context-attention", *["passed*"] * 6] for line in render(rows, width=80).split("\n")
    )


def test_each_agent_has_a_table_of_its_own() -> None:
    """Rates of two agents never mix."""
    rows = [Row("oracle", "x", Tier.C0, Verdict.PASSED), Row("noop", "x", Tier.C0, Verdict.FAILED)]

    text = render(rows, width=100)

    assert text.index("oracle") < text.index("1 of 1") < text.index("noop") < text.index("0 of 1")


def test_a_failure_says_tier_cause_line_log_and_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is short and every line of it leads somewhere."""
    monkeypatch.chdir(tmp_path)
    result = TierResult(
        Tier.C1, Verdict.FAILED, Cause.EXIT_CODE, "exited with code 1", "ModuleNotFoundError: torch", log="C1-001.log"
    )

    message = failure_message(Judged(result, None, tmp_path / "results/a b"))

    assert message.splitlines() == [
        "C1 CPU execution failed: non-zero exit: exited with code 1",
        "  > ModuleNotFoundError: torch",
        "  log:   results/a b/C1-001.log",
        "  shell: researchenv shell 'results/a b'",
    ]


def test_a_failure_that_is_known_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The diagnosis stands below, with its own line where that is another one than the record's."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "results"
    folder.mkdir()
    (folder / "C1-001.log").write_text(
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    g()\n'
        "ImportError: libGL.so.1: cannot open shared object file: No such file or directory\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 1, in f\n    g()\nRuntimeError: no renderer\n'
    )
    result = TierResult(
        Tier.C1, Verdict.FAILED, Cause.EXIT_CODE, "exited with code 1", "RuntimeError: no renderer", log="C1-001.log"
    )

    message = failure_message(Judged(result, None, folder))

    assert message.splitlines()[1:5] == [
        "  > RuntimeError: no renderer",
        "  > ImportError: libGL.so.1: cannot open shared object file: No such file or directory",
        "  why:   system library (certain)",
        "  next:  Install the distribution's package that has the library.",
    ]


def test_a_diagnosis_travels_with_the_report(tmp_path: Path) -> None:
    """Category, rule, confidence and line of what failed; nothing of what passed."""
    result = TierResult(Tier.C1, Verdict.FAILED, Cause.TIMEOUT, "timed out after 60 s", "step 3", log="C1-001.log")

    facts = dict(judged_properties(Judged(result, None, tmp_path)))
    passed = dict(judged_properties(Judged(replace(result, verdict=Verdict.PASSED, cause=Cause.NONE), None, tmp_path)))

    names = [name for name in facts if name.startswith("researchenv_diagnosis")]
    assert [facts[name] for name in names] == ["timeout", "timeout", "certain", "step 3"]
    assert not [name for name in passed if "diagnosis" in name]


def test_a_log_line_cannot_drive_the_terminal_or_fill_it() -> None:
    """Control characters are shown, not obeyed, and a long line is cut."""
    result = TierResult(Tier.C1, Verdict.FAILED, Cause.EXIT_CODE, "x", "\x1b[2J\x07\u202e" + "y" * 10_000)

    message = failure_message(Judged(result))

    assert "\x1b" not in message
    assert "\x07" not in message
    assert "\u202e" not in message
    assert len(message) < 500
