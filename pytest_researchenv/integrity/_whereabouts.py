"""Where an agent left files of its own: folders to be read as a whole, and single files.

A tree's reading costs its bytes, and a file's some ten milliseconds. What a package of the system brought is left out,
and site folders are named by themselves, since other checks read them, too.
"""

from __future__ import annotations

import bisect
import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.sandbox.protocol import Change, ChangeKind


__all__ = ["Whereabouts", "whereabouts"]

#: What installers and the system keep for themselves.
_SKIPPED = (
    "/dev/",
    "/etc/alternatives/",
    "/proc/",
    "/run/",
    "/sys/",
    "/var/cache/apt/",
    "/var/cache/debconf/",
    "/var/cache/ldconfig/",
    "/var/lib/apt/",
    "/var/lib/dpkg/",
)

_INFO = "/var/lib/dpkg/info"
_SUMS = ".md5sums"
_OWNED = re.compile(r"^[0-9a-f]{32} [ *](?:\./)?(.+)$", re.MULTILINE)

_SITES = ("site-packages", "dist-packages")

#: Names of files that hold no text: programs, weights, pictures.
_BINARY = re.compile(
    r".*\.(?:so(?:\.\d+)*|a|o|pyc|pyi|safetensors|ckpt|pt|npy|npz|onnx|parquet|arrow|png|jpe?g|gif|wav|mp[34]|ttf|woff2?)",
    re.DOTALL | re.IGNORECASE,
)

#: Files that are read one by one, and folders that are read.
_MOST_FILES, _MOST_TREES = 120, 400

#: Where a system or an interpreter has its own: what is left out is rather there.
_SYSTEM = re.compile(r"/(?:etc|usr|var)/|.*/lib/python3\.\d+/[^/]+", re.DOTALL)

#: Gigabytes of weights, by their digests. What was fetched stands in the name of a folder above.
_WEIGHTS = re.compile(r".*/(?:models|datasets|spaces)--[^/]+/blobs/.*", re.DOTALL)

#: Paths that are kept: 200 MB.
_MOST_PATHS = 1_000_000


@dataclass(slots=True)
class Whereabouts:
    """What is to be read.

    Attributes:
        trees: folders.
        files: single files.
        paths: every path that was added or changed.
        left_out: how many files and folders are not read.
    """

    trees: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    left_out: int = 0


@dataclass(slots=True)
class _Node:
    added: bool = False
    changed: bool = False
    children: dict[str, _Node] = field(default_factory=dict)
    #: Whether something may be read in it, and whether a site folder is in it.
    wanted: bool = False
    site: bool = False


def whereabouts(snapshot: Snapshot, changes: Iterable[Change]) -> Whereabouts:
    """Say what to read to see all that an agent left.

    Args:
        snapshot: of which dpkg's records are read where something was installed by it.
        changes: what differs from the base image.
    """
    found = Whereabouts()
    root, packaged = _Node(), False
    for change in changes:
        if change.kind is ChangeKind.REMOVED:
            continue
        packaged = packaged or change.path.startswith(f"{_INFO}/")
        if change.path.startswith(_SKIPPED):
            continue
        if len(found.paths) == _MOST_PATHS:
            found.left_out += 1
            continue
        found.paths.append(change.path)
        if not _WEIGHTS.fullmatch(change.path):
            _plant(root, change)
    # What has nothing in it is a file, or as good as one.
    for path in found.paths:
        _mark(root, path)
    owned = _owned(snapshot) if packaged else []
    _choose(root, found, owned)
    # What others read, too, is remembered for a while only.
    found.trees.sort(key=lambda path: (posixpath.basename(path) not in _SITES, path))
    found.files.sort(key=lambda path: (_SYSTEM.match(path) is not None, path))
    for chosen, most in ((found.trees, _MOST_TREES), (found.files, _MOST_FILES)):
        found.left_out += max(0, len(chosen) - most)
        del chosen[most:]
    return found


def _plant(root: _Node, change: Change) -> None:
    parts = change.path.strip("/").split("/")
    node = root
    for part in parts:
        node.site = node.site or parts[-1] in _SITES
        node = node.children.setdefault(part, _Node())
    node.added, node.changed = change.kind is ChangeKind.ADDED, change.kind is ChangeKind.CHANGED


def _mark(root: _Node, path: str) -> None:
    """Say of all folders above a file that there is something to read in them."""
    way = [root]
    for part in path.strip("/").split("/"):
        if part not in way[-1].children:
            return
        way.append(way[-1].children[part])
    if not way[-1].children and not _BINARY.fullmatch(posixpath.basename(path)):
        for node in way:
            node.wanted = True


def _choose(root: _Node, found: Whereabouts, owned: list[str]) -> None:
    # Not by recursion: a hostile tree is two thousand folders deep.
    waiting = [("/", root)]
    while waiting:
        path, node = waiting.pop()
        if not node.wanted:
            continue
        if not node.children:
            if (node.added or node.changed) and not _holds(owned, path):
                found.files.append(path)
            continue
        if posixpath.basename(path) in _SITES or (node.added and not node.site and not _holds(owned, f"{path}/")):
            found.trees.append(path)
            continue
        waiting.extend((posixpath.join(path, name), child) for name, child in node.children.items())


def _owned(snapshot: Snapshot) -> list[str]:
    """Paths that dpkg's records name, sorted. `/bin` and `/lib` are links into `/usr` on a system of today."""
    wanted: Callable[[str], bool] = lambda path: path.endswith(_SUMS)  # noqa: E731 - as other checks ask for it
    paths: set[str] = set()
    for entry in snapshot.tree(_INFO, wanted):
        if entry.content is not None and wanted(entry.path):
            named = _OWNED.findall(entry.content.decode(errors="surrogateescape"))
            paths.update(f"/{name}" for name in named)
            paths.update(f"/usr/{name}" for name in named if not name.startswith("usr/"))
    return sorted(paths)


def _holds(owned: list[str], path: str) -> bool:
    """Whether a path, or with a slash at its end something below it, is among those."""
    at = bisect.bisect_left(owned, path)
    if at == len(owned):
        return False
    return owned[at].startswith(path) if path.endswith("/") else owned[at] == path
