"""The matrix from what was read of runs."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_researchenv.model import Cause, Repository, Tier, TierResult, Verdict
from pytest_researchenv.report.html.matrix_view import AttemptCell, Cell, Matrix, MatrixRow
from pytest_researchenv.report.html.places import Places
from pytest_researchenv.report.html.reasons import Reasons, cause_of
from pytest_researchenv.runs.values import AttemptRecord
from pytest_researchenv.statistics.judged import error_kind
from pytest_researchenv.statistics.tries import AgentRun, Tries


__all__ = ["matrix_of"]


def matrix_of(
    parts: tuple[AgentRun, ...], *, descriptions: Mapping[str, Repository], places: Places, reasons: Reasons
) -> Matrix:
    """Return the matrix of agents' parts, a row for each repository that one of them tried."""
    tried = [{one.repository: one for one in part.repositories} for part in parts]
    keys = sorted({key for of_part in tried for key in of_part}, key=lambda key: (_name(key).casefold(), key))
    suites = {key.rpartition("/")[0] for key in keys}
    rows = []
    for key in keys:
        description = descriptions.get(key)
        cells = tuple(_cells(of_part.get(key), description, places, reasons) for of_part in tried)
        name = _name(key) if len(suites) == 1 else key
        rows.append(MatrixRow(key, name, description.domain if description else "", cells))
    return Matrix(tuple(rows))


def _name(key: str) -> str:
    return key.rpartition("/")[2]


def _cells(tries: Tries | None, description: Repository | None, places: Places, reasons: Reasons) -> tuple[Cell, ...]:
    """What one agent came to at one repository, tier by tier."""
    idle = [_idle(description, tier) for tier in Tier]
    if tries is None:
        return tuple(Cell(idle=why) for why in idle)
    every = sorted((*tries.tries, *tries.broken, *tries.superseded), key=lambda one: one.key.attempt)
    counted = {one.key.attempt for one in tries.tries}
    found: list[list[AttemptCell]] = [[] for _ in Tier]
    for attempt in every:
        page = places.address(attempt.key)
        counts = attempt.key.attempt in counted
        for why, of_tier, tier in zip(idle, found, Tier, strict=True):
            if result := attempt.results.get(tier):
                of_tier.append(_judged(attempt, result, page, cause_of(reasons, attempt.key, result), counted=counts))
            elif attempt.environment is None and not why:
                of_tier.append(_broken(attempt, page, counted=not counted))
    return tuple(Cell(tuple(of_tier), why) for of_tier, why in zip(found, idle, strict=True))


def _idle(description: Repository | None, tier: Tier) -> str:
    """Why a tier is not probed, where that is known."""
    cause, reason = description.spec(tier).idle if description else (Cause.NONE, "")
    return "" if cause is Cause.NONE else f"{cause}: {reason}"


def _broken(attempt: AttemptRecord, page: str, *, counted: bool) -> AttemptCell:
    words = attempt.error or "; ".join(damage.problem for damage in attempt.damage)
    kind = str(error_kind(attempt))
    return AttemptCell(attempt.key.attempt, str(Verdict.ERROR), kind, words, 0, page, counted=counted)


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
