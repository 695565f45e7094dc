"""Commands that probes and people call, and what files of these names may be."""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from enum import StrEnum

from pytest_researchenv._parsing import parsed
from pytest_researchenv.integrity.protocol import Entry


__all__ = ["Command", "Made", "calls_only", "is_shim", "known"]


class Made(StrEnum):
    """What a command is made as, wherever it comes from."""

    #: Compiled, by whoever; scripts only where a package brings one.
    PROGRAM = "a program"
    #: A script of a Python or Node package.
    SCRIPT = "the script of a package"
    #: Compiled, and only from the driver's packages.
    DRIVER = "the driver's program"


@dataclass(frozen=True, slots=True)
class Command:
    """One command under all its names.

    Attributes:
        names: its names.
        made: what it is made as.
        files: names of files that links of these names may lead to, beside these names.
        modules: top-level modules that a script of it imports, when it is one of a Python package.
    """

    names: re.Pattern[str]
    made: Made
    files: re.Pattern[str]
    modules: frozenset[str] = frozenset()


def _command(names: str, made: Made, files: str = "", *modules: str) -> Command:
    return Command(re.compile(names), made, re.compile(f"{names}|{files}" if files else names), frozenset(modules))


_COMMANDS = (
    _command(r"nvidia-smi", Made.DRIVER),
    _command(r"python[\d.]*t?", Made.PROGRAM, r"pypy[\d.]*|graalpy[\d.]*"),
    _command(r"nvcc", Made.PROGRAM),
    _command(r"git", Made.PROGRAM),
    _command(r"(?:ba|da)?sh", Made.PROGRAM, r"busybox"),
    _command(r"env", Made.PROGRAM, r"coreutils|busybox"),
    _command(r"node|nodejs", Made.PROGRAM),
    _command(r"torchrun", Made.SCRIPT, "", "torch"),
    _command(r"accelerate", Made.SCRIPT, "", "accelerate"),
    _command(r"deepspeed", Made.SCRIPT, r"ds", "deepspeed"),
    _command(r"pip[\d.]*", Made.SCRIPT, "", "pip"),
    _command(r"pyright", Made.SCRIPT, r"(?:index|cli)\.m?js", "pyright"),
)

#: What pyenv and its relatives put in place of each command of the Pythons that they manage.
_SHIM_LINES = re.compile(
    r"""
    \s* | \#.* | set\ -e | \[\ -n\ "\$PYENV_DEBUG"\ \]\ &&\ set\ -x | program="\$\{0\#\#\*/\}"
    | export\ PYENV_ROOT="?[\w./-]+"? | exec\ "?(?:/[\w.-]+)+/(?:pyenv|asdf)"?\ exec\ "[\w.$-]+"\ "\$@"(?:\ \#.*)?
    """,
    re.VERBOSE,
)

#: What generated scripts import and call, beside the function that they are for.
_CALLED = frozenset(
    (
        *("sub", "exit", "endswith", "removesuffix", "partition", "load", "next", "setdefault", "globals"),
        *("distribution", "importlib_load_entry_point"),
    )
)
_IMPORTED = frozenset(("re", "sys"))
_NEVER = (ast.With, ast.Delete, ast.ClassDef, ast.Lambda, ast.AsyncFunctionDef)
_FROM = {
    "importlib.metadata": frozenset(("distribution",)),
    "importlib_metadata": frozenset(("distribution",)),
    "pkg_resources": frozenset(("load_entry_point",)),
}


def known(name: str) -> Command | None:
    """The command that has a name; None for all others."""
    return next((command for command in _COMMANDS if command.names.fullmatch(name)), None)


def is_shim(text: str) -> bool:
    """Whether a script is one of pyenv's or asdf's: it runs what they were told to, and nothing else."""
    return "exec" in text and all(_SHIM_LINES.fullmatch(line) for line in text.splitlines())


def calls_only(script: Entry, modules: frozenset[str]) -> bool:
    """Whether a script is what installers generate: it calls a function of one of some modules, and no more."""
    tree = parsed(script.text) if script.content is not None else None
    if tree is None:
        return False
    called = set(_CALLED)
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                if not _IMPORTED.issuperset(name.name for name in names):
                    return False
            case ast.ImportFrom(module=str(module), names=names, level=0):
                if module.partition(".")[0] not in modules and not _FROM.get(module, frozenset()).issuperset(
                    name.name for name in names
                ):
                    return False
                called.update(name.asname or name.name for name in names)
    return all(_is_allowed(node, called, modules) for node in ast.walk(tree))


def _is_allowed(node: ast.AST, called: set[str], modules: frozenset[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="load_entry_point"), args=[ast.Constant(value=str(what)), *_]):
            return what.partition("=")[0] in modules
        case ast.Call(func=ast.Name(id=name)):
            return name in called - {"load_entry_point"}
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _CALLED
        case ast.Call(func=func):
            return isinstance(func, ast.Call)
        case ast.ImportFrom(level=level, names=names):
            return level == 0 and all(name.name != "*" for name in names)
    return not isinstance(node, _NEVER)
