"""Room on disks: how much there is, and what is said of it. Importing this module imports nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pytest_researchenv.errors import NoRoomError


__all__ = ["FLOOR_BYTES", "LEAST_BYTES", "UNKNOWN", "EngineDisk", "Room", "gib", "room_of"]

_GIB = 1024**3

#: What is kept free on an engine's disk unless the user says otherwise, in bytes.
FLOOR_BYTES = 5 * _GIB

#: With less than this many bytes free, nothing that is at work can be trusted to have failed by itself: engines, and
#: with them whatever runs in containers, break in ways of their own.
LEAST_BYTES = _GIB // 2


@dataclass(frozen=True, slots=True)
class Room:
    """What a file system has left.

    Attributes:
        free: bytes that we may still write.
        total: bytes in all.
        files: how many more files it can hold; None where it has no such limit.
    """

    free: int
    total: int
    files: int | None = None


def room_of(folder: Path) -> Room:
    """Ask the file system that a folder is on.

    Raises:
        OSError: it cannot be asked.
    """
    told = os.statvfs(folder)
    files = told.f_favail if told.f_files else None
    return Room(told.f_bavail * told.f_frsize, told.f_blocks * told.f_frsize, files)


def gib(size: float) -> str:
    """Return a number of bytes in words that are short and true."""
    return f"{size / _GIB:.1f} GiB"


def _unknown() -> Room | None:
    return None


@dataclass(frozen=True, slots=True)
class EngineDisk:
    """The disk on which a container engine stores.

    Attributes:
        place: where it is, in words.
        look: measures it, for which a container may be started; None where it cannot be told.
        glance: the same where that takes no time; None elsewhere.
    """

    place: str = "an engine that does not say"
    look: Callable[[], Room | None] = _unknown
    glance: Callable[[], Room | None] = _unknown

    def require(self, least: int, what: str) -> None:
        """Make sure that the disk is not full while something is at work that would suffer from it.

        Raises:
            NoRoomError: less than `least` bytes are free.
        """
        room = self.glance()
        if room is not None and room.free < least:
            raise NoRoomError(
                f"{what}: the engine's disk is full: {gib(room.free)} of {gib(room.total)} free in {self.place}, and "
                f"at least {gib(least)} are needed for anything to work. Make room (`researchenv reap`, "
                "--researchenv-keep, `docker system df`), or move the engine's store to a larger disk"
            )

    def in_words(self) -> str:
        """How much there is, for a message."""
        room = self.glance()
        return f"{gib(room.free)} of {gib(room.total)} free in {self.place}" if room else f"free: unknown, {self.place}"


#: Nothing is known of it, so that nothing is waited for.
UNKNOWN = EngineDisk()
