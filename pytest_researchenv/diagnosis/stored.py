"""Diagnoses of what a results folder holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from pytest_researchenv.diagnosis.diagnose import Diagnosis, diagnose, is_diagnosed
from pytest_researchenv.diagnosis.excerpt import read_log
from pytest_researchenv.errors import StoreError
from pytest_researchenv.model import Cause, Environment, EnvironmentKey, Tier, TierResult
from pytest_researchenv.packedlogs import log_place
from pytest_researchenv.store import Attempt


__all__ = ["Diagnosed", "diagnosed", "diagnosis_of"]


def _refuse(error: StoreError) -> NoReturn:
    raise error


@dataclass(frozen=True, slots=True)
class Diagnosed:
    """What is wrong with one tier of one attempt.

    Attributes:
        key: the attempt.
        folder: its folder.
        result: the record.
        log: the file that was read, or the folder where there is none.
        diagnosis: why it did not pass.
    """

    key: EnvironmentKey
    folder: Path
    result: TierResult
    log: Path
    diagnosis: Diagnosis


def diagnosis_of(result: TierResult, environment: Environment | None, folder: Path) -> Diagnosis | None:
    """Diagnose a result of the attempt whose folder this is; see `diagnose`.

    Raises:
        StoreError: the log cannot be read.
    """
    if not is_diagnosed(result):
        return None
    log = _log_of(result, folder)
    return diagnose(result, read_log(log) if log != folder else b"", environment)


def diagnosed(
    attempts: Iterable[Attempt],
    *,
    tiers: Collection[Tier] = (),
    every: bool = False,
    unreadable: Callable[[StoreError], object] = _refuse,
) -> Iterator[Diagnosed]:
    """Diagnose what did not pass.

    Args:
        attempts: where to look.
        tiers: which tiers; all when empty.
        every: every result that was recorded, and not only the one that counts.
        unreadable: told which records and logs cannot be read; where it returns, what they are of is passed over.

    Raises:
        StoreError: a record or a log cannot be read, and `unreadable` is not given.
    """
    for attempt in attempts:
        environment = None
        try:
            environment = attempt.environment() if attempt.finished else None
        except StoreError as error:
            unreadable(error)
        for tier in tiers or Tier:
            try:
                yield from _of_tier(attempt, environment, tier, every=every)
            except StoreError as error:
                unreadable(error)


def _of_tier(attempt: Attempt, environment: Environment | None, tier: Tier, *, every: bool) -> Iterator[Diagnosed]:
    results = attempt.results(tier)
    for result in results if every else results[-1:]:
        if diagnosis := diagnosis_of(result, environment, attempt.folder):
            log = log_place(_log_of(result, attempt.folder))
            yield Diagnosed(attempt.key, attempt.folder, result, log, diagnosis)


def _log_of(result: TierResult, folder: Path) -> Path:
    """What says why: without a self-report, what the agent printed. The folder itself where there is no log."""
    # Of a path, which only an edited record names, the last part.
    return folder / ("transcript.log" if result.cause is Cause.NO_REPORT else Path(result.log).name)
