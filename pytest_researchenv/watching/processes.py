"""The processes of a session: what each is doing, and whether it lives."""

from __future__ import annotations

import time
from enum import StrEnum
from pathlib import Path
from typing import final

from pytest_researchenv.recording.activity import Closed, Opened, Working, read_activity
from pytest_researchenv.sandbox.labels import Owner, alive
from pytest_researchenv.watching.tailing import NewLines


__all__ = ["GIVEN_UP_S", "Life", "Signs", "WatchedProcess"]

#: A process of another machine that has given no sign of life for so long, in seconds, is silent.
_SILENT_S = 120.0

#: One that is silent for so long, in seconds, is not waited for any more.
GIVEN_UP_S = 600.0

#: Clocks of machines differ by less, in seconds; a sign of life that is further ahead says nothing about its age.
_SKEW_S = 60.0


class Life(StrEnum):
    """Whether a process lives, as far as that can be told from here."""

    AT_WORK = "at work"
    ENDED = "ended"
    DIED = "died"
    #: On another machine, or in another container of this one: its folder is all that is seen.
    SILENT = "silent"


@final
class Signs:
    """How long ago a file was renewed, by its own time or by when that was seen to change, whichever is less."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: float | None = None
        self._changed: float | None = None
        self._first = time.monotonic()
        #: Its time, in seconds since 1970; 0 where there is none.
        self.last = 0.0

    def look(self) -> None:
        """Look at it again."""
        try:
            self.last = self._path.stat().st_mtime
        except OSError:
            return
        if self._seen is not None and self.last != self._seen:
            self._changed = time.monotonic()
        self._seen = self.last

    def age_s(self, now: float) -> float:
        """How long ago, in seconds."""
        own = now - self.last
        if own < -_SKEW_S:
            own = time.monotonic() - self._first
        seen = time.monotonic() - self._changed if self._changed is not None else own
        return max(0.0, min(own, seen))


@final
class WatchedProcess:
    """What a process says of itself."""

    def __init__(self, path: Path, worker: str) -> None:
        self._lines = NewLines(path)
        self._signs = Signs(path)
        self._own_host = Owner.current("").host
        #: The worker's name, as the file is called.
        self.worker = worker
        #: What is known of it; None before its first line.
        self.opened: Opened | None = None
        #: Its newest phase.
        self.phase: Working | None = None
        self.closed = False

    def look(self) -> list[Working]:
        """Read what is new; return the phases that have begun."""
        self._signs.look()
        phases = []
        for line in self._lines.read():
            said = read_activity(line)
            if isinstance(said, Opened):
                self.opened = said
            elif isinstance(said, Working):
                self.phase = said
                phases.append(said)
            elif isinstance(said, Closed):
                self.closed = True
                self.phase = None
        return phases

    @property
    def elsewhere(self) -> bool:
        """Whether it runs on another machine."""
        return self.opened is not None and self.opened.host != self._own_host

    @property
    def last_sign(self) -> float:
        """When it gave a sign of life last, in seconds since 1970."""
        return self._signs.last

    def silent_s(self, now: float) -> float:
        """How long it has given no sign of life, in seconds."""
        return self._signs.age_s(now)

    def life(self, now: float) -> Life:
        """Whether it lives, or has said that its work is done."""
        if self.closed:
            return Life.ENDED
        living = self._living
        if living is None:
            return Life.SILENT if self.silent_s(now) > _SILENT_S else Life.AT_WORK
        return Life.AT_WORK if living else Life.DIED

    def gone(self, now: float) -> bool:
        """Whether it does not live any more, whatever it has said."""
        return self.silent_s(now) > _SILENT_S if self._living is None else not self._living

    @property
    def _living(self) -> bool | None:
        return alive(self.opened.process) if self.opened and not self.elsewhere else None
