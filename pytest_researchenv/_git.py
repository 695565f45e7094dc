"""Git, run on trees that nobody has vouched for.

A tree is data. No configuration but our own applies to it, so no filter, hook, helper or monitor that it names exists.
"""

from __future__ import annotations

import logging
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from pytest_researchenv.errors import SourceError


__all__ = [
    "EPOCH",
    "checkout_commit",
    "commit_everything",
    "intact",
    "read_git",
    "remote_git",
    "tracked_files",
    "tree_digest",
]

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

# How deep submodules may be in one another, and how many there may be: a tree can name ever more of them.
_DEEPEST = 10
_MOST_SUBMODULES = 500

# Addresses on other hosts, and those of folders on this machine; Git has helpers for more, which can run commands.
_REMOTE = re.compile(
    r"""
    (?:https?|git|ssh)://[\w\[][!-~]*
    | (?:\w[\w.+-]*@)?\w[\w.-]*:(?!//|[:-])[!-~]+  # user@host:path
    """,
    re.ASCII | re.VERBOSE,
)
_LOCAL_PREFIXES = ("/", "file:///")

_WITHOUT = "leave `submodules` out of [source]"

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
    _git("init", "--quiet", "--bare", "--template=", "--", str(scratch))
    (scratch / "info").mkdir(exist_ok=True)
    (scratch / "info" / "attributes").write_text(_ATTRIBUTES)
    _fetch(url, commit, scratch)
    _lay_out(commit, target, scratch)
    waiting = [_Module(url, commit, PurePosixPath(), depth=0)] if submodules else []
    number = 0
    while waiting:
        for module in _modules(waiting.pop(0), scratch):
            number += 1
            if number > _MOST_SUBMODULES:
                raise SourceError(f"{url} has more than {_MOST_SUBMODULES} submodules: {_WITHOUT}")
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
    _git("init", "--quiet", "--template=", "--object-format=sha1", "--initial-branch=main", "--", str(root))
    (root / ".git" / "info").mkdir(exist_ok=True)
    (root / ".git" / "info" / "attributes").write_text(_ATTRIBUTES)
    _git("add", "--all", "--force", "--", ".", folder=root)
    _git("commit", "--quiet", "--no-verify", "--allow-empty", "--message=The pinned tree", folder=root)
    if tag:
        _git("tag", "--annotate", f"--message={tag}", "--", tag, folder=root)
    _git("repack", "-a", "-d", "-q", folder=root)
    _git("prune-packed", "--quiet", folder=root)


def tree_digest(root: Path) -> str:
    """Return the hash of the committed tree."""
    return _git("rev-parse", "HEAD^{tree}", folder=root).decode().strip()


def intact(root: Path, tag: str = "") -> bool:
    """Whether a folder made by `commit_everything` still holds what was committed and that tag, and nothing else."""
    if _git("status", "--porcelain", "--untracked-files=all", "--ignored", folder=root):
        return False
    head = _git("rev-parse", "HEAD", folder=root).decode().strip()
    # Of an annotated tag, the commit that it is of.
    form = "%(refname) %(if)%(*objectname)%(then)%(*objectname)%(else)%(objectname)%(end)"
    there = _git("for-each-ref", f"--format={form}", folder=root).decode().splitlines()
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


def read_git(folder: Path, *arguments: str, stdin: bytes = b"") -> bytes:
    """Run a reading command in a repository that somebody else made, and return what it printed.

    Raises:
        SourceError: Git refuses.
    """
    return _git(*arguments, folder=folder, stdin=stdin, extra=_FOREIGN)


# --- submodules -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Module:
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


def _modules(parent: _Module, scratch: Path) -> Iterator[_Module]:
    """The submodules that a commit names, by its `.gitmodules`: nothing of that is to be trusted."""
    listing = _git(f"--git-dir={scratch}", "ls-tree", "-r", "-z", "--full-tree", parent.commit)
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
            raise SourceError(f"{_shown(parent.url)} has a submodule at {name!r}, outside its tree: {_WITHOUT}")
        if name not in urls:
            raise SourceError(
                f"submodule {path} ({commit}) has no url in the .gitmodules of {_shown(parent.url)}, so it can be had "
                f"from nowhere: {_WITHOUT}"
            )
        if parent.depth == _DEEPEST:
            raise SourceError(f"submodule {path} is more than {_DEEPEST} deep: {_WITHOUT}")
        yield _Module(_address(urls[name], parent, path), commit, path, parent.depth + 1)


def _declared(blob: str, parent: _Module, scratch: Path) -> dict[str, str]:
    """The paths of a `.gitmodules` and their addresses, as they are written."""
    try:
        sections = _sections(f"--git-dir={scratch}", "config", "--no-includes", f"--blob={blob}")
    except SourceError as error:
        raise SourceError(
            f"the .gitmodules of {_shown(parent.url)} at {parent.commit} cannot be read: {_WITHOUT} ({error})"
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
    for entry in _git(*command, "-z", "--list").split(b"\0"):
        key, _, value = os.fsdecode(entry).partition("\n")
        section, _, name = key.rpartition(".")
        sections.setdefault(section, {})[name] = value
    known = [keys for name, keys in sections.items() if name.startswith("submodule.") and "path" in keys]
    return {keys["path"].rstrip("/"): keys for keys in known}


def _address(written: str, parent: _Module, path: PurePosixPath) -> str:
    """Where a submodule comes from: relative to its parent's address where it says so.

    Raises:
        SourceError: the address is none, or leads from another host to this machine's files.
    """
    url = _resolved(written, parent.url)
    local = url.startswith(_LOCAL_PREFIXES) and parent.url.startswith(_LOCAL_PREFIXES)
    if local or _REMOTE.fullmatch(url):
        return url
    raise SourceError(
        f"submodule {path} of {_shown(parent.url)} has an address that is not followed, {_shown(written)!r}: only "
        f"https, http, ssh and git are, and folders where the repository itself is one; {_WITHOUT}"
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


def _add(module: _Module, target: Path, scratch: Path) -> None:
    """Fetch a submodule and put its files in its place."""
    try:
        _fetch(module.url, module.commit, scratch)
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


# --- running it -------------------------------------------------------------------------------------------


def _lay_out(commit: str, target: Path, scratch: Path) -> None:
    """Put the files of a commit that was fetched into a new folder, with its own time."""
    target.mkdir()
    (scratch / "index").unlink(missing_ok=True)  # It is of another folder.
    _git(f"--git-dir={scratch}", f"--work-tree={target}", "checkout", "--quiet", "--force", commit, "--", ".")
    # The hash may be that of a tag or, where a tree lies about a submodule, of anything.
    time = int(_git(f"--git-dir={scratch}", "show", "--no-patch", "--format=%ct", f"{commit}^{{commit}}"))
    for folder, folders, files in os.walk(target):
        for name in (*folders, *files):
            os.utime(Path(folder, name), (time, time), follow_symlinks=False)


def _fetch(url: str, commit: str, repository: Path) -> None:
    try:
        _ask(
            *(f"--git-dir={repository}", "fetch", "--quiet", "--depth=1", "--no-tags", "--no-recurse-submodules"),
            *("--no-write-fetch-head", "--", url, commit),
        )
    except _GitError as error:
        raise SourceError(f"commit {commit} of {_shown(url)} cannot be fetched: {_explained(error)}") from error


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


def _ask(*arguments: str) -> bytes:
    # The user's own configuration applies here: proxies, certificates, credentials, mirrors (url.*.insteadOf).
    # Nothing that was fetched is in reach but as objects, so none of its attributes and hooks exists.
    environment = {name: value for name, value in os.environ.items() if name not in _LOCAL} | {
        "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C",
    }
    return _run(["-c", "core.hooksPath=/dev/null", *arguments], environment=environment, timeout_s=_FETCH_TIMEOUT_S)


def _shown(text: str) -> str:
    """What a message may hold of an address: no password, as git has it."""
    return re.sub(r"//[^/@\s]*@", "//", text)


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
    command = _shown(f"git {' '.join(argv)}")
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
