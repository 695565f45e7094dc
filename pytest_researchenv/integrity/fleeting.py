"""Ways that lead somewhere only while a process runs."""

from __future__ import annotations

from pytest_researchenv.integrity.protocol import Entry, Snapshot
from pytest_researchenv.sandbox.peek import followed, readable


__all__ = ["is_fleeting"]

#: What the kernel fills: there is nothing in them in an image, and `/proc/self/root` is all of it in a process.
_KERNELS = ("/dev/", "/proc/", "/sys/")


def is_fleeting(snapshot: Snapshot, path: str) -> bool:
    """Whether the way to a path goes through one of the kernel's file systems, so that only a process finds its end.

    Raises:
        SandboxError: the engine refuses to read.
    """
    asked = []

    def look(place: str) -> Entry | None:
        asked.append(place)
        return snapshot.link(place)

    return readable(path) and not followed(path, look) and f"{asked[-1]}/".startswith(_KERNELS)
