"""What ResearchGym published of its agents (arXiv 2602.15112), with as many digits as were printed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from pytest_researchenv._sources import STRICT
from pytest_researchenv._tables import shipped_table


__all__ = ["Figures", "Paper", "PrimaryMetric", "Scaffold", "Sum", "TaskFigures", "Told", "paper"]


@dataclass(frozen=True, slots=True)
class Figures:
    """A mean as it was printed, with what stood beside it; empty where nothing did.

    Attributes:
        mean: over runs, or over tasks.
        deviation: standard deviation; not said of what kind.
        best: of all runs.
        baseline: the strongest baseline's.
        withheld: the withheld method's.
        deviation_again: the deviation where it was printed a second time.
    """

    __pydantic_config__: ClassVar = STRICT

    mean: str
    deviation: str = ""
    best: str = ""
    baseline: str = ""
    withheld: str = ""
    deviation_again: str = ""


@dataclass(frozen=True, slots=True)
class PrimaryMetric:
    """A metric of a task's primary sub-task: table 3.

    Attributes:
        figures: as published.
        parts: baseline → the cells of the task's own tables that the published figure is the mean of.
        withheld_parts: those of the withheld method.
        mixed: what unlike things those cells are; empty where they are alike.
    """

    __pydantic_config__: ClassVar = STRICT

    figures: Figures
    parts: dict[str, list[str]]
    withheld_parts: list[str]
    mixed: str = ""


@dataclass(frozen=True, slots=True)
class Resources:
    """What runs took, on average.

    Attributes:
        attempts: how often something was handed in.
        minutes: to the first valid score.
        dollars: spent.
        tokens: millions taken in.
        tools: percentage of calls of tools that succeeded.
    """

    __pydantic_config__: ClassVar = STRICT

    attempts: str
    minutes: str
    dollars: str
    tokens: str
    tools: str


@dataclass(frozen=True, slots=True)
class TaskFigures:
    """A task's rows of tables 4 and 5.

    Attributes:
        subtasks: how many sub-tasks it may have; one number where that is known.
        completed: runs with a valid score of the primary sub-task.
        score: the share of the withheld score.
        completion: percentage of sub-tasks completed.
        resources: what it took.
        metrics: of its primary sub-task.
    """

    __pydantic_config__: ClassVar = STRICT

    subtasks: list[int]
    completed: int
    score: Figures
    completion: Figures
    resources: Resources
    metrics: dict[str, PrimaryMetric]


@dataclass(frozen=True, slots=True)
class Averages:
    """The last rows of tables 4 and 5: over tasks. Attributes are those of a task."""

    __pydantic_config__: ClassVar = STRICT

    score: Figures
    best: Figures
    completed_percent: str
    completion: Figures
    resources: Resources


@dataclass(frozen=True, slots=True)
class Improvement:
    """Runs that beat the strongest baseline, as the abstract tells.

    Attributes:
        runs: how many.
        of: of how many.
        percent: that share.
        gain_percent: by how much, over both metrics.
        task: of which task.
    """

    __pydantic_config__: ClassVar = STRICT

    runs: int
    of: int
    percent: str
    gain_percent: str
    task: str


@dataclass(frozen=True, slots=True)
class Scaffold:
    """A column pair of table 6.

    Attributes:
        average: over tasks: share of the withheld score, and percentage of sub-tasks completed.
        tasks: the same of each; the share is empty where there was no valid hand-in.
    """

    __pydantic_config__: ClassVar = STRICT

    average: tuple[str, str]
    tasks: dict[str, tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Told:
    """A single run that the text tells of.

    Attributes:
        what: which, and of what.
        shares: score and withheld score of each metric; what follows is the mean of their quotients.
        published: what should follow.
        note: what else is to be said.
    """

    __pydantic_config__: ClassVar = STRICT

    what: str
    shares: list[tuple[str, str]]
    published: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Sum:
    """Counts and their published sum.

    Attributes:
        where: table or section.
        what: is counted.
        parts: each count.
        published: the sum.
        note: what else is to be said.
    """

    __pydantic_config__: ClassVar = STRICT

    where: str
    what: str
    parts: list[str]
    published: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Paper:
    """All of it.

    Attributes:
        source: where.
        runs: of each task.
        subtasks: of all tasks.
        tasks: by acronym: tables 3 to 5.
        averages: over tasks.
        improvement: over the strongest baseline.
        scaffolds: by name: table 6.
        told: single runs.
        sums: counts.
    """

    __pydantic_config__: ClassVar = STRICT

    source: str
    runs: int
    subtasks: int
    tasks: dict[str, TaskFigures]
    averages: Averages
    improvement: Improvement
    scaffolds: dict[str, Scaffold]
    told: list[Told] = field(default_factory=list)
    sums: list[Sum] = field(default_factory=list)


@cache
def paper() -> Paper:
    """Return what ResearchGym published."""
    return shipped_table(Paper, __package__, "paper.toml")
