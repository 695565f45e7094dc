"""Where something can stand in the place of what would be run."""

from __future__ import annotations

import posixpath

from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable


__all__ = ["place_of", "without_place"]


def place_of(snapshot: Snapshot, path: str) -> str:
    """Where a path leads, its end apart: links on the way are followed, since the engine would replace them.

    Returns:
        An absolute path; empty where its name is one that no record can hold.
    """
    real = posixpath.join(snapshot.resolved(posixpath.dirname(path)), posixpath.basename(path))
    return "" if any("\ud800" <= letter <= "\udfff" for letter in real) else real


def without_place(path: str) -> Finding:
    """What is said of what is run, and `place_of` has no place for."""
    why = "a name that no record can hold, so that nothing can stand in the place of what is there"
    return Finding(Sign.UNREADABLE, printable(path), "what is run, and can be told", why)
