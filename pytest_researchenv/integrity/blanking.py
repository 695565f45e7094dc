"""Where something can stand in the place of start-up code."""

from __future__ import annotations

import posixpath

from pytest_researchenv.integrity.protocol import Snapshot


__all__ = ["place_of"]


def place_of(snapshot: Snapshot, path: str) -> str:
    """Where a path leads, its end apart: links on the way are followed, since the engine would replace them.

    Returns:
        An absolute path; empty where its name is one that no record can hold.
    """
    real = posixpath.join(snapshot.resolved(posixpath.dirname(path)), posixpath.basename(path))
    return "" if any("\ud800" <= letter <= "\udfff" for letter in real) else real
