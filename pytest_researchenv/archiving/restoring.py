"""Puts a folder together again from its archives."""

from __future__ import annotations

import hashlib
import os
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from pytest_researchenv.archiving.index import Entry, Index, Kind, archive_path, newest_index
from pytest_researchenv.errors import ConfigurationError, StoreError


__all__ = ["restore_to", "restored_tar"]

_BLOCK = 1 << 20

#: A tar stream up to this size stays in memory.
_SPOOL_BYTES = 64 * 1024**2


def restored_tar(folder: Path, *, prefix: str = "") -> tuple[Index, IO[bytes]]:
    """Return a folder as it was when it was archived last, as a tar stream.

    Args:
        folder: the attempt's.
        prefix: put before every name, with every folder of it from the first on named; empty: where it lay in the
            container.

    Returns:
        What was archived, and the stream at its beginning, for the caller to close.

    Raises:
        ConfigurationError: there is no archive.
        StoreError: an archive is damaged: a file in it is not what was put there.
    """
    index = newest_index(folder)
    if index is None:
        raise ConfigurationError(f"{folder} holds no archive: name the folder of an attempt at a research task")
    top = PurePosixPath(prefix or index.root.lstrip("/"))
    spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - the caller closes it
    try:
        with tarfile.open(fileobj=spool, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for part in [*reversed(top.parents), top]:
                if part.parts:
                    archive.addfile(_member(str(part), Entry(Kind.FOLDER, 0o755)))
            _pack(archive, folder, index, top)
    except (OSError, tarfile.TarError) as error:
        spool.close()
        raise StoreError(f"the archives of {folder} cannot be read: {error}") from error
    except StoreError:
        spool.close()
        raise
    spool.seek(0)
    return index, spool


def restore_to(folder: Path, target: Path) -> Index:
    """Restore a folder on this host; what would lie outside of it is refused.

    Args:
        folder: the attempt's.
        target: a folder that does not exist yet.

    Raises:
        ConfigurationError: there is no archive, or the target exists.
        StoreError: an archive is damaged, or the target cannot be written.
    """
    if target.exists() or target.is_symlink():
        raise ConfigurationError(f"{target} exists: name a folder that does not")
    index, stream = restored_tar(folder, prefix="restored")
    parent = Path(os.path.abspath(target)).parent  # noqa: PTH100 - links are not to be followed
    try:
        parent.mkdir(parents=True, exist_ok=True)
        with stream, tempfile.TemporaryDirectory(dir=parent) as scratch, tarfile.open(fileobj=stream) as archive:
            # What an agent made is not trusted: no devices, no links that lead outside, no names with `..`.
            archive.extractall(scratch, filter=_harmless)  # noqa: S202 - see above
            (Path(scratch) / "restored").rename(target)
    except (OSError, tarfile.TarError) as error:
        raise StoreError(f"{target} cannot be written: {error}") from error
    return index


def _harmless(member: tarfile.TarInfo, path: str) -> tarfile.TarInfo | None:
    try:
        return tarfile.data_filter(member, path)
    except tarfile.FilterError:
        return None


def _pack(archive: tarfile.TarFile, folder: Path, index: Index, top: PurePosixPath) -> None:
    for path, entry in sorted(index.entries.items()):
        if entry.kind is Kind.FOLDER:
            archive.addfile(_member(f"{top}/{path}", entry))
    contents: dict[int, dict[str, Entry]] = defaultdict(dict)
    for path, entry in index.entries.items():
        if entry.kind is Kind.FILE:
            contents[entry.archive][path] = entry
    for number, entries in sorted(contents.items()):
        for path, content in _contents(archive_path(folder, number), entries):
            archive.addfile(_member(f"{top}/{path}", entries[path]), content)
    # Last: nothing is written through one of them.
    for path, entry in sorted(index.entries.items()):
        if entry.kind is Kind.LINK:
            archive.addfile(_member(f"{top}/{path}", entry))


def _contents(place: Path, entries: dict[str, Entry]) -> Iterator[tuple[str, IO[bytes]]]:
    """Yield the files of one archive that are wanted, each after it was compared with its digest."""
    missing = dict(entries)
    with tarfile.open(place) as archive:
        for member in archive:
            content = archive.extractfile(member) if member.name in missing else None
            if content is None:
                continue
            entry = missing.pop(member.name)
            digest = hashlib.sha256()
            while block := content.read(_BLOCK):
                digest.update(block)
            if digest.hexdigest() != entry.sha256:
                raise StoreError(f"{place} is damaged: {member.name} is not what was put there")
            content.seek(0)
            yield member.name, content
    if missing:
        raise StoreError(f"{place} is damaged: {next(iter(missing))} is not there")


def _member(name: str, entry: Entry) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.mode, member.mtime = entry.mode & 0o7777, entry.changed // 10**9
    match entry.kind:
        case Kind.FOLDER:
            member.type = tarfile.DIRTYPE
        case Kind.LINK:
            member.type, member.linkname = tarfile.SYMTYPE, entry.link
        case Kind.FILE:
            member.size = entry.size
    return member
