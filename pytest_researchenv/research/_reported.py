"""Results that agents report themselves: how they are read, and what is executed again. Values for `task.py`."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from typing import ClassVar

from pytest_researchenv._sources import STRICT


__all__ = ["PLACEHOLDERS", "Format", "Reported", "Sample", "Unit"]

#: What a sample's command may name, as `{out}`.
PLACEHOLDERS = ("fold", "out", "python", "score", "seed", "steps", "subtask")

_PLACEHOLDER = re.compile(r"\{(\w+)\}")


class Format(StrEnum):
    """The published formats that there are readers for (`research.outputs`)."""

    CONTINUAL = "continual-learning logs"
    RETRIEVAL = "retrieval runs"
    REPLAY = "return records"
    TOKENIZATION = "tokenization predictions"
    EXPLANATION = "explanation tables"


class Unit(StrEnum):
    """What one call of a sample's command does again."""

    #: A required run, with its seed and its fold.
    RUN = "run"
    #: One score, where a sub-task has many that are each measured once.
    SCORE = "score"


@dataclass(frozen=True, slots=True)
class Sample:
    """What is executed again of the code that was handed in, since a reported number proves nothing.

    Attributes:
        command: what does it: the program, and its arguments, of which `{out}` is the folder for the results, in the
            format of those that are reported.
        tolerance: measure → how much better a reported value may be than what is executed, in the measure's own unit.
        unit: what one call does.
        count: how many of a sub-task's units are executed, drawn after the hand-in.
        fresh_seed: whether one run more has a seed that nobody knew before, so that no table can hold its result.
        restored: files and folders of the pinned tree that are put back before: those that measure.
        hours: after so long a call is ended, and what was handed in fails.
        memory_gb: memory of its container.
    """

    __pydantic_config__: ClassVar = STRICT

    command: tuple[str, ...]
    tolerance: dict[str, float]
    unit: Unit = Unit.RUN
    count: int = 1
    fresh_seed: bool = False
    restored: tuple[str, ...] = ()
    hours: float = 6.0
    memory_gb: float = 64.0

    def __post_init__(self) -> None:
        if problem := next(self._problems(), ""):
            raise ValueError(problem)

    def _problems(self) -> Iterator[str]:
        yield from self._command_problems()
        for measure, value in self.tolerance.items():
            if not (math.isfinite(value) and value >= 0):
                yield f"tolerance of {measure!r} must be a number that is not negative, not {value}"
        if self.count < 1:
            yield f"count must be positive, not {self.count}"
        if not (0 < self.hours < math.inf and 0 < self.memory_gb < math.inf):
            yield f"hours and memory_gb must be positive numbers, not {self.hours} and {self.memory_gb}"
        yield from (f"restored must be paths inside the task's tree, not {one!r}" for one in self.restored if _out(one))

    def _command_problems(self) -> Iterator[str]:
        if not self.command or not self.command[0]:
            yield "command must name a program"
        if unknown := sorted(self.named.difference(PLACEHOLDERS)):
            yield f"command has {{{unknown[0]}}}, which stands for nothing (known: {', '.join(PLACEHOLDERS)})"
        if "out" not in self.named:
            yield "command must have {out}, the folder for the results"
        if self.fresh_seed and (self.unit is not Unit.RUN or "seed" not in self.named):
            yield "fresh_seed needs runs, and a command that has {seed}"

    @property
    def named(self) -> frozenset[str]:
        """The placeholders in its command."""
        return frozenset(name for word in self.command for name in _PLACEHOLDER.findall(word))


@dataclass(frozen=True, slots=True)
class Reported:
    """Results as the agent's own code wrote them.

    Attributes:
        format: of which published format they are.
        folder: folder of the tree that holds them.
        method: what they call the method that is judged, where they may be of several.
        sample: what is executed again; None where nothing can be, so that no score counts.
    """

    __pydantic_config__: ClassVar = STRICT

    format: Format
    folder: str
    method: str = ""
    sample: Sample | None = None

    def __post_init__(self) -> None:
        if _out(self.folder):
            raise ValueError(f"folder must be a path inside the task's tree, not {self.folder!r}")
        if self.format is Format.EXPLANATION and not self.method:
            raise ValueError("method must say which explainer's rows count")


def _out(path: str) -> bool:
    """Whether something is no plain path below a folder."""
    parts = PurePosixPath(path).parts
    return "/".join(parts) != path or not parts or path.startswith("/") or ".." in parts
