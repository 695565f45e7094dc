"""What people see of a research run: the terminal's table, its sums, a failure's words, and the properties."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.model import Verdict
from pytest_researchenv.report.properties import research_properties
from pytest_researchenv.report.research_summary import ResearchRow, render_research, research_row, sums
from pytest_researchenv.research.outcome import check
from pytest_researchenv.research.result import ResearchCause, ResearchFinding, ResearchResult
from pytest_researchenv.researching import JudgedResearch
from tests.unit.research.test_verdict import came


PASSED = ResearchRow(
    "oracle", "mine/digits", "steps2", 1, Verdict.PASSED, completed=True, name="Acc", score=97.5, error=0.3,
    baseline=95.0, method="lda", share=0.995, gain=1.026, comparable=True,
)  # fmt: skip
FAILED = ResearchRow("oracle", "mine/digits", "steps5", 1, Verdict.FAILED, comparable=True)


def facts(judged: JudgedResearch) -> dict[str, str]:
    """Properties of a judged sub-task, without our prefix, beside what is known before."""
    known = {"agent": "oracle", "task": "mine/digits", "subtask": "steps2", "trial": "1", "comparable": "true"}
    return known | {name.removeprefix("researchenv_"): str(value) for name, value in research_properties(judged)}


def test_what_a_sub_task_came_to_travels_with_the_report() -> None:
    """From the result to properties, and from those to the summary's row, nothing is lost that is shown."""
    result = came(dict.fromkeys(range(5), 97.0) | {0: 98.0})
    row = research_row(facts(JudgedResearch(result)), verdict=Verdict.PASSED)

    assert result.deciding
    assert (row.name, row.score, row.baseline, row.method) == ("Acc", 97.2, 95.0, "lda")
    assert row.completed
    assert row.error == pytest.approx(result.deciding.error)
    assert row.share == pytest.approx(result.deciding.share, abs=1e-5)
    assert row.gain == pytest.approx(result.deciding.gain, abs=1e-5)


def test_the_table_shows_verdict_completed_score_baseline_and_share() -> None:
    """In a usual terminal, a line for each sub-task."""
    text = render_research([PASSED, FAILED], width=100)
    lines = [line.split() for line in text.splitlines()]

    assert ["digits", "steps2", "passed", "yes", "Acc", "97.5", "±", "0.3", "lda", "95", "0.995"] in lines
    assert ["steps5", "failed", "no", "-", "-", "-"] in lines


def test_rates_leave_errors_and_skips_out() -> None:
    """The denominator is passed and failed; what was completed is counted beside."""
    others = [
        replace(FAILED, subtask=f"other{number}", verdict=verdict)
        for number, verdict in enumerate((Verdict.ERROR, Verdict.SKIPPED, Verdict.SKIPPED))
    ]

    assert sums("oracle", [PASSED, FAILED, *others])[0] == (
        "oracle: 1 of 2 sub-tasks passed, 1 of 2 completed; 2 skipped; 1 errors"
    )


def test_a_task_scores_the_mean_of_its_shares_and_what_is_missing_is_0() -> None:
    """As the paper defines it (section 2.4); a task of which something has no verdict has no score."""
    assert sums("oracle", [PASSED, FAILED])[1] == "oracle: digits: 0.497 of the withheld method's score"
    broken = [PASSED, replace(FAILED, verdict=Verdict.ERROR)]
    assert len(sums("oracle", broken)) == 1


def test_what_cannot_be_compared_is_left_out_and_never_0() -> None:
    """Where no withheld score is known there is no share."""
    assert sums("oracle", [PASSED, replace(FAILED, comparable=False)])[1].startswith("oracle: digits: 0.995 of")
    assert len(sums("oracle", [replace(FAILED, comparable=False)])) == 1


def test_several_attempts_have_a_best_and_a_mean() -> None:
    """best@k and avg@k over the attempts' scores."""
    again = replace(PASSED, trial=2, share=0.895)

    assert sums("oracle", [PASSED, again])[1] == (
        "oracle: digits: 0.995 of the withheld method's score, best@2, avg@2 0.945"
    )


def test_published_sub_tasks_alone_make_no_table() -> None:
    """They are counted as skipped."""
    skipped = replace(FAILED, verdict=Verdict.SKIPPED)

    assert render_research([skipped], width=100) == "oracle: no sub-task judged; 1 skipped"


def test_a_failure_says_whether_it_was_completed_why_and_where_the_log_is(tmp_path: Path) -> None:
    """Control sequences in what was handed in reach no terminal."""
    finding = ResearchFinding("crash", "\x1b[2J", ResearchCause.CRASH)
    log = "research-steps2-001.log"
    result = ResearchResult("steps2", Verdict.FAILED, ResearchCause.CRASH, f"crash: {finding.what}", log=log)

    with pytest.raises(pytest.fail.Exception) as failure:
        check(JudgedResearch(result, folder=tmp_path))

    text = str(failure.value)
    assert text.startswith("steps2 failed (not completed): crash: crash: \N{REPLACEMENT CHARACTER}[2J")
    assert f"log:   {tmp_path}/research-steps2-001.log" in text
    assert f"researchenv shell {tmp_path}" in text


def test_passing_says_nothing_and_skipping_says_why() -> None:
    """As pytest has it."""
    check(JudgedResearch(ResearchResult("steps2", Verdict.PASSED)))
    with pytest.raises(pytest.skip.Exception, match="cannot be run yet"):
        check(JudgedResearch(ResearchResult("x", Verdict.SKIPPED, ResearchCause.NOT_RUNNABLE, "cannot be run yet")))
