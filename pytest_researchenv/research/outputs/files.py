"""Files that an agent left, read within limits: it may have made them as large, deep or broken as it liked."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from pytest_researchenv.errors import ResearchEnvError
from pytest_researchenv.research.strictjson import distinct


__all__ = ["MAX_BYTES", "MAX_FILES", "UnreadableError", "files_below", "read_bytes", "read_json"]

#: Largest file that is read. A published training log has some hundred kilobytes.
MAX_BYTES = 16 * 1024 * 1024

#: How many files below a folder are looked at.
MAX_FILES = 20_000

_MAX_DEPTH = 24


class UnreadableError(ResearchEnvError, ValueError):
    """A file cannot be read; the message says why, without the file's name."""


def files_below(root: Path, name: str) -> Iterator[tuple[Path, str]]:
    """Files below a folder whose name ends so, in order: each with its path from there.

    Links to folders are not followed; those to files, and what else is no regular file, is told when it is read.

    Raises:
        UnreadableError: the folder holds more than can be looked at, or cannot be listed.
    """
    seen = 0
    for folder, folders, names in os.walk(root, onerror=_raise):
        folders.sort()
        if len(Path(folder).relative_to(root).parts) >= _MAX_DEPTH:
            raise UnreadableError(f"the folder is nested deeper than {_MAX_DEPTH} levels")
        for one in sorted(names):
            seen += 1
            if seen > MAX_FILES:
                raise UnreadableError(f"the folder holds more than {MAX_FILES} files; hand in only results")
            path = Path(folder, one)
            if one.endswith(name):
                yield path, path.relative_to(root).as_posix()


def _raise(error: OSError) -> None:
    raise UnreadableError(f"the folder cannot be listed: {error.strerror}") from error


def read_bytes(path: Path, most: int = MAX_BYTES) -> bytes:
    """Read a regular file.

    Raises:
        UnreadableError: it is none, or larger than what is read.
    """
    try:
        # A FIFO would wait for its other end, and a link leads elsewhere.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:  # noqa: PTH123 - of a descriptor
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise UnreadableError("is no regular file")
            data = file.read(most + 1)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnreadableError("is a link; hand in the file itself") from error
        raise UnreadableError(f"cannot be opened: {error.strerror}") from error
    if len(data) > most:
        raise UnreadableError(f"has more than {most} bytes; nothing of it was read")
    return data


def read_json(data: bytes) -> object:
    """Read one JSON document.

    Raises:
        UnreadableError: it is none, has a key twice, or is nested too deep.
    """
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=distinct)
    except UnicodeDecodeError as error:
        raise UnreadableError(f"is not UTF-8: byte {data[error.start]:#04x} at offset {error.start}") from error
    except RecursionError as error:
        raise UnreadableError("is nested too deep") from error
    # Numbers of thousands of digits are a ValueError.
    except ValueError as error:
        raise UnreadableError(f"is not JSON: {error}") from error
