"""Pickles that Python loads by itself: lib2to3 keeps tables of grammars so, beside its sources."""

from __future__ import annotations

import pickletools
import struct


__all__ = ["runs_code"]

#: What pickles of plain tables have no use for: names of modules, calls, and what is registered.
_CALLING = frozenset(
    {"GLOBAL", "STACK_GLOBAL", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX", "REDUCE", "BUILD", "EXT1", "EXT2", "EXT4"}
)


def runs_code(content: bytes) -> bool:
    """Whether to load a pickle imports or calls something, before it ends or breaks off."""
    try:
        return any(code.name in _CALLING for code, _, _ in pickletools.genops(content))
    except (OverflowError, ValueError, struct.error):
        return False
