"""Shell profiles that put something between people and the commands that they call.

Probes start no shell that reads them, but for scripts that ask for a login shell. What sets paths, activates
environments or defines other names is nobody's concern.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Iterator
from typing import final

from pytest_researchenv.integrity._commands import Command, known
from pytest_researchenv.integrity._profile import Statement, Word, statements
from pytest_researchenv.integrity.commandfiles import CommandFiles
from pytest_researchenv.integrity.protocol import Entry, Kind, Signs, Snapshot
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python


__all__ = ["profile_folders", "profiles"]

_FILES = (
    *("/etc/profile", "/etc/bash.bashrc", "/etc/bashrc", "/etc/environment", "/etc/security/pam_env.conf"),
    *(f"/etc/zsh/{name}" for name in ("zshenv", "zprofile", "zshrc", "zlogin")),
    *(f"/root/.{name}" for name in ("bash_profile", "bash_login", "profile", "bashrc", "bash_aliases")),
    *(f"/root/.{name}" for name in ("zshenv", "zprofile", "zshrc", "zlogin", "kshrc", "pam_environment")),
    *("/etc/fish/config.fish", "/root/.config/fish/config.fish"),
)
_FOLDERS = ("/etc/profile.d", "/etc/fish/conf.d", "/root/.config/fish/conf.d")

#: Files that are read, those that others read in among them; and findings.
_MOST_FILES, _MOST = 100, 20
#: Largest that is read: nvm's has 150 kB.
_MOST_BYTES = 1024**2

#: Length of a variable, and variables in it.
_LONGEST, _MOST_VARIABLES = 10_000, 100

#: Folders that profiles put on the path.
_MOST_FOLDERS = 30

#: What is run before something else, whatever that is.
_RUN_FIRST = frozenset(("LD_AUDIT", "PYTHONSTARTUP", "PYTHONINSPECT"))

#: Libraries that are loaded first to be faster, or to repair what is built badly.
_LIBRARY = re.compile(
    r"lib(?:jemalloc|tcmalloc\w*|mimalloc|hoard|gomp|i?omp5?|stdc\+\+|gcc_s|mkl_\w+|nccl|SegFault)(?:[-.]\w+)*\.so[.\d]*"
)
#: What bash may be told to read before every script: a profile that is read here, or what modules of clusters bring.
_BASH_ENV = re.compile(
    r"(?:/root|~|\$HOME)/\.(?:bashrc|bash_profile|profile)|/etc/(?:profile|bash\.?bashrc)|/usr/share/.*"
)
#: Builtins, and functions that prompts have.
_PROMPT = re.compile(
    r"history|echo|printf|:|true|\$\{?PROMPT_COMMAND.*|starship_pre\w+|update_terminal_cwd|_direnv_hook|__git_ps1|"
    r"__(?:bp|vsc|vte|atuin|zoxide|fzf)_\w+|_(?:mise|omb)_\w+|__prompt_command"
)
_LOADS = re.compile(r"(?:^|\s)(?:-r|--require|--import|--loader|--experimental-loader)\b")
_BEFORE = frozenset(("sudo", "command", "noglob", "nocorrect", "exec", "env"))
_PAM = re.compile(r"^(\w+)\s+(?:DEFAULT|OVERRIDE)=(.*)$", re.MULTILINE)
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


def profiles(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look for such profiles. They are put back to the base image's in the probe's world."""
    look = _Look(task, snapshot)
    findings: list[Finding] = []
    blanked: dict[str, str] = {}
    for entry, statement in look.statements():
        if len(findings) < _MOST and (why := look.doubt(statement)):
            said = f"{printable(statement.line)}{f' ({why})' if why != statement.line else ''}"
            findings.append(Finding(Sign.PROFILE, printable(entry.path), "commands do what they are called for", said))
            before = snapshot.base(entry.path)
            blanked[entry.path] = before.text if before is not None and before.kind is Kind.FILE else ""
    return Signs(tuple(findings), blanked=blanked)


def profile_folders(task: ProbeTask, snapshot: Snapshot) -> tuple[str, ...]:
    """Folders that profiles put on the path."""
    look = _Look(task, snapshot)
    found: dict[str, None] = {}
    for _, statement in look.statements():
        if statement.word is Word.SETTING and statement.name in ("PATH", "path", "fish_user_paths"):
            found |= dict.fromkeys(folder for folder in look.expanded(statement.value).split(":") if folder[:1] == "/")
    return tuple(found)[:_MOST_FOLDERS]


@final
class _Look:
    """One look at the profiles of an image.

    Args:
        task: what is audited.
        snapshot: its image.
    """

    def __init__(self, task: ProbeTask, snapshot: Snapshot) -> None:
        self._task = task
        self._snapshot = snapshot
        self._commands = CommandFiles(task, snapshot)
        self._read: set[str] = set()
        self._variables = {"HOME": "/root", "USER": "root"}

    def statements(self) -> Iterator[tuple[Entry, Statement]]:
        """What profiles say that the base image's do not, with the file that says it."""
        for path in self._profiles():
            yield from self._statements(path)

    def expanded(self, text: str) -> str:
        """A text with variables that profiles set; those that are not known stay."""
        text = f"/root{text[1:]}" if text == "~" or text.startswith("~/") else text
        if len(text) > _LONGEST or text.count("$") > _MOST_VARIABLES:
            return text
        # Or a variable that holds itself twice would grow without end.
        return _VARIABLE.sub(lambda found: self._variables.get(found[1], found[0]), text)[:_LONGEST]

    def doubt(self, statement: Statement) -> str:
        """Why a statement alters what commands do; empty when it does not."""
        command = known(statement.name)
        match statement.word:
            case Word.ALIAS:
                return self._alias(command, statement.value) if command else ""
            case Word.FUNCTION:
                return "a function stands in its place" if command else ""
            case Word.SETTING:
                return _setting(statement.name, statement.value)
            case Word.HOOK:
                return _hook(statement)
            case Word.SOURCE:
                return ""

    def _profiles(self) -> Iterator[str]:
        python = reported_python(self._task.environment)
        if not isinstance(python, Unreported):
            yield f"{posixpath.dirname(python)}/activate"
        yield from _FILES
        for folder in _FOLDERS:
            yield from (entry.path for entry in self._snapshot.tree(folder) if not entry.is_folder)

    def _statements(self, path: str) -> Iterator[tuple[Entry, Statement]]:
        entry = self._snapshot.entry(path)
        if entry is None or entry.kind is not Kind.FILE or entry.path in self._read:
            return
        before = self._snapshot.base(entry.path)
        if before is not None and before.sha256 == entry.sha256:
            return
        self._read.add(entry.path)
        if entry.content is None or entry.size > _MOST_BYTES:
            yield entry, Statement(Word.HOOK, "", "", f"it has {entry.size} bytes")
            return
        if len(self._read) > _MOST_FILES:
            yield entry, Statement(Word.HOOK, "", "", f"more than {_MOST_FILES} files are read")
            return
        text = _PAM.sub(r"\1=\2", entry.text) if "pam_env" in entry.path else entry.text
        known_lines = {line.strip() for line in before.text.splitlines()} if before is not None else set()
        for statement in statements(text):
            if statement.line in known_lines:
                continue
            yield entry, statement
            if statement.word is Word.SETTING:
                self._variables[statement.name] = self.expanded(statement.value)
            elif statement.word is Word.SOURCE:
                yield from self._statements(posixpath.join("/root", self.expanded(statement.name)))

    def _alias(self, command: Command, value: str) -> str:
        words = [word for word in _split(value) if word not in _BEFORE]
        program, rest = (self.expanded(words[0]), words[1:]) if words else ("", [])
        name = posixpath.basename(program)
        if name == "uv" and rest == ["pip"]:
            rest = []
        elif known(name) is not command:
            if rest[:1] != ["-m"] or not command.modules.issuperset(rest[1:2]) or known(name) is not known("python"):
                return f"{printable(program)} stands in its place"
            rest = rest[2:]
        if any(not word.startswith("-") or word == "-c" for word in rest):
            return "it runs something else"
        other = known(name)
        return self._commands.doubt(other, program) if other and program.startswith("/") else ""


def _setting(name: str, value: str) -> str:
    """Why a variable alters what commands do."""
    if not value:
        return ""
    if name == "LD_PRELOAD":
        names = (posixpath.basename(path) for path in re.split(r"[\s:]+", value) if path and "$" not in path)
        return next(
            (f"{printable(one)} is loaded into every program" for one in names if not _LIBRARY.fullmatch(one)), ""
        )
    if name in ("BASH_ENV", "ENV"):
        return "" if _BASH_ENV.fullmatch(value) else "it is run before every script"
    if name == "PROMPT_COMMAND":
        commands = (_split(part)[:1] for part in re.split(r"[;&|\n]+", value))
        return next(
            (f"{printable(one[0])} is run at each prompt" for one in commands if one and not _is_prompt(one[0])), ""
        )
    if name == "NODE_OPTIONS":
        return "it runs something else first" if _LOADS.search(value) else ""
    return "it is run first" if name in _RUN_FIRST else ""


def _hook(statement: Statement) -> str:
    """Why a command that hooks into others alters what they do."""
    name, *rest = _split(statement.value) or [""]
    if name == "trap":
        # Shells' own extensions have functions for it.
        return "" if rest and _is_prompt(rest[0]) else "it is run before each command"
    if name == "hash" and not known(statement.name):
        return ""
    return statement.line if not name else "it stands in the place of a command"


def _is_prompt(name: str) -> bool:
    return _PROMPT.fullmatch(name) is not None


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()
