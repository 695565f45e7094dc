"""Attempts made by hand, in few words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from pytest_researchenv.model import Cause, Environment, EnvironmentKey, Tier, TierResult, Verdict
from pytest_researchenv.runs.values import AttemptRecord, Run, Subject
from pytest_researchenv.statistics.tries import AgentRun, agent_runs
from pytest_researchenv.store import Store


__all__ = ["attempt", "part", "result", "run", "verdicts", "write"]

_LETTERS = {"p": Verdict.PASSED, "f": Verdict.FAILED, "e": Verdict.ERROR, "s": Verdict.SKIPPED}


def result(
    tier: Subject, letter: str, *, cause: Cause | None = None, emulated: bool = False, **evidence: str | int | list[str]
) -> TierResult:
    """A result: p passed, f failed, e error, s skipped."""
    verdict = _LETTERS[letter]
    causes = {
        Verdict.PASSED: Cause.NONE,
        Verdict.FAILED: Cause.EXIT_CODE,
        Verdict.ERROR: Cause.INFRASTRUCTURE,
        Verdict.SKIPPED: Cause.INSUFFICIENT_HARDWARE,
    }
    return TierResult(tier, verdict, cause or causes[verdict], evidence=dict(evidence), emulated=emulated)


def verdicts(letters: str, *, emulated: bool = False) -> dict[Subject, TierResult]:
    """A letter for each tier from C0 on, as for `result`; `-` where it was not judged."""
    named = zip(Tier, letters, strict=False)
    return {tier: result(tier, letter, emulated=emulated) for tier, letter in named if letter != "-"}


def attempt(
    repository: str = "suite/one",
    results: Mapping[Subject, TierResult] | str = "",
    *,
    agent: str = "opus",
    number: int = 1,
    inputs: str | None = "same",
    error: str = "",
    **telemetry: float,
) -> AttemptRecord:
    """An attempt; without inputs it left no environment."""
    key = EnvironmentKey("run", agent, repository, number)
    environment = None
    if inputs is not None:
        shaped = {"prompt": inputs}
        environment = Environment(key, "image", "base", "/w", None, "no report", (), shaped, telemetry, "", "")
    found = verdicts(results) if isinstance(results, str) else results
    return AttemptRecord(key, Path(), "session", environment, error, found, times=dict.fromkeys(found, 1))


def run(attempts: Iterable[AttemptRecord]) -> Run:
    """A run with these attempts."""
    return Run("run", Path(), tuple(attempts))


def write(results: Path, attempts: Iterable[AttemptRecord], *, name: str = "run") -> None:
    """Record attempts on disk, each as the next of its agent at its repository."""
    store = Store(results, name)
    for one in attempts:
        begun = store.begin(one.key.agent, one.key.repository, one.session)
        if one.error:
            begun.save_error(one.error)
        if one.environment:
            begun.save_environment(replace(one.environment, key=begun.key))
        for tier, found in one.results.items():
            log = begun.next_log(tier)
            begun.save_result(log, found)


def part(*attempts: AttemptRecord) -> AgentRun:
    """The part of the one agent whose attempts these are."""
    (only,) = agent_runs(run(attempts))
    return only
