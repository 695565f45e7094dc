"""A cell of a task's table: one metric over exactly the runs that the task requires."""

from __future__ import annotations

import itertools
import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction

from pytest_researchenv.research.metrics import Metric, exact_mean
from pytest_researchenv.research.problems import OutputError, Problem, ProblemKind


__all__ = ["Cell", "Plan", "Reading", "Run", "Summary", "collect", "mean_cell", "required_runs"]

_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Run:
    """Where a value was measured; None for what a task does not vary."""

    seed: int | None = None
    fold: int | None = None
    severity: int | None = None
    steps: int | None = None

    def __str__(self) -> str:
        said = [f"{one.name} {value}" for one in fields(self) if (value := getattr(self, one.name)) is not None]
        return ", ".join(said) or "the run"


@dataclass(frozen=True, slots=True)
class Reading:
    """A value as it was found: of any type, and perhaps out of range.

    Attributes:
        run: where it says that it was measured.
        value: what was found.
        source: file, and line if it has lines.
    """

    run: Run
    value: object
    source: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a cell needs.

    Attributes:
        metric: of which metric.
        runs: each of them exactly once, and nothing else.
    """

    metric: Metric
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class Summary:
    """The mean of a cell, and how far off it may be by chance.

    Attributes:
        mean: over all runs.
        count: of how many independent values: seeds, or folds where there are no seeds.
        error: standard error of the mean, `s / √count` with s the sample deviation; None of a single value.
        interval: the 95 % interval of Student's t with count - 1 degrees of freedom; None of a single value.
    """

    mean: float
    count: int
    error: float | None = None
    interval: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Cell:
    """One metric over exactly its required runs.

    Attributes:
        metric: which.
        values: of each run; all are values that the metric can have.
    """

    metric: Metric
    values: Mapping[Run, float]

    @property
    def exact(self) -> Fraction:
        """The mean over all runs of the numbers as they are written."""
        return exact_mean(tuple(self.values.values()))

    @property
    def mean(self) -> float:
        """The mean over all runs."""
        return float(self.exact)

    def summary(self) -> Summary:
        """The mean and its uncertainty over seeds.

        Values of one seed are averaged first (over folds, say), since they are not independent. Without seeds, folds
        take their place; without those there is a single value, and nothing is known of its uncertainty. The published
        graders say 0 there.
        """
        groups: dict[int | None, list[float]] = defaultdict(list)
        by = "seed" if any(run.seed is not None for run in self.values) else "fold"
        for run, value in self.values.items():
            groups[getattr(run, by)].append(value)
        means = sorted(float(exact_mean(tuple(values))) for values in groups.values())
        if len(means) == 1:
            return Summary(self.mean, 1)
        # Only who asks pays for scipy.
        from scipy.special import stdtrit  # noqa: PLC0415

        error = statistics.stdev(means) / math.sqrt(len(means))
        reach = float(stdtrit(len(means) - 1, (1 + _LEVEL) / 2)) * error
        return Summary(self.mean, len(means), error, (self.mean - reach, self.mean + reach))


def required_runs(
    *,
    seeds: Sequence[int | None] = (None,),
    folds: Sequence[int | None] = (None,),
    severity: int | None = None,
    steps: int | None = None,
) -> tuple[Run, ...]:
    """Every seed with every fold."""
    return tuple(Run(seed, fold, severity, steps) for seed, fold in itertools.product(seeds, folds))


def collect(name: str, plan: Plan, readings: Iterable[Reading]) -> tuple[Cell | None, tuple[Problem, ...]]:
    """Take in what was found for a cell.

    Args:
        name: of the cell, for people.
        plan: what it needs.
        readings: what was found.

    Returns:
        The cell and nothing, or nothing and all that is wrong.
    """
    found: dict[Run, list[Reading]] = defaultdict(list)
    for reading in readings:
        found[reading.run].append(reading)
    problems = [Problem(ProblemKind.MISSING, f"{name}: {run}") for run in plan.runs if run not in found]
    for run, every in found.items():
        where = ", ".join(sorted({one.source for one in every if one.source}))
        beside = f" ({where})" if where else ""
        if run not in plan.runs:
            problems.append(Problem(ProblemKind.EXTRA, f"{name}: {run}{beside}"))
        elif len(every) > 1:
            problems.append(Problem(ProblemKind.DUPLICATE, f"{name}: {run}, {len(every)} times{beside}"))
        for one in every:
            if wrong := plan.metric.wrong(one.value):
                at = f" ({one.source})" if one.source else ""
                problems.append(Problem(ProblemKind.INVALID, f"{name}: {run}: {wrong}{at}"))
    if problems:
        return None, tuple(problems)
    values = {run: float(found[run][0].value) for run in plan.runs}  # type: ignore[arg-type] # looked at just now
    return Cell(plan.metric, values), ()


def mean_cell(metric: Metric, cells: Iterable[Cell]) -> Cell:
    """The mean over cells that were measured at the same runs, or once each: a table's column of averages.

    Args:
        metric: what it is called.
        cells: of one direction.

    Raises:
        OutputError: directions differ, and a mean over them says nothing; or some runs are not those of the others.
    """
    every = list(cells)
    if any(cell.metric.direction is not metric.direction for cell in every):
        names = ", ".join(f"{cell.metric.name} ({cell.metric.direction})" for cell in every)
        raise OutputError(metric.name, [Problem(ProblemKind.INVALID, f"a mean over both directions: {names}")])
    if all(len(cell.values) == 1 for cell in every):
        return Cell(metric, {Run(): float(exact_mean(tuple(cell.mean for cell in every)))})
    if any(cell.values.keys() != every[0].values.keys() for cell in every):
        raise OutputError(metric.name, [Problem(ProblemKind.INVALID, "a mean over cells of different runs")])
    means = {run: float(exact_mean(tuple(cell.values[run] for cell in every))) for run in every[0].values}
    return Cell(metric, means)
