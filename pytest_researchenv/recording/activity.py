"""What each process of a session is doing, for whoever watches the run: a file of JSON lines for each process.

    <results>/<run>/activity-<session>-<process>.jsonl

A phase that lasts is a line; the file's time is a sign of life, renewed while the process lives. Watching must neither
fail nor slow a run: a thread of its own writes, and what cannot be written is left out in silence.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, final

from pydantic import Field, TypeAdapter, ValidationError

from pytest_researchenv.progress import Phase
from pytest_researchenv.recording.entry import plain
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.sandbox.labels import Owner


__all__ = ["MAIN", "ActivityLine", "ActivityWriter", "Closed", "Opened", "Working", "activity_files", "read_activity"]

_log = logging.getLogger(__name__)

#: What the process is called that has no worker's name: the only one, or the controller of workers.
MAIN = "main"

#: Seconds between two signs of life.
_HEARTBEAT_S = 15.0

#: A phase that ends sooner is not written, and no two lines are written within so many seconds.
_NOTEWORTHY_S = 0.5
_APART_S = 1.0

#: How long the end of a session waits for the last line, in seconds: a disk may hang.
_PATIENCE_S = 2.0


@dataclass(frozen=True, slots=True)
class Opened:
    """A process has begun to work for a session.

    Attributes:
        at: seconds since 1970, UTC.
        worker: the worker's name; `main` for the process that has none.
        host: digest of its machine's identity.
        process: what identifies it on that machine, for as long as that runs.
        heartbeat_s: seconds between two signs of life.
        max_cost_usd: what the run may spend, in US dollars; None for no limit.
    """

    at: float
    worker: str
    host: str
    process: str
    heartbeat_s: float
    max_cost_usd: float | None = None
    kind: Literal["opened"] = "opened"
    schema: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Working:
    """A phase has begun.

    Attributes:
        at: seconds since 1970, UTC.
        agent: the agent's name; empty where nothing that takes long is done.
        repository: the repository's name without its owner; likewise.
        name: what is being done, in words; likewise.
        limit_s: after so many seconds it is ended from outside; None where nothing limits it.
    """

    at: float
    agent: str = ""
    repository: str = ""
    name: str = ""
    limit_s: float | None = None
    kind: Literal["phase"] = "phase"
    schema: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Closed:
    """A process has done its work for a session.

    Attributes:
        at: seconds since 1970, UTC.
    """

    at: float
    kind: Literal["closed"] = "closed"
    schema: Literal[1] = 1


#: One line of such a file.
ActivityLine = Annotated[Opened | Working | Closed, Field(discriminator="kind")]

_LINE: TypeAdapter[Opened | Working | Closed] = TypeAdapter(ActivityLine)


def read_activity(line: bytes) -> Opened | Working | Closed | None:
    """Return what a line says; None where it is torn, or of another version."""
    try:
        return _LINE.validate_json(line)
    except ValidationError:
        return None


def activity_files(folder: Path, session: str) -> list[Path]:
    """Return the files of a session's processes."""
    return sorted(folder.glob(f"activity-{session}-*.jsonl"))


@dataclass(frozen=True, slots=True)
class _Heard:
    phase: Phase | None
    at: float
    due: float


def _nothing_secret() -> Redactor:
    return Redactor(())


@final
class ActivityWriter:
    """Writes what this process is doing.

    Args:
        folder: the run's.
        session: the session's id.
        worker: the worker's name; empty where there is none.
        max_cost_usd: what the run may spend, in US dollars; None for no limit.
        redactor: gives what takes secrets out of what is said.
        heartbeat_s: seconds between two signs of life.
        path: the file, where it is not one of the session's own.
    """

    def __init__(
        self,
        folder: Path,
        session: str,
        worker: str,
        *,
        max_cost_usd: float | None = None,
        redactor: Callable[[], Redactor] = _nothing_secret,
        heartbeat_s: float = _HEARTBEAT_S,
        path: Path | None = None,
    ) -> None:
        self._worker = worker or MAIN
        self.path = path or folder / f"activity-{session}-{self._worker}.jsonl"
        self._max_cost_usd = max_cost_usd
        self._redactor = redactor
        self._heartbeat_s = heartbeat_s
        self._changed = threading.Condition()
        self._heard: _Heard | None = None
        self._thread: threading.Thread | None = None
        self._ended = False
        self._torn = False

    def start(self) -> None:
        """Begin to write."""
        self._thread = threading.Thread(target=self._run, name="researchenv-activity", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:
            # No thread can be had.
            self._thread = None

    def hear(self, phase: Phase | None) -> None:
        """Take note of what is being done now; None for nothing that takes long."""
        with self._changed:
            self._heard = _Heard(phase, time.time(), time.monotonic() + _NOTEWORTHY_S)
            self._changed.notify()

    def close(self) -> None:
        """Say that the work is done."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        if self._thread:
            self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        owner = Owner.current("")
        self._write(Opened(time.time(), self._worker, owner.host, owner.process, self._heartbeat_s, self._max_cost_usd))
        earliest = time.monotonic() + _APART_S
        beat = time.monotonic() + self._heartbeat_s
        written: Phase | None = None
        while not self._ended:
            with self._changed:
                heard = self._heard if self._heard and self._heard.phase != written else None
                due = min(beat, max(heard.due, earliest)) if heard else beat
                if not self._ended and due > time.monotonic():
                    # What is said meanwhile takes its place.
                    self._changed.wait(due - time.monotonic())
                    continue
            if heard and heard.due <= time.monotonic() and not self._ended:
                self._write(_line(heard))
                written = heard.phase
                earliest = time.monotonic() + _APART_S
            else:
                self._beat()
            beat = time.monotonic() + self._heartbeat_s
        self._write(Closed(time.time()))

    def _write(self, line: Opened | Working | Closed) -> None:
        # The boundary: whatever is wrong, results matter more than what is told of them.
        try:
            content = _LINE.dump_json(self._clean(line)) + b"\n"
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("ab", buffering=0) as file:
                content = (b"\n" if self._torn else b"") + content
                # A full disk may take a part of it.
                self._torn = file.write(content) != len(content)
        except Exception as error:  # noqa: BLE001 - see above
            _log.debug("%s is not complete: %s", self.path, error)

    def _clean(self, line: Opened | Working | Closed) -> Opened | Working | Closed:
        if not isinstance(line, Working):
            return line
        name = self._redactor().bytes(line.name.encode("utf-8", "backslashreplace")).decode("utf-8", "replace")
        return Working(line.at, plain(line.agent), plain(line.repository), name, line.limit_s)

    def _beat(self) -> None:
        try:
            os.utime(self.path)
        except OSError as error:
            _log.debug("%s is not kept up: %s", self.path, error)


def _line(heard: _Heard) -> Working:
    phase = heard.phase
    return Working(heard.at, phase.agent, phase.repository, phase.name, phase.limit_s) if phase else Working(heard.at)
