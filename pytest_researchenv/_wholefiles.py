"""Files of a results folder: written whole or not at all, read with errors that name them, locked for all its users."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from filelock import FileLock
from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._records import what_is_wrong
from pytest_researchenv.errors import StoreError


__all__ = ["load_record", "lock_file", "locked", "read_whole", "require_record", "write_whole"]

_T = TypeVar("_T")


def write_whole(path: Path, content: bytes) -> None:
    """Write a file whole or not at all.

    Raises:
        StoreError: it cannot be written.
    """
    # Not by tempfile, whose files only their owner can read: several users may share the results.
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        # A full disk must not fill up with what did not fit.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise StoreError(f"cannot write {path}: {error}") from error


def read_whole(path: Path) -> bytes:
    """Read a file.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        return path.read_bytes()
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error}") from error


def load_record(path: Path, adapter: TypeAdapter[_T]) -> _T | None:
    """Read a record; None where there is none.

    Raises:
        StoreError: it cannot be read, or is damaged.
    """
    return require_record(path, adapter) if path.exists() else None


def require_record(path: Path, adapter: TypeAdapter[_T]) -> _T:
    """Read a record that is there.

    Raises:
        StoreError: it cannot be read, or is damaged.
    """
    try:
        return adapter.validate_json(read_whole(path))
    except ValidationError as error:
        raise StoreError(
            f"{path} {what_is_wrong(error)}; restore the file, or use another --researchenv-run"
        ) from error


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keep others from changing a file of the store that all share.

    Raises:
        StoreError: the folder cannot be written.
    """
    with lock_file(path.with_name(f"{path.name}.lock")):
        yield


@contextmanager
def lock_file(path: Path) -> Iterator[None]:
    """Hold a lock file; its folder is made.

    Raises:
        StoreError: the folder cannot be written.
    """
    # Only taking the lock may be reported as the store's trouble, not what is done under it.
    lock = FileLock(path, mode=0o666)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise StoreError(f"cannot lock {path}: {error}; choose another folder with --researchenv-results") from error
    try:
        yield
    finally:
        lock.release()
