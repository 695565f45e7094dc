"""What a run is worth: beside the best baseline, and as a share of the withheld method's score.

The published scores are those of ResearchGym (arXiv 2602.15112), section 2.4; the benchmark's repository computes none
of them. The direction of a metric always counts: swapping "higher" for "lower" and each value for its inverse changes
no score.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.research.cells import Cell, Summary
from pytest_researchenv.research.metrics import Direction, Metric
from pytest_researchenv.statistics.rates import Rate


__all__ = [
    "Judged",
    "NotComparable",
    "Ratio",
    "TaskScore",
    "Why",
    "average_at_k",
    "best_at_k",
    "completion_rate",
    "improvement",
    "improvement_rate",
    "judge",
    "normalised",
    "task_score",
]


@dataclass(frozen=True, slots=True)
class Judged:
    """A cell beside the best baseline.

    Attributes:
        metric: of what.
        summary: mean, and its uncertainty over seeds; None where there is no valid score.
        baseline: the best baseline's score.
        passed: whether the mean is strictly better, in the metric's direction.
        clear: whether the whole 95 % interval is; None where there is no interval.
    """

    metric: Metric
    summary: Summary | None
    baseline: float
    passed: bool
    clear: bool | None = None

    @property
    def completed(self) -> bool:
        """Whether there is a valid score, good or bad."""
        return self.summary is not None


def judge(metric: Metric, cell: Cell | None, baseline: float | Fraction) -> Judged:
    """Compare a cell with the best baseline.

    Passed is `mean > baseline`, or `mean < baseline` where lower is better, of the numbers as they are written: what
    only equals the baseline does not pass. The interval decides nothing, since published baselines are means of three
    to five runs themselves.

    Args:
        metric: what is judged.
        cell: None where there is no valid score.
        baseline: the score of the best baseline; exact where it is itself the mean of several numbers.
    """
    number = float(baseline)
    if wrong := metric.wrong(number):
        raise ConfigurationError(f"the baseline of {metric.name} cannot be right: {wrong}; correct it in the task")
    if cell is None:
        return Judged(metric, None, number, passed=False)
    if cell.metric != metric:
        raise ConfigurationError(f"{cell.metric.name} cannot be judged as {metric.name}: name the same metric twice")
    summary = cell.summary()
    clear = None if summary.interval is None else all(metric.better(end, baseline) for end in summary.interval)
    return Judged(metric, summary, number, metric.better(cell.exact, baseline), clear)


# --- beside the withheld method -----------------------------------------------------------------------------


class Why(StrEnum):
    """Why a score has no ratio."""

    NO_WITHHELD = "no withheld score is known"
    NOT_ABOVE_BASELINE = "the withheld score is not better than the best baseline"
    NO_RATIO = "a ratio needs positive numbers"


@dataclass(frozen=True, slots=True)
class Ratio:
    """A score as a share of another.

    Attributes:
        value: 1 where both are equal, more where the first is better; 0 of a score that is missing.
        missing: whether there was no valid score.
    """

    value: float
    missing: bool = False


@dataclass(frozen=True, slots=True)
class NotComparable:
    """There is no such share, which is not the same as 0.

    Attributes:
        why: the reason.
        detail: with the numbers.
    """

    why: Why
    detail: str


def normalised(
    metric: Metric, score: float | None, *, withheld: float | None, baseline: float
) -> Ratio | NotComparable:
    """The score as a share of the withheld method's.

    `score / withheld` (section 2.4, equation 2); where lower is better `withheld / score`, which the paper does not
    need. Not rescaled by the baseline, as in the paper.

    Args:
        metric: whose direction counts.
        score: None where there is no valid one: its share is 0, as in the paper.
        withheld: the withheld method's score; None where none is known.
        baseline: the best baseline's.

    Returns:
        The share; or why there is none, whatever the score: no withheld score, or one that a baseline reaches, so that
        the share would not say how much of the withheld method's advance was found.
    """
    if withheld is None:
        return NotComparable(Why.NO_WITHHELD, f"{metric.name}: {Why.NO_WITHHELD}")
    if not metric.better(withheld, baseline):
        return NotComparable(
            Why.NOT_ABOVE_BASELINE, f"{metric.name}: withheld {withheld:g}, best baseline {baseline:g}"
        )
    if score is None:
        return Ratio(0.0, missing=True)
    return _ratio(metric, score, withheld)


def improvement(metric: Metric, score: float, baseline: float) -> Ratio | NotComparable:
    """The score as a share of the strongest baseline's; less 1 it is the relative gain.

    `score / baseline - 1` is the gain, and `baseline / score - 1` where lower is better: the 11.5 % of the paper's
    abstract is its mean over two metrics.
    """
    return _ratio(metric, score, baseline)


def _ratio(metric: Metric, score: float, other: float) -> Ratio | NotComparable:
    lower = metric.direction is Direction.LOWER
    # A score of zero or less is a share of zero or less where higher is better: a return can be negative.
    if other <= 0 or (lower and score <= 0):
        return NotComparable(Why.NO_RATIO, f"{metric.name}: {score:g} and {other:g}; {Why.NO_RATIO}")
    return Ratio(other / score if lower else score / other)


@dataclass(frozen=True, slots=True)
class TaskScore:
    """A task's normalised score.

    Attributes:
        value: the mean over its primary metrics; None where none can be compared.
        metrics: how many that are.
        left_out: metrics that cannot be compared, each with the reason.
    """

    value: float | None
    metrics: int
    left_out: tuple[NotComparable, ...] = ()


def task_score(shares: Mapping[str, Ratio | NotComparable]) -> TaskScore:
    """The mean of the shares of a task's primary metrics (section 2.4), a missing score being 0.

    Args:
        shares: name of each primary metric → its share.
    """
    values = [one.value for one in shares.values() if isinstance(one, Ratio)]
    left_out = tuple(one for one in shares.values() if isinstance(one, NotComparable))
    return TaskScore(math.fsum(values) / len(values) if values else None, len(values), left_out)


# --- over sub-tasks and runs --------------------------------------------------------------------------------


def completion_rate(valid: Collection[str], subtasks: Collection[str]) -> Rate:
    """Sub-tasks with a valid score over all sub-tasks (section 2.4, equation 3).

    Raises:
        ConfigurationError: a valid score of what is no sub-task.
    """
    if unknown := sorted(set(valid) - set(subtasks)):
        raise ConfigurationError(f"no such sub-tasks: {', '.join(unknown)}; known: {', '.join(sorted(set(subtasks)))}")
    return Rate(len(set(valid)), len(set(subtasks)))


def improvement_rate(judged: Sequence[Judged]) -> Rate:
    """Runs whose primary score beats the strongest baseline over all runs (section 2.4, equation 4)."""
    return Rate(sum(one.passed for one in judged), len(judged))


def best_at_k(scores: Sequence[float | None], k: int) -> float:
    """The best of k independent runs (section 2.4), a missing score being 0.

    Args:
        scores: normalised, so that higher is better whatever the metric; one of each run, None where it has none.
        k: how many runs there were.

    Raises:
        ConfigurationError: not k scores. A run that came to nothing is None, and not left out.
    """
    return max(_of_k(scores, k))


def average_at_k(scores: Sequence[float | None], k: int) -> float:
    """The mean of k independent runs (section 2.4); arguments and errors are those of `best_at_k`."""
    return math.fsum(_of_k(scores, k)) / k


def _of_k(scores: Sequence[float | None], k: int) -> list[float]:
    if k < 1 or len(scores) != k:
        raise ConfigurationError(f"{len(scores)} scores of {k} runs: give one of each run, None where it has none")
    values = [0.0 if score is None else score for score in scores]
    if not all(math.isfinite(value) for value in values):
        raise ConfigurationError(f"scores that are no finite numbers: {values}; give None where a run has none")
    return values
