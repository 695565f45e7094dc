"""This user's cache folder, and locks between the processes that fill it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import filelock

from pytest_researchenv.errors import ImageError


__all__ = ["PATIENCE_S", "cache_folder", "locked"]

#: How long another process may take to make what both want, in seconds.
PATIENCE_S = 1800


def cache_folder() -> Path:
    """This user's cache folder; made when missing."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "researchenv"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def locked(name: str, folder: Path | None, say: Callable[[str], object]) -> Iterator[None]:
    """Hold a lock between processes of this user; the kernel frees it when its holder dies.

    Args:
        name: what is made under it.
        folder: where the lock lies; None: the cache folder.
        say: told when another process holds it.

    Raises:
        ImageError: the folder cannot be written, or the other process does not come to an end.
    """
    try:
        folder = folder or cache_folder()
        folder.mkdir(parents=True, exist_ok=True)
        lock = filelock.FileLock(folder / f"{name}.lock")
        try:
            lock.acquire(blocking=False)
        except filelock.Timeout:
            say(f"waiting for another process that makes {name}")
            lock.acquire(timeout=PATIENCE_S)
    except (OSError, filelock.Timeout) as error:
        raise ImageError(f"{name} cannot be locked in {folder}: {error}") from error
    try:
        yield
    finally:
        lock.release()
