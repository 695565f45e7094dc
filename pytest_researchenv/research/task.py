"""Research tasks: what a `task.toml` says, as values.

The format is described in `docs/research-format.md`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from pytest_researchenv._sources import STRICT
from pytest_researchenv.research._reported import Format, Reported, Sample, Unit
from pytest_researchenv.research._scores import (
    Confidence,
    Doubt,
    DoubtKind,
    Measure,
    Origin,
    Score,
    Validation,
)
from pytest_researchenv.research._setting import (
    Blocked,
    Budget,
    DataSet,
    Evaluation,
    Fetch,
    Hardware,
    Holds,
    Install,
    Need,
    Removal,
    TaskSource,
    Withheld,
)


__all__ = [
    "Blocked",
    "Budget",
    "Confidence",
    "DataSet",
    "Doubt",
    "DoubtKind",
    "Evaluation",
    "Fetch",
    "Format",
    "Hardware",
    "Holds",
    "Install",
    "Measure",
    "Need",
    "Origin",
    "PrimaryScore",
    "Removal",
    "Reported",
    "Required",
    "ResearchSuite",
    "Sample",
    "Score",
    "ScoreName",
    "Subtask",
    "Task",
    "TaskSource",
    "Unit",
    "Validation",
    "Withheld",
]


@dataclass(frozen=True, slots=True)
class Required:
    """The runs that a result has to be the mean of: exactly these, each once.

    Attributes:
        seeds: seeds.
        folds: numbers of the folds.
        severities: corruption → its severity.
        steps: steps of the environment after which it is measured.
        chosen_here: which of `seeds`, `folds`, `severities` and `steps` the published task leaves open.
        notes: what else is said of them.
    """

    __pydantic_config__: ClassVar = STRICT

    seeds: tuple[int, ...] = ()
    folds: tuple[int, ...] = ()
    severities: dict[str, int] = field(default_factory=dict)
    steps: int | None = None
    chosen_here: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Subtask:
    """One problem of a task, with a verdict of its own.

    Attributes:
        setting: what is done, on what.
        data: names of the task's data sets that it needs.
        score: name of the score that decides it.
        scores: name → what it yields, and what others reached.
        required: the runs that a result has to be the mean of.
        needs: what it cannot be run without; empty for what runs on any machine.
        not_run_here: why it was not run on the machine that this package is tested on; empty where it was.
        graded_as: names of the rows that the published grader keeps for it, where they differ.
        inferred: why this is one sub-task, where the benchmark does not list them.
        notes: what else one should know.
    """

    __pydantic_config__: ClassVar = STRICT

    setting: str
    data: tuple[str, ...]
    score: str
    scores: dict[str, Score]
    required: Required = field(default_factory=Required)
    needs: tuple[Need, ...] = ()
    not_run_here: str = ""
    graded_as: tuple[str, ...] = ()
    inferred: str = ""
    notes: tuple[str, ...] = ()

    @property
    def deciding(self) -> Score:
        """The score that decides it."""
        return self.scores[self.score]


@dataclass(frozen=True, slots=True)
class ScoreName:
    """Names one score of one sub-task.

    Attributes:
        subtask: the sub-task.
        score: the score.
    """

    __pydantic_config__: ClassVar = STRICT

    subtask: str
    score: str


@dataclass(frozen=True, slots=True)
class PrimaryScore:
    """A number by which the benchmark sums a task up: the mean of some scores.

    Attributes:
        name: what it is called.
        of: the scores.
        method: the baseline that is best in it.
        baseline: its value, as published.
        withheld: the withheld method's, as published.
    """

    __pydantic_config__: ClassVar = STRICT

    name: str
    of: tuple[ScoreName, ...]
    method: str
    baseline: float
    withheld: float


@dataclass(frozen=True, slots=True)
class Task:
    """A research problem: code to begin with, data, baselines, and what is measured.

    Attributes:
        name: its name in ids; `-` stands there as `_`.
        acronym: how the benchmark calls it; in no id.
        area: field of research.
        goal: what is to be found out.
        source: where its tree comes from.
        withheld: the method that the tree was taken from.
        data: name → data set.
        measures: name → a quantity by which results are compared.
        origins: name → where numbers come from.
        subtasks: id → problem with a verdict of its own, in order.
        primary: the numbers by which the benchmark sums it up.
        blocked: what the agent may not reach.
        install: how its code is installed.
        evaluation: how results become scores.
        removed: what is not in the agent's copy.
        hardware: what the work is done on.
        budget: what the agent may spend.
        notes: what else one should know.
        folder: absolute path of the folder that holds `task.toml`.
        suite: name of the suite that describes it.
    """

    __pydantic_config__: ClassVar = STRICT

    name: str
    area: str
    goal: str
    source: TaskSource
    withheld: Withheld
    measures: dict[str, Measure]
    origins: dict[str, Origin]
    subtasks: dict[str, Subtask]
    evaluation: Evaluation
    budget: Budget
    blocked: Blocked
    acronym: str = ""
    data: dict[str, DataSet] = field(default_factory=dict)
    primary: tuple[PrimaryScore, ...] = ()
    install: Install = field(default_factory=Install)
    removed: tuple[Removal, ...] = ()
    hardware: Hardware = field(default_factory=Hardware)
    notes: tuple[str, ...] = ()
    folder: str = ""
    suite: str = ""

    @property
    def slug(self) -> str:
        """The name as it stands in ids: a `-` would end an expression's word for a reader, a `_` does not."""
        return self.name.replace("-", "_")

    @property
    def key(self) -> str:
        """What tells it from the tasks of all suites: `suite/name`."""
        return f"{self.suite}/{self.name}" if self.suite else self.name

    def measure(self, subtask: str, score: str) -> Measure:
        """Return the measure that a score is a value of."""
        return self.measures[self.subtasks[subtask].scores[score].measure]

    def read_as(self, subtask: str) -> str:
        """Return the name that the readers of published outputs (`outputs`) have for a sub-task."""
        return f"{self.acronym.lower()}-{subtask.replace('_', '-')}"


@dataclass(frozen=True, slots=True)
class ResearchSuite:
    """A set of research tasks that are measured together.

    Attributes:
        name: name from `suite.toml`.
        folder: absolute path of its folder.
        tasks: sorted by name.
        description: one sentence.
        canary: text that each of its files holds, so that training data with them in it can be recognised.
    """

    name: str
    folder: Path
    tasks: tuple[Task, ...]
    description: str = ""
    canary: str = ""
