"""Why tiers did not pass, for all of a report: worked out once, shown in several places."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from pytest_researchenv.diagnosis import Diagnosis
from pytest_researchenv.diagnosis.stored import diagnosis_of
from pytest_researchenv.errors import StoreError
from pytest_researchenv.model import Cause, EnvironmentKey, Tier, TierResult
from pytest_researchenv.runs.values import AttemptRecord, Run


__all__ = ["Reasons", "cause_of", "reasons_of"]

#: Attempt and tier → why it did not pass.
Reasons: TypeAlias = Mapping[tuple[EnvironmentKey, Tier], Diagnosis]


def reasons_of(runs: Iterable[Run]) -> Reasons:
    """Diagnose every tier that did not pass; one whose log cannot be read has no diagnosis."""
    found = {}
    for attempt in (attempt for run in runs for attempt in run.attempts):
        for tier in Tier:
            if (result := attempt.results.get(tier)) and (diagnosis := _diagnosis(attempt, result)):
                found[attempt.key, tier] = diagnosis
    return found


def cause_of(reasons: Reasons, key: EnvironmentKey, result: TierResult) -> str:
    """Return in a word why a result did not pass: its diagnosis, else what was recorded; empty where it passed."""
    diagnosis = reasons.get((key, result.tier)) if isinstance(result.tier, Tier) else None
    recorded = "" if result.cause is Cause.NONE else str(result.cause)
    return str(diagnosis.category) if diagnosis else recorded


def _diagnosis(attempt: AttemptRecord, result: TierResult) -> Diagnosis | None:
    try:
        return diagnosis_of(result, attempt.environment, attempt.folder)
    except StoreError:
        return None
