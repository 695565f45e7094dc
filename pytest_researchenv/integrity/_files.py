"""The files of one container that never runs."""

from __future__ import annotations

import hashlib
import posixpath
import re
import tarfile
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import IO, final

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.gateway.inside.search import BodySearch
from pytest_researchenv.integrity._layer import Layer
from pytest_researchenv.integrity._listing import Listing
from pytest_researchenv.integrity._memory import Memory
from pytest_researchenv.integrity.protocol import HEAD_BYTES, KEPT_BYTES, Entry, Kind
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.sandbox.peek import followed, opened, readable
from pytest_researchenv.sandbox.protocol import Container


__all__ = ["Below", "Bounds", "Files"]

#: Bytes that are read at once.
_BLOCK = 1 << 20
#: Content of files of at most so many bytes is remembered with their kind.
_SMALL = 64 * 1024
#: Files of a tree that are read one by one when their content is wanted later; more are read with the tree once more.
_FEW = 32
#: Folders of which not everything was read that are remembered, on disk.
_MOST_CUT = 8

#: Names of files whose content some check will want: reading torch's folder anew for it takes half a minute.
_WANTED = re.compile(r"(?:.*\.(?:pth|egg-link|egg-info)|(?:site|user)customize\.py|pyvenv\.cfg)", re.DOTALL)
_WANTED_FOLDERS = (".dist-info", ".egg-info")


@final
class Bounds:
    """How much is read of one image.

    Args:
        note: told when a bound is reached.
        most_bytes: bytes that are read, some ten minutes' reading. An environment may have 100 GB, of which packages
            are a tenth; a sparse file of exabytes takes no room in it, and comes in full.
        most_entries: entries of one folder's tree; conda's distribution of everything has some 300,000.
        most_kept: bytes of content that are kept of one tree.
    """

    def __init__(
        self,
        note: Callable[[str], object],
        *,
        most_bytes: int = 256 * 1024**3,
        most_entries: int = 2_000_000,
        most_kept: int = 1024**3,
    ) -> None:
        self._note = note
        #: How often something was noted.
        self.noted = 0
        self.most_entries = most_entries
        self.most_kept = most_kept
        self._left = most_bytes

    def note(self, problem: str) -> None:
        """Tell of what was not read."""
        self.noted += 1
        self._note(problem)

    def allow(self, path: str, size: int) -> bool:
        """Whether so many bytes may be read; they count as read then."""
        if size > self._left:
            self.note(f"{printable(path)} has {size} bytes, and at most {self._left} more are read")
            return False
        self._left -= size
        return True


@dataclass(frozen=True, slots=True)
class Below:
    """The image that another one grew from.

    Attributes:
        files: its files.
        layer: which paths are as they are there.
    """

    files: Files
    layer: Layer


@final
class Files:
    """The files of one container.

    Every method raises `SandboxError` when the engine refuses, or what it sends is damaged.

    Args:
        container: gives a container that was never started, so that nothing in it can have changed; asked when
            something is to be read.
        bounds: how much may be read.
        canaries: texts that each file is searched for while it is read.
        memory: what was read of the same image before.
        below: what it grew from: what is as it is there, is read there, and remembered.
        unsteady: whether something else is at a path, and not what is there now, once the image is used. To be led
            there by a link, or back out by `..`, is noted.
    """

    def __init__(
        self,
        container: Callable[[], Container],
        bounds: Bounds,
        canaries: Collection[str] = (),
        *,
        memory: Memory | None = None,
        below: Below | None = None,
        unsteady: Callable[[str, Entry | None], bool] = lambda *_: False,
    ) -> None:
        self._container = container
        self._bounds = bounds
        self._canaries = canaries
        self._memory = memory or Memory()
        self._below = below
        self._unsteady = unsteady
        #: Folders of which not everything was read: nobody else is to take that for all there is.
        self._cut: dict[str, Listing] = {}

    def resolved(self, path: str) -> str:
        """Where a path leads when every link in it is followed; empty where to nothing."""
        return followed(path, partial(self._on_the_way, path)) if readable(path) else ""

    def _on_the_way(self, path: str, place: str) -> Entry | None:
        found = self.look(place)
        if self._unsteady(place, found) and not _is_at_or_below(path, place):
            way = f"{printable(path)} leads through {printable(place)}"
            self._bounds.note(f"{way}, where something else is while a probe runs")
        return found

    def entry(self, path: str) -> Entry | None:
        """What a path leads to, with its content; a link only where it leads nowhere."""
        target = self.resolved(path)
        return self.whole(target) if target else self.itself(path)

    def itself(self, path: str) -> Entry | None:
        """What is at a path, with its content; its last component is not followed."""
        parent, name = posixpath.split(path)
        if name in ("", ".", ".."):
            target = self.resolved(path)
        else:
            folder = self.resolved(parent)
            target = posixpath.join(folder, name) if folder and self._is_folder(folder) else ""
        return self.whole(target) if target else None

    def look(self, path: str) -> Entry | None:
        """What is at a path that has no links in it; digest and content only of what is small."""
        if self._below and self._below.layer.untouched(path):
            return self._below.files.look(path)
        if path not in self._memory:
            self._memory.keep(path, self._look(path))
        return self._memory[path]

    def listing(self, path: str, keep: Callable[[str], bool]) -> Listing | None:
        """Everything below a folder, links not followed, with the content of what is wanted; None without a folder."""
        top = self.resolved(path)
        if not top or not self._is_folder(top):
            return None
        if self._below and self._below.layer.untouched_below(top):
            return self._below.files.listing(top, keep)
        listing = self._cut.get(top) or self._memory.listing(top)
        missing = [] if listing is None else listing.without(keep, _FEW)
        if listing is None or len(missing) > _FEW or not all(map(_is_text, missing)):
            noted = self._bounds.noted
            listing = self._listed(top, keep)
            if self._bounds.noted > noted:
                if len(self._cut) == _MOST_CUT:
                    del self._cut[next(iter(self._cut))]
                self._cut[top] = listing
            else:
                self._memory.keep_listing(top, listing)
            missing = listing.without(keep, _FEW)
        # What came as a hard link to something whose content was not wanted.
        for other in filter(_is_text, missing):
            if (entry := self.whole(other)) is not None:
                listing.add(entry)
        return listing

    def _is_folder(self, path: str) -> bool:
        place = Entry("/", Kind.FOLDER) if path == "/" else self.look(path)
        return place is not None and place.is_folder

    def _look(self, path: str) -> Entry | None:
        if not readable(path):
            return None
        if not _is_text(path):
            return self._listed_among_others(path)
        # An archive of a folder is begun by the engine as a whole, although only its first entry is read.
        seen = self._container().stat(path)
        if seen is not None and seen.folder:
            return Entry(path, Kind.FOLDER, seen.mode)
        with opened(self._container(), path) as found:
            if found is None:
                return None
            member, content = found
            return self._made(path, member, content if member.size <= _SMALL else None, keep=True)

    def whole(self, path: str) -> Entry | None:
        """What is at a path that has no links in it, with digest and content."""
        if self._below and self._below.layer.untouched(path):
            return self._below.files.whole(path)
        seen = self.look(path)
        if seen is None or seen.kind is not Kind.FILE or (seen.sha256 and (seen.content is not None or _is_text(path))):
            return seen
        if not _is_text(path):
            listing = self.listing(_above(path), path.__eq__)
            return seen if listing is None else listing.find(path)
        with opened(self._container(), path) as found:
            entry = None if found is None else self._made(path, *found, keep=True)
        self._memory.keep(path, entry)
        return entry

    def _listed_among_others(self, path: str) -> Entry | None:
        """What is at a path whose last component is no UTF-8: asked for it, engines answer with an empty archive."""
        tops = (top for top in self._memory.tops() if path.startswith(f"{top.rstrip('/')}/"))
        listing = self._memory.listing(next(tops, "")) or self.listing(_above(path), lambda _: False)
        return None if listing is None else listing.find(path)

    def _listed(self, top: str, keep: Callable[[str], bool]) -> Listing:
        listing = Listing()
        if not _is_text(top):
            for entry in self.listing(_above(top), keep) or ():
                if entry.path.startswith(f"{top}/"):
                    listing.add(entry)
            return listing
        with self._container().get(top) as stream:
            try:
                if stream is not None:
                    with tarfile.open(fileobj=stream, mode="r|", bufsize=_BLOCK) as members:
                        self._list(members, top, listing, keep)
            except tarfile.TarError as error:
                raise SandboxError(f"cannot read {top}: the engine's archive is broken: {error}") from error
        return listing

    def _list(self, members: tarfile.TarFile, top: str, listing: Listing, keep: Callable[[str], bool]) -> None:
        count = kept = 0
        while member := members.next():
            # tarfile keeps every entry for random access: 1.5 GB for a million files.
            members.members = []  # type: ignore[attr-defined] # Left out of the stubs.
            path = _below(top, member.name)
            if path == top:
                continue
            count += 1
            if count > self._bounds.most_entries:
                self._bounds.note(f"{printable(top)} has more than {self._bounds.most_entries} entries")
                return
            if member.islnk():
                listing.add_link(path, _below(top, member.linkname))
                continue
            content = members.extractfile(member) if member.isreg() else None
            wanted = content is not None and member.size <= KEPT_BYTES and (_is_wanted(path) or keep(path))
            kept += member.size if wanted else 0
            if kept > self._bounds.most_kept:
                self._bounds.note(f"{printable(top)} has more than {self._bounds.most_kept} bytes that are wanted")
                return
            listing.add(self._made(path, member, content, keep=wanted))

    def _made(self, path: str, member: tarfile.TarInfo, content: IO[bytes] | None, *, keep: bool) -> Entry:
        """Describe what an archive holds, reading its content."""
        place = _place(path, member)
        if content is None or not self._bounds.allow(path, member.size):
            return place
        keep = keep and member.size <= KEPT_BYTES
        digest, parts, head = hashlib.sha256(), [], b""
        search = BodySearch(self._canaries, length=member.size)
        while block := content.read(_BLOCK):
            digest.update(block)
            search.feed(block)
            head = head or block[:HEAD_BYTES]
            if keep:
                parts.append(block)
        body = b"".join(parts) if keep else None
        return replace(place, sha256=digest.hexdigest(), content=body, head=head, canary=search.found)


def _is_text(path: str) -> bool:
    """Whether the last component of a path is UTF-8."""
    return posixpath.basename(path).isascii() or not re.search("[\udc80-\udcff]", posixpath.basename(path))


def _is_at_or_below(path: str, place: str) -> bool:
    """Whether a path names a place as one on its way, without links or `..`."""
    return ".." not in path.split("/") and f"{posixpath.normpath(path)}/".startswith(f"{place}/")


def _above(path: str) -> str:
    """The nearest folder above a path that the engine can be asked for."""
    folder = posixpath.dirname(path)
    while not _is_text(folder):
        folder = posixpath.dirname(folder)
    return folder


def _is_wanted(path: str) -> bool:
    folder, name = posixpath.split(path)
    return folder.endswith(_WANTED_FOLDERS) or _WANTED.fullmatch(name) is not None


def _below(top: str, name: str) -> str:
    """The path of what an archive of a folder holds; its names begin with the folder's own, or with a slash for `/`."""
    if top == "/":
        return f"/{name.strip('/')}"
    rest = name.partition("/")[2]
    return f"{top}/{rest}" if rest else top


def _place(path: str, member: tarfile.TarInfo) -> Entry:
    mode = member.mode & 0o7777
    if member.isreg():
        return Entry(path, Kind.FILE, mode, member.size)
    if member.issym():
        return Entry(path, Kind.LINK, mode, link=member.linkname)
    return Entry(path, Kind.FOLDER if member.isdir() else Kind.OTHER, mode)
