"""Data of research tasks that the user has: where they are on this host, and what is missing.

    FOLDER/<task>/<data set>/...      a folder for each data set, or a file

In an agent's container each is `/data/<data set>`, read-only. Signs other than letters, digits, `.`, `_` and `-` in the
name of a data set are `_` in both.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from pytest_researchenv.datafolders import file_name, files_below
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.research.task import DataSet, Fetch, Task


__all__ = ["folders_of", "missing_data"]

_BLOCK = 1 << 20

#: What the user has to have: the rest lies in the tree, is made, or comes with a package.
_OWN = (Fetch.DOWNLOAD, Fetch.MANUAL)


def folders_of(task: Task, folder: Path | None) -> Mapping[str, Path]:
    """Return the data sets of a task that the user has: name → where they are.

    Args:
        task: the task.
        folder: the user's folder of data; None where there is none.

    Raises:
        ConfigurationError: no file there has the digest that the task gives.
    """
    found = {}
    for name, data in task.data.items():
        place = folder / task.name / file_name(name) if folder and data.fetch in _OWN else None
        if place is not None and place.exists():
            _check(task, name, data, place)
            found[name] = place
    return found


def missing_data(task: Task, subtask: str, folder: Path | None) -> str:
    """Say which data a sub-task lacks, what to fetch and where to put it; empty where nothing is missing.

    Args:
        task: the task.
        subtask: name of the sub-task.
        folder: the user's folder of data; None where there is none.

    Raises:
        ConfigurationError: what lies there is not what it should be.
    """
    have = folders_of(task, folder)
    lacking = [name for name in task.subtasks[subtask].data if task.data[name].fetch in _OWN and name not in have]
    if not lacking:
        return ""
    parts = [_fetch(task, name, task.data[name], folder) for name in lacking]
    option = "" if folder else "; then name FOLDER with --researchenv-data=FOLDER"
    return f"its data are missing: {'; '.join(parts)}{option}"


def _fetch(task: Task, name: str, data: DataSet, folder: Path | None) -> str:
    place = f"{folder or 'FOLDER'}/{task.name}/{file_name(name)}"
    size = f" ({data.size})" if data.size else ""
    how = "fetch" if data.fetch is Fetch.DOWNLOAD else "get by hand, under its terms,"
    return f"{how} {name}{size} from {data.source}, and put it into {place}"


def _check(task: Task, name: str, data: DataSet, place: Path) -> None:
    if not data.sha256:
        return
    if not any(_digest(str(file.path), file.size, file.changed) == data.sha256 for file in files_below(place)):
        raise ConfigurationError(
            f"{place} is not {name} of {task.key}: no file there has the SHA-256 {data.sha256}. Put the file that was "
            f"fetched from {data.source} there, as it came"
        )


@lru_cache(maxsize=256)
def _digest(path: str, size: int, changed: int) -> str:
    """Return the digest of a file, read once as long as it is the same."""
    del size, changed
    digest = hashlib.sha256()
    with Path(path).open("rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
