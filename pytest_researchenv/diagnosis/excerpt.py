"""A log as rules read it: a bounded part of it, in plain lines, with the exceptions that ended the run.

Whatever stands in a log, this takes time linear in what is read, and raises nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from pytest_researchenv.errors import StoreError
from pytest_researchenv.packedlogs import read_ends
from pytest_researchenv.probes.evidence import TRACEBACK, plain_lines


__all__ = ["HEAD_BYTES", "TAIL_BYTES", "Raised", "excerpt", "last_chain", "read_log"]

#: What is read of a log: where installers say what broke first, and where runs end.
HEAD_BYTES = 256 * 1024
TAIL_BYTES = 1024 * 1024

_LINE_CAP = 2000
#: Lines of an exception's message that are looked at.
_MESSAGE_CAP = 40
_LINKS = (
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
)


class Raised(NamedTuple):
    """An exception as its traceback shows it.

    Attributes:
        lines: its line, and those of its message that follow.
        file: the file of the innermost frame outside the standard library; empty where there is none.
        linked: whether it was raised because of, or while handling, the one before it.
    """

    lines: Sequence[str]
    file: str
    linked: bool


def read_log(path: Path) -> bytes:
    """Return the head and the tail of a log; nothing where there is none.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        ends = read_ends(path, head=HEAD_BYTES, tail=TAIL_BYTES)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error}") from error
    return ends.head + (b"\n" if ends.omitted else b"") + ends.tail


def excerpt(log: bytes) -> list[str]:
    """Return the lines of a log's head and tail, without colours and the marks of ranks, each of bounded length."""
    if len(log) > HEAD_BYTES + TAIL_BYTES:
        log = log[:HEAD_BYTES] + b"\n" + log[-TAIL_BYTES:]
    return [line[:_LINE_CAP] for line in plain_lines(log.decode("utf-8", "replace"))]


def last_chain(lines: Sequence[str], ended_by: str) -> list[Raised]:
    """Return the exceptions of the traceback that ended the run, in the order in which they were raised.

    Args:
        lines: the log.
        ended_by: the line that the record calls decisive: the last traceback that leads to it is meant.
    """
    chain: list[Raised] = []
    found: list[Raised] = []
    for raised in _raised(lines):
        chain = [*chain, raised] if raised.linked and len(chain) < _MESSAGE_CAP else [raised]
        if ended_by and raised.lines[0].startswith(ended_by):
            found = chain
    return found


def _raised(lines: Sequence[str]) -> Iterator[Raised]:
    starts = [number for number, line in enumerate(lines) if line.strip() == TRACEBACK]
    before = 0
    for start, following in pairwise([*starts, len(lines)]):
        margin = _indent(lines[start])
        file = ""
        for number in range(start + 1, following):
            line = lines[number]
            if line.strip() and _indent(line) <= margin:
                message = [one.strip() for one in lines[number : min(following, number + _MESSAGE_CAP)]]
                yield Raised(message, file, _linked(lines[max(before, start - 2) : start]))
                before = number
                break
            file = _frame(line) or file


def _linked(lines: Sequence[str]) -> bool:
    return any(line.strip() in _LINKS for line in lines)


def _frame(line: str) -> str:
    """The file that a line of a traceback names, unless it is the standard library's."""
    before, quoted, rest = line.partition('File "')
    if not quoted or before.strip():
        return ""
    file = rest.partition('"')[0]
    standard = file.startswith("<frozen ") or ("/lib/python" in file and "-packages/" not in file)
    return "" if standard else file


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())
