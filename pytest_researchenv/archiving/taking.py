"""Takes one archive of a folder in a running container, from outside, without holding anything up for long.

The engine keeps a container's lock while it packs, and everything else waits that asks for that container: whether a
command has ended, even its end at the deadline. So nothing is packed as a whole. The engine says which paths differ
from the image, each is looked at by itself, and the content of those that are new or have another time or size is read
one by one.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, final

from pytest_researchenv.archiving.index import Entry, Index, Kind, archive_path, newest_index, save_index
from pytest_researchenv.errors import SandboxError, StoreError
from pytest_researchenv.sandbox.protocol import ChangeKind, Container, FileStat


__all__ = ["CancelledError", "take_archive"]

_BLOCK = 1 << 20

#: How often a file is read that is written to meanwhile.
_READS = 3

#: Paths that are looked at: more than research code has, and minutes' work.
_PATHS = 100_000

#: Of a tar archive: a header and what fills the last block.
_OVERHEAD = 2 * 512


class CancelledError(Exception):
    """The work has ended while an archive was taken: it is not needed any more."""


class _ChangedError(Exception):
    """A file is not any more what it was when it was looked at."""


def take_archive(
    container: Container, root: str, folder: Path, *, most_bytes: int, wanted: Callable[[], bool] = lambda: True
) -> Index:
    """Archive what is new in a folder since the archive before.

    Args:
        container: the agent's, at work.
        root: absolute path of the folder in it.
        folder: the attempt's, on this host.
        most_bytes: of all its archives together.
        wanted: whether it is still needed.

    Raises:
        CancelledError: it is not.
        SandboxError: the engine cannot be asked.
        StoreError: it cannot be written.
    """
    before = newest_index(folder)
    number = before.number + 1 if before else 1
    place = archive_path(folder, number)
    began, clock = time.time(), time.monotonic()
    try:
        place.parent.mkdir(exist_ok=True)
        used = sum(path.stat().st_size for path in place.parent.iterdir() if path != place)
        with place.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.PAX_FORMAT) as archive:
            taking = _Taking(container, root, archive, before=before, room=most_bytes - used, wanted=wanted)
            taking.take()
    except (CancelledError, SandboxError):
        place.unlink(missing_ok=True)
        raise
    except OSError as error:
        with suppress(OSError):
            place.unlink(missing_ok=True)
        raise StoreError(f"the archive {place} cannot be written: {error}") from error
    index = Index(
        number=number,
        root=root,
        began=began,
        seconds=round(time.monotonic() - clock, 3),
        added_bytes=place.stat().st_size,
        entries=taking.entries,
        left_out=taking.left_out,
    )
    save_index(folder, index)
    return index


@dataclass(frozen=True, slots=True)
class _Seen:
    path: str
    stat: FileStat


@final
class _Taking:
    """One archive while it is taken."""

    def __init__(
        self,
        container: Container,
        root: str,
        archive: tarfile.TarFile,
        *,
        before: Index | None,
        room: int,
        wanted: Callable[[], bool],
    ) -> None:
        self._container = container
        self._root = root.rstrip("/")
        self._number = before.number + 1 if before else 1
        self._archive = archive
        self._before = before.entries if before else {}
        self._room = room
        self._wanted = wanted
        self.entries: dict[str, Entry] = {}
        self.left_out: dict[str, str] = {}

    def take(self) -> None:
        """Look at all, and read what is new; small files first, so that they get in where not all has room."""
        files = []
        for path in self._paths():
            self._check()
            stat = self._container.stat(f"{self._root}/{path}")
            if stat is None:
                continue
            if stat.folder:
                self.entries[path] = Entry(Kind.FOLDER, stat.mode, changed=stat.changed)
            elif stat.link:
                if link := self._link(path):
                    self.entries[path] = Entry(Kind.LINK, 0o777, changed=stat.changed, link=link)
            elif stat.regular:
                files.append(_Seen(path, stat))
            else:
                self.left_out[path] = "neither a file nor a folder nor a link"
        for seen in sorted(files, key=lambda one: (one.stat.size, one.path)):
            self._check()
            self._file(seen)

    def _check(self) -> None:
        if not self._wanted():
            raise CancelledError

    def _paths(self) -> Iterator[str]:
        """What is below the folder and not of the image, which has nothing there."""
        beginning = f"{self._root}/"
        with self._container.changes() as changes:
            found = [
                change.path.removeprefix(beginning)
                for change in changes
                if change.path.startswith(beginning) and change.kind is not ChangeKind.REMOVED
            ]
        for path in sorted(found)[_PATHS:]:
            self.left_out[path] = f"one of more than {_PATHS} paths"
        return iter(sorted(found)[:_PATHS])

    def _link(self, path: str) -> str:
        """Where a link leads, as it was written; empty where it is none any more."""
        with self._container.get(f"{self._root}/{path}") as stream:
            if stream is None:
                return ""
            with tarfile.open(fileobj=stream, mode="r|") as members:
                member = members.next()
                return member.linkname if member is not None and member.issym() else ""

    def _file(self, seen: _Seen) -> None:
        known = self._before.get(seen.path)
        if known and known.kind is Kind.FILE and not known.torn and _same(known, seen.stat):
            self.entries[seen.path] = replace(known, mode=seen.stat.mode)
            return
        if seen.stat.size + _OVERHEAD > self._room:
            self.left_out[seen.path] = f"{seen.stat.size} bytes, and {max(0, self._room)} were left"
            return
        for remaining in reversed(range(_READS)):
            try:
                entry = self._read(seen, torn=remaining == 0)
            except _ChangedError:
                self._check()
                stat = self._container.stat(f"{self._root}/{seen.path}")
                if stat is None or not stat.regular or stat.size + _OVERHEAD > self._room:
                    self.left_out[seen.path] = "it was gone, or had grown too large, while it was read"
                    return
                seen = _Seen(seen.path, stat)
            else:
                self.entries[seen.path] = entry
                return

    def _read(self, seen: _Seen, *, torn: bool) -> Entry:
        """Read a file aside, and add it once it is known to be whole.

        Raises:
            _ChangedError: it was written to meanwhile, and is to be read again.
        """
        with tempfile.SpooledTemporaryFile(max_size=16 * _BLOCK) as spool:
            digest, size = self._content(seen, spool)
            after = self._container.stat(f"{self._root}/{seen.path}")
            settled = after is not None and (after.size, after.changed) == (seen.stat.size, seen.stat.changed)
            whole = settled and size == seen.stat.size
            if not whole and not torn:
                raise _ChangedError
            member = tarfile.TarInfo(seen.path)
            member.size, member.mode, member.mtime = size, seen.stat.mode, seen.stat.changed // 10**9
            spool.seek(0)
            self._archive.addfile(member, spool)
            self._room -= size + _OVERHEAD
        return Entry(
            Kind.FILE,
            seen.stat.mode,
            size=size,
            changed=seen.stat.changed,
            sha256=digest,
            archive=self._number,
            torn=not whole,
        )

    def _content(self, seen: _Seen, into: IO[bytes]) -> tuple[str, int]:
        """Read what is there now, at most as much as was there when it was looked at."""
        digest, size = hashlib.sha256(), 0
        with suppress(tarfile.TarError), self._container.get(f"{self._root}/{seen.path}") as stream:
            if stream is None:
                return digest.hexdigest(), 0
            with tarfile.open(fileobj=stream, mode="r|") as members:
                member = members.next()
                content = members.extractfile(member) if member is not None and member.isreg() else io.BytesIO()
                while content is not None and size <= seen.stat.size and (block := content.read(_BLOCK)):
                    self._check()
                    digest.update(block)
                    into.write(block)
                    size += len(block)
        return digest.hexdigest(), size


def _same(known: Entry, stat: FileStat) -> bool:
    return (known.size, known.changed) == (stat.size, stat.changed)
