"""Runs that were never run, for pages about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.synthetic import AGENTS, make_run
from pytest_researchenv._choice import described
from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.runs.reading import read_runs
from pytest_researchenv.runs.values import AttemptRecord, Run, Subject
from pytest_researchenv.suite import find_suite, load_suite


__all__ = ["attempt", "descriptions", "environment", "quickstart", "result", "run"]


def quickstart(results: Path, name: str = "default", *, attempts: int = 3) -> Run:
    """Write a run of the quickstart by two agents, and read it."""
    repositories = load_suite(find_suite("quickstart")).repositories
    make_run(results, name, repositories, agents=AGENTS[:2], attempts=attempts)
    return read_runs(results, [name])[0]


def descriptions(*suites: str) -> Mapping[str, Repository]:
    """What is known of the repositories of some suites, else of the quickstart."""
    return described([], suites or ("quickstart",))


def result(verdict: Verdict = Verdict.PASSED, tier: Tier = Tier.C1, **values: Any) -> TierResult:  # noqa: ANN401 - as `replace` has it
    """What a probe found."""
    cause = Cause.NONE if verdict is Verdict.PASSED else Cause.EXIT_CODE
    return replace(TierResult(tier, verdict, cause), **values)


def environment(key: EnvironmentKey, **values: Any) -> Environment:  # noqa: ANN401 - as `replace` has it
    """What an attempt left."""
    plain = Environment(
        key=key,
        image="sha256:0",
        base_image="sha256:1",
        workdir="/workspace/x",
        report=SelfReport(),
        report_problem="",
        changed=(),
        inputs={},
        telemetry={},
        ended="exited with code 0",
        created="2026-11-03T07:30:00+00:00",
    )
    return replace(plain, **values)


def attempt(
    number: int = 1,
    *results: TierResult,
    folder: Path = Path("nowhere"),
    agent: str = "codex",
    repository: str = "quickstart/kvpress",
    **values: Any,  # noqa: ANN401 - as `replace` has it
) -> AttemptRecord:
    """One attempt with these results."""
    key = EnvironmentKey("default", agent, repository, number)
    judged: dict[Subject, TierResult] = {one.tier: one for one in results}
    plain = AttemptRecord(key, folder, environment=environment(key), results=judged)
    return replace(plain, **values)


def run(*attempts: AttemptRecord) -> Run:
    """A run of these."""
    return Run("default", Path("results/default"), attempts)
