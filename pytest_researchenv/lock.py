"""The dataset lock: digests of every file that decides a suite's verdicts.

A suite's `lock.json` says which descriptions, probes and recipes a release was made of. Every result records the digest
of the suite it was judged by, so that results of different suites are never taken for comparable.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Repository
from pytest_researchenv.suite import SUITE_FILE


__all__ = ["LOCK", "dataset_digest", "dataset_of", "lock_problems", "write_lock"]

#: Name of the lock in a suite's folder.
LOCK = "lock.json"

_BYTECODE = "__pycache__"


def dataset_digest(folder: Path) -> str:
    """Return the digest of a suite: SHA-256 over the names and digests of its files, in hexadecimal."""
    return _whole(_digests(folder))


def dataset_of(repository: Repository) -> str:
    """Return the digest of the suite that a repository is of; empty where its folder is in none."""
    folder = Path(repository.folder).parent
    return dataset_digest(folder) if (folder / SUITE_FILE).is_file() else ""


def write_lock(folder: Path) -> str:
    """Write a suite's lock, and return its digest.

    Raises:
        ConfigurationError: the folder cannot be written.
    """
    files = _digests(folder)
    text = json.dumps({"digest": _whole(files), "files": files}, indent=1) + "\n"
    try:
        (folder / LOCK).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigurationError(f"the lock of {folder} cannot be written: {error}") from error
    return _whole(files)


def lock_problems(folder: Path) -> list[str]:
    """Say how a suite differs from its lock, one sentence a file; an empty list when it does not.

    Raises:
        ConfigurationError: there is no lock that could be read.
    """
    path = folder / LOCK
    try:
        locked = dict(json.loads(path.read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigurationError(
            f"{path} is no lock that can be read ({error!r}): make one with `researchenv lock {folder}`"
        ) from error
    found = _digests(folder)
    names = {name for name, _ in locked.items() ^ found.items()}
    return [f"{name} {_change(name, locked, found)}" for name in sorted(names)]


def _change(name: str, locked: dict[str, str], found: dict[str, str]) -> str:
    if name not in found:
        return "is locked, and gone"
    return "has changed since the suite was locked" if name in locked else "is not locked"


def _whole(files: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()


def _digests(folder: Path) -> dict[str, str]:
    """Relative path → SHA-256 of each file, sorted."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(_files(folder))
    }


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        parts = path.relative_to(folder).parts
        hidden = any(part.startswith(".") or part == _BYTECODE for part in parts)
        if path.is_file() and not hidden and path != folder / LOCK:
            yield path
