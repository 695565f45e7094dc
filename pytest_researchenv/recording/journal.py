"""What happened in a session, as it happened: a file of JSON lines that every process of the session appends to.

    <results>/<run>/journal-<session>.jsonl

A line is on disk before the next test begins, and nothing is ever taken back. A process that was killed leaves at most
one torn line, which counts for nothing.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, BinaryIO, Literal, final

from pydantic import Field, TypeAdapter, ValidationError

from pytest_researchenv.errors import StoreError
from pytest_researchenv.manifest import EngineFacts
from pytest_researchenv.recording.entry import Entry
from pytest_researchenv.store import locked


__all__ = ["Began", "Collected", "Finished", "Journal", "Line", "journals_in", "read_line"]

_log = logging.getLogger(__name__)

_PREFIX, _SUFFIX = "journal-", ".jsonl"


@dataclass(frozen=True, slots=True)
class Collected:
    """The tests are known.

    Attributes:
        tests: how many there are.
        suites: each suite's name → its digest (`lock.dataset_digest`).
    """

    tests: int
    suites: dict[str, str]
    kind: Literal["collected"] = "collected"
    schema: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Began:
    """A test has begun.

    Attributes:
        test: its id.
        at: seconds since 1970, UTC.
        agent: whose environment is judged; empty where the test is none of a suite.
        repository: `Repository.key`; likewise.
        subject: the tier, or `integrity`; likewise.
        trial: which of the attempts that were asked for.
        worker: the process; empty where there is one.
    """

    test: str
    at: float
    agent: str = ""
    repository: str = ""
    subject: str = ""
    trial: int = 1
    worker: str = ""
    kind: Literal["began"] = "began"
    schema: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Finished:
    """A test has finished, or the process has died that ran it."""

    entry: Entry
    kind: Literal["finished"] = "finished"
    schema: Literal[1] = 1


#: One line of a journal.
Line = Annotated[Collected | EngineFacts | Began | Finished, Field(discriminator="kind")]

_LINE: TypeAdapter[Collected | EngineFacts | Began | Finished] = TypeAdapter(Line)


@final
class Journal:
    """The journal of one session.

    Args:
        folder: the run's.
        session: the session's id.
    """

    __slots__ = ("path", "session")

    def __init__(self, folder: Path, session: str) -> None:
        self.session = session
        self.path = folder / f"{_PREFIX}{session}{_SUFFIX}"

    def append(self, line: Collected | EngineFacts | Began | Finished) -> None:
        """Add a line.

        Raises:
            StoreError: it cannot be written.
        """
        content = _LINE.dump_json(line) + b"\n"
        with locked(self.path.with_name(f".{self.path.name}")):
            try:
                with self.path.open("a+b") as file:
                    file.write((b"" if _whole(file) else b"\n") + content)
                    file.flush()
                    os.fsync(file.fileno())
            except OSError as error:
                raise StoreError(f"cannot write {self.path}: {error}") from error

    def lines(self) -> Iterator[Collected | EngineFacts | Began | Finished]:
        """Every line, oldest first; none where there is no journal.

        Raises:
            StoreError: it cannot be read.
        """
        try:
            content = self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise StoreError(f"cannot read {self.path}: {error}") from error
        for line in content.splitlines():
            if said := read_line(line):
                yield said
            else:
                _log.warning("a line of %s is torn, and left out", self.path)


def read_line(line: bytes) -> Collected | EngineFacts | Began | Finished | None:
    """Return what a line of a journal says; None where it is torn."""
    try:
        return _LINE.validate_json(line)
    except ValidationError:
        return None


def journals_in(folder: Path) -> list[Journal]:
    """Return the journals of a run, oldest first."""
    names = sorted(path.name for path in folder.glob(f"{_PREFIX}*{_SUFFIX}"))
    return [Journal(folder, name.removeprefix(_PREFIX).removesuffix(_SUFFIX)) for name in names]


def _whole(file: BinaryIO) -> bool:
    """Whether the last line of a file is complete: who was killed may have left a part of one."""
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"
