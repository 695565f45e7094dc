"""Logs as they lie on disk: plain while they are written, packed once they are complete.

A log that grows must be there for `tail -f` and after a kill, so it is plain. One that is complete is packed by gzip
beside it, in one step, and the plain one goes after that: at every moment at least one of them can be read. Names and
digests are those of the plain log throughout; how it lies concerns this module alone.
"""

from __future__ import annotations

import gzip
import io
import logging
import os
import shutil
import uuid
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

from pytest_researchenv.log import HEAD_BYTES, TAIL_BYTES


if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["PACKED", "DamagedLogError", "Ends", "log_place", "open_log", "pack_log", "plain_name", "read_ends"]

_log = logging.getLogger(__name__)

#: What follows the name of a log that is packed.
PACKED = ".gz"

#: Logs up to this size stay plain, in bytes: they take one block of a disk either way.
SMALL_BYTES = 4096

#: No log of ours unpacks to more, in bytes: see `log.capped_log`.
_MOST_BYTES = 2 * (HEAD_BYTES + TAIL_BYTES)

_BLOCK = 1024 * 1024


class DamagedLogError(OSError):
    """A packed log does not unpack to a log of ours."""


class Ends(NamedTuple):
    """Beginning and end of a log.

    Attributes:
        head: the beginning.
        tail: the end, without what is in the head.
        size: bytes of all of it.
    """

    head: bytes
    tail: bytes
    size: int

    @property
    def omitted(self) -> int:
        """How many bytes between the two are left out."""
        return self.size - len(self.head) - len(self.tail)


def plain_name(name: str) -> str:
    """Return the name of a log as it was written, where this is the file that it was packed into; else the name."""
    plain = name.removesuffix(PACKED)
    return plain if plain.endswith(".log") or plain == "requests.jsonl" else name


def log_place(path: Path) -> Path:
    """Return where a log lies now: its own path while it is plain, or where there is none at all."""
    packed = _packed(path)
    return packed if not path.exists() and packed.exists() else path


def open_log(path: Path) -> IO[bytes]:
    """Open a log, plain or packed, to be read.

    Reading raises `DamagedLogError`, an `OSError`, where a packed one is damaged.

    Raises:
        OSError: there is none, or it cannot be opened.
    """
    # The packed one is there before the plain one goes, so that no moment is missed between the two.
    try:
        return path.open("rb")
    except FileNotFoundError:
        with suppress(FileNotFoundError):
            return io.BufferedReader(_Unpacking(_packed(path)))
        raise


def read_ends(path: Path, *, head: int, tail: int) -> Ends:
    """Return at most so many bytes of a log's beginning and end.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    with open_log(path) as file:
        block = file.read(head + tail + 1)
        if len(block) <= head + tail:
            return Ends(block[:head], block[head:], len(block))
        first = block[:head]
        if file.seekable():
            size = file.seek(0, os.SEEK_END)
            file.seek(max(len(first), size - tail))
            return Ends(first, file.read(tail), size)
        size, last = len(block), block[len(block) - tail :]
        while block := file.read(_BLOCK):
            size += len(block)
            last = (last + block)[-tail:]
        return Ends(first, last, size)


def pack_log(path: Path) -> None:
    """Pack a log that is complete, where that saves anything. One that cannot be packed stays as it is."""
    temporary = path.with_name(f".{path.name}{PACKED}.{uuid.uuid4().hex}")
    try:
        if path.stat().st_size > SMALL_BYTES and _pack(path, temporary):
            temporary.replace(_packed(path))
            path.unlink()
    except FileNotFoundError:
        return
    # A full disk, say: what it is about is known and recorded, and the log can be read.
    except OSError as error:
        _log.warning("%s stays plain: %s", path, error)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _pack(path: Path, temporary: Path) -> bool:
    """Write the packed log; whether it is the smaller one."""
    with path.open("rb") as plain, temporary.open("xb") as raw:
        # Without name and time: the same log is the same file.
        with gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, filename="", mtime=0) as packed:
            shutil.copyfileobj(plain, packed, _BLOCK)
        raw.flush()
        os.fsync(raw.fileno())
        return raw.tell() < plain.tell()


def _packed(path: Path) -> Path:
    return path.with_name(f"{path.name}{PACKED}")


class _Unpacking(io.RawIOBase):
    """The content of a packed log, as far as it can be one of ours."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path
        self._file = gzip.open(path)  # noqa: SIM115 - closed with this one
        self._left = _MOST_BYTES

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """Fill the buffer with what comes next."""
        view = memoryview(buffer).cast("B")
        try:
            read = self._file.readinto(view)
        # A damaged archive raises each of them.
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise DamagedLogError(f"{self._path} is damaged: {error}") from error
        self._left -= read
        if self._left < 0:
            raise DamagedLogError(f"{self._path} unpacks to more than {_MOST_BYTES} bytes, which no log has")
        return read

    def close(self) -> None:
        """Close the file, too."""
        self._file.close()
        super().close()
