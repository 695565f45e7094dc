"""What is measured in a sub-task, and what others reached: values, for `task.py` to hand on."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import ClassVar

from pytest_researchenv._sources import STRICT
from pytest_researchenv.research.metrics import Direction, Metric


__all__ = ["Confidence", "Doubt", "DoubtKind", "Measure", "Origin", "Score", "Validation"]


class Confidence(StrEnum):
    """How sure it is that a number is the one that its authors reached."""

    #: Printed by those who ran it, or by the authors of the benchmark.
    PUBLISHED = "published"
    #: Read in the notes or in another implementation of third parties.
    RESTATED = "restated"
    #: Concluded from other numbers.
    INFERRED = "inferred"
    #: Measured by a script that lies beside the task.
    MEASURED = "measured"


class DoubtKind(StrEnum):
    """What is wrong with numbers that are published."""

    #: No score of the withheld method is known: nothing can be divided by it.
    WITHHELD_MISSING = "withheld missing"
    #: The score of the withheld method is not above the best baseline.
    WITHHELD_NOT_ABOVE = "withheld not above baseline"
    #: Rows of a table look shifted, so that numbers may be those of other methods.
    SHIFTED_ROWS = "shifted rows"
    #: Two sources print two numbers.
    SOURCES_DISAGREE = "sources disagree"


@dataclass(frozen=True, slots=True)
class Doubt:
    """One reason not to trust a number.

    Attributes:
        kind: what is wrong.
        why: what is known of it.
        methods: whose numbers it is about; none for the withheld method's.
        other: what the number may be instead.
    """

    __pydantic_config__: ClassVar = STRICT

    kind: DoubtKind
    why: str
    methods: tuple[str, ...] = ()
    other: float | None = None


@dataclass(frozen=True, slots=True)
class Origin:
    """Where numbers come from.

    Attributes:
        source: in words: which table of which text.
        confidence: how sure they are.
        spreads: what stands behind the sign ± there, such as `standard error`; empty where nothing does.
    """

    __pydantic_config__: ClassVar = STRICT

    source: str
    confidence: Confidence
    spreads: str = ""


@dataclass(frozen=True, slots=True)
class Measure:
    """A quantity by which results are compared.

    Attributes:
        meaning: what it is, in a sentence.
        better: which of two values is the better one.
        range: smallest and largest value that it can have, both inclusive; a value outside is no result.
        unit: `%` for per cent; empty for a plain number.
    """

    __pydantic_config__: ClassVar = STRICT

    meaning: str
    better: Direction
    range: tuple[float, float]
    unit: str = ""

    def metric(self, name: str) -> Metric:
        """Return the metric that a score of this measure is."""
        return Metric(name, self.better, *self.range)


@dataclass(frozen=True, slots=True)
class Validation:
    """The same quantity on the validation split, where that was published, too; no verdict rests on it.

    Attributes:
        baselines: method → value.
        withheld: the withheld method's; None where none is known.
    """

    __pydantic_config__: ClassVar = STRICT

    baselines: dict[str, float] = field(default_factory=dict)
    withheld: float | None = None


@dataclass(frozen=True, slots=True)
class Score:
    """One number that a sub-task yields, and what others reached.

    Attributes:
        measure: name of the measure that it is a value of.
        baselines: method → value that it reached.
        best: the best baseline's name, and those of others that reached the same.
        baselines_from: name of the origin of the baselines.
        mean_of: names of the scores of the sub-task that it is the mean of, where it is one.
        withheld: what the withheld method reached; None where that is not known.
        withheld_from: name of the origin of it; empty where there is none.
        spreads: method → what stands behind the sign ±, of the kind that the origin names.
        withheld_spread: likewise of the withheld method.
        validation: the same on the validation split.
        doubts: reasons not to trust some of the numbers.
    """

    __pydantic_config__: ClassVar = STRICT

    measure: str
    baselines: dict[str, float]
    best: tuple[str, ...]
    baselines_from: str
    mean_of: tuple[str, ...] = ()
    withheld: float | None = None
    withheld_from: str = ""
    spreads: dict[str, float] = field(default_factory=dict)
    withheld_spread: float | None = None
    validation: Validation = field(default_factory=Validation)
    doubts: tuple[Doubt, ...] = ()

    @property
    def to_beat(self) -> float:
        """The best baseline's value."""
        return self.baselines[self.best[0]]

    def doubted(self, kind: DoubtKind) -> Doubt | None:
        """Return the doubt of a kind; None where there is none."""
        return next((doubt for doubt in self.doubts if doubt.kind is kind), None)

    @property
    def comparable(self) -> bool:
        """Whether a result can be divided by the withheld method's: it is known, and better than every baseline."""
        return self.withheld is not None and self.doubted(DoubtKind.WITHHELD_NOT_ABOVE) is None
