"""Processes of tests: forked, so that they begin at once, and ended whatever happens."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.process import BaseProcess
from pathlib import Path

from pytest_researchenv.leases.desk import Desk, Wanted


__all__ = ["OTHER", "TWO", "ended_as", "eventually", "holding", "kill", "removed", "running", "wanted"]

_FORK = multiprocessing.get_context("fork")

#: An account that owns nothing. Not nobody's, which stands for all that a user namespace does not know.
OTHER = 54321

TWO = ("GPU-a", "GPU-b")


def wanted(devices: int = 1, purpose: str = "a test", *, among: tuple[str, ...] = TWO) -> Wanted:
    """Some of two devices."""
    return Wanted(purpose, devices, among)


@contextmanager
def running(work: Callable[[], object]) -> Iterator[BaseProcess]:
    """Do something in a process of its own during the block."""
    process = _FORK.Process(target=work)
    process.start()
    try:
        yield process
    finally:
        if process.is_alive():
            kill(process)
        process.join()


@contextmanager
def holding(folder: Path, devices: int = 1, purpose: str = "another's work") -> Iterator[BaseProcess]:
    """Hold devices in a process of its own."""

    def hold() -> None:
        with Desk(folder).lease(wanted(devices, purpose)):
            time.sleep(600)

    with running(hold) as process:
        eventually(lambda: any(f"/{process.pid}/" in one.process and one.served for one in Desk(folder).line().tickets))
        yield process


def ended_as(user: int, work: Callable[[], object]) -> int | None:
    """Do something as another account, and return the exit code: 0 unless it raised."""

    def do() -> None:
        os.setgid(user)
        os.setuid(user)
        work()

    with running(do) as process:
        process.join(60)
        return process.exitcode


def removed(folder: Path) -> None:
    """Remove a line, as who cleans folders for temporary files does."""
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def kill(process: BaseProcess) -> None:
    """End a process that can do nothing about it."""
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def eventually(there: Callable[[], bool], *, within_s: float = 30.0) -> None:
    """Wait for something, but not for ever."""
    deadline = time.monotonic() + within_s
    while not there():
        assert time.monotonic() < deadline, "it did not come to be"
        time.sleep(0.02)
