"""The submodules of a tree, as its `.gitmodules` names them: nothing of that is to be trusted."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_researchenv._gitcommand import own_git, shown_address
from pytest_researchenv.errors import SourceError


__all__ = ["WITHOUT", "Submodule", "submodule_folders", "submodules_of"]

# How deep submodules may be in one another: a tree can name ever more of them.
_DEEPEST = 10

# Addresses on other hosts, and those of folders on this machine; Git has helpers for more, which can run commands.
_REMOTE = re.compile(
    r"""
    (?:https?|git|ssh)://[\w\[][!-~]*
    | (?:\w[\w.+-]*@)?\w[\w.-]*:(?!//|[:-])[!-~]+  # user@host:path
    """,
    re.ASCII | re.VERBOSE,
)
_LOCAL_PREFIXES = ("/", "file:///")

#: What to do without them.
WITHOUT = "leave `submodules` out of [source]"


@dataclass(frozen=True, slots=True)
class Submodule:
    """A commit whose files are part of the tree.

    Attributes:
        url: where it comes from.
        commit: full hash.
        path: where its files go, relative to the tree.
        depth: how many commits it is below the tree's own.
    """

    url: str
    commit: str
    path: PurePosixPath
    depth: int


def submodules_of(parent: Submodule, scratch: Path) -> Iterator[Submodule]:
    """The submodules that a commit names, by its `.gitmodules`: nothing of that is to be trusted."""
    listing = own_git(f"--git-dir={scratch}", "ls-tree", "-r", "-z", "--full-tree", parent.commit)
    entries = [entry.partition(b"\t") for entry in listing.split(b"\0") if entry]
    found = {os.fsdecode(name): meta.decode().split() for meta, _, name in entries}
    links = {name: commit for name, (mode, _, commit) in found.items() if mode == "160000"}
    if not links:
        return
    mode, _, blob = found.get(".gitmodules", ("", "", ""))
    urls = _declared(blob, parent, scratch) if mode.startswith("100") else {}
    for name, commit in links.items():
        path = parent.path / name
        if any(part.lower() in ("", ".", "..", ".git") for part in name.split("/")):
            raise SourceError(f"{shown_address(parent.url)} has a submodule at {name!r}, outside its tree: {WITHOUT}")
        if name not in urls:
            raise SourceError(
                f"submodule {path} ({commit}) has no url in the .gitmodules of {shown_address(parent.url)}, so it can "
                f"be had from nowhere: {WITHOUT}"
            )
        if parent.depth == _DEEPEST:
            raise SourceError(f"submodule {path} is more than {_DEEPEST} deep: {WITHOUT}")
        yield Submodule(_address(urls[name], parent, path), commit, path, parent.depth + 1)


def _declared(blob: str, parent: Submodule, scratch: Path) -> dict[str, str]:
    """The paths of a `.gitmodules` and their addresses, as they are written."""
    try:
        sections = _sections(f"--git-dir={scratch}", "config", "--no-includes", f"--blob={blob}")
    except SourceError as error:
        raise SourceError(
            f"the .gitmodules of {shown_address(parent.url)} at {parent.commit} cannot be read: {WITHOUT} ({error})"
        ) from error
    return {path: keys["url"] for path, keys in sections.items() if "url" in keys}


def submodule_folders(root: Path) -> tuple[str, ...]:
    """Return the folders of a tree's submodules, as its `.gitmodules` names them; none where it is no Git's.

    Git's own reading of it: quotes, comments and the case of keys are as Git has them.
    """
    file = root / ".gitmodules"
    if file.is_symlink() or not file.is_file():
        return ()
    try:
        return tuple(_sections("config", "--no-includes", f"--file={file}"))
    except SourceError:
        return ()


def _sections(*command: str) -> dict[str, dict[str, str]]:
    """What a `.gitmodules` says of each submodule: its path → key → value."""
    sections: dict[str, dict[str, str]] = {}
    for entry in own_git(*command, "-z", "--list").split(b"\0"):
        key, _, value = os.fsdecode(entry).partition("\n")
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    known = [keys for name, keys in sections.items() if name.startswith("submodule.") and "path" in keys]
    return {keys["path"].rstrip("/"): keys for keys in known}


def _address(written: str, parent: Submodule, path: PurePosixPath) -> str:
    """Where a submodule comes from: relative to its parent's address where it says so.

    Raises:
        SourceError: the address is none, or leads from another host to this machine's files.
    """
    url = _resolved(written, parent.url)
    local = url.startswith(_LOCAL_PREFIXES) and parent.url.startswith(_LOCAL_PREFIXES)
    if local or _REMOTE.fullmatch(url):
        return url
    raise SourceError(
        f"submodule {path} of {shown_address(parent.url)} has an address that is not followed, "
        f"{shown_address(written)!r}: only https, http, ssh and git are, and folders where the repository itself is "
        f"one; {WITHOUT}"
    )


def _resolved(written: str, parent: str) -> str:
    """What an address means beside that of its parent, as `git submodule` has it; empty above the parent's host."""
    if not written.startswith(("./", "../")):
        return written
    found = re.match(r"\w[\w.+-]*://[^/]*/?|[^/:]*:|", parent)
    host = found[0] if found else ""
    parts = parent[len(host) :].removesuffix("/").split("/")
    while written.startswith(("./", "../")):
        step, _, written = written.partition("/")
        if step == "..":
            if parts in ([], [""]):
                return ""
            parts.pop()
    return host + "/".join([*parts, written.removesuffix("/")])
