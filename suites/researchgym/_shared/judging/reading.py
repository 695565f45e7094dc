"""Reads a file that somebody else laid where it is."""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import os
import stat
from pathlib import Path


__all__ = ["plain_bytes"]


def plain_bytes(path: Path, most: int) -> bytes | None:
    """Read a plain file of at most so many bytes; None for all else, which is not followed, waited for, or read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        parts = []
        while most >= 0 and (part := os.read(descriptor, min(most + 1, 1 << 20))):
            parts.append(part)
            most -= len(part)
        return b"".join(parts) if most >= 0 else None
    except OSError:
        return None
    finally:
        os.close(descriptor)
