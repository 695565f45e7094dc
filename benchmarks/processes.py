"""What processes take, as Linux tells it under /proc."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


_MIB = 1024**2


def family(pid: int) -> Iterator[int]:
    """Yield a process and all that it started, as far as they are still there."""
    yield pid
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield from family(int(child))


def resident_mib(pid: int) -> float:
    """Memory of one process, with what it shares with others."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / _MIB


def together_mib(pids: Iterator[int]) -> float:
    """Memory of processes, each page of it once: their proportional set sizes."""
    total = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total / 1024
