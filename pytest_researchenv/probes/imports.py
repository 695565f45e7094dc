"""Which top-level names a tree of Python files imports: the published denominator of C0.

The published definition (arXiv 2603.06739), checked against the 31 pinned repositories that could be had, all exact
(kvpress 41, nano-vllm 22, large_concept_model 85, Vim 132, Auto1111SDK 213): distinct imported top-level names of all
git-tracked `*.py` files by AST. The standard library and the repository's own packages count, relative imports do not,
files that cannot be parsed and the folders in `EXCLUDED` are left out.

The published scanner took files for UTF-8 text, whatever they declare. It left a byte order mark in, which `ast`
refuses in a text: what such files import is not in the published total, but is judged like any import (SpecForge: 52
published, 53 judged). Bytes that are no UTF-8 were replaced, so a name may be in the published total that is in no
valid Python.

Nothing is executed and no container is needed. Which files can be parsed depends on the Python that runs this.
"""

from __future__ import annotations

import ast
import io
import os
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_researchenv._git import tracked_files
from pytest_researchenv._gitcommand import read_git
from pytest_researchenv._parsing import parsed
from pytest_researchenv.errors import SourceError


__all__ = ["EXCLUDED", "ImportScan", "OwnModules", "counted", "scan_files", "scan_folder", "scan_git"]

#: Folders whose files do not count, at any depth.
EXCLUDED = frozenset(
    {
        ".git",
        ".mypy_cache",
        ".pytest_cache",
        ".venv",
        "__pycache__",
        "build",
        "build_output",
        "dist",
        "node_modules",
        "venv",
    }
)

#: Modes of regular files in Git; links (120000) and submodules (160000) are not read.
_REGULAR = ("100644", "100755")


@dataclass(frozen=True, slots=True)
class ImportScan:
    """What a tree imports.

    Attributes:
        importers: imported top-level name → the files that import it, sorted.
        files: the files that were read, sorted; the unparsable ones are among them.
        unparsable: the files that are no valid Python, sorted.
        published_names: the names that the published scanner found, sorted; their number is the published total.
    """

    importers: Mapping[str, tuple[str, ...]]
    files: tuple[str, ...]
    unparsable: tuple[str, ...]
    published_names: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The distinct imported top-level names, sorted: what is judged."""
        return tuple(sorted(self.importers))


@dataclass(frozen=True, slots=True)
class OwnModules:
    """Which imports a tree satisfies by itself.

    As pyright and a script that is run have it, a module or package is looked for in the importing file's folder and
    every folder above it, and in `src`.

    Attributes:
        places: folder, relative to the tree, and the name of a module or package in it.
    """

    places: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, root: Path, paths: Iterable[str]) -> OwnModules:
        """Those of a tree's files, wherever they lie, and of links in it to something that is in it."""
        places = set()
        for path in paths:
            pure = PurePosixPath(path)
            link = (root / path).is_symlink()
            if link and not _leads_inside(root / path, root):
                continue
            if pure.suffix == ".py" or link:
                places.add((str(pure.parent), pure.name.removesuffix(".py")))
                places.update((str(folder.parent), folder.name) for folder in pure.parents if folder.name)
        return cls(frozenset(places))

    def satisfy(self, name: str, importer: str) -> bool:
        """Whether a top-level name that a file of the tree imports is in the tree."""
        folders = [str(folder) for folder in PurePosixPath(importer).parents]
        return any((folder, name) in self.places for folder in (*folders, "src"))


def scan_folder(root: Path) -> ImportScan:
    """Scan a checkout's git-tracked files as they are now, or all files of a folder that has no `.git`.

    Links are not followed. Tracked files that are not there are left out.

    Raises:
        SourceError: the folder is missing, git cannot read its index, or tracks nothing.
    """
    if not root.is_dir():
        raise SourceError(f"no such folder: {root}; give the root of a checkout, or any folder with Python files")
    if (root / ".git").exists():
        return scan_files(root, _tracked(root))
    return scan_files(root, _walk(root))


def scan_files(root: Path, paths: Iterable[str]) -> ImportScan:
    """Scan some files of a folder.

    Args:
        root: the folder.
        paths: `/`-separated and relative to it; those that do not count are passed over.

    Raises:
        SourceError: a file cannot be read.
    """
    return _scan((path, _read(root / path)) for path in paths if counted(path) and _is_regular(root / path))


def scan_git(repository: Path, commit: str) -> ImportScan:
    """Scan a commit (or any tree-ish) of a Git repository, bare or not, without a work tree.

    Raises:
        SourceError: the repository or the commit cannot be read.
    """
    listing = read_git(repository, "ls-tree", "-r", "-z", "--full-tree", "--end-of-options", commit)
    blobs = {}
    for entry in listing.split(b"\0"):
        meta, _, name = entry.partition(b"\t")
        path = os.fsdecode(name)
        if counted(path) and meta.decode().split()[0] in _REGULAR:
            blobs[path] = meta.decode().split()[2]
    return _scan(zip(blobs, _contents(repository, tuple(blobs.values())), strict=True))


def counted(path: str) -> bool:
    """Whether a file of that `/`-separated relative path belongs to the published total."""
    return path.endswith(".py") and EXCLUDED.isdisjoint(PurePosixPath(path).parts)


def _scan(sources: Iterable[tuple[str, bytes]]) -> ImportScan:
    importers: dict[str, set[str]] = {}
    published: set[str] = set()
    files = []
    unparsable = []
    for path, source in sources:
        files.append(path)
        names = _imported(source)
        published |= (names if _is_plain(source) else _imported(source.decode(errors="replace"))) or set()
        if names is None:
            unparsable.append(path)
            continue
        for name in names:
            importers.setdefault(name, set()).add(path)
    return ImportScan(
        importers={name: tuple(sorted(importers[name])) for name in sorted(importers)},
        files=tuple(sorted(files)),
        unparsable=tuple(sorted(unparsable)),
        published_names=tuple(sorted(published)),
    )


def _is_plain(source: bytes) -> bool:
    """Whether a source is the same as UTF-8 text and as Python reads it."""
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(source).readline)
        source.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError):
        return False
    return encoding == "utf-8"


def _imported(source: bytes | str) -> set[str] | None:
    """Top-level names that a source imports absolutely; None where it is no Python."""
    tree = parsed(source)
    if tree is None:
        return None
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            names.add(node.module.partition(".")[0])
    return names


def _tracked(root: Path) -> tuple[str, ...]:
    paths = tracked_files(root)
    if not paths:
        # A `.git` that leads nowhere, as in a submodule without its parent, must not count as "imports nothing".
        raise SourceError(
            f"git tracks nothing in {root}: check out a commit, or remove {root / '.git'} to scan all files"
        )
    return paths


def _walk(root: Path) -> Iterator[str]:
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in EXCLUDED)
        for name in files:
            yield (Path(folder) / name).relative_to(root).as_posix()


def _is_regular(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def _leads_inside(link: Path, root: Path) -> bool:
    return link.exists() and link.resolve().is_relative_to(root.resolve())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SourceError(f"cannot read {path}: {error}; check its permissions") from error


def _contents(repository: Path, objects: tuple[str, ...]) -> Iterator[bytes]:
    """The blobs with these hashes, in order."""
    answer = read_git(repository, "cat-file", "--batch", stdin="".join(f"{name}\n" for name in objects).encode())
    position = 0
    for name in objects:
        end = answer.index(b"\n", position)
        header = answer[position:end].decode().split()
        if header[1:2] != ["blob"]:
            raise SourceError(f"{repository} lacks the object {name}; fetch the repository again in full")
        start = end + 1
        position = start + int(header[2]) + 1
        yield answer[start : position - 1]
