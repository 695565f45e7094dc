"""A file on a server, of which only those parts are fetched that are read."""

from __future__ import annotations

import io
import re
import time
from typing import TYPE_CHECKING, BinaryIO, cast, final

import requests


if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["WHOLE_BYTES", "Deadline", "RangeReader", "download", "opened"]

#: Up to this size a file is fetched whole from a server that does not send parts of it.
WHOLE_BYTES = 32 * 1024**2

# The central directory of torch's wheel has 1.2 MB, and its RECORD 0.6 MB.
_MOST_BYTES = 64 * 1024**2
# The end of an archive: with most, all of the central directory, and RECORD.
_TAIL_BYTES = 64 * 1024
_AHEAD_BYTES = 64 * 1024
_BLOCK_BYTES = 64 * 1024
_TIMEOUT_S = (5.0, 20.0)


@final
class Deadline:
    """A point in time.

    Args:
        after_s: seconds from now.
    """

    def __init__(self, after_s: float) -> None:
        self._at = time.monotonic() + after_s

    def timeout(self) -> tuple[float, float]:
        """How long a connection, and each answer on it, may be waited for, in seconds.

        Raises:
            TimeoutError: no longer at all.
        """
        left = self._at - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for asking package indexes is used up")
        return min(_TIMEOUT_S[0], left), min(_TIMEOUT_S[1], left)


class _NoRangesError(OSError):
    """The server sends the whole file, whatever is asked."""


@final
class RangeReader(io.RawIOBase):
    """Reads a file on a server by ranges of bytes.

    Args:
        session: what to ask by.
        url: the file.
        size: its size in bytes; None: the server is asked.
        deadline: when to give up.

    Raises:
        OSError: the server does not send parts of it, or not what was asked, or too much is asked.
    """

    def __init__(self, session: requests.Session, url: str, size: int | None, deadline: Deadline) -> None:
        self._session = session
        self._url = url
        self._deadline = deadline
        self._position = 0
        self._start, self._window = 0, b""
        self.fetched = 0
        self._size = self._asked_size() if size is None else size

    def readable(self) -> bool:
        """It can be read."""
        return True

    def seekable(self) -> bool:
        """It can be read anywhere."""
        return True

    def tell(self) -> int:
        """Where the next byte is read."""
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Go somewhere; nothing is fetched."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError(f"before the beginning of {self._url}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read as much as fits, up to the end."""
        view = memoryview(buffer).cast("B")
        wanted = max(0, min(len(view), self._size - self._position))
        if not wanted:
            return 0
        if not self._has(self._position, wanted):
            start = min(self._position, max(0, self._size - _TAIL_BYTES))
            self._fetch(start, max(self._position + wanted, start + _AHEAD_BYTES))
        offset = self._position - self._start
        view[:wanted] = self._window[offset : offset + wanted]
        self._position += wanted
        return wanted

    def prefetch(self, start: int, length: int) -> None:
        """Fetch a part at once that will be read in small pieces."""
        stop = min(start + length, self._size)
        if 0 <= start < stop and not self._has(start, stop - start):
            self._fetch(start, stop)

    def _has(self, start: int, length: int) -> bool:
        return self._start <= start and start + length <= self._start + len(self._window)

    def _fetch(self, start: int, stop: int) -> None:
        stop = min(stop, self._size)
        headers = {"Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
        with self._session.get(self._url, headers=headers, stream=True, timeout=self._deadline.timeout()) as answer:
            _check_part(answer, start)
            self._window = _read(answer, stop - start, self._deadline)
        self._start = start
        self.fetched += len(self._window)
        if len(self._window) != stop - start or self.fetched > _MOST_BYTES:
            raise OSError(f"{self.fetched} bytes came, more than are needed or fewer than were asked")

    def _asked_size(self) -> int:
        headers = {"Range": "bytes=0-0", "Accept-Encoding": "identity"}
        with self._session.get(self._url, headers=headers, stream=True, timeout=self._deadline.timeout()) as answer:
            _check_part(answer, 0)
            size = answer.headers.get("Content-Range", "").rpartition("/")[2]
        if not size.isdecimal():
            raise OSError("the server does not say how large the file is")
        return int(size)


def opened(session: requests.Session, url: str, size: int | None, deadline: Deadline) -> BinaryIO:
    """A file on a server, to be read by parts; one that is small, and of which no parts are sent, whole.

    Raises:
        OSError: it cannot be had.
    """
    try:
        reader = RangeReader(session, url, size, deadline)
        # Whether parts are sent shows with the first one.
        reader.seek(-1, io.SEEK_END)
        reader.read(1)
        reader.seek(0)
    except _NoRangesError:
        return io.BytesIO(download(session, url, deadline, WHOLE_BYTES))
    return cast("BinaryIO", reader)


def download(session: requests.Session, url: str, deadline: Deadline, most: int) -> bytes:
    """A whole file from a server.

    Raises:
        OSError: it cannot be had, or is larger than `most` bytes.
    """
    headers = {"Accept-Encoding": "identity"}
    with session.get(url, headers=headers, stream=True, timeout=deadline.timeout()) as answer:
        answer.raise_for_status()
        length = answer.headers.get("Content-Length", "")
        if length.isdecimal() and int(length) > most:
            raise OSError(f"{int(length) / 1e6:.0f} MB would have to be fetched, and {most / 1e6:.0f} MB is the most")
        return _read(answer, most, deadline)


def _check_part(answer: requests.Response, start: int) -> None:
    if answer.status_code == requests.codes.ok:
        raise _NoRangesError("the server does not send parts of files")
    answer.raise_for_status()
    if not re.match(rf"bytes {start}-\d+/", answer.headers.get("Content-Range", "")):
        raise OSError("the server sends another part than was asked")


def _read(answer: requests.Response, most: int, deadline: Deadline) -> bytes:
    content = bytearray()
    for block in answer.iter_content(_BLOCK_BYTES):
        content += block
        if len(content) > most:
            raise OSError(f"more came than the {most} bytes that are the most")
        deadline.timeout()
    return bytes(content)
