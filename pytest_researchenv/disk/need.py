"""How much room a build needs, as told by what earlier attempts left."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


__all__ = ["UNKNOWN_BYTES", "Need", "predicted"]

#: While an environment is frozen, what it added lies on the disk twice: in its container, and in its image.
_COPIES = 2

#: What an environment is taken to add that nobody has built yet: a CUDA build of torch and what it brings along.
UNKNOWN_BYTES = _COPIES * 5 * 1024**3


@dataclass(frozen=True, slots=True)
class Need:
    """What a build is expected to write.

    Attributes:
        bytes: at its peak.
        like: the attempt that it was told by; empty where nobody has built anything like it.
    """

    bytes: int
    like: str = ""

    @property
    def known(self) -> bool:
        """Whether it is more than a guess."""
        return bool(self.like)


def predicted(results: Path, agent: str, repository: str) -> Need:
    """Say what an agent's build of a repository will need.

    The most that one of its own attempts has added to the base image, in any run of the results folder, counts; where
    it has none, that of any agent's.

    Args:
        results: the results folder.
        agent: who builds.
        repository: `Repository.key`.
    """
    found = list(_added(results, repository))
    own = [(size, name) for size, name, who in found if who == agent]
    sizes = own or [(size, name) for size, name, _ in found]
    if not sizes:
        return Need(UNKNOWN_BYTES)
    size, name = max(sizes)
    return Need(_COPIES * size, name)


def _added(results: Path, repository: str) -> Iterator[tuple[int, str, str]]:
    """Bytes, attempt and agent of every environment of a repository; what cannot be read says nothing."""
    for record in results.glob(f"*/*/{repository}/attempt-*/environment.json"):
        folder = record.parent.relative_to(results)
        try:
            size = json.loads(record.read_bytes())["telemetry"]["added_image_bytes"]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(size, int | float) and math.isfinite(size) and size >= 0:
            yield int(size), folder.as_posix(), folder.parts[1]
