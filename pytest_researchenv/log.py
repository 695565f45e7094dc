"""Log files that a flood cannot grow without end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from pytest_researchenv.errors import StoreError
from pytest_researchenv.sandbox.capture import Capture


__all__ = ["HEAD_BYTES", "TAIL_BYTES", "capped_log"]

#: What is written as it comes.
HEAD_BYTES = 32 * 1024 * 1024

#: What is kept of the end of a longer log, in memory until it is closed.
TAIL_BYTES = 2 * 1024 * 1024


@contextmanager
def capped_log(
    path: Path, *, head_bytes: int = HEAD_BYTES, tail_bytes: int = TAIL_BYTES
) -> Iterator[Callable[[bytes], None]]:
    """Open a new log; yields a function that appends to it.

    The head is on disk as soon as it is known; of what follows only the tail is kept, behind a line that says how much
    was left out.

    Raises:
        StoreError: the log exists already, or cannot be written.
    """
    room = head_bytes
    rest = Capture(tail_bytes)

    def append(chunk: bytes) -> None:
        nonlocal room
        _write(file, path, chunk[:room])
        if len(chunk) > room:
            rest.feed(chunk[room:])
        room = max(0, room - len(chunk))

    try:
        file = path.open("xb", buffering=0)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}") from error
    with file:
        try:
            yield append
        finally:
            kept = rest.result()
            _write(file, path, kept.head)
            if kept.omitted:
                _write(file, path, f"\n[... {kept.omitted} bytes left out ...]\n".encode())
            _write(file, path, kept.tail)


def _write(file: IO[bytes], path: Path, content: bytes) -> None:
    try:
        # A raw file may take less than it was given.
        while content:
            content = content[file.write(content) :]
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}; make room, or choose --researchenv-results") from error
