"""What was found in a task's outputs, sub-task by sub-task, before it is known whether it is complete."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pytest_researchenv.research.cells import Cell, Plan, Reading, Run, collect
from pytest_researchenv.research.outputs.files import UnreadableError, files_below, read_bytes, read_json
from pytest_researchenv.research.problems import OutputError, Problem, ProblemKind


__all__ = ["MAX_TOTAL", "Finder", "Found"]

#: How many files or lines that do not count are told.
_TOLD = 200

#: How much is read of all files together.
MAX_TOTAL = 512 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Found:
    """What was found.

    Attributes:
        readings: sub-task and name of the metric → all values, also those that are twice or out of range.
        unread: files, and parts of files, that no value was taken from, with the reason.
    """

    readings: Mapping[tuple[str, str], tuple[Reading, ...]]
    unread: tuple[Problem, ...]

    def cells(self, subtask: str, plans: Sequence[Plan]) -> dict[str, Cell]:
        """The cells of a sub-task, by the name of their metric.

        Args:
            subtask: its id.
            plans: of each cell that it has.

        Raises:
            OutputError: the runs are not exactly those that are required, or a value is none; lists all of that, and
                what was not read.
        """
        cells: dict[str, Cell] = {}
        problems: list[Problem] = []
        for plan in plans:
            name = plan.metric.name
            cell, wrong = collect(name, plan, self.readings.get((subtask, name), ()))
            problems += wrong
            if cell is not None:
                cells[name] = cell
        if problems:
            raise OutputError(subtask, (*problems, *self.unread))
        return cells


@dataclass(slots=True)
class Finder:
    """Takes notes while files are read.

    Attributes:
        root: folder of the outputs.
    """

    root: Path
    _readings: dict[tuple[str, str], list[Reading]] = field(default_factory=lambda: defaultdict(list))
    _unread: list[Problem] = field(default_factory=list)
    _read: int = 0
    _skipped: int = 0

    def files(self, name: str) -> list[tuple[Path, str]]:
        """Files whose name ends so; where they cannot be listed, none."""
        try:
            return list(files_below(self.root, name))
        except UnreadableError as error:
            self.skip("the outputs", error)
            return []

    def bytes(self, path: Path) -> bytes:
        """The content of a file.

        Raises:
            UnreadableError: it cannot be read, or too much was read before.
        """
        if self._read >= MAX_TOTAL:
            raise UnreadableError(f"was not read: all files together have more than {MAX_TOTAL} bytes")
        data = read_bytes(path)
        self._read += len(data)
        return data

    def text(self, path: Path) -> str:
        """A text of lines; bytes that are no UTF-8 become U+FFFD, since logs hold all sorts of output."""
        return self.bytes(path).decode("utf-8", errors="replace")

    def json(self, path: Path) -> object:
        """A JSON document."""
        return read_json(self.bytes(path))

    def add(self, subtask: str, metric: str, run: Run, value: object, source: str) -> None:
        """Note a value."""
        self._readings[subtask, metric].append(Reading(run, value, source))

    def skip(self, where: str, why: object) -> None:
        """Note what no value was taken from."""
        self._skipped += 1
        if self._skipped <= _TOLD:
            self._unread.append(Problem(ProblemKind.UNREADABLE, f"{where}: {why}"))

    def found(self) -> Found:
        """All of it."""
        readings = {key: tuple(every) for key, every in self._readings.items()}
        if self._skipped <= _TOLD:
            return Found(readings, tuple(self._unread))
        rest = Problem(ProblemKind.UNREADABLE, f"{self._skipped - _TOLD} more files or lines")
        return Found(readings, (*self._unread, rest))
