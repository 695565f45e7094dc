"""The pinned tree of a repository: from wherever it comes to one folder with one commit, and on as a tar stream.

Nothing of a tree is ever executed on this machine: it is downloaded, checked, copied and committed, no more.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO

from filelock import FileLock

from pytest_researchenv._git import checkout_commit, commit_everything, intact, tracked_files, tree_digest
from pytest_researchenv._gitcommand import EPOCH
from pytest_researchenv._gitsubmodules import submodule_folders
from pytest_researchenv.errors import SourceError
from pytest_researchenv.model import GitSource, PathSource, PrunedSource, PypiSource, Repository
from pytest_researchenv.probes.protocol import Tree


__all__ = ["fetch", "identity", "tree_tar"]

# A tar stream up to this size stays in memory.
_SPOOL_BYTES = 64 * 1024**2


def fetch(repository: Repository, *, cache: Path) -> Tree:
    """Have the pinned tree of a repository on this machine.

    What was fetched before is taken from the cache, unless somebody changed it there. Several processes may call this
    at once: one works, the others wait.

    Args:
        repository: the repository.
        cache: folder that keeps trees; made when it is not there.

    Returns:
        The tree; its `.git` has one commit with every file, always the same for the same files, and the source's tag.

    Raises:
        SourceError: the tree cannot be had; the message says why.
    """
    home = cache / "trees"
    name = _name(repository)
    try:
        home.mkdir(parents=True, exist_ok=True)
        with FileLock(home / f"{name}.lock"):
            place = home / name
            tag = _tag(repository)
            if isinstance(repository.source, PathSource) or not _usable(place, tag):
                place = _build(repository, home / f"{name}.building", place)
            # A tag is no file of the tree, and changes what is built of it: the version.
            digest = f"{tree_digest(place)}+{tag}" if tag else tree_digest(place)
            fetched = isinstance(repository.source, GitSource) and repository.source.submodules
            folders = submodule_folders(place) if fetched else ()
            return Tree(root=place, files=tracked_files(place), digest=digest, submodules=folders)
    except SourceError:
        raise
    except OSError as error:
        raise SourceError(f"the tree of {repository.name} cannot be kept in {home}: {error}") from error


def identity(repository: Repository, *, tree: Callable[[Repository], Tree]) -> str:
    """Return what tells the pinned tree of a repository from any other: its source, or what a folder holds.

    Args:
        repository: the repository.
        tree: gives its tree, as `fetch` does.

    Raises:
        SourceError: a folder's tree cannot be had.
    """
    source = repository.source
    return tree(repository).digest if isinstance(source, PathSource) else str(source)


def tree_tar(tree: Tree, *, prefix: str, exclude_git: bool = False) -> IO[bytes]:
    """Pack a tree as a tar stream for `Container.put("/", …)`.

    Everything is owned by root, and every folder from `/` down is named, so that no planted link is followed. Files
    keep their times, to the second; folders and `.git` have the time of the commit.

    Args:
        tree: what to pack.
        prefix: where it goes, e.g. `/workspace/kvpress`.
        exclude_git: leave `.git` out.

    Returns:
        A file at its beginning, for the caller to close.

    Raises:
        SourceError: the tree cannot be read.
    """
    top = PurePosixPath("/", prefix).relative_to("/")
    if ".." in top.parts:
        raise ValueError(f"prefix must not go through '..': {prefix!r}")
    names = [*tree.files] if exclude_git else [*_git_files(tree.root), *tree.files]
    spool = tempfile.SpooledTemporaryFile(max_size=_SPOOL_BYTES)  # noqa: SIM115 - the caller closes it
    try:
        # GNU's format takes names of any length and bytes as they are.
        with tarfile.open(fileobj=spool, mode="w", format=tarfile.GNU_FORMAT) as archive:
            _pack(archive, tree.root, names, top)
    except OSError as error:
        spool.close()
        raise SourceError(f"the tree in {tree.root} cannot be read: {error}; was it changed meanwhile?") from error
    spool.seek(0)
    return spool


# --- the cache --------------------------------------------------------------------------------------------


def _name(repository: Repository) -> str:
    """Name what is fetched; a folder's content has no name before it was read, and one lock serves all folders."""
    match repository.source:
        case PrunedSource(commit=commit) as source:
            return f"pruned-{commit[:12]}-{_key(str(source))}"
        case GitSource(git=url, commit=commit, tag=tag, submodules=submodules):
            return f"git-{commit[:12]}-{_key(url, commit, tag, str(submodules))}"
        case PypiSource(pypi=project, version=version, sha256=sha256):
            return f"pypi-{_key(project, version, sha256)}"
        case PathSource():
            return "path"


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _tag(repository: Repository) -> str:
    return repository.source.tag if isinstance(repository.source, GitSource) else ""


def _usable(place: Path, tag: str = "") -> bool:
    """Whether the cache has a tree there that nobody changed."""
    if not (place / ".git").is_dir():
        return False
    try:
        return intact(place, tag)
    except SourceError:
        return False


def _build(repository: Repository, building: Path, place: Path) -> Path:
    """Make a tree beside its place and move it there whole, so that no half-made one is ever seen."""
    if building.exists():  # A process was killed at work.
        shutil.rmtree(building)
    building.mkdir()
    try:
        root = building / "tree"
        _lay_out(repository, root, building)
        commit_everything(root, _tag(repository))
        if isinstance(repository.source, PathSource):
            place = place.with_name(f"path-{tree_digest(root)}")
            if _usable(place):
                return place
        if place.exists():
            shutil.rmtree(place)
        root.rename(place)
    finally:
        shutil.rmtree(building)
    return place


def _lay_out(repository: Repository, root: Path, scratch: Path) -> None:
    match repository.source:
        case PrunedSource() as source:
            from pytest_researchenv._pruning import prune  # noqa: PLC0415 - as below

            whole = scratch / "whole"
            checkout_commit(source.git, source.commit, whole, scratch / "objects.git")
            prune(whole, source, root)
        case GitSource(git=url, commit=commit, submodules=submodules):
            checkout_commit(url, commit, root, scratch / "objects.git", submodules=submodules)
        case PypiSource() as source:
            # Not needed, and not imported, when the cache has the tree.
            from pytest_researchenv._sdist import download, unpack  # noqa: PLC0415 - see above

            archive = scratch / f"{source.pypi}-{source.version}.tar.gz"
            download(source, archive)
            unpack(archive, root)
        case PathSource(path=path):
            _copy(Path(repository.folder, path), root)


def _copy(folder: Path, target: Path) -> None:
    """Copy a folder: what Git tracks of it where it tracks any, else everything but Python's bytecode."""
    if not folder.is_dir():
        raise SourceError(f"the source {folder} is no folder: correct `path` in the repository's repo.toml")
    target.mkdir()
    # Installers compile whatever is in a package, and so a folder that is shipped in one.
    untracked = (name for name in _all_files(folder) if "__pycache__" not in PurePosixPath(name).parts)
    for name in tracked_files(folder) or untracked:
        source = folder / name
        place = target / name
        if ".git" in map(str.lower, PurePosixPath(name).parts) or not os.path.lexists(source):
            continue
        mode = source.lstat().st_mode
        if stat.S_ISDIR(mode):  # A submodule.
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISLNK(mode)):
            raise SourceError(f"{source} is neither a file nor a link: take it out of the source folder")
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, place, follow_symlinks=False)


def _all_files(folder: Path) -> Iterator[str]:
    """Every path below a folder that is no folder; links are not followed."""
    for parent, folders, files in os.walk(folder):
        links = [name for name in folders if Path(parent, name).is_symlink()]
        for name in (*files, *links):
            yield Path(parent, name).relative_to(folder).as_posix()


# --- the archive ------------------------------------------------------------------------------------------


def _git_files(root: Path) -> list[str]:
    return sorted(f".git/{name}" for name in _all_files(root / ".git"))


def _pack(archive: tarfile.TarFile, root: Path, names: list[str], top: PurePosixPath) -> None:
    seen: set[PurePosixPath] = set()
    for name in ("", *names):
        path = top / name
        # An empty name is the tree's own folder.
        folders = [path, *path.parents] if not name else [*path.parents]
        for folder in reversed(folders):
            if folder not in seen and folder.parts:
                seen.add(folder)
                archive.addfile(_entry(folder, tarfile.DIRTYPE, mode=0o755))
        if name:
            _add(archive, root / name, path)


def _add(archive: tarfile.TarFile, file: Path, path: PurePosixPath) -> None:
    status = file.lstat()
    time = EPOCH if ".git" in path.parts else int(status.st_mtime)
    if stat.S_ISLNK(status.st_mode):
        entry = _entry(path, tarfile.SYMTYPE, mode=0o777, time=time)
        entry.linkname = os.readlink(file)  # noqa: PTH115 - a Path would normalise it
        archive.addfile(entry)
        return
    with file.open("rb") as content:
        # What Git knows of a mode, whatever the umask was.
        entry = _entry(path, tarfile.REGTYPE, mode=0o755 if status.st_mode & stat.S_IXUSR else 0o644, time=time)
        entry.size = os.fstat(content.fileno()).st_size
        archive.addfile(entry, content)


def _entry(path: PurePosixPath, kind: bytes, *, mode: int, time: int = EPOCH) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(str(path))
    entry.type = kind
    entry.mode = mode
    entry.mtime = time
    return entry
