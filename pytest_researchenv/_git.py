"""Trees from Git, and the one commit that each becomes.

A tree is data. No configuration but our own applies to it, so no filter, hook, helper or monitor that it names exists.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from pytest_researchenv._gitcommand import fetch_commit, own_git, read_git
from pytest_researchenv._gitsubmodules import WITHOUT, Submodule, submodules_of
from pytest_researchenv.errors import SourceError


__all__ = ["checkout_commit", "commit_everything", "intact", "tracked_files", "tree_digest"]

# Bytes stay as they are, whatever the tree's own .gitattributes say: no line ends or `$Id$` converted, no filter, no
# re-encoding (an impossible one would stop `git add`).
_ATTRIBUTES = "* !text !eol !ident !filter !working-tree-encoding\n"

# How many submodules there may be: a tree can name ever more of them.
_MOST_SUBMODULES = 500


def checkout_commit(url: str, commit: str, target: Path, scratch: Path, *, submodules: bool = False) -> None:
    """Fetch exactly one commit and lay its files out, with its own time as theirs.

    Args:
        url: where from.
        commit: full hash.
        target: new folder for the files; no `.git` in it.
        scratch: new folder for the objects.
        submodules: whether the files of submodules, and of theirs, are laid out, too.

    Raises:
        SourceError: the host or a commit cannot be had, or a submodule is none that may be fetched.
    """
    own_git("init", "--quiet", "--bare", "--template=", "--", str(scratch))
    (scratch / "info").mkdir(exist_ok=True)
    (scratch / "info" / "attributes").write_text(_ATTRIBUTES)
    fetch_commit(url, commit, scratch)
    _lay_out(commit, target, scratch)
    waiting = [Submodule(url, commit, PurePosixPath(), depth=0)] if submodules else []
    number = 0
    while waiting:
        for module in submodules_of(waiting.pop(0), scratch):
            number += 1
            if number > _MOST_SUBMODULES:
                raise SourceError(f"{url} has more than {_MOST_SUBMODULES} submodules: {WITHOUT}")
            _add(module, target, scratch)
            waiting.append(module)


def commit_everything(root: Path, tag: str = "") -> None:
    """Make a folder a repository with one commit that holds every file of it; the same files give the same commit.

    Args:
        root: the folder.
        tag: name of an annotated tag for the commit, which `git describe` finds with and without `--tags`.

    Raises:
        SourceError: Git refuses.
    """
    own_git("init", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=main", "--", str(root))
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "attributes").write_text(_ATTRIBUTES)
    own_git("add", "--all", "--force", "--", ".", folder=root)
    own_git("commit", "--quiet", "--no-verify", "--allow-empty", "--message=The pinned tree", folder=root)
    if tag:
        own_git("tag", "--annotate", f"--message={tag}", "--", tag, folder=root)
    own_git("repack", "-a", "-d", "-q", folder=root)
    own_git("prune-packed", "--quiet", folder=root)


def tree_digest(root: Path) -> str:
    """Return the hash of the committed tree."""
    return own_git("rev-parse", "HEAD^{tree}", folder=root).decode().strip()


def intact(root: Path, tag: str = "") -> bool:
    """Whether a folder made by `commit_everything` still holds what was committed and that tag, and nothing else."""
    if own_git("status", "--porcelain", "--untracked-files=all", "--ignored", folder=root):
        return False
    head = own_git("rev-parse", "HEAD", folder=root).decode().strip()
    # Of an annotated tag, the commit that it is of.
    form = "%(refname) %(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)"
    there = own_git("for-each-ref", f"--format={form}", folder=root).decode().splitlines()
    return there == [f"{name} {head}" for name in ("refs/heads/main", *([f"refs/tags/{tag}"] if tag else []))]


def tracked_files(folder: Path) -> tuple[str, ...]:
    """Return the paths below a folder that Git tracks, relative to it and sorted; none where there is no repository.

    Raises:
        SourceError: Git refuses.
    """
    try:
        listed = read_git(folder, "ls-files", "-z", "--", ".")
    except SourceError as error:
        if "not a git repository" in str(error):
            return ()
        raise
    return tuple(sorted({os.fsdecode(name) for name in listed.split(b"\0") if name}))


def _add(module: Submodule, target: Path, scratch: Path) -> None:
    """Fetch a submodule and put its files in its place."""
    try:
        fetch_commit(module.url, module.commit, scratch)
    except SourceError as error:
        raise SourceError(f"submodule {module.path} cannot be had: {error}") from error
    folder = target
    for part in module.path.parts:
        folder /= part
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise SourceError(f"submodule {module.path} lies behind {folder.name!r}, which is no folder")
    if folder.exists():
        folder.rmdir()
    folder.parent.mkdir(parents=True, exist_ok=True)
    _lay_out(module.commit, folder, scratch)


def _lay_out(commit: str, target: Path, scratch: Path) -> None:
    """Put the files of a commit that was fetched into a new folder, with its own time."""
    target.mkdir()
    (scratch / "index").unlink(missing_ok=True)  # It is of another folder.
    own_git(f"--git-dir={scratch}", f"--work-tree={target}", "checkout", "--quiet", "--force", commit, "--", ".")
    # The hash may be that of a tag or, where a tree lies about a submodule, of anything.
    time = int(own_git(f"--git-dir={scratch}", "show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}"))
    for folder, folders, files in os.walk(target):
        for name in (*folders, *files):
            os.utime(Path(folder, name), (time, time), follow_symlinks=False)
