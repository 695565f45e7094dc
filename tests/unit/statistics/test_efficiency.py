"""What environments took, against other implementations and by hand."""

from __future__ import annotations

import statistics

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import iqr

from pytest_researchenv.model import Tier
from pytest_researchenv.statistics.efficiency import Spread, cost_per_pass, efficiency
from tests.unit.statistics.made import attempt, part


@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=30), st.integers(0, 3))
def test_quartiles_agree_with_scipy_and_the_standard_library(values: list[float], unknown: int) -> None:
    """What is unknown is counted, and enters nothing."""
    spread = Spread.of("cost", "USD", [*values, *[None] * unknown])

    lower, median, upper = statistics.quantiles(values, n=4, method="inclusive")
    assert (spread.lower, spread.median, spread.upper) == pytest.approx((lower, median, upper))
    assert spread.iqr == pytest.approx(iqr(np.array(values)), abs=1e-6)
    assert (spread.known, spread.unknown) == (len(values), unknown)
    assert spread.total == pytest.approx(sum(values))


def test_small_cases_by_hand() -> None:
    """Four values: the quartiles lie three quarters of the way from 1 to 2, and a quarter from 3 to 10."""
    assert Spread.of("x", "s", [10, 1, 3, 2]) == Spread("x", "s", 4, 0, 2.5, 1.75, 4.75, 16.0)
    assert Spread.of("x", "s", [7.0]) == Spread("x", "s", 1, 0, 7.0, 7.0, 7.0, 7.0)


def test_where_nothing_is_known_nothing_is_said() -> None:
    """Not even 0."""
    spread = Spread.of("x", "s", [None, None])

    assert spread == Spread("x", "s", 0, 2)
    assert spread.iqr is None


AGENT = part(
    attempt("s/1", "p", number=1, wall_s=100.0, tokens_in=10.0, tokens_out=1.0, cost_usd=2.0),
    attempt("s/1", "f", number=2, wall_s=300.0, tokens_in=30.0, cost_usd=3.0),
    attempt("s/2", "p", wall_s=200.0),
    attempt("s/3", "f", wall_s=400.0, cost_usd=0.0),
    attempt("s/4", inputs=None, error="the engine is gone"),
)


def test_every_try_counts_and_what_was_not_recorded_is_unknown() -> None:
    """Tokens in and out are one figure: where one is unknown, so is the sum."""
    found = {one.name: one for one in efficiency(AGENT)}

    assert (found["setup time"].median, found["setup time"].known) == (250.0, 4)
    assert (found["tokens"].known, found["tokens"].unknown, found["tokens"].total) == (1, 3, 11.0)
    assert (found["cost"].known, found["cost"].total) == (3, 5.0)
    assert found["added image size"].known == 0


def test_failed_tries_are_paid_for() -> None:
    """Three tries of known cost spent $5; one of them passed C0. Whose cost is unknown is left out, passed or not."""
    found = cost_per_pass(AGENT)[0]

    assert (found.tier, found.passed, found.tries, found.unknown) == (Tier.C0, 1, 3, 1)
    assert (found.spent_usd, found.usd) == (5.0, 5.0)


def test_what_nobody_passed_has_no_price() -> None:
    """Nor is it free."""
    assert cost_per_pass(AGENT)[1].usd is None
