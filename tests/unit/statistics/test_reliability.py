"""Several tries: the estimates are what drawing k of them gives."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_researchenv.model import Tier
from pytest_researchenv.statistics.reliability import Reliability, pass_all_k, pass_at_k, reliability
from tests.unit.statistics.made import attempt, part


@given(st.lists(st.booleans(), min_size=1, max_size=9), st.data())
def test_both_are_shares_of_all_ways_to_choose_k_tries(outcomes: list[bool], data: st.DataObject) -> None:
    """Counted out."""
    k = data.draw(st.integers(1, len(outcomes)))
    chosen = list(combinations(outcomes, k))

    tries, passed = len(outcomes), sum(outcomes)

    assert pass_at_k(tries, passed, k) == pytest.approx(sum(map(any, chosen)) / len(chosen))
    assert pass_all_k(tries, passed, k) == pytest.approx(sum(map(all, chosen)) / len(chosen))


@given(st.fractions(0, 1, max_denominator=20), st.integers(1, 8), st.data())
def test_neither_has_a_bias(chance: float, tries: int, data: st.DataObject) -> None:
    """Over everything that may happen to n tries, the mean is what k new tries would do."""
    k = data.draw(st.integers(1, tries))
    weights = [float(chance) ** sum(one) * (1 - float(chance)) ** (tries - sum(one)) for one in _all(tries)]

    at_least_one = sum(w * pass_at_k(tries, sum(one), k) for w, one in zip(weights, _all(tries), strict=True))
    all_of_them = sum(w * pass_all_k(tries, sum(one), k) for w, one in zip(weights, _all(tries), strict=True))

    assert at_least_one == pytest.approx(1 - (1 - float(chance)) ** k)
    assert all_of_them == pytest.approx(float(chance) ** k)


def _all(tries: int) -> list[tuple[int, ...]]:
    return [tuple((number >> bit) & 1 for bit in range(tries)) for number in range(2**tries)]


@pytest.mark.parametrize(
    ("tries", "passed", "k", "at_least_one", "all_of_them"),
    [(3, 1, 1, 1 / 3, 1 / 3), (3, 1, 2, 2 / 3, 0.0), (3, 2, 2, 1.0, 1 / 3), (5, 0, 3, 0.0, 0.0), (5, 5, 5, 1.0, 1.0)],
)
def test_small_cases_by_hand(tries: int, passed: int, k: int, at_least_one: float, all_of_them: float) -> None:
    """Of three tries with one pass, two of the three pairs hold it."""
    assert pass_at_k(tries, passed, k) == pytest.approx(at_least_one)
    assert pass_all_k(tries, passed, k) == pytest.approx(all_of_them)


def tried(repository: str, letters: str) -> list[tuple[str, int, str]]:
    """Attempts at a repository, with the letter of C0 for each."""
    return [(repository, number, letter) for number, letter in enumerate(letters, start=1)]


def test_every_repository_counts_the_same_and_errors_are_no_tries() -> None:
    """3 of 3, 1 of 2 (the third was an error), 0 of 1: for k = 2 the last has too few."""
    found = reliability(
        part(
            *(
                attempt(repository, letter, number=number)
                for repository, number, letter in (*tried("s/1", "ppp"), *tried("s/2", "pef"), *tried("s/3", "f"))
            )
        ),
        Tier.C0,
    )

    assert found == (
        Reliability(Tier.C0, 1, 0.5, 0.5, 3, 0),
        Reliability(Tier.C0, 2, 1.0, 0.5, 2, 1),
        Reliability(Tier.C0, 3, 1.0, 1.0, 1, 2),
    )


def test_without_a_verdict_there_is_nothing_to_say() -> None:
    """A tier that nobody judged."""
    assert reliability(part(attempt(results="p")), Tier.C3) == ()
