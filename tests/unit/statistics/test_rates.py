"""Rates and their intervals, against other implementations and by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.proportion import confint_proportions_2indep, proportion_confint

from pytest_researchenv.statistics.rates import Rate, difference_interval


@st.composite
def rates(draw: st.DrawFn) -> Rate:
    """Any rate of something."""
    judged = draw(st.integers(1, 500))
    return Rate(draw(st.integers(0, judged)), judged)


@given(rates())
def test_the_interval_agrees_with_scipy_and_statsmodels(rate: Rate) -> None:
    """For every number of trials and successes."""
    interval = rate.interval
    assert interval is not None

    scipy = binomtest(rate.passed, rate.judged).proportion_ci(method="wilson")
    assert interval == pytest.approx((scipy.low, scipy.high), abs=1e-12)
    assert interval == pytest.approx(proportion_confint(rate.passed, rate.judged, method="wilson"), abs=1e-12)
    assert rate.share is not None
    assert 0 <= interval[0] <= rate.share <= interval[1] <= 1


@given(rates(), rates())
def test_the_interval_of_a_difference_agrees_with_statsmodels(first: Rate, second: Rate) -> None:
    """Newcombe's, of two rates that are not of the same attempts."""
    interval = difference_interval(first, second)

    expected = confint_proportions_2indep(
        first.passed, first.judged, second.passed, second.judged, compare="diff", method="newcomb"
    )
    assert interval == pytest.approx(expected, abs=1e-9)


def test_newcombes_own_example_comes_out() -> None:
    """56 of 70 and 48 of 80: from 0.0524 to 0.3339 (Newcombe 1998, table II, method 10, case a)."""
    assert difference_interval(Rate(56, 70), Rate(48, 80)) == pytest.approx((0.0524, 0.3339), abs=5e-5)


def test_without_trials_nothing_is_said() -> None:
    """Neither share nor interval, nor of a difference."""
    nothing = Rate(0, 0)

    assert (nothing.share, nothing.interval) == (None, None)
    assert difference_interval(nothing, Rate(1, 2)) is None
    assert difference_interval(Rate(1, 2), nothing) is None
