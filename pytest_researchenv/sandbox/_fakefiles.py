"""The file system of a fake container: a dictionary."""

from __future__ import annotations

import io
import os
import posixpath
import tarfile
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO

from pytest_researchenv.sandbox.protocol import ChangeKind


__all__ = ["FakeFiles", "Folder", "Link", "Node"]

_MAX_LINKS = 40


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder."""


Node = bytes | Link | Folder


class FakeFiles:
    """Files, folders and links by absolute path. Owners, modes and times are not kept.

    Whatever is above a path that is kept is a folder that is kept, and no link.

    Args:
        nodes: what to start from; folders on the way are added.
    """

    def __init__(self, nodes: dict[str, Node] | None = None) -> None:
        self._nodes: dict[str, Node] = {"/": Folder()}
        for path, node in (nodes or {}).items():
            self.place(path, node)

    def copy(self) -> FakeFiles:
        """A copy that changes on its own."""
        made = FakeFiles()
        made._nodes = dict(self._nodes)
        return made

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(len(node) for node in self._nodes.values() if isinstance(node, bytes))

    def read(self, path: str) -> bytes:
        """Content of a file; links are followed.

        Raises:
            FileNotFoundError: there is no file.
        """
        node = self._nodes.get(self.resolve(path))
        if not isinstance(node, bytes):
            raise FileNotFoundError(path)
        return node

    def write(self, path: str, content: bytes) -> None:
        """Write a file, as a program does: links are followed."""
        self.place(self.resolve(path), content)

    def node(self, path: str) -> Node | None:
        """What is at a path; the last component is not followed when it is a link."""
        return self._nodes.get(self._parent_resolved(path))

    def place(self, path: str, node: Node) -> None:
        """Put something at a path in place of what is there; links on the way are followed."""
        path = self._parent_resolved(path)
        if path == "/" or (isinstance(node, Folder) and isinstance(self._nodes.get(path), Folder)):
            return
        self.remove(path)
        parent = posixpath.dirname(path)
        if not isinstance(self._nodes.get(parent), Folder):
            self.place(parent, Folder())
        self._nodes[path] = node

    def remove(self, path: str) -> None:
        """Remove what is at a path, if anything, with all below it."""
        path = self._parent_resolved(path)
        if isinstance(self._nodes.pop(path, None), Folder):
            for name in [name for name in self._nodes if name.startswith(f"{path}/")]:
                del self._nodes[name]

    def resolve(self, path: str) -> str:
        """The path with every link in it followed."""
        for _ in range(_MAX_LINKS):
            path = self._parent_resolved(path)
            node = self._nodes.get(path)
            if not isinstance(node, Link):
                return path
            path = posixpath.join(posixpath.dirname(path), node.target)
        raise OSError(f"too many levels of symbolic links: {path}")

    def compared(self, other: FakeFiles) -> dict[str, ChangeKind]:
        """What differs from other files: by path, in what way. Folders that hold something that differs do, too."""
        before, after = other._nodes, self._nodes
        found = {path: ChangeKind.REMOVED for path in before if path not in after}
        found |= {path: ChangeKind.ADDED for path in after if path not in before}
        found |= {path: ChangeKind.CHANGED for path, node in after.items() if before.get(path, node) != node}
        for path in [path for path, kind in found.items() if kind is not ChangeKind.CHANGED]:
            for parent in PurePosixPath(path).parents:
                if str(parent) != "/":
                    found.setdefault(str(parent), ChangeKind.CHANGED)
        return {_told(path): kind for path, kind in found.items()}

    def pack(self, path: str) -> bytes | None:
        """A tar archive of what is at a path, named by its last component; None where there is nothing."""
        top = self._parent_resolved(path)
        if top not in self._nodes:
            return None
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
            inside = [name for name in self._nodes if name != top and name.startswith(f"{top.rstrip('/')}/")]
            for name in [top, *sorted(inside)]:
                below = name.removeprefix(posixpath.dirname(top)).lstrip("/")
                _add(archive, below or "/", self._nodes[name])
        return buffer.getvalue()

    def unpack(self, path: str, archive: IO[bytes]) -> None:
        """Unpack a tar stream below a folder, as Docker does: a folder in it replaces a link, files go through links.

        Raises:
            FileNotFoundError: there is no such folder.
        """
        root = self.resolve(path)
        if not isinstance(self._nodes.get(root), Folder):
            raise FileNotFoundError(path)
        with tarfile.open(fileobj=archive, mode="r|*") as members:
            for member in members:
                target = posixpath.normpath(posixpath.join(root, member.name.lstrip("/")))
                if member.isdir():
                    self.place(target, Folder())
                elif member.issym():
                    self.place(target, Link(member.linkname))
                elif (content := members.extractfile(member)) is not None:
                    self.place(target, content.read())

    def _parent_resolved(self, path: str) -> str:
        path = posixpath.normpath(posixpath.join("/", path)).replace("//", "/")
        if path == "/":
            return path
        parent, name = posixpath.split(path)
        if isinstance(self._nodes.get(parent), Folder):
            return path
        return posixpath.join(self.resolve(parent), name)


def _told(path: str) -> str:
    """A path as engines tell it, in JSON: bytes that are no UTF-8 are lost."""
    return os.fsencode(path).decode(errors="replace")


def _add(archive: tarfile.TarFile, name: str, node: Node) -> None:
    info = tarfile.TarInfo(name)
    match node:
        case bytes():
            info.size = len(node)
            info.mode = 0o755
            archive.addfile(info, io.BytesIO(node))
            return
        case Link():
            info.type = tarfile.SYMTYPE
            info.linkname = node.target
        case Folder():
            info.type = tarfile.DIRTYPE
            info.mode = 0o755
    archive.addfile(info)
