"""Bytecode, as Python finds it beside sources."""

from __future__ import annotations

import posixpath

from pytest_researchenv.integrity.protocol import Entry


__all__ = ["is_cached", "is_unchecked"]

#: Flags in a header's second word (PEP 552): valid by its source's hash, and by a hash that is looked at.
_HASHED, _CHECKED = 1, 2


def is_cached(path: str) -> bool:
    """Whether a path is that of bytecode beside its source."""
    return posixpath.basename(posixpath.dirname(path)) == "__pycache__"


def is_unchecked(entry: Entry) -> bool:
    """Whether Python takes it without a look at its source."""
    if entry.head[2:4] != b"\r\n":
        return False
    flags = int.from_bytes(entry.head[4:8], "little")
    return bool(flags & _HASHED) and not flags & _CHECKED
