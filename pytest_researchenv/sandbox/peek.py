"""Single paths of a container's files, seen from outside: what is there, and where links lead."""

from __future__ import annotations

import os
import posixpath
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Protocol

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox.protocol import Container


__all__ = ["Place", "followed", "opened", "readable"]

#: Links followed for one path, as Linux has it.
_MOST_LINKS = 40
#: Bytes of the longest path that Linux takes.
_LONGEST_PATH = 4096


class Place(Protocol):
    """What is at a path, as far as the way on is concerned."""

    @property
    def link(self) -> str:
        """Target, when it is a symbolic link; else empty."""

    @property
    def is_folder(self) -> bool:
        """Whether it is a folder, and no link to one."""


def readable(path: str) -> bool:
    """Whether there can be anything at a path at all; half of a surrogate pair, for one, stands for no bytes."""
    try:
        raw = os.fsencode(path)
    except UnicodeEncodeError:
        return False
    return raw.startswith(b"/") and b"\0" not in raw and len(raw) <= _LONGEST_PATH


def followed(path: str, look: Callable[[str], Place | None]) -> str:
    """Where a path leads when every link in it is followed, as the kernel does it; empty where to nothing.

    Args:
        path: an absolute path.
        look: tells what is at a path without following its last component; None when nothing is.
    """
    pending = path.split("/")[::-1]
    here, folder, links = "/", True, 0
    while pending:
        part = pending.pop()
        if not folder:
            return ""
        if part in ("", "."):
            continue
        if part == "..":
            here = posixpath.dirname(here)
            continue
        there = posixpath.join(here, part)
        place = look(there)
        if place is None:
            return ""
        if not place.link:
            here, folder = there, place.is_folder
            continue
        links += 1
        if links > _MOST_LINKS:
            return ""
        here = "/" if place.link.startswith("/") else here
        pending += place.link.split("/")[::-1]
    return here


@contextmanager
def opened(container: Container, path: str) -> Iterator[tuple[tarfile.TarInfo, IO[bytes] | None] | None]:
    """What is at a path, its last component not followed, with its content when it is a regular file.

    Raises:
        SandboxError: the engine refuses, or what it sends is damaged.
    """
    with container.get(path) as stream:
        if stream is None:
            yield None
            return
        try:
            # Of a folder only the first entry is read: the folder itself.
            with tarfile.open(fileobj=stream, mode="r|") as tar:
                member = tar.next()
                if member is None:
                    yield None
                    return
                yield member, tar.extractfile(member) if member.isreg() else None
        except tarfile.TarError as error:
            raise SandboxError(f"cannot read {path}: the engine's archive is broken: {error}") from error
