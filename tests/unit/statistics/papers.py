"""Runs that come out as the paper says: its totals, spread over its repositories by chance."""

from __future__ import annotations

import random
from collections.abc import Mapping
from functools import cache

from pytest_researchenv.model import Finding, FindingKind, Repository, Tier, TierResult, Verdict
from pytest_researchenv.runs.values import AttemptRecord, Subject
from pytest_researchenv.statistics.baseline import published
from pytest_researchenv.suite import find_suite, load_suite
from tests.unit.statistics.made import attempt, result


__all__ = ["as_published", "benchmark"]


@cache
def benchmark() -> Mapping[str, Repository]:
    """The 44 repositories, by key."""
    return {one.key: one for one in load_suite(find_suite("researchenvbench")).repositories}


def as_published(name: str, *, seed: int = 0) -> list[AttemptRecord]:
    """An attempt at every repository, with as many passes, missing imports and false claims as were published."""
    choose = random.Random(seed)  # noqa: S311 - a test
    figures = published().agent(name)
    found: dict[str, dict[Subject, TierResult]] = {key: {} for key in benchmark()}
    for tier, passed in figures.passed.items():
        applies = [key for key, one in benchmark().items() if one.spec(tier).supported]
        passing = set(choose.sample(applies, passed))
        for key in applies:
            found[key][tier] = result(tier, "p" if key in passing else "f")
    missing = figures.missing_imports or round(figures.import_ratio * published().denominators[Tier.C0])
    for key, (lost, total) in _spread(missing, choose).items():
        found[key][Tier.C0] = result(Tier.C0, "f" if lost else "p", published_ratio=f"{lost}/{total}")
    liars = choose.choices(list(found), k=figures.false_claims)
    for key, results in found.items():
        results[Tier.C5] = _c5(liars.count(key))
    return [attempt(key, results, agent=name) for key, results in found.items()]


def _spread(missing: int, choose: random.Random) -> dict[str, tuple[int, int]]:
    """Repository → its missing and all imports."""
    totals = {key: one.imports.published_total or 0 for key, one in benchmark().items()}
    drawn = choose.sample([key for key, total in totals.items() for _ in range(total)], missing)
    return {key: (drawn.count(key), total) for key, total in totals.items()}


def _c5(false: int) -> TierResult:
    findings = tuple(Finding(FindingKind.CAPABILITY, f"field {number}", "", "") for number in range(false))
    evidence: dict[str, bool | int | float | str | list[str] | None] = {f"published_{kind}": 0 for kind in FindingKind}
    evidence[f"published_{FindingKind.CAPABILITY}"] = false
    return TierResult(Tier.C5, Verdict.FAILED if false else Verdict.PASSED, findings=findings, evidence=evidence)
