"""Which commit is meant: of a checkout, or of a repository elsewhere."""

from __future__ import annotations

from pathlib import Path

from pytest_researchenv._gitcommand import read_git, remote_git
from pytest_researchenv.errors import SourceError


__all__ = ["head_commit", "latest_commit"]


def head_commit(folder: Path) -> tuple[str, str]:
    """Return the address of a checkout's `origin` and its commit; both empty where it has none, or is a part of one."""
    try:
        if read_git(folder, "rev-parse", "--show-prefix").strip():
            return "", ""
        origin = read_git(folder, "config", "--get", "remote.origin.url").decode().strip()
        commit = read_git(folder, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()
    except SourceError:
        return "", ""
    return origin, commit


def latest_commit(url: str) -> str:
    """Return the commit that a repository's HEAD names.

    Raises:
        SourceError: the repository cannot be asked, or has no commit.
    """
    listed = remote_git("ls-remote", "--quiet", "--", url, "HEAD").decode().split()
    if not listed:
        raise SourceError(f"{url} has no commit that could be pinned: give one with --commit")
    return listed[0]
