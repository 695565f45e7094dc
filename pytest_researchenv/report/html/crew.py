"""Work of many small parts, done on several processors while something else is done."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from typing import TypeVar


__all__ = ["meanwhile"]

_T = TypeVar("_T")

#: Fewer are done at once: processes cost more.
_FEW = 100

#: How many are given to a process at a time.
_SHARE = 16

#: All of a crew are forked at once, whatever there is for them to do.
_MOST = 16

#: What a process of the crew has to do: it has it from the one that it was forked from, so that nothing is sent.
_work: Sequence[Callable[[], object]] = ()


@contextmanager
def meanwhile(work: Sequence[Callable[[], _T]]) -> Iterator[list[_T]]:
    """Do the parts in other processes while the block runs; yields a list that has what they returned after it.

    They are done in this one, after the block, where they are few, or where it has further threads, of which a fork
    would leave half. Where another process is killed, as for want of memory, all are done here, some once more.

    Raises:
        Exception: the first that a part raised.
    """
    returned: list[_T] = []
    if len(work) < _FEW or threading.active_count() > 1:
        yield returned
        returned.extend(part() for part in work)
        return
    fork, size = multiprocessing.get_context("fork"), min(_processors(), len(work) // _SHARE, _MOST)
    done: Iterator[object] | None = None
    found: list[_T] | None = None
    with ProcessPoolExecutor(size, mp_context=fork, initializer=_join, initargs=(work,)) as crew:
        with suppress(BrokenProcessPool):
            done = crew.map(_do, range(len(work)), chunksize=_SHARE)
        yield returned
        with suppress(BrokenProcessPool):
            found = list(done) if done else None  # type: ignore[arg-type] # of this work
    # Once all the others have ended: one that is ended while it writes a file would leave half of it.
    returned.extend([part() for part in work] if found is None else found)


def _processors() -> int:
    """How many this process may use, as far as the system says that."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _join(work: Sequence[Callable[[], object]]) -> None:
    global _work  # noqa: PLW0603 - of a process that does nothing else
    _work = work


def _do(number: int) -> object:
    return _work[number]()
