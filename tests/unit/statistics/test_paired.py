"""Two agents at the same repositories, against other implementations and by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest
from statsmodels.stats.contingency_tables import mcnemar as statsmodels_mcnemar
from statsmodels.stats.multitest import multipletests

from pytest_researchenv.model import Tier, TierResult
from pytest_researchenv.runs.values import Subject
from pytest_researchenv.statistics.paired import Paired, compare, holm, mcnemar
from pytest_researchenv.statistics.tries import AgentRun
from tests.unit.statistics.made import attempt, part, result, verdicts


COUNTS = st.integers(0, 60)


# --- the test ---------------------------------------------------------------------------------------------


@given(COUNTS, COUNTS)
def test_the_p_value_agrees_with_statsmodels(only_first: int, only_second: int) -> None:
    """Exact and two-sided, whatever both passed or failed."""
    table = [[7, only_first], [only_second, 3]]
    expected = statsmodels_mcnemar(table, exact=True).pvalue if only_first + only_second else 1.0

    assert mcnemar(only_first, only_second) == pytest.approx(expected, rel=1e-9)


@given(COUNTS, COUNTS)
def test_the_p_value_is_that_of_the_binomial_test(only_first: int, only_second: int) -> None:
    """Against scipy's; who is first does not matter."""
    expected = binomtest(only_first, only_first + only_second).pvalue if only_first + only_second else 1.0

    assert mcnemar(only_first, only_second) == pytest.approx(expected, rel=1e-9)
    assert mcnemar(only_first, only_second) == mcnemar(only_second, only_first)


@pytest.mark.parametrize(
    ("only_first", "only_second", "p"),
    [(0, 0, 1.0), (1, 0, 1.0), (5, 0, 0.0625), (0, 6, 0.03125), (8, 1, 20 / 512), (3, 3, 1.0)],
)
def test_small_cases_by_hand(only_first: int, only_second: int, p: float) -> None:
    """5 to 0 is 2/32; 8 to 1 is 2 (1 + 9)/512."""
    assert mcnemar(only_first, only_second) == pytest.approx(p)


# --- the correction ---------------------------------------------------------------------------------------


@settings(max_examples=25)  # Each takes statsmodels 50 ms.
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_the_correction_agrees_with_statsmodels(p_values: list[float]) -> None:
    """In any order, ties included."""
    assert holm(p_values) == pytest.approx(tuple(multipletests(p_values, method="holm")[1]))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_the_correction_keeps_the_order_and_makes_nothing_smaller(p_values: list[float]) -> None:
    """And nothing larger than 1, nor than Bonferroni's."""
    corrected = holm(p_values)

    for (p, q), (r, s) in product(zip(p_values, corrected, strict=True), repeat=2):
        assert p <= q <= min(1.0, len(p_values) * p) or q == pytest.approx(len(p_values) * p)
        assert p > r or q <= s


def test_holms_correction_by_hand() -> None:
    """0.01 · 3, 0.02 · 2, and 0.03 · 1 which may not be less than what stands before it."""
    assert holm([0.03, 0.01, 0.02]) == pytest.approx((0.04, 0.03, 0.04))
    assert holm([]) == ()


# --- two agents -------------------------------------------------------------------------------------------


def agent(name: str, letters: str, *, emulated: str = "") -> AgentRun:
    """An agent with a C0 for each repository; those whose letter is in `emulated` are."""
    return part(
        *(
            attempt(
                f"s/{number}",
                {} if letter == "-" else {Tier.C0: result(Tier.C0, letter, emulated=str(number) in emulated)},
                agent=name,
            )
            for number, letter in enumerate(letters)
        )
    )


def c0(first: AgentRun, second: AgentRun) -> Paired:
    """The two in C0."""
    return compare(first, second).tiers[0]


def test_only_repositories_with_two_verdicts_are_pairs() -> None:
    """Errors, skips and what one agent did not try are counted apart."""
    found = c0(agent("a", "ppppffe-s"), agent("b", "pfffpfpp"))

    assert (found.both, found.only_first) == (("s/0",), ("s/1", "s/2", "s/3"))
    assert (found.only_second, found.neither) == (("s/4",), ("s/5",))
    assert (found.pairs, found.unpaired) == (6, 2)
    assert (found.first.passed, found.second.passed) == (4, 2)
    assert found.difference == pytest.approx(2 / 6)
    assert found.p == pytest.approx(10 / 16)


def test_a_verdict_on_the_cpu_is_no_match_for_one_on_devices() -> None:
    """Such a pair is left out; two emulated ones are a pair that is marked."""
    found = c0(agent("a", "ppp", emulated="01"), agent("b", "fff", emulated="1"))

    assert (found.pairs, found.unlike, found.emulated) == (2, 1, 1)


@pytest.mark.parametrize(
    ("changes", "pairs"),
    [
        ({}, 1),
        ({"basis": "x"}, 1),
        ({"dataset": "x"}, 1),
        ({"basis": "x", "dataset": "x"}, 0),
        ({"settings": {"c0_max_missing": 0.1}}, 0),
    ],
)
def test_what_was_judged_by_other_rules_is_no_pair(changes: dict[str, object], pairs: int) -> None:
    """Another suite may have the same probe, and another accelerator the same suite; one of both must be the same."""
    one: dict[Subject, TierResult] = verdicts("p")
    other: dict[Subject, TierResult] = {Tier.C0: replace(one[Tier.C0], **changes)}  # type: ignore[arg-type]

    found = c0(part(attempt(results=one)), part(attempt(results=other, agent="b")))

    assert (found.pairs, found.unlike) == (pairs, 1 - pairs)


def test_the_correction_is_for_the_tiers_that_have_pairs() -> None:
    """Two here; a tier without pairs has no p-value."""
    first = part(*(attempt(f"s/{number}", "ppp") for number in range(6)))
    second = part(*(attempt(f"s/{number}", "fp", agent="b") for number in range(6)))

    found = compare(first, second)

    assert [one.p for one in found.tiers] == pytest.approx([0.03125, 1.0, None, None, None, None])
    assert [one.p_holm for one in found.tiers] == pytest.approx([0.0625, 1.0, None, None, None, None])
    assert [one.p_holm for one in compare(first, second, [Tier.C0]).tiers] == pytest.approx([0.03125])


def test_the_first_try_of_each_is_compared() -> None:
    """However often they tried."""
    first = part(attempt(results="f", number=1), attempt(results="p", number=2))

    assert c0(first, part(attempt(results="f", agent="b"))).only_second == ()
    assert c0(first, part(attempt(results="p", agent="b"))).only_second == ("suite/one",)


@given(st.lists(st.tuples(st.sampled_from("pfes-"), st.sampled_from("pfes-")), max_size=15))
def test_the_other_way_round_is_the_same_comparison(outcomes: list[tuple[str, str]]) -> None:
    """With the signs changed; an agent and itself never differ."""
    letters = ["".join(side) for side in zip(*outcomes, strict=True)] or ["-", "-"]
    first, second = agent("a", letters[0]), agent("b", letters[1])

    there, back, same = c0(first, second), c0(second, first), c0(first, first)

    assert (there.p, there.pairs, there.unpaired) == (back.p, back.pairs, back.unpaired)
    assert (there.only_first, there.both) == (back.only_second, back.both)
    assert not same.only_first + same.only_second
    assert same.p in {1.0, None}
