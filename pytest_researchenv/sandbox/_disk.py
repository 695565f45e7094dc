"""Holds a container to its disk limit where the engine itself has no quotas.

Docker gives a container a quota on xfs mounted with `pquota` only, and most hosts have ext4. So what it has written is
measured from outside, and it is killed when that is too much. The engine measures by walking the container's files,
which is slow for many of them: the nearer the limit, the oftener it is asked.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from docker.errors import DockerException
from requests.exceptions import RequestException

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox._stat import look


if TYPE_CHECKING:
    from docker.api import APIClient


__all__ = ["DiskWatch", "pause_s", "written"]

#: Bounds of the pause between two looks, in seconds.
_SHORTEST_S = 5.0
_LONGEST_S = 60.0

#: What a process is assumed to write at most: a fast local disk.
_BYTES_PER_S = 1024**3

#: Looking takes at most one part in so many of the time, unless the pause would become too long for that.
_SHARE = 20
_LONGEST_FOR_SHARE_S = 120.0

#: So many looks in a row must fail to measure before that counts as too much: files nested too deep for the engine to
#: walk must not hide what is written.
_BLIND = 3

#: Files of the engine's own that it mounts into every container, writable: they lie on its host's disk, and in no size
#: that it tells (tried: 150 MB in them, and a size of 0).
_ENGINES_OWN = ("/etc/hosts", "/etc/hostname", "/etc/resolv.conf")

#: None of them is larger as the engine makes it.
_USUAL_BYTES = 64 * 1024

#: How long a look that is under way may hold up the end, in seconds.
_JOIN_S = 5.0


class DiskWatch:
    """Looks at a container while a block runs, and kills it when it has written more than it may.

    Args:
        measure: asks the engine how many bytes the container has written; negative when it cannot tell.
        kill: ends every process in the container.
        limit: bytes that it may write.
    """

    def __init__(self, measure: Callable[[], int], kill: Callable[[], object], limit: int) -> None:
        self._measure = measure
        self._kill = kill
        self._limit = limit
        self._full = False
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._watch, name="researchenv-disk", daemon=True)

    @property
    def full(self) -> bool:
        """Whether the container was killed for what it wrote."""
        return self._full

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Under the lock: a look that ends late must not kill what runs in the container next.
        with self._lock:
            self._closed.set()
        self._thread.join(_JOIN_S)

    def _watch(self) -> None:
        pause = pause_s(self._limit, 0.0)
        blind = 0
        while not self._closed.wait(pause):
            started = time.monotonic()
            try:
                size = self._measure()
            except (DockerException, RequestException):
                continue  # Whoever waits for the container hears of it; the next look may succeed.
            blind = blind + 1 if size < 0 else 0
            if size >= self._limit or blind >= _BLIND:
                self._end()
            pause = pause_s(self._limit - size, time.monotonic() - started)

    def _end(self) -> None:
        with self._lock, contextlib.suppress(DockerException, RequestException, SandboxError):
            if not self._closed.is_set():
                self._full = True
                self._kill()
                self._closed.set()


def written(api: APIClient, container: str) -> int:
    """Bytes of the files that a container has beyond its image; negative when the engine cannot tell.

    A sparse file counts in full: so it does when the container is frozen.
    """
    found = api.containers(all=True, size=True, filters={"id": container})
    size = int(found[0].get("SizeRw", 0)) if found else 0
    return size if size < 0 else size + sum(_beyond(look(api, container, path).size) for path in _ENGINES_OWN)


def _beyond(size: int) -> int:
    return size if size > _USUAL_BYTES else 0


def pause_s(room: int, cost_s: float) -> float:
    """How long to wait before the next look, in seconds.

    Args:
        room: bytes that may still be written.
        cost_s: how long the last look took.
    """
    return max(min(room / _BYTES_PER_S, _LONGEST_S), _SHORTEST_S, min(_SHARE * cost_s, _LONGEST_FOR_SHARE_S))
