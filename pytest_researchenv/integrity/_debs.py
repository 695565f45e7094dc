"""What is in packages of Debian as they are published: read as data, within bounds, and never laid out."""

from __future__ import annotations

import hashlib
import io
import posixpath
import tarfile
from typing import IO, BinaryIO

from pytest_researchenv.integrity._archives import ZIP_ERRORS, unpacked


__all__ = ["DEB_ERRORS", "read_deb"]

#: What reading such a package may raise.
DEB_ERRORS = (*ZIP_ERRORS, tarfile.TarError, RecursionError)

_MAGIC = b"!<arch>\n"
_HEADER_BYTES = 60
_MOST_MEMBERS, _MOST_FILES = 16, 200_000


def read_deb(file: BinaryIO) -> dict[str, str]:
    """The files that a package installs: absolute path → SHA-256 in hexadecimal.

    Args:
        file: the package, at its start.

    Raises:
        DEB_ERRORS: it is no package, or it is too large.
    """
    name, size = _data(file)
    content = io.BytesIO(file.read(size))
    found: dict[str, str] = {}
    with unpacked(content, name) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for count, member in enumerate(archive):
            if count > _MOST_FILES:
                raise ValueError("there is too much in it")
            path = posixpath.normpath(f"/{member.name}")
            if member.isreg() and (opened := archive.extractfile(member)) is not None:
                found[path] = _digest(opened)
            elif member.islnk() and (other := posixpath.normpath(f"/{member.linkname}")) in found:
                found[path] = found[other]
    return found


def _data(file: BinaryIO) -> tuple[str, int]:
    """Go to what a package installs; how that part is called, and how many bytes it has."""
    if file.read(len(_MAGIC)) != _MAGIC:
        raise ValueError("it is no package of Debian")
    for _ in range(_MOST_MEMBERS):
        header = file.read(_HEADER_BYTES)
        if len(header) < _HEADER_BYTES:
            break
        name, size = header[:16].decode("ascii").strip().rstrip("/"), int(header[48:58])
        if name.startswith("data.tar"):
            return name, size
        file.seek(size + size % 2, io.SEEK_CUR)
    raise ValueError("it has no part that is installed")


def _digest(file: IO[bytes]) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()  # type: ignore[arg-type] # a file of a tar archive
