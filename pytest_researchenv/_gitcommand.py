"""Git's command: with our configuration alone on trees that nobody has vouched for, with the user's to other hosts."""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from pytest_researchenv.errors import SourceError


__all__ = ["EPOCH", "fetch_commit", "own_git", "read_git", "remote_git", "shown_address"]

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

_MIRROR = "fetch from a mirror (url.<base>.insteadOf in your Git configuration)"

# What Git 2.39, curl and ssh say, addresses in quotes apart → what it means, and what to do.
_REASONS = {
    "not our ref|couldn't find remote ref": "it is not there; was it rewritten or removed? Pin one that exists",
    "unadvertised object": f"the host hands out what branches and tags point at, and no more; pin that, or {_MIRROR}",
    "dumb http": f"the host serves plain files, or no repository; check the address, or {_MIRROR}",
    "resolve proxy|from proxy|CONNECT tunnel": "the proxy refuses; check http.proxy, https_proxy and no_proxy",
    "could not read (Username|Password)|Authentication failed|Permission denied|returned error: 40[13]": (
        "the host wants credentials, or has no such repository (many say the same of both); check the address, and "
        "give git credentials (a credential helper, .netrc or an SSH key)"
    ),
    "repository .*not found|a git repository|repository not exported|invalid gitfile": (
        "there is no repository at this address; check it"
    ),
    "repository corruption on the remote side|unable to read [0-9a-f]{40}": (
        f"the host lacks some of its files; fetch from a complete copy, or {_MIRROR}"
    ),
    "dubious ownership": (
        "the repository belongs to another user; allow it: `git config --global --add safe.directory FOLDER`"
    ),
    "could not resolve host|unable to look up": (
        "the host is not known here; check the address, and that this machine has a network and a name server"
    ),
    "(failed|unable) to connect|couldn't connect|connect to host|connection (refused|reset)|unreachable|timed out": (
        f"the host does not answer; check the address and the network, or {_MIRROR}"
    ),
    "certificate|SSL|TLS|host key": (
        "the host cannot be trusted; check the address, and give git or ssh its certificate or key (http.sslCAInfo, "
        "known_hosts)"
    ),
    "transport '' not allowed|remote helper": "the address is of no kind that is fetched; use https, http, ssh or git",
}
_UNKNOWN = "check the address, the network and the credentials that git uses"


def own_git(*arguments: str, folder: Path | None = None, stdin: bytes = b"", extra: Sequence[str] = ()) -> bytes:
    """Run Git with our configuration and no other, and return what it printed.

    Args:
        arguments: of Git.
        folder: where; None where the arguments say it.
        stdin: what it is given.
        extra: settings beside ours.

    Raises:
        SourceError: Git refuses.
    """
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


def read_git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run a reading command in a repository that somebody else made, and return what it printed.

    Raises:
        SourceError: Git refuses.
    """
    return own_git(*arguments, folder=folder, stdin=stdin, extra=_FOREIGN)


def fetch_commit(url: str, commit: str, repository: Path) -> None:
    """Fetch the objects of exactly one commit into a repository.

    Raises:
        SourceError: it cannot be had; the message says why, and what to do.
    """
    try:
        _ask(
            *(f"--git-dir={repository}", "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"),
            *("--no-write-fetch-head", "--", url, commit),
        )
    except _GitError as error:
        raise SourceError(f"commit {commit} of {shown_address(url)} cannot be fetched: {_explained(error)}") from error


def remote_git(*arguments: str) -> bytes:
    """Run a command of Git that talks to another host, and return what it printed.

    Raises:
        SourceError: it fails; the message says why, and what to do.
    """
    try:
        # Wherever this process is: the configuration of a checkout there may name commands.
        return _ask("-C", "/", *arguments)
    except _GitError as error:
        raise SourceError(f"git {arguments[0]} failed: {_explained(error)}") from error


def shown_address(text: str) -> str:
    """What a message may hold of an address: no password, as git has it."""
    return re.sub(r"//[^/@\s]*@", "//", text)


def _ask(*arguments: str) -> bytes:
    # The user's own configuration applies here: proxies, certificates, credentials, mirrors (url.*.insteadOf).
    # Nothing that was fetched is in reach but as objects, so none of its attributes and hooks exists.
    environment = {name: value for name, value in os.environ.items() if name not in _LOCAL} | {
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    return _run(["-c", "core.hooksPath=/dev/null", *arguments], environment=environment, timeout_s=_FETCH_TIMEOUT_S)


def _explained(error: _GitError) -> str:
    said = error.said or str(error)
    bare = re.sub(r"'[^']*'", "''", said)
    why = next((text for pattern, text in _REASONS.items() if re.search(pattern, bare, re.IGNORECASE)), _UNKNOWN)
    return f"{why} (git: {' '.join(said.split())})"


class _GitError(Exception):
    """Git ended with an error.

    Attributes:
        said: the last lines it printed.
    """

    def __init__(self, message: str, said: str) -> None:
        super().__init__(message)
        self.said = said


def _run(argv: Sequence[str], *, environment: Mapping[str, str], timeout_s: float, stdin: bytes = b"") -> bytes:
    command = shown_address(f"git {' '.join(argv)}")
    _log.debug("%s", command)
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
        raise SourceError(f"git did not end within {timeout_s:.0f} s: {command}") from error
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip()[-1000:]
        raise _GitError(f"{command} ended with code {done.returncode}", said)
    return done.stdout
