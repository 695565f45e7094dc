"""The dataset lock: digests of every file that decides a suite's verdicts.

A suite's `lock.json` says which descriptions, probes and recipes a release was made of. Every result records the digest
of the suite it was judged by, so that results of different suites are never taken for comparable.
"""

from __future__ import annotations

import hashlib
import json
import os
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
    """Return the digest of a suite: SHA-256 over the names and digests of its files, in hexadecimal.

    Raises:
        ConfigurationError: one of them cannot be read.
    """
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
        lock = json.loads(path.read_text(encoding="utf-8"))
        whole, locked = lock["digest"], {str(name): str(digest) for name, digest in lock["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigurationError(
            f"{path} is no lock that can be read ({error!r}): make one with `researchenv lock {folder}`"
        ) from error
    if whole != _whole(locked):
        raise ConfigurationError(f"the digest in {path} is not that of its files: `researchenv lock {folder}`")
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
    try:
        return {
            path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(_files(folder))
        }
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be digested: {error}; was it changed meanwhile?") from error


def _files(folder: Path) -> Iterator[Path]:
    """The files, those in linked folders, too, as suites are read: each folder once, since links can go in circles."""
    seen = {folder.resolve()}
    for parent, folders, names in os.walk(folder, followlinks=True):
        shown = [Path(parent, name) for name in sorted(folders) if name != _BYTECODE and not name.startswith(".")]
        # Those that are really there come first, or a link could take their place.
        shown.sort(key=Path.is_symlink)
        folders[:] = [path.name for path in shown if path.resolve() not in seen]
        seen.update(path.resolve() for path in shown)
        for name in names:
            path = Path(parent, name)
            if path.is_file() and not name.startswith(".") and path != folder / LOCK:
                yield path
