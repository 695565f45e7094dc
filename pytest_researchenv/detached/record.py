"""What is on disk of a run that goes on by itself: who looks after it, since when, and what it was told.

attempt-001/
    keeper.json          the process that looks after the attempt
    work.json            when its agent began, and its limits
    .keeper.log          what that process has to say when something goes wrong
    .activity.jsonl      what it is doing; the file's time is its sign of life
    .stop                somebody wants the work to end
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import TypeAdapter

from pytest_researchenv._sources import STRICT
from pytest_researchenv._wholefiles import load_record
from pytest_researchenv.sandbox.labels import Owner, alive
from pytest_researchenv.store import Attempt, write_whole


__all__ = [
    "ACTIVITY",
    "LOG",
    "Keeper",
    "Work",
    "going_on",
    "keeper_of",
    "last_sign",
    "request_stop",
    "save_keeper",
    "save_work",
    "stop_requested",
    "work_of",
]

ACTIVITY = ".activity.jsonl"
LOG = ".keeper.log"

_KEEPER = "keeper.json"
_WORK = "work.json"
_STOP = ".stop"

#: A process of another machine that has given no sign of life for so long, in seconds, is taken for dead.
_SILENT_S = 600.0


@dataclass(frozen=True, slots=True)
class Keeper:
    """The process that looks after an attempt.

    Attributes:
        host: digest of its machine's identity.
        process: boot, process-id namespace, process id and start time: no other process has ever the same.
        pid: its id, for people.
        created: seconds since 1970, UTC.
        schema: version of this record's schema.
    """

    __pydantic_config__: ClassVar = STRICT

    host: str
    process: str
    pid: int
    created: float
    schema: Literal[1] = 1


@dataclass(frozen=True, slots=True)
class Work:
    """An agent has begun to work.

    Attributes:
        began: seconds since 1970, UTC.
        limit_s: its wall time limit, in seconds.
        limit_usd: what it may spend, in US dollars; None for no limit, or no model.
        image: id of the frozen image that it began from; empty where it began from the base image.
        schema: version of this record's schema.
    """

    __pydantic_config__: ClassVar = STRICT

    began: float
    limit_s: float
    limit_usd: float | None = None
    image: str = ""
    schema: Literal[1] = 1


_KEEPERS = TypeAdapter(Keeper)
_WORKS = TypeAdapter(Work)


def save_keeper(attempt: Attempt, pid: int) -> Keeper:
    """Record who looks after an attempt: a child of this process."""
    owner = Owner.of("", pid)
    keeper = Keeper(owner.host, owner.process, pid, time.time())
    write_whole(attempt.folder / _KEEPER, _KEEPERS.dump_json(keeper))
    return keeper


def keeper_of(folder: Path) -> Keeper | None:
    """Return who looks after an attempt, or did; None where nobody does but the session itself.

    Raises:
        StoreError: the record cannot be read.
    """
    return load_record(folder / _KEEPER, _KEEPERS)


def save_work(attempt: Attempt, limit_s: float, limit_usd: float | None, image: str) -> Work:
    """Record that the agent begins now."""
    work = Work(time.time(), limit_s, limit_usd, image)
    write_whole(attempt.folder / _WORK, _WORKS.dump_json(work))
    return work


def work_of(folder: Path) -> Work | None:
    """Return when an attempt's agent began, and its limits; None where it has not begun.

    Raises:
        StoreError: the record cannot be read.
    """
    return load_record(folder / _WORK, _WORKS)


def going_on(attempt: Attempt) -> bool:
    """Whether a process of its own is at work for an attempt.

    Whether one of another machine, or of another container of this one, lives is told by its signs of life.
    """
    keeper = keeper_of(attempt.folder)
    if keeper is None:
        return False
    living = alive(keeper.process) if keeper.host == Owner.current("").host else None
    if living is None:
        return time.time() - last_sign(attempt.folder) < _SILENT_S
    return living


def last_sign(folder: Path) -> float:
    """Return when an attempt's process gave a sign of life last, in seconds since 1970; 0 where it never did."""
    try:
        return (folder / ACTIVITY).stat().st_mtime
    except OSError:
        keeper = keeper_of(folder)
        return keeper.created if keeper else 0.0


def request_stop(attempt: Attempt) -> None:
    """Ask for the end of an attempt's work: it is ended within seconds, and what is there is frozen."""
    write_whole(attempt.folder / _STOP, b"")


def stop_requested(attempt: Attempt) -> bool:
    """Whether somebody has asked for the end of an attempt's work."""
    return (attempt.folder / _STOP).exists()
