"""The matrix from what was read of runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pytest_researchenv.model import Cause, Repository, Tier, TierResult, Verdict
from pytest_researchenv.report.html.matrix_view import AttemptCell, Cell, Matrix, MatrixRow
from pytest_researchenv.report.html.places import Places
from pytest_researchenv.runs.values import AttemptRecord
from pytest_researchenv.statistics.judged import error_kind
from pytest_researchenv.statistics.tries import AgentRun, Tries


__all__ = ["CauseOf", "matrix_of", "recorded_cause"]

#: Says in a word why a tier of an attempt did not pass.
CauseOf = Callable[[AttemptRecord, TierResult], str]


def recorded_cause(_: AttemptRecord, result: TierResult) -> str:
    """Return the cause that was recorded; empty where there is none."""
    return "" if result.cause is Cause.NONE else str(result.cause)


def matrix_of(
    parts: tuple[AgentRun, ...], *, descriptions: Mapping[str, Repository], places: Places, cause_of: CauseOf
) -> Matrix:
    """Return the matrix of agents' parts, a row for each repository that one of them tried."""
    tried = [{one.repository: one for one in part.repositories} for part in parts]
    keys = sorted({key for of_part in tried for key in of_part}, key=lambda key: (_name(key).casefold(), key))
    suites = {key.rpartition("/")[0] for key in keys}
    rows = []
    for key in keys:
        description = descriptions.get(key)
        cells = tuple(
            tuple(_cell(of_part.get(key), tier, description, places, cause_of) for tier in Tier) for of_part in tried
        )
        name = _name(key) if len(suites) == 1 else key
        rows.append(MatrixRow(key, name, description.domain if description else "", cells))
    return Matrix(tuple(rows))


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _cell(tries: Tries | None, tier: Tier, description: Repository | None, places: Places, cause_of: CauseOf) -> Cell:
    cause, reason = description.spec(tier).idle if description else (Cause.NONE, "")
    idle = f"{cause}: {reason}" if cause is not Cause.NONE else ""
    if tries is None:
        return Cell(idle=idle)
    found = []
    for attempt in sorted((*tries.tries, *tries.broken, *tries.superseded), key=lambda one: one.key.attempt):
        page = places.address(attempt.key)
        if result := attempt.results.get(tier):
            found.append(_judged(attempt, result, page, cause_of(attempt, result), counted=attempt in tries.tries))
        elif attempt.environment is None and not idle:
            words = attempt.error or "; ".join(damage.problem for damage in attempt.damage)
            kind = str(error_kind(attempt))
            found.append(
                AttemptCell(attempt.key.attempt, str(Verdict.ERROR), kind, words, 0, page, counted=not tries.tries)
            )
    return Cell(tuple(found), idle)


def _judged(attempt: AttemptRecord, result: TierResult, page: str, cause: str, *, counted: bool) -> AttemptCell:
    return AttemptCell(
        attempt=attempt.key.attempt,
        verdict=str(result.verdict),
        cause=cause,
        words=result.decisive or result.reason,
        duration_s=result.duration_s,
        page=page,
        emulated=result.emulated,
        counted=counted,
    )
