"""What Git would run in a repository: hooks, and programs that its configuration names.

A probe's own tools ask Git for versions and differences, and people do. New commits, branches and settings that run
nothing are no concern.
"""

from __future__ import annotations

import os
import posixpath
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

from pytest_researchenv._gitcommand import read_git
from pytest_researchenv.errors import SourceError
from pytest_researchenv.integrity.protocol import Entry, Kind, Signs, Snapshot
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["git_code"]

#: Configuration that holds for every repository of root.
_GLOBAL = ("/etc/gitconfig", "/usr/local/etc/gitconfig", "/root/.gitconfig", "/root/.config/git/config")

#: Files that one file of configuration may include, those that they include among them.
_MOST_FILES = 20
#: Findings at most.
_MOST = 20

#: `githooks(5)`: files of other names are never run.
_HOOKS = (
    *("applypatch-msg", "commit-msg", "fsmonitor-watchman", "post-applypatch", "post-checkout", "post-commit"),
    *("post-index-change", "post-merge", "post-rewrite", "pre-applypatch", "pre-auto-gc", "pre-commit"),
    *(
        "pre-merge-commit",
        "pre-push",
        "pre-rebase",
        "prepare-commit-msg",
        "reference-transaction",
        "sendemail-validate",
    ),
)

#: Settings whose value is run by commands that only look, as Git writes their names.
_RUN = re.compile(
    r"""
    core\.(?:fsmonitor|sshcommand|gitproxy|askpass|alternaterefscommand|pager) | pager\..*
    | diff\.external | diff\..*\.(?:command|textconv) | filter\..*\.(?:clean|smudge|process)
    | gpg\.(?:.*\.)?program | hook\..*\.command | uploadpack\.packobjectshook
    """,
    re.VERBOSE | re.DOTALL,
)
_INCLUDE = re.compile(r"include(?:if\..*)?\.path", re.DOTALL)
_SWITCH = frozenset(("", "true", "false", "yes", "no", "on", "off", "0", "1"))

#: Programs that people put there, by file name: pagers, viewers, and tools that repositories of research code use.
_KNOWN = frozenset(
    (
        *("less", "more", "most", "cat", "bat", "batcat", "delta", "diff-so-fancy", "diff-highlight", "difft", "vim"),
        *("gpg", "gpg2", "gpgsm", "ssh-keygen", "ssh", "autossh", "plink"),
        *("git-lfs", "git-crypt", "git-annex", "nbstripout", "git-nbdiffdriver", "git-nbmergedriver", "jupytext"),
        *("exiftool", "exif", "pdftotext", "odt2txt", "hexdump", "xxd", "strings", "zcat", "gunzip", "ssh-askpass"),
    )
)
_OF_GIT = frozenset(("lfs", "crypt", "annex"))
_MODULES = frozenset(("nbstripout", "nbdime", "jupytext"))
_PYTHON = re.compile(r"python[\d.]*")
#: What makes more than one command of a value.
_SHELL = re.compile(r"[;&|`<>]|\$\(")

#: Lines of the hooks that pre-commit, Git LFS and nbdev install. Each whole file is made of such.
_HARMLESS = re.compile(
    r"""
    \s* | \s*\#.* | \s*set\ -e
    | INSTALL_PYTHON='?[\w./@+-]*'? | ARGS=\(hook-impl(?:\ [\w./=@+-]+)+\)
    | HERE="\$\(cd\ "\$\(dirname\ "\$0"\)"\ &&\ pwd\)" | ARGS\+=\(--hook-dir\ "\$HERE"\ --\ "\$@"\)
    | if\ \[\ -x\ "\$INSTALL_PYTHON"\ \];\ then | elif\ command\ -v\ pre-commit\ >\ /dev/null;\ then | else | fi
    | \s+exec\ "\$INSTALL_PYTHON"\ -m\ ?pre_commit\ "\$\{ARGS\[@\]\}" | \s+exec\ pre-commit\ "\$\{ARGS\[@\]\}"
    | \s+echo\ '`pre-commit`\ not\ found\.[^'`$]*'\ 1>&2 | \s+exit\ 1
    | command\ -v\ git-lfs\ >/dev/null\ 2>&1\ \|\|\ \{\ (?:printf|echo)\ >&2\ "[^"`$]*"(?:\ "[^"`$]*")?;
      \ exit\ [02];\ \}
    | git\ lfs\ [a-z-]+\ "\$@"
    | nbdev_\w+
    """,
    re.VERBOSE,
)


def git_code(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look for what Git would run."""
    findings: list[Finding] = []
    for finding in _Git(task, snapshot).findings():
        findings.append(finding)
        if len(findings) == _MOST:
            break
    return Signs(tuple(findings))


class _Git:
    """The repository's Git, and root's.

    Args:
        task: what is audited.
        snapshot: its image.
    """

    def __init__(self, task: ProbeTask, snapshot: Snapshot) -> None:
        self._task = task
        self._snapshot = snapshot
        self._workdir = task.environment.workdir

    def findings(self) -> Iterator[Finding]:
        """Everything that would be run."""
        own, common = self._folders()
        hooks = f"{common}/hooks"
        files = (*((f"{common}/config", f"{own}/config.worktree") if common else ()), *_GLOBAL)
        for file in files:
            for path, key, value in self._settings(file, set()):
                if key == "core.hookspath":
                    hooks = posixpath.join(self._workdir, _expanded(value))
                elif not key or (_RUN.fullmatch(key) and not _is_known(key, value)):
                    said = f"{printable(key)} = {printable(value)}" if key else value
                    yield Finding(Sign.TRACKED, printable(path), "Git runs no program of the agent's", said)
        for name in _HOOKS:
            entry = self._snapshot.entry(f"{hooks}/{name}")
            if entry is not None and entry.kind is Kind.FILE and entry.mode & 0o111 and not self._is_benign(entry):
                yield Finding(Sign.TRACKED, printable(f"{hooks}/{name}"), "no Git hook", f"Git runs it as {name}")

    def _folders(self) -> tuple[str, str]:
        """Git's folder of the working tree, and that of the repository; both are one but in linked working trees."""
        own = f"{self._workdir}/.git"
        entry = self._snapshot.entry(own)
        if entry is not None and entry.kind is Kind.FILE:
            own = posixpath.join(self._workdir, entry.text.removeprefix("gitdir:").strip())
        common = self._snapshot.entry(f"{own}/commondir")
        if common is not None and common.kind is Kind.FILE:
            return own, posixpath.join(own, common.text.strip())
        return own, own

    def _settings(self, path: str, read: set[str]) -> Iterator[tuple[str, str, str]]:
        """Settings of a file and of those that it includes, in Git's order: file, name, value.

        What is too much to be read has no name, and for value what is too much.
        """
        if path in read:
            return
        if len(read) > _MOST_FILES:
            yield path, "", f"more than {_MOST_FILES} files are included"
            return
        read.add(path)
        entry = self._snapshot.entry(path)
        if entry is None or entry.kind is not Kind.FILE:
            return
        before = self._snapshot.base(path)
        if before is not None and before.sha256 == entry.sha256:
            return
        if entry.content is None:
            yield path, "", f"it has {entry.size} bytes"
            return
        for key, value in _parsed(entry.content):
            yield path, key, value
            if _INCLUDE.fullmatch(key):
                yield from self._settings(posixpath.join(posixpath.dirname(path), _expanded(value)), read)

    def _is_benign(self, hook: Entry) -> bool:
        """Whether a hook is the repository's own, or one that a known tool installs."""
        before = self._snapshot.base(hook.path)
        if before is not None and before.sha256 == hook.sha256:
            return True
        if hook.content is not None and all(_HARMLESS.fullmatch(line) for line in hook.text.splitlines()):
            return True
        return any(_holds(self._task.tree.root / path, hook) for path in self._task.tree.files)


def _holds(file: Path, hook: Entry) -> bool:
    """Whether a tracked file holds what a hook does: repositories bring hooks along to be copied or linked."""
    try:
        return not file.is_symlink() and file.stat().st_size == hook.size and file.read_bytes() == hook.content
    except OSError:
        return False


def _parsed(content: bytes) -> list[tuple[str, str]]:
    """Names and values, as Git itself reads them; nothing of what it refuses to read, since it runs nothing then."""
    try:
        listed = read_git(Path("/"), "config", "--no-includes", "--file=-", "--list", "-z", stdin=content)
    except SourceError:
        return []
    pairs = (os.fsdecode(entry).partition("\n") for entry in listed.split(b"\0") if entry)
    return [(key, value) for key, _, value in pairs]


def _expanded(path: str) -> str:
    return f"/root{path[1:]}" if path == "~" or path.startswith("~/") else path


def _is_known(key: str, value: str) -> bool:
    """Whether a value runs nothing, or what people commonly have there."""
    if value.strip().lower() in _SWITCH:
        return True
    words = _words(value)
    if not words or key == "core.fsmonitor":
        return False
    name, *rest = words
    if name == "git":
        return rest[:1] != [] and rest[0] in _OF_GIT
    if _PYTHON.fullmatch(name):
        return rest[:1] == ["-m"] and rest[1:] != [] and rest[1].partition(".")[0] in _MODULES
    return name in _KNOWN


def _words(value: str) -> list[str]:
    """The words of one command, its program without folders; none when it is more than one command."""
    try:
        words = [] if _SHELL.search(value) else shlex.split(value)
    except ValueError:
        return []
    return [posixpath.basename(words[0]), *words[1:]] if words else []
