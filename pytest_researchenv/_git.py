"""Git, run on trees that nobody has vouched for.

A tree is data. No configuration but our own applies to it, so no filter, hook, helper or monitor that it names exists.
"""

from __future__ import annotations

import logging
import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_researchenv.errors import SourceError


__all__ = ["EPOCH", "checkout_commit", "commit_everything", "intact", "read_git", "tracked_files", "tree_digest"]

_log = logging.getLogger(__name__)

#: 2000-01-01T00:00:00Z, the time of the one commit.
EPOCH = 946684800

_FETCH_TIMEOUT_S = 1800.0
_TIMEOUT_S = 600.0

# `git rev-parse --local-env-vars`: what would make Git work on another repository, as inside a hook.
_LOCAL = (
    "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_COMMON_DIR",
    "GIT_CONFIG",
    "GIT_CONFIG_COUNT",
    "GIT_CONFIG_PARAMETERS",
    "GIT_DIR",
    "GIT_GRAFT_FILE",
    "GIT_IMPLICIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_INTERNAL_SUPER_PREFIX",
    "GIT_NO_REPLACE_OBJECTS",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
    "GIT_REPLACE_REF_BASE",
    "GIT_SHALLOW_FILE",
    "GIT_WORK_TREE",
)

_SETTINGS = (
    "advice.detachedHead=false",
    "commit.gpgSign=false",
    "core.autocrlf=false",
    "core.fileMode=true",
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    # Paths that only other systems read as `.git` are ordinary names here.
    "core.protectHFS=false",
    "core.protectNTFS=false",
    "core.symlinks=true",
    "gc.auto=0",
    "pack.threads=1",
    "submodule.recurse=false",
)

# The folder may belong to another user, as checkouts in containers do: nothing of its configuration runs here, and
# objects that it lacks are fetched from nowhere.
_FOREIGN = ("safe.directory=*", "protocol.allow=never")

# Bytes stay as they are, whatever the tree's own .gitattributes say: no line ends or `$Id$` converted, no filter, no
# re-encoding (an impossible one would stop `git add`).
_ATTRIBUTES = "* !text !eol !ident !filter !working-tree-encoding\n"


def checkout_commit(url: str, commit: str, target: Path, scratch: Path) -> None:
    """Fetch exactly one commit and lay its files out, with its own time as theirs.

    Args:
        url: where from.
        commit: full hash.
        target: new folder for the files; no `.git` in it.
        scratch: new folder for the objects.

    Raises:
        SourceError: the host or the commit cannot be had.
    """
    _git("init", "--quiet", "--bare", "--template=", "--", str(scratch))
    (scratch / "info").mkdir(exist_ok=True)
    (scratch / "info" / "attributes").write_text(_ATTRIBUTES)
    _fetch(url, commit, scratch)
    target.mkdir()
    _git(f"--git-dir={scratch}", f"--work-tree={target}", "checkout", "--quiet", "--force", commit, "--", ".")
    time = int(_git(f"--git-dir={scratch}", "show", "--no-patch", "--format=%ct", commit))
    for folder, folders, files in os.walk(target):
        for name in (*folders, *files):
            os.utime(Path(folder, name), (time, time), follow_symlinks=False)


def commit_everything(root: Path) -> None:
    """Make a folder a repository with one commit that holds every file of it; the same files give the same commit.

    Raises:
        SourceError: Git refuses.
    """
    _git("init", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=main", "--", str(root))
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "attributes").write_text(_ATTRIBUTES)
    _git("add", "--all", "--force", "--", ".", folder=root)
    _git("commit", "--quiet", "--no-verify", "--allow-empty", "--message=The pinned tree", folder=root)
    _git("repack", "-a", "-d", "-q", folder=root)
    _git("prune-packed", "--quiet", folder=root)


def tree_digest(root: Path) -> str:
    """Return the hash of the committed tree."""
    return _git("rev-parse", "HEAD^{tree}", folder=root).decode().strip()


def intact(root: Path) -> bool:
    """Whether a folder made by `commit_everything` still holds what was committed, and nothing else."""
    return not _git("status", "--porcelain", "--untracked-files=all", "--ignored", folder=root)


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


def read_git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run a reading command in a repository that somebody else made, and return what it printed.

    Raises:
        SourceError: Git refuses.
    """
    return _git(*arguments, folder=folder, stdin=stdin, extra=_FOREIGN)


def _fetch(url: str, commit: str, repository: Path) -> None:
    # The user's own configuration applies here: proxies, certificates, credentials, mirrors (url.*.insteadOf).
    # Nothing of the tree is laid out yet.
    environment = {name: value for name, value in os.environ.items() if name not in _LOCAL} | {
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    argv = [
        "--git-dir",
        str(repository),
        "-c",
        "core.hooksPath=/dev/null",
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
    ]
    argv += ["--no-recurse-submodules", "--no-write-fetch-head", "--", url, commit]
    try:
        _run(argv, environment=environment, timeout_s=_FETCH_TIMEOUT_S)
    except _GitError as error:
        if "not our ref" in error.said or "couldn't find remote ref" in error.said:
            raise SourceError(
                f"commit {commit} is not in {url}: was it rewritten or removed? Pin one that exists"
            ) from error
        raise SourceError(
            f"commit {commit} of {url} cannot be fetched: {error.said or error}; check the address, the network "
            "and the credentials that git uses"
        ) from error


class _GitError(Exception):
    """Git ended with an error.

    Attributes:
        said: the last lines it printed.
    """

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


def _git(*arguments: str, folder: Path | None = None, stdin: bytes = b"", extra: Sequence[str] = ()) -> bytes:
    """Run Git with our configuration and no other."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | {
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    for role in ("AUTHOR", "COMMITTER"):
        environment |= {
            f"GIT_{role}_NAME": "pytest-researchenv",
            f"GIT_{role}_EMAIL": "pytest-researchenv@localhost",
            f"GIT_{role}_DATE": f"{EPOCH} +0000",
        }
    settings = [word for setting in (*_SETTINGS, *extra) for word in ("-c", setting)]
    where = ["-C", str(folder)] if folder else []
    try:
        return _run([*where, *settings, *arguments], environment=environment, timeout_s=_TIMEOUT_S, stdin=stdin)
    except _GitError as error:
        # Without our settings, which are many.
        place = f" in {folder}" if folder else ""
        raise SourceError(f"git {' '.join(arguments)} failed{place}: {error.said or error}") from error


def _run(argv: Sequence[str], *, environment: Mapping[str, str], timeout_s: float, stdin: bytes = b"") -> bytes:
    _log.debug("git %s", argv)
    try:
        done = subprocess.run(
            ["git", *argv],
            env=dict(environment),
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
    except FileNotFoundError as error:
        raise SourceError("git is not installed: install it (Debian and Ubuntu: apt-get install git)") from error
    except subprocess.TimeoutExpired as error:
        raise SourceError(f"git did not end within {timeout_s:.0f} s: git {' '.join(argv)}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-1000:]
        raise _GitError(f"git {' '.join(argv)} ended with code {done.returncode}", said)
    return done.stdout
