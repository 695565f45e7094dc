"""What a cell of the matrix says."""

from __future__ import annotations

import pytest

from pytest_researchenv.model import Cause, Tier, Verdict
from pytest_researchenv.report.html.matrix_of import matrix_of
from pytest_researchenv.report.html.matrix_view import Cell, Matrix, State
from pytest_researchenv.report.html.places import Places
from pytest_researchenv.runs.values import AttemptRecord
from pytest_researchenv.statistics.tries import agent_runs
from tests.unit.html.made import attempt, descriptions, environment, result, run


def matrix(*attempts: AttemptRecord) -> Matrix:
    """The matrix of some attempts."""
    known = descriptions()
    parts = agent_runs(run(*attempts), known)
    return matrix_of(parts, descriptions=known, places=Places(), reasons={})


def cell(*attempts: AttemptRecord, tier: Tier = Tier.C1) -> Cell:
    """The one cell of some attempts in a tier."""
    (row,) = matrix(*attempts).rows
    return row.cells[0][list(Tier).index(tier)]


PASSED, FAILED, ERROR, SKIPPED = Verdict.PASSED, Verdict.FAILED, Verdict.ERROR, Verdict.SKIPPED


@pytest.mark.parametrize(
    ("verdicts", "state", "text"),
    [
        ([PASSED], State.PASSED, "✓"),
        ([FAILED], State.FAILED, "✗"),
        ([ERROR], State.ERROR, "!"),
        ([SKIPPED], State.SKIPPED, "–"),  # noqa: RUF001 - a dash
        ([PASSED, PASSED], State.PASSED, "2/2"),
        ([PASSED, FAILED, PASSED], State.MIXED, "2/3"),
        ([FAILED, FAILED], State.FAILED, "0/2"),
        ([PASSED, ERROR], State.PASSED, "1/1"),
        ([ERROR, SKIPPED], State.ERROR, "!"),
    ],
)
def test_a_cell_tells_verdicts_without_colour(verdicts: list[Verdict], state: State, text: str) -> None:
    """A symbol for one attempt, and for several how many passed of those that were judged."""
    found = cell(*(attempt(number, result(verdict)) for number, verdict in enumerate(verdicts, start=1)))

    assert (found.state, found.text) == (state, text)


def test_a_cell_without_a_result_says_why() -> None:
    """A tier that does not apply is not one that nobody asked for."""
    lettuce = attempt(1, result(), repository="quickstart/LettuceDetect")

    idle, unasked = cell(lettuce, tier=Tier.C4), cell(lettuce, tier=Tier.C3)

    assert (idle.state, unasked.state) == (State.SKIPPED, State.NONE)
    assert idle.words.startswith("not applicable: ")
    assert unasked.words == "not judged"


def test_an_emulated_verdict_is_marked() -> None:
    """Nobody takes a run on the CPU for one on a GPU, whether it is seen or heard."""
    found = cell(attempt(1, result(tier=Tier.C3, emulated=True)), tier=Tier.C3)

    assert found.text == "✓*"
    assert found.words == "passed, emulated"


def test_an_attempt_that_broke_is_an_error_where_no_other_counts() -> None:
    """With its own cause; where another try counts, it is listed and not counted."""
    broken = attempt(1, environment=None, error="the model could not be had: rate limit: 429")

    alone, beside = cell(broken), cell(broken, attempt(2, result()))

    assert (alone.state, alone.attempts[0].cause) == (State.ERROR, "model provider")
    assert (beside.text, [one.counted for one in beside.attempts]) == ("✓", [False, True])


def test_a_superseded_attempt_is_listed_and_not_counted() -> None:
    """What other inputs shaped is no sample of what the agent does now."""
    old, new = attempt(1, result(FAILED)), attempt(2, result())
    shaped = environment(old.key, inputs={"prompt": "another"})

    found = cell(attempt(1, result(FAILED), environment=shaped), new)

    assert found.text == "✓"
    assert len(found.attempts) == 2


def test_causes_are_listed_by_frequency() -> None:
    """The filter offers what is there, the most frequent first."""
    attempts = [
        attempt(1, result(FAILED, cause=Cause.TIMEOUT), result(FAILED, Tier.C2), result(FAILED, Tier.C3)),
        attempt(1, result(), agent="noop"),
    ]

    assert matrix(*attempts).causes == ("non-zero exit", "timeout")


def test_an_agent_that_did_not_try_a_repository_has_an_empty_cell() -> None:
    """Rows are the repositories of all agents."""
    found = matrix(attempt(1, result()), attempt(1, result(), agent="noop", repository="quickstart/tinyddp"))

    assert [row.name for row in found.rows] == ["kvpress", "tinyddp"]
    assert [[cells[1].state for cells in row.cells] for row in found.rows] == [
        [State.PASSED, State.NONE],
        [State.NONE, State.PASSED],
    ]


def test_names_of_several_suites_are_told_apart() -> None:
    """Two suites may have a repository of the same name."""
    found = matrix(attempt(1, result()), attempt(1, result(), repository="researchenvbench/kvpress"))

    assert [row.name for row in found.rows] == ["quickstart/kvpress", "researchenvbench/kvpress"]
