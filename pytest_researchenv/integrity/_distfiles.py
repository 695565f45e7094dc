"""What is in distributions as they are published: read as data, within bounds, and never laid out."""

from __future__ import annotations

import base64
import csv
import hashlib
import tarfile
import zipfile
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import BinaryIO

from packaging.tags import parse_tag
from packaging.utils import InvalidName, canonicalize_name

from pytest_researchenv.integrity._archives import UNPACKED_BYTES, ZIP_ERRORS, unpacked
from pytest_researchenv.integrity._ranges import RangeReader


__all__ = ["READ_ERRORS", "WheelFiles", "expanded", "read_sources", "read_texts", "read_wheel", "wheel_digest"]

#: What reading an archive that somebody published may raise.
READ_ERRORS = (*ZIP_ERRORS, LookupError, RecursionError, csv.Error, tarfile.TarError)

_RECORD_BYTES = 32 * 1024**2
_WHEEL_BYTES = 64 * 1024
_MEMBER_BYTES = 256 * 1024**2
_SOURCE_BYTES = 16 * 1024**2
_MEMBERS = 200_000
# A tag may stand for many: `py2.py3-none-any` is two. Longer ones are nobody's.
_TAG_LETTERS = 200
_HEADER_BYTES = 1024


@dataclass(frozen=True, slots=True)
class WheelFiles:
    """What a wheel says of itself.

    Attributes:
        tags: those in its `WHEEL`, each for one platform.
        files: path → SHA-256 in hexadecimal, as in RECORD; with installers' folders for code taken off.
    """

    tags: frozenset[str]
    files: Mapping[str, str]


def expanded(tags: Iterable[str]) -> frozenset[str]:
    """Tags, each for one platform.

    Raises:
        ValueError: one of them is no tag.
    """
    found: set[str] = set()
    for tag in tags:
        if len(tag) > _TAG_LETTERS or tag.count("-") != 2:  # noqa: PLR2004 - interpreter, ABI, platform
            raise ValueError("that is no tag of a wheel")
        found |= {str(one) for one in parse_tag(tag)}
    return frozenset(found)


def read_wheel(file: BinaryIO, name: str) -> WheelFiles:
    """Read a wheel's WHEEL and RECORD.

    Args:
        file: the wheel, which may be far away.
        name: the distribution's normalized name.

    Raises:
        READ_ERRORS: it is no wheel, or none that pip would install.
    """
    with zipfile.ZipFile(file) as archive:
        home = _dist_info(archive, name)
        lines = _member(archive, f"{home}/WHEEL", _WHEEL_BYTES, file).decode().splitlines()
        tags = expanded([value.strip() for key, _, value in (line.partition(":") for line in lines) if key == "Tag"])
        record = _member(archive, f"{home}/RECORD", _RECORD_BYTES, file).decode()
    data = home.removesuffix(".dist-info") + ".data"
    files = {_installed(path, data): digest for path, digest in _recorded(record)}
    if not files:
        raise ValueError("its RECORD has no hash of any file")
    return WheelFiles(tags, files)


def wheel_digest(file: BinaryIO, name: str, path: str) -> str:
    """The SHA-256, in hexadecimal, of what a wheel holds at a path of `WheelFiles.files`.

    Raises:
        READ_ERRORS: it is no wheel, or there is nothing at the path, or too much.
    """
    with zipfile.ZipFile(file) as archive:
        data = _dist_info(archive, name).removesuffix(".dist-info") + ".data"
        found = [info for info in archive.infolist() if _installed(info.filename, data) == path]
        if not found:
            raise ValueError(f"the wheel has no {path}")
        info = found[-1]
        if info.file_size > _MEMBER_BYTES:
            raise ValueError(f"{path} is larger than {_MEMBER_BYTES / 1e6:.0f} MB")
        _prefetch(file, info)
        with archive.open(info) as member:
            return hashlib.file_digest(member, "sha256").hexdigest()  # type: ignore[arg-type] # zipfile has no readinto in its stubs


def read_sources(file: BinaryIO, filename: str) -> dict[str, str]:
    """The Python sources in a source distribution.

    Args:
        file: the archive.
        filename: its name, which says how it is packed.

    Returns:
        Path below the top folder → SHA-256 in hexadecimal.

    Raises:
        READ_ERRORS: it is no source distribution, or it is too large.
    """
    sources = {path: hashlib.sha256(content).hexdigest() for path, content in _sources(file, filename)}
    if not sources:
        raise ValueError("it has no Python sources")
    return sources


def read_texts(file: BinaryIO, filename: str, wanted: Collection[str]) -> dict[str, str]:
    """Some of the Python sources in a source distribution.

    Args:
        file: the archive.
        filename: its name, which says how it is packed.
        wanted: paths below the top folder.

    Raises:
        READ_ERRORS: it is no source distribution, or it is too large.
    """
    return {path: content.decode(errors="replace") for path, content in _sources(file, filename) if path in wanted}


def _dist_info(archive: zipfile.ZipFile, name: str) -> str:
    tops = {path.partition("/")[0] for path in archive.namelist()}
    homes = [top for top in tops if top.endswith(".dist-info") and _named(top) == name]
    if len(homes) != 1:
        raise ValueError(f"it has {len(homes)} folders of metadata for {name}")
    return homes[0]


def _named(top: str) -> str:
    try:
        return canonicalize_name(top.partition("-")[0], validate=True)
    except InvalidName:
        return ""


def _member(archive: zipfile.ZipFile, path: str, most: int, file: BinaryIO) -> bytes:
    info = archive.getinfo(path)
    _prefetch(file, info)
    with archive.open(info) as member:
        content = member.read(most + 1)
    if len(content) > most:
        raise ValueError(f"{path} has more than {most} bytes")
    return content


def _prefetch(file: object, info: zipfile.ZipInfo) -> None:
    if isinstance(file, RangeReader):
        file.prefetch(info.header_offset, info.compress_size + _HEADER_BYTES)


def _installed(path: str, data: str) -> str:
    for folder in ("purelib", "platlib"):
        path = path.removeprefix(f"{data}/{folder}/")
    return path


def _recorded(record: str) -> Iterator[tuple[str, str]]:
    for row in csv.reader(record.splitlines()):
        path, hashed, *_ = *row, "", ""
        algorithm, _, digest = hashed.partition("=")
        if hashed and algorithm != "sha256":
            raise ValueError(f"its RECORD has hashes by {algorithm[:20]!r}")
        if hashed:
            yield path, base64.urlsafe_b64decode(digest + "=" * (-len(digest) % 4)).hex()


def _sources(file: BinaryIO, filename: str) -> Iterator[tuple[str, bytes]]:
    """Path below the top folder, and content of each Python source."""
    members = _zipped(file) if filename.endswith(".zip") else _tarred(file, filename)
    for path, content in members:
        yield str(PurePosixPath(*PurePosixPath(path).parts[1:])), content


def _zipped(file: BinaryIO) -> Iterator[tuple[str, bytes]]:
    with zipfile.ZipFile(file) as archive:
        infos = archive.infolist()
        if len(infos) > _MEMBERS or sum(info.file_size for info in infos) > UNPACKED_BYTES:
            raise ValueError("there is too much in it")
        for info in infos:
            if _is_source(info.filename, info.file_size):
                with archive.open(info) as member:
                    yield info.filename, member.read(info.file_size)


def _tarred(file: BinaryIO, filename: str) -> Iterator[tuple[str, bytes]]:
    if not filename.endswith((".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")):
        raise ValueError(f"nothing is known of how {filename[-10:]!r} is packed")
    with unpacked(file, filename) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
        for count, member in enumerate(archive):
            if count > _MEMBERS:
                raise ValueError("there is too much in it")
            content = archive.extractfile(member) if member.isreg() and _is_source(member.name, member.size) else None
            if content is not None:
                yield member.name, content.read()


def _is_source(path: str, size: int) -> bool:
    return path.endswith(".py") and size <= _SOURCE_BYTES
