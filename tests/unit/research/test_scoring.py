"""Scores: by hand where the numbers are small, by rules where they are any."""

from __future__ import annotations

import math
import random
import statistics
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.research.cells import Cell, Plan, Reading, Run, collect, mean_cell, required_runs
from pytest_researchenv.research.metrics import Direction, Metric, exact_mean, percent
from pytest_researchenv.research.problems import OutputError, Problem, ProblemKind
from pytest_researchenv.research.scoring import (
    NotComparable,
    Ratio,
    Why,
    average_at_k,
    best_at_k,
    completion_rate,
    improvement,
    improvement_rate,
    judge,
    normalised,
    task_score,
)


ACC = Metric("Acc", least=0, most=100)
ERROR = Metric("error", Direction.LOWER, least=0)
RUNS = required_runs(seeds=(1, 2, 3))
positive = st.floats(0.01, 100, allow_nan=False)
shares = st.floats(0, 2, allow_nan=False)


def cell(*values: float, metric: Metric = ACC) -> Cell:
    """A value of each seed."""
    return Cell(metric, {Run(seed=seed): value for seed, value in enumerate(values)})


# --- exactly the required runs ------------------------------------------------------------------------------


@given(st.permutations(RUNS), st.lists(positive, min_size=3, max_size=3))
def test_order_does_not_matter(order: list[Run], values: list[float]) -> None:
    """Runs come in any order; the cell, its mean and its uncertainty are the same."""
    readings = [Reading(run, value) for run, value in zip(RUNS, values, strict=True)]
    shuffled = sorted(readings, key=lambda one: order.index(one.run))
    plan = Plan(ACC, RUNS)

    first, other = collect("c", plan, readings)[0], collect("c", plan, shuffled)[0]

    assert first is not None
    assert first == other
    assert list(first.values) == list(RUNS)
    assert first.summary() == Cell(ACC, dict(reversed(list(first.values.items())))).summary()


@given(st.lists(st.sampled_from([*RUNS, Run(seed=9), Run(seed=1, fold=1)]), max_size=6))
def test_only_the_required_runs_make_a_cell(found: list[Run]) -> None:
    """Each exactly once and nothing else; otherwise what is missing, there twice or not asked for is named."""
    made, problems = collect("c", Plan(ACC, RUNS), [Reading(run, 50.0) for run in found])

    kinds = {problem.kind for problem in problems}
    assert (made is not None) == (len(found) == 3 and set(found) == set(RUNS)) == (not problems)
    assert (ProblemKind.MISSING in kinds) == (not set(found) >= set(RUNS))
    assert (ProblemKind.EXTRA in kinds) == (not set(found) <= set(RUNS))
    assert (ProblemKind.DUPLICATE in kinds) == any(found.count(run) > 1 for run in RUNS)


@pytest.mark.parametrize(
    "value",
    [-0.01, 100.01, math.nan, math.inf, -math.inf, True, False, None, "90", [90], {"mean": 90}, 10**400, 9.9e307],
)
def test_what_is_no_value_makes_no_cell(value: object) -> None:
    """Out of range, not finite, or no number at all."""
    readings = [Reading(RUNS[0], 90.0, "a"), Reading(RUNS[1], value, "b"), Reading(RUNS[2], 90, "c")]

    made, problems = collect("Acc", Plan(ACC, RUNS), readings)

    assert made is None
    assert [problem.kind for problem in problems] == [ProblemKind.INVALID]
    assert problems[0].what.startswith("Acc: seed 2: ")
    assert problems[0].what.endswith(" (b)")


def test_both_ends_of_a_range_are_within() -> None:
    """0 and 100 are accuracies, and whole numbers are numbers."""
    made, _ = collect(
        "Acc", Plan(ACC, RUNS), [Reading(run, value) for run, value in zip(RUNS, (0, 100, 50), strict=True)]
    )

    assert made is not None
    assert made.mean == 50


def test_a_message_names_all_kinds_and_not_everything() -> None:
    """A thousand missing runs are counted, and a dozen named; what an agent wrote is printed as one line."""
    problems = [Problem(ProblemKind.MISSING, f"seed {one:04}") for one in range(1000)]
    problems.append(Problem(ProblemKind.INVALID, "a\n\x1b[2J\udcff" + "x" * 10_000))

    error = OutputError("cl\n", problems)

    assert str(error).startswith("cl\\n does not count: missing (1000): seed 0000; ")
    assert "seed 0011; and 988 more. invalid (1): a\\n\\x1b[2J\\xff" in str(error)
    assert len(str(error).encode()) < 1000
    assert len(error.of(ProblemKind.MISSING)) == 1000


# --- means and their uncertainty ----------------------------------------------------------------------------


def test_the_interval_is_that_of_students_t() -> None:
    """Against scipy's own, and against a table: t at 97.5 % with two degrees of freedom is 4.303."""
    values = (86.1, 87.2, 88.9)

    summary = cell(*values).summary()

    expected = stats.t.interval(0.95, 2, statistics.fmean(values), stats.sem(values))
    assert summary.interval == pytest.approx(expected)
    assert summary.error == pytest.approx(statistics.stdev(values) / math.sqrt(3))
    assert summary.interval is not None
    assert summary.error is not None
    assert (summary.interval[1] - summary.mean) / summary.error == pytest.approx(4.303, abs=1e-3)


def test_folds_of_a_seed_are_one_value() -> None:
    """Fifteen runs of five folds and three seeds are three independent values."""
    runs = required_runs(seeds=(1, 2, 3), folds=range(5))
    values = {run: 80.0 + (run.seed or 0) + (run.fold or 0) for run in runs}

    summary = Cell(ACC, values).summary()

    assert (summary.mean, summary.count) == (84.0, 3)
    assert summary.error == pytest.approx(1 / math.sqrt(3))


def test_without_seeds_folds_are_the_values() -> None:
    """As of the attribution task, which has five folds and one seed."""
    assert Cell(ACC, dict.fromkeys(required_runs(folds=range(5)), 1.0)).summary().count == 5


def test_a_single_run_has_no_uncertainty_that_is_known() -> None:
    """None, and not the 0 that would make it the surest of all."""
    summary = cell(88.0).summary()

    assert (summary.error, summary.interval) == (None, None)
    assert judge(ACC, cell(88.0), 87.0).clear is None


@given(st.lists(st.decimals(0, 100, places=2), min_size=1, max_size=9))
def test_a_mean_is_that_of_the_written_numbers(values: list[object]) -> None:
    """Not of the nearest binary fractions."""
    exact = sum(Fraction(str(value)) for value in values) / len(values)

    assert exact_mean(tuple(float(str(value)) for value in values)) == exact


def test_a_share_becomes_the_percentage_that_is_written() -> None:
    """100 times 0.844 is 84.39999999999999 of binary fractions."""
    assert percent(0.844) == 84.4


def test_a_column_of_averages_keeps_runs_apart() -> None:
    """Over cells of the same seeds it has these seeds; over single runs of different severities it is one run."""
    both = mean_cell(ACC, [cell(80.0, 90.0), cell(60.0, 70.0)])
    single = mean_cell(ACC, [Cell(ACC, {Run(severity=5): 10.0}), Cell(ACC, {Run(severity=7): 20.0})])

    assert list(both.values.values()) == [70.0, 80.0]
    assert single.values == {Run(): 15.0}
    with pytest.raises(OutputError, match="different runs"):
        mean_cell(ACC, [cell(80.0, 90.0), cell(60.0)])


# --- beside the baseline ------------------------------------------------------------------------------------


@given(st.lists(positive, min_size=1, max_size=5), positive)
def test_directions_mirror_each_other(values: list[float], baseline: float) -> None:
    """With every number negated and the direction turned, the same passes, as clearly."""
    high, low = Metric("m"), Metric("m", Direction.LOWER)

    first = judge(high, cell(*values, metric=high), baseline)
    other = judge(low, cell(*(-value for value in values), metric=low), -baseline)

    assert (first.passed, first.clear) == (other.passed, other.clear)


@given(positive, positive, positive)
def test_inverse_values_have_the_same_shares(score: float, withheld: float, baseline: float) -> None:
    """1/x where lower is better is as good as x where higher is."""
    high, low = Metric("m"), Metric("m", Direction.LOWER)

    first = normalised(high, score, withheld=withheld, baseline=baseline)
    other = normalised(low, 1 / score, withheld=1 / withheld, baseline=1 / baseline)

    if abs(withheld - baseline) > 1e-9:
        assert isinstance(first, Ratio) == isinstance(other, Ratio) == (withheld > baseline)
    if isinstance(first, Ratio) and isinstance(other, Ratio):
        assert first.value == pytest.approx(other.value)
    gain, inverse = improvement(high, score, baseline), improvement(low, 1 / score, 1 / baseline)
    assert isinstance(gain, Ratio)
    assert isinstance(inverse, Ratio)
    assert gain.value == pytest.approx(inverse.value)


@given(st.lists(positive, min_size=1, max_size=5), positive, st.sampled_from(list(Direction)))
def test_what_is_clearly_better_is_better(values: list[float], baseline: float, direction: Direction) -> None:
    """The interval lies around the mean; the converse does not hold."""
    metric = Metric("m", direction)

    judged = judge(metric, cell(*values, metric=metric), baseline)

    assert judged.completed
    assert judged.passed >= bool(judged.clear)


def test_no_valid_score_is_not_completed() -> None:
    """Nor passed, whatever the direction."""
    for metric in (ACC, ERROR):
        judged = judge(metric, None, 50.0)
        assert not judged.completed
        assert not judged.passed


def test_a_bad_score_is_completed() -> None:
    """Completed is a valid score, and passed is a good one."""
    judged = judge(ACC, cell(0.0, 0.0, 0.0), 50.0)

    assert judged.completed
    assert not judged.passed


def test_a_baseline_is_a_value_of_its_metric() -> None:
    """A baseline of 8440 % is a mistake in the task, and not one that nobody beats."""
    with pytest.raises(ConfigurationError, match="baseline of Acc cannot be right: 8440 is not within 0 and 100"):
        judge(ACC, None, 8440.0)


def test_a_cell_is_judged_as_what_it_is() -> None:
    """Not as another metric, which may have the other direction."""
    with pytest.raises(ConfigurationError, match="Acc cannot be judged as error"):
        judge(ERROR, cell(1.0), 2.0)


# --- shares of the withheld score ---------------------------------------------------------------------------


def test_the_published_example_comes_out() -> None:
    """The one run that beat a baseline (table 3): 1.0721 of the withheld score, and 11.5 % above the baseline."""
    avg, zero = Metric("CPD-Avg"), Metric("CPD-Zero")

    score = task_score(
        {
            "avg": normalised(avg, 0.589, withheld=0.463, baseline=0.448),
            "zero": normalised(zero, 0.525, withheld=0.602, baseline=0.573),
        }
    )
    gains = [improvement(avg, 0.589, 0.448), improvement(zero, 0.525, 0.573)]

    assert score.value == pytest.approx(1.0721, abs=5e-5)
    assert statistics.fmean(gain.value - 1 for gain in gains if isinstance(gain, Ratio)) == pytest.approx(
        0.115, abs=5e-4
    )


def test_a_missing_score_is_0_and_not_left_out() -> None:
    """One metric of two at par is 0.5; what cannot be compared is left out, and told."""
    par, missing = Ratio(1.0), normalised(ACC, None, withheld=88.0, baseline=87.0)
    unknown = normalised(ACC, 90.0, withheld=None, baseline=87.0)

    assert missing == Ratio(0.0, missing=True)
    assert task_score({"a": par, "b": missing}).value == 0.5
    assert isinstance(unknown, NotComparable)
    score = task_score({"a": par, "b": unknown})
    assert (score.value, score.metrics, score.left_out) == (1.0, 1, (unknown,))
    assert task_score({"b": unknown}).value is None


def test_each_reason_has_its_own_name() -> None:
    """Not known, not above the baseline, or no ratio."""
    low = Metric("mse", Direction.LOWER)
    cases = [
        (normalised(ACC, None, withheld=None, baseline=1.0), Why.NO_WITHHELD),
        (normalised(ACC, 80.0, withheld=60.4, baseline=68.3), Why.NOT_ABOVE_BASELINE),
        (normalised(low, 0.0, withheld=0.1, baseline=0.2), Why.NO_RATIO),
        (normalised(Metric("return"), -5.0, withheld=-1.0, baseline=-2.0), Why.NO_RATIO),
        (improvement(low, -1.0, 0.5), Why.NO_RATIO),
    ]

    assert [isinstance(got, NotComparable) and got.why for got, _ in cases] == [why for _, why in cases]


def test_a_negative_return_is_a_negative_share() -> None:
    """Not 0: a return can be worse than none."""
    assert normalised(Metric("return"), -50.0, withheld=100.0, baseline=50.0) == Ratio(-0.5)


# --- over sub-tasks and runs --------------------------------------------------------------------------------


@given(st.sets(st.sampled_from("abcdefg")), st.sampled_from("abcdefg"))
def test_completion_never_falls(valid: set[str], another: str) -> None:
    """One more valid sub-task is a share that is no smaller, and at most 1."""
    before, after = completion_rate(valid, "abcdefg").share, completion_rate(valid | {another}, "abcdefg").share

    assert before is not None
    assert after is not None
    assert 0 <= before <= after <= 1


def test_only_sub_tasks_are_completed() -> None:
    """A name that is none would make more than all of them; twice is once."""
    with pytest.raises(ConfigurationError, match="no such sub-tasks: x; known: a, b"):
        completion_rate(["x"], "ab")
    assert completion_rate(["a", "a"], ["a", "b", "b"]).share == 0.5


@given(st.lists(st.none() | shares, min_size=1, max_size=6))
def test_best_and_mean_of_k(scores: list[float | None]) -> None:
    """Any order; the best is no less than the mean; a run that came to nothing is 0."""
    shuffled = random.Random(0).sample(scores, len(scores))  # noqa: S311 - a test
    best, mean = best_at_k(scores, len(scores)), average_at_k(scores, len(scores))

    assert best == best_at_k(shuffled, len(scores))
    assert mean == pytest.approx(average_at_k(shuffled, len(scores)))
    assert best >= mean - 1e-9
    assert average_at_k([*scores, None], len(scores) + 1) == pytest.approx(mean * len(scores) / (len(scores) + 1))
    assert best_at_k([*scores, None], len(scores) + 1) == best


def test_k_runs_are_k_scores() -> None:
    """Leaving out the runs that failed would make the mean better."""
    for scores in ([0.9], [0.9] * 4, []):
        with pytest.raises(ConfigurationError, match=f"{len(scores)} scores of 3 runs"):
            average_at_k(scores, 3)
    with pytest.raises(ConfigurationError, match="no finite numbers"):
        best_at_k([math.nan, 0.1, 0.2], 3)


def test_improvement_counts_runs() -> None:
    """One of fifteen, as published."""
    runs = [judge(ACC, cell(88.0), 86.75), *(judge(ACC, None, 86.75) for _ in range(14))]

    assert improvement_rate(runs).share == pytest.approx(0.067, abs=5e-4)
