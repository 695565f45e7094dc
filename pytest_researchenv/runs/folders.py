"""Where the attempts of a run lie, and how their results are named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_researchenv._place import no_run
from pytest_researchenv.model import EnvironmentKey, Examination, Tier


__all__ = ["ATTEMPT", "RESEARCH", "RESULT", "AttemptFolder", "attempt_folders"]

#: How a file of a result is named: what was judged, the number of the time, JSON or log, packed or not.
RESULT = re.compile(rf"({'|'.join((*Tier, *Examination))})-(\d{{3,}})\.(json|log|log\.gz)")

#: Likewise of a sub-task of a research task.
RESEARCH = re.compile(r"research-([a-z0-9_]+)-(\d{3,})\.(json|log|log\.gz)")

#: How an attempt's folder is named.
ATTEMPT = re.compile(r"attempt-(\d{3,})")


class AttemptFolder(NamedTuple):
    """An attempt, by where it lies."""

    key: EnvironmentKey
    path: Path


def attempt_folders(run: Path, *, unreadable: Callable[[Path, OSError], object]) -> Iterator[AttemptFolder]:
    """Yield the attempts of a run by agent, repository and number.

    Args:
        run: the run's folder, which may be empty.
        unreadable: told which folders cannot be listed; where it returns, they are passed over.

    Raises:
        ConfigurationError: it is not there.
    """
    if not run.is_dir():
        raise no_run(run)
    for agent in _folders(run, unreadable):
        for parent, numbers in _attempts(agent, unreadable):
            repository = parent.relative_to(agent).as_posix()
            for number, path in sorted(numbers):
                yield AttemptFolder(EnvironmentKey(run.name, agent.name, repository, number), path)


def _attempts(
    agent: Path, unreadable: Callable[[Path, OSError], object]
) -> Iterator[tuple[Path, list[tuple[int, Path]]]]:
    """Folders of repositories, each with its attempts."""
    waiting = [agent]
    while waiting:
        parent = waiting.pop()
        folders = _folders(parent, unreadable)
        found = [(int(name[1]), path) for path in folders if (name := ATTEMPT.fullmatch(path.name))]
        if found:
            yield parent, found
        # What lies in an attempt is no repository.
        waiting += reversed([path for path in folders if not ATTEMPT.fullmatch(path.name)])


def _folders(parent: Path, unreadable: Callable[[Path, OSError], object]) -> list[Path]:
    """Folders that are not hidden, by name; links are none."""
    try:
        with os.scandir(parent) as entries:
            names = [entry.name for entry in entries if entry.name[0] != "." and entry.is_dir(follow_symlinks=False)]
    except OSError as error:
        unreadable(parent, error)
        return []
    return [parent / name for name in sorted(names)]
