"""Archives that somebody may have made to confuse their reader: what reading them may raise, and how they unpack."""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, BinaryIO, cast, final


__all__ = ["UNPACKED_BYTES", "ZIP_ERRORS", "table_doubt", "unpacked"]

ZIP_ERRORS = (
    EOFError,
    NotImplementedError,  # A compression that zipfile does not know.
    OSError,
    OverflowError,  # Offsets that are larger than any file.
    RuntimeError,  # It is encrypted.
    ValueError,
    lzma.LZMAError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)

#: The end of an archive without its comment, and what stands right before it where there is another, longer end.
_END, _END_BYTES, _LONGER, _LONGER_BYTES = b"PK\5\6", 22, b"PK\6\7", 20
#: Where readers look for the end.
_TAIL_BYTES = _END_BYTES + 2**16

#: Bytes that are unpacked of one archive.
UNPACKED_BYTES = 512 * 1024**2
_BLOCK_BYTES = 1024**2


def table_doubt(file: IO[bytes]) -> str:
    """Why Python's importer may see other members in a zip archive than `zipfile` does; empty when it does not.

    The importer refuses less, knows no long archives before Python 3.13, and takes names as they stand in the table.

    Args:
        file: the archive, or whatever else is on the path; it is read from its start to its end.
    """
    size = file.seek(0, io.SEEK_END)
    file.seek(max(0, size - _TAIL_BYTES - _LONGER_BYTES))
    tail = file.read()
    end = tail.rfind(_END)
    if end < 0 or (len(tail) - end < _END_BYTES and tail[-_END_BYTES : len(_END) - _END_BYTES] != _END):
        return ""
    if tail[max(0, end - _LONGER_BYTES) : end].startswith(_LONGER):
        return "it has two tables of what is in it"
    if len(tail) - end - _END_BYTES != int.from_bytes(tail[end + 20 : end + 22], "little"):
        return "it does not end where it says"
    try:
        with zipfile.ZipFile(file) as archive:
            odd = any(one.filename != one.orig_filename for one in archive.infolist())
    except ZIP_ERRORS as error:
        return f"not every reader can read it: {error}"
    return "it has names of two readings" if odd else ""


def unpacked(file: BinaryIO, filename: str) -> BinaryIO:
    """What a packed file holds, as far as it may be unpacked.

    Args:
        file: the file.
        filename: its name, whose ending says how it is packed.

    Raises:
        ValueError: nothing is known of that.
    """
    ending = filename.rpartition(".")[2]
    if ending in _OPENERS:
        return cast("BinaryIO", _Bounded(_OPENERS[ending](file)))
    if ending == "zst":
        zstd = _zstd()
        return cast("BinaryIO", _Bounded(zstd.ZstdFile(file), zstd.ZstdError))
    if ending == "tar" or "." not in filename:
        return cast("BinaryIO", _Bounded(file))
    raise ValueError(f"nothing is known of how {filename[-10:]!r} is packed")


def _gunzipped(file: BinaryIO) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=file)


_OPENERS: dict[str, Callable[[BinaryIO], Any]] = {
    "bz2": bz2.BZ2File,
    "gz": _gunzipped,
    "tgz": _gunzipped,
    "xz": lzma.LZMAFile,
}


def _zstd() -> Any:  # noqa: ANN401 - one of two modules, of which hosts have one
    # Python has it since 3.14.
    for name in ("compression.zstd", "backports.zstd"):
        with suppress(ImportError):
            return importlib.import_module(name)
    raise ValueError("this Python cannot unpack Zstandard: install backports.zstd")


@final
class _Bounded(io.RawIOBase):
    """What a packed stream holds: a small one may hold any amount."""

    def __init__(self, stream: IO[bytes], broken: type[Exception] = ValueError) -> None:
        self._stream = stream
        self._broken = broken
        self._left = UNPACKED_BYTES

    def readable(self) -> bool:
        """It can be read."""
        return True

    def read(self, size: int = -1) -> bytes:
        try:
            content = self._stream.read(min(size, _BLOCK_BYTES) if size >= 0 else _BLOCK_BYTES)
        except self._broken as error:
            raise ValueError(str(error)) from error
        self._left -= len(content)
        if self._left < 0:
            raise ValueError("there is too much in it")
        return content
