"""Read exports, which anybody may have made: everything is checked beside the results before anything is in them.

No path of an archive is ever used: its table is read first, each of its names must have a place in a results folder,
and each file must be what the table says, in size and digest.
"""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import shutil
import tarfile
import uuid
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Self

from filelock import FileLock, Timeout

from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.sharing.contents import TABLE, TABLE_BYTES, Contents, parse_contents


__all__ = ["MOST_BYTES", "staging", "unpack"]

#: How many bytes of records and logs an export may hold, when nothing else is said. 264 attempts of a long run have
#: some 2 GB.
MOST_BYTES = 20 * 1024**3

#: Bytes of one record at most.
_MOST_OF_ONE = 1024**3

#: What must be left free on the disk, in bytes.
_FLOOR_BYTES = 256 * 1024**2

#: Bytes of the longest path in an export.
_LONGEST_NAME = 4096

_PREFIX = ".import-"
_BLOCK = 1024 * 1024

#: What a damaged archive raises.
_DAMAGED = (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, OverflowError, RecursionError)


@contextlib.contextmanager
def staging(results: Path) -> Iterator[Path]:
    """Make a hidden folder beside the runs, and remove it in the end; those of imports that were killed go, too.

    Raises:
        StoreError: the results folder cannot be written.
    """
    try:
        results.mkdir(parents=True, exist_ok=True)
        _sweep(results)
        folder = results / f"{_PREFIX}{uuid.uuid4().hex}"
        lock = FileLock(f"{folder}.lock", mode=0o666)
        lock.acquire()
        folder.mkdir()
    except OSError as error:
        raise StoreError(f"the results folder cannot be written: {error}; choose another by --results") from error
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        Path(lock.lock_file).unlink(missing_ok=True)
        lock.release()


def _sweep(results: Path) -> None:
    for path in results.glob(f"{_PREFIX}*.lock"):
        lock = FileLock(path, mode=0o666)
        try:
            with lock.acquire(blocking=False):
                shutil.rmtree(path.with_suffix(""), ignore_errors=True)
                path.unlink(missing_ok=True)
        # Somebody is at work there, or it is another user's.
        except (Timeout, OSError):
            continue


def unpack(source: Path, folder: Path, *, most_bytes: int = MOST_BYTES, images: bool = True) -> Contents:
    """Read an export into an empty folder; returns its table.

    Args:
        source: an archive, or the folder of an exported environment.
        folder: where its files go.
        most_bytes: how many bytes there may be, images apart.
        images: whether images are unpacked; if not, they are read and checked all the same.

    Raises:
        ConfigurationError: it is no export, is damaged, or holds what an export does not.
        StoreError: the folder cannot be written.
    """
    try:
        if source.is_dir():
            return _from_folder(source, folder, most_bytes, images=images)
        with source.open("rb") as raw:
            return _from_archive(source, raw, folder, most_bytes, images=images)
    except (ConfigurationError, StoreError):
        raise
    except _DAMAGED as error:
        raise ConfigurationError(f"{source} cannot be read as an export: {printable(str(error), 300)}") from error


def _from_archive(source: Path, raw: IO[bytes], folder: Path, most_bytes: int, *, images: bool) -> Contents:
    # As a stream of plain files: no other kind of member is even parsed. (Not `r|gz`, which unpacks a block of a bomb
    # whole, and compares no check sum.)
    with (
        gzip.GzipFile(fileobj=raw, mode="rb") as unpacked,
        tarfile.open(fileobj=unpacked, mode="r|", tarinfo=_Plain, errorlevel=2) as archive,
    ):
        first = archive.next()
        if first is None or first.name != TABLE or first.size > TABLE_BYTES:
            raise ConfigurationError(f"{source} is no export of researchenv: {TABLE} is not the first file in it")
        table = archive.extractfile(first)
        contents = parse_contents(table.read() if table else b"", str(source))
        _require_room(contents, source, folder, most_bytes, images=images)
        left = dict(contents.members)
        while member := archive.next():
            # tarfile keeps every entry for random access.
            archive.members = []  # type: ignore[attr-defined] # Left out of the stubs.
            name = printable(member.name, 300)
            if (known := left.pop(member.name, None)) is None:
                twice = member.name in contents.members
                raise ConfigurationError(f"{source}: {name} {'is in it twice' if twice else 'is not in its table'}")
            content = archive.extractfile(member)
            if content is None or member.size != known.bytes:
                raise ConfigurationError(f"{source}: {name} has {member.size} bytes, and {known.bytes} in the table")
            _copy(
                content, folder / member.name, known.sha256, known.bytes, f"{source}: {name}", keep=_keep(name, images)
            )
    _require_all(source, left)
    return contents


class _Plain(tarfile.TarInfo):
    """A member that is a file, or the long name of one."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header; of other kinds, what tarfile reads of them is without bounds."""
        member = super().frombuf(buf, encoding, errors)
        long_name = member.type == tarfile.GNUTYPE_LONGNAME and member.size <= _LONGEST_NAME
        if member.type not in {tarfile.REGTYPE, tarfile.AREGTYPE} and not long_name:
            raise ConfigurationError(
                f"the archive holds {printable(member.name, 300)}, which is no plain file: links, devices and folders "
                "are in no export; nothing was imported"
            )
        return member


def _from_folder(source: Path, folder: Path, most_bytes: int, *, images: bool) -> Contents:
    with (source / TABLE).open("rb") as file:
        contents = parse_contents(file.read(TABLE_BYTES), str(source))
    _require_room(contents, source, folder, most_bytes, images=images)
    for name, known in contents.members.items():
        path = source / name
        # Neither a link on the way, nor a pipe that never ends.
        if path.resolve() != source.resolve() / name or not path.is_file():
            raise ConfigurationError(f"{source}: {printable(name, 300)} is gone, or no plain file")
        with path.open("rb") as content:
            _copy(content, folder / name, known.sha256, known.bytes, str(path), keep=_keep(name, images))
    return contents


def _keep(name: str, images: bool) -> bool:  # noqa: FBT001 - private
    return images or name.startswith("run/")


def _copy(content: IO[bytes], target: Path, sha256: str, size: int, what: str, *, keep: bool) -> None:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        # What need not be kept is read and checked.
        file = target.open("xb") if keep else open(os.devnull, "wb")  # noqa: SIM115, PTH123 - closed below
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error}") from error
    digest, left = hashlib.sha256(), size
    with file:
        while block := content.read(min(_BLOCK, left)):
            digest.update(block)
            left -= len(block)
            _write(file, block, target)
    if left or content.read(1) or digest.hexdigest() != sha256:
        raise ConfigurationError(f"{what} is not what the export's table says: it is damaged, or was changed")


def _write(file: IO[bytes], block: bytes, target: Path) -> None:
    try:
        file.write(block)
        # A full disk is told here, and not when the file is closed.
        file.flush()
    except OSError as error:
        raise StoreError(f"cannot write {target}: {error}") from error


def _require_room(contents: Contents, source: Path, folder: Path, most_bytes: int, *, images: bool) -> None:
    records = sum(member.bytes for name, member in contents.members.items() if name.startswith("run/"))
    if records > most_bytes:
        raise ConfigurationError(
            f"{source} unpacks to {records} bytes, and at most {most_bytes} are taken: allow more by --most-gib, if "
            "you trust where it comes from"
        )
    large = [
        name for name, member in contents.members.items() if name.startswith("run/") and member.bytes > _MOST_OF_ONE
    ]
    if large:
        raise ConfigurationError(
            f"{source}: {printable(large[0], 300)} is larger than any record, {_MOST_OF_ONE} bytes"
        )
    needed = (contents.total_bytes if images else records) + _FLOOR_BYTES
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise StoreError(f"{source} needs {needed} bytes in {folder.parent}, where {free} are free: make room")


def _require_all(source: Path, left: Mapping[str, object]) -> None:
    if left:
        first = printable(next(iter(left)), 300)
        raise ConfigurationError(f"{source} ends too early: {len(left)} of its files are missing, {first} among them")
