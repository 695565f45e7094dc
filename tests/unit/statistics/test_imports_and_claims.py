"""C0 as a ratio and C5 as a count, by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import bootstrap

from pytest_researchenv.model import Cause, Finding, FindingKind, Tier, TierResult, Verdict
from pytest_researchenv.statistics.claims import false_claims
from pytest_researchenv.statistics.imports import Count, ImportRatio, own_ratio, published_ratio
from tests.unit.statistics.made import attempt, part, result


AGENT = part(
    attempt("s/1", {Tier.C0: result(Tier.C0, "f", missing=["a", "b"], total=10, published_ratio="3/8")}),
    attempt("s/2", {Tier.C0: result(Tier.C0, "p", missing=[], total=30, published_ratio="0/42")}),
    attempt("s/3", {Tier.C0: result(Tier.C0, "p", missing=[], total=5, published_ratio="unknown")}),
    attempt("s/4", {Tier.C0: result(Tier.C0, "f", cause=Cause.NO_REPORT)}),
    attempt("s/5", {Tier.C0: result(Tier.C0, "e", missing=["a"], total=1, published_ratio="1/1")}),
)


def test_the_ratio_is_of_all_imports_together() -> None:
    """2 of 45, and not the mean of 2/10, 0/30 and 0/5; an error is no count."""
    found = own_ratio(AGENT)

    assert (found.missing, found.total, found.uncounted) == (2, 45, ("s/4",))
    assert found.ratio == pytest.approx(2 / 45)
    assert found.counts["s/1"] == Count(2, 10)


def test_the_published_figure_is_counted_apart() -> None:
    """Where it could not be had, it is not 0."""
    found = published_ratio(AGENT)

    assert (found.missing, found.total, found.uncounted) == (3, 50, ("s/3", "s/4"))


def test_whole_repositories_are_drawn_for_the_interval() -> None:
    """One of two repositories has every missing import: by chance either is drawn twice, in a quarter of cases each."""
    found = ImportRatio({"s/1": Count(10, 10), "s/2": Count(0, 10)})

    assert found.ratio == 0.5
    assert found.interval() == (0.0, 1.0)
    assert found.interval() == found.interval()


def test_the_interval_agrees_with_scipy() -> None:
    """The percentile bootstrap of pairs, by its own draws."""
    counts = [(missing, 10 + 3 * missing) for missing in range(0, 44, 2)]
    found = ImportRatio({str(number): Count(*count) for number, count in enumerate(counts)})
    missing, total = zip(*counts, strict=True)

    expected = bootstrap(
        (missing, total),
        lambda missing, total, axis=-1: np.sum(missing, axis=axis) / np.sum(total, axis=axis),
        paired=True,
        vectorized=True,
        n_resamples=20_000,
        method="percentile",
        rng=1,
    ).confidence_interval

    assert found.interval() == pytest.approx((expected.low, expected.high), abs=0.01)


def test_like_repositories_leave_nothing_to_chance() -> None:
    """Each has the same share: so has every draw."""
    found = ImportRatio({str(number): Count(1, 4) for number in range(5)})

    assert found.interval() == pytest.approx((0.25, 0.25))


def test_without_imports_there_is_no_ratio() -> None:
    """And one repository says nothing of others."""
    assert (ImportRatio({}).ratio, ImportRatio({}).interval()) == (None, None)
    assert ImportRatio({"s/1": Count(1, 2)}).interval() is None
    assert ImportRatio({"s/1": Count(0, 0), "s/2": Count(0, 0)}).interval() is None


def c5(*kinds: FindingKind, published: int | None = 0) -> TierResult:
    """A C5 with false claims of these kinds."""
    evidence = {f"published_{kind}": published for kind in FindingKind}
    verdict = Verdict.FAILED if kinds else Verdict.PASSED
    findings = tuple(Finding(kind, "x", "1", "2") for kind in kinds)
    return TierResult(Tier.C5, verdict, findings=findings, evidence={**evidence})


def test_false_claims_are_counted_by_kind() -> None:
    """Ours, and as most published validators would, where that can be told; errors count nothing."""
    path, version, capability = FindingKind
    found = false_claims(
        part(
            attempt("s/1", {Tier.C5: c5(capability, capability, version, published=1)}),
            attempt("s/2", {Tier.C5: c5(path, published=None)}),
            attempt("s/3", {Tier.C5: c5()}),
            attempt("s/4", {Tier.C5: result(Tier.C5, "e")}),
        )
    )

    assert found.by_kind == {path: 1, version: 1, capability: 2}
    assert (found.total, found.reports, found.published, found.unknown) == (4, 3, 3, 1)
