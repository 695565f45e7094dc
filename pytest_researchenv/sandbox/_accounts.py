"""Keeps an agent from hanging the engine.

Before every start and every exec the engine opens `/etc/passwd` and `/etc/group` in the container's file system, as
root of its host and without a deadline. A FIFO in their place holds it up for ever, together with the container's
lock: even inspecting and removing the container hang from then on (tried with Docker 20.10, whose code here is that of
later versions).
"""

from __future__ import annotations

import io
import posixpath
import tarfile
from typing import TYPE_CHECKING

from pytest_researchenv.sandbox._stat import look


if TYPE_CHECKING:
    from docker.api import APIClient


__all__ = ["disarm"]

_FILES = {"/etc/passwd": b"root:x:0:0:root:/root:/bin/sh\n", "/etc/group": b"root:x:0:\n"}

#: Bits of Go's `FileMode`, in which the engine reports what a path is.
_LINK = 1 << 27
_FIFO_SOCKET_OR_DEVICE = 1 << 25 | 1 << 24 | 1 << 26 | 1 << 21


def disarm(api: APIClient, container: str) -> None:
    """Put a plain file where the engine would open something that is none.

    A process that goes on exchanging the files can still win the race; what it then holds up is its own container.
    """
    for path, content in _FILES.items():
        if _special(api, container, path):
            api.put_archive(container, posixpath.dirname(path), _archive(posixpath.basename(path), content))


def _special(api: APIClient, container: str, path: str) -> bool:
    """Whether a path leads to a FIFO, a socket or a device."""
    found = look(api, container, path)
    if found.mode & _LINK:
        found = look(api, container, found.link)
    return bool(found.mode & _FIFO_SOCKET_OR_DEVICE)


def _archive(name: str, content: bytes) -> io.BytesIO:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = len(content)
        archive.addfile(member, io.BytesIO(content))
    buffer.seek(0)
    return buffer
