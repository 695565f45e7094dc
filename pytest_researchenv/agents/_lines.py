"""Reading of transcripts that hold a JSON object a line. An agent can have written anything into them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from pytest_researchenv.packedlogs import open_log


__all__ = ["documents", "mapping", "mappings", "number", "text", "when"]

#: Bytes of a line that is read. The tools cut what a command printed to some 100 KB, and print images whole.
_LONGEST = 32 * 1024 * 1024

#: No tool counts further.
_MOST = 10**15


def documents(source: Iterable[bytes] | Path) -> Iterator[dict[str, Any]]:
    """The JSON objects among lines, or a file's lines; what is none is passed over.

    What a tool complains of can stand before one, since both come through one channel.
    """
    if isinstance(source, Path):
        with open_log(source) as file:
            yield from documents(_bounded(file))
        return
    for line in source:
        start = line.find(b'{"')
        if start < 0:
            continue
        try:
            document = json.loads(line[start:])
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            yield document


def _bounded(file: IO[bytes]) -> Iterator[bytes]:
    """A file's lines but the longest, which are never held in memory whole."""
    begins = True
    while line := file.readline(_LONGEST):
        ends = line.endswith(b"\n") or len(line) < _LONGEST
        if begins and ends:
            yield line
        begins = ends


def text(value: object) -> str:
    """The value if it is text, else nothing."""
    return value if isinstance(value, str) else ""


def number(value: object) -> float | None:
    """The value if it is a number that a tool can have counted, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value <= _MOST else None


def when(value: object) -> str | None:
    """The value if it is a time in ISO 8601, else None."""
    try:
        datetime.fromisoformat(text(value))
    except ValueError:
        return None
    return text(value)


def mapping(value: object) -> Mapping[str, Any]:
    """The value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """The objects in a list; of anything else, none."""
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))
