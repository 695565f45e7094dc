"""What reading an archive may raise that somebody made to confuse its reader."""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib


__all__ = ["ZIP_ERRORS"]

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
