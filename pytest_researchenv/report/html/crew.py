"""Work of many small parts, done on every processor while something else is done."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import TypeVar


__all__ = ["meanwhile"]

_T = TypeVar("_T")

#: Fewer are done at once: processes cost more.
_FEW = 100

#: How many are given to a process at a time.
_SHARE = 16

#: What a process of the crew has to do: it has it from the one that it was forked from, so that nothing is sent.
_work: Sequence[Callable[[], object]] = ()


@contextmanager
def meanwhile(work: Sequence[Callable[[], _T]]) -> Iterator[list[_T]]:
    """Do the parts in other processes while the block runs; yields a list that has what they returned after it.

    They are done in this one, after the block, where they are few, or where it has further threads, of which a fork
    would leave half.

    Raises:
        Exception: the first that a part raised.
    """
    returned: list[_T] = []
    if len(work) < _FEW or threading.active_count() > 1:
        yield returned
        returned.extend(part() for part in work)
        return
    fork, processors = multiprocessing.get_context("fork"), len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(processors, mp_context=fork, initializer=_join, initargs=(work,)) as crew:
        done = crew.map(_do, range(len(work)), chunksize=_SHARE)
        yield returned
        returned.extend(done)  # type: ignore[arg-type] # of this work


def _join(work: Sequence[Callable[[], object]]) -> None:
    global _work  # noqa: PLW0603 - of a process that does nothing else
    _work = work


def _do(number: int) -> object:
    return _work[number]()
