"""The record of what an agent's layer changed: one JSON array `[kind, path]` a line, packed, since there are many.

Where that could not be told, the last line is `["!", reason]`.
"""

from __future__ import annotations

import gzip
import itertools
import json
import os
import uuid
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pytest_researchenv.errors import StoreError, UnknownChangesError
from pytest_researchenv.redaction import RedactedStream
from pytest_researchenv.sandbox.protocol import Change, ChangeKind


__all__ = ["added_up", "read_changes", "write_changes"]

#: Most changes that are recorded; a file system of 100 GB has some 6 million files at most.
_MOST = 10_000_000

#: Bytes of a line at most: a path has 4096, each of which may be written out.
_LONGEST = 64 * 1024

_UNKNOWN = "!"
_AT_ONCE = 500


def added_up(earlier: Iterable[Change], later: Iterable[Change]) -> Iterator[Change]:
    """Yield what two layers changed together; of the later one's changes all are kept in memory.

    Args:
        earlier: of the lower layer.
        later: of the one above it.
    """
    above = {change.path: change for change in later}
    for below in earlier:
        change = above.pop(below.path, None)
        if change is None:
            yield below
        elif change.kind is not ChangeKind.REMOVED:
            yield below if below.kind is ChangeKind.ADDED else Change(ChangeKind.CHANGED, below.path)
        elif below.kind is not ChangeKind.ADDED:
            yield change
    yield from above.values()


def write_changes(path: Path, changes: Iterable[Change], redacting: RedactedStream, *, most: int = _MOST) -> None:
    """Write a record, whole or not at all.

    Args:
        path: of the record.
        changes: what is recorded; may raise `UnknownChangesError`, and what it raises else is passed on.
        redacting: takes secrets out of it. It knows them as they stand in JSON, and puts in nothing that breaks it.
        most: changes that are recorded.

    Raises:
        StoreError: it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with temporary.open("xb") as raw:
            with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, filename="", mtime=0) as file:
                for block in _blocks(changes, most):
                    file.write(redacting.feed(block))
                file.write(redacting.end())
            raw.flush()
            os.fsync(raw.fileno())
        temporary.replace(path)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}") from error
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def read_changes(path: Path) -> Iterator[Change]:
    """Read a record, one change after the other.

    Raises:
        UnknownChangesError: what was changed could not be told when the environment was frozen.
        StoreError: there is no record, or it is damaged.
    """
    try:
        yield from _stored(path)
    except UnknownChangesError:
        raise
    except (OSError, EOFError, ValueError, TypeError, zlib.error) as error:
        raise StoreError(
            f"{path} does not hold what an agent changed: {error}; restore the file, or build the environment again "
            "with --researchenv-rebuild"
        ) from error


def _stored(path: Path) -> Iterator[Change]:
    if not path.stat().st_size:
        raise EOFError("it is empty")
    with gzip.open(path, "rb") as file:
        # No line of ours is longer; one of an archive that somebody else made may never end.
        yield from map(_change, iter(lambda: file.readline(_LONGEST), b""))


def _blocks(changes: Iterable[Change], most: int) -> Iterator[bytes]:
    """Lines, many at once: to look for secrets in each alone takes a minute for a million."""
    lines = _lines(changes, most)
    while block := b"".join(itertools.islice(lines, _AT_ONCE)):
        yield block


def _lines(changes: Iterable[Change], most: int) -> Iterator[bytes]:
    known = iter(changes)
    try:
        yield from (_line(change.kind.value, change.path) for change in itertools.islice(known, most))
    except UnknownChangesError as error:
        yield _line(_UNKNOWN, str(error))
    if next(known, None) is not None:
        yield _line(_UNKNOWN, f"more than {most} paths differ from the base image")


def _line(kind: str, text: str) -> bytes:
    return json.dumps([kind, text]).encode() + b"\n"


def _change(line: bytes) -> Change:
    kind, text = json.loads(line)
    if not isinstance(text, str):
        raise TypeError(f"{text!r} is no path")
    if kind == _UNKNOWN:
        raise UnknownChangesError(text)
    return Change(ChangeKind(kind), text)
