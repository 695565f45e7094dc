"""What a shell's profile says, as far as it alters what commands do. It is read line by line and never run.

Quotes that are opened on one line and closed on another hide nothing: each line is read as if it stood alone.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


__all__ = ["Statement", "Word", "statements"]


class Word(StrEnum):
    """What kind of statement it is."""

    ALIAS = "alias"
    FUNCTION = "function"
    SETTING = "variable"
    SOURCE = "source"
    #: Commands that run before each command, or that replace one: `trap … DEBUG`, `hash -p`, `enable -f`.
    HOOK = "hook"


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement.

    Attributes:
        word: its kind.
        name: what is defined; of a source its path.
        value: what it is defined as.
        line: the line it stands in.
    """

    word: Word
    name: str
    value: str
    line: str


#: Quoted text, escapes, what separates commands, and all else.
_PIECE = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^'"\\;&|{}()`]+|[;&|{}()`'"\\]""", re.DOTALL)
_BETWEEN = frozenset(";&|{}()`")
_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_FUNCTION = re.compile(r"(?:^|[;&|{}\s])(?:function\s+([^\s(){};&|]+)|([^\s(){};&|=$]+)\s*\(\s*\))")
_COMMENT = re.compile(r"(?:^|\s)#")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)

_KEYWORDS = frozenset(("then", "do", "else", "elif", "if", "while", "until", "!", "time", "builtin", "command", "eval"))
_DECLARING = frozenset(("export", "declare", "typeset", "readonly", "local"))
#: Of fish and csh.
_OTHER_SHELLS = frozenset(("set", "setenv"))
_HOOKS = frozenset(("DEBUG", "-p", "-f"))


def statements(text: str) -> Iterator[Statement]:
    """Every statement of a profile that may alter what commands do."""
    for line in re.sub(r"\\\n", " ", text).splitlines():
        code = _without_comment(line)
        if not code.strip():
            continue
        bare = _QUOTED.sub("''", code)
        for match in _FUNCTION.finditer(bare):
            yield Statement(Word.FUNCTION, match[1] or match[2], "", line.strip())
        for command in _commands(code):
            yield from _read(command, line.strip())


def _without_comment(line: str) -> str:
    """Take away what is a comment whatever stands before it; of one with quotes in it what follows the last."""
    start = _COMMENT.search(line, max(line.rfind("'"), line.rfind('"')) + 1)
    return "" if line.lstrip().startswith("#") else line[: start.start()] if start else line


def _commands(code: str) -> Iterator[str]:
    """The commands of a line, each without what separates it from others."""
    command = ""
    for piece in _PIECE.findall(code):
        if piece in _BETWEEN:
            yield command
            command = ""
        else:
            command += piece
    yield command


def _read(command: str, line: str, *, deep: bool = True) -> Iterator[Statement]:
    words = _words(command)
    evaluated = "eval" in words[:3]
    while words and words[0].lstrip("\\") in _KEYWORDS:
        words = words[1:]
    if evaluated and deep:
        for inner in _commands(" ".join(words)):
            yield from _read(inner, line, deep=False)
    elif words:
        yield from _single(words[0].lstrip("\\"), words[1:], line)


def _single(name: str, rest: list[str], line: str) -> Iterator[Statement]:
    plain = [word for word in rest if not word.startswith("-")]
    if name == "alias":
        yield from (Statement(Word.ALIAS, *one, line) for one in _pairs(rest))
    elif name in _DECLARING:
        yield from (Statement(Word.SETTING, *one, line) for one in _pairs(rest))
    elif name in _OTHER_SHELLS and len(plain) > 1:
        yield Statement(Word.SETTING, plain[0], ":".join(plain[1:]), line)
    elif _ASSIGNMENT.fullmatch(name) and all(map(_ASSIGNMENT.fullmatch, rest)):
        yield from (Statement(Word.SETTING, *one, line) for one in _pairs([name, *rest]))
    elif name in (".", "source") and rest:
        yield Statement(Word.SOURCE, rest[0], "", line)
    elif (name, *(word for word in rest if word in _HOOKS)) in (("trap", "DEBUG"), ("hash", "-p"), ("enable", "-f")):
        yield Statement(Word.HOOK, rest[-1], " ".join((name, *rest)), line)


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    for word in words:
        name, equals, value = word.partition("=")
        if equals and not name.startswith("-"):
            yield name.removesuffix("+"), value


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:
        # Quotes that are closed on another line.
        return [word.strip("'\"") for word in command.replace("='", "=").replace('="', "=").split()]
