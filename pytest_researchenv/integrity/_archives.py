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


__all__ = ["UNPACKED_BYTES", "ZIP_ERRORS", "unpacked"]

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

#: Bytes that are unpacked of one archive.
UNPACKED_BYTES = 512 * 1024**2
_BLOCK_BYTES = 1024**2


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
