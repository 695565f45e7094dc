"""JSON of which every reader reads the same: no name twice in an object, and no number that JSON does not have."""

from __future__ import annotations

import json
from typing import NoReturn


__all__ = ["distinct", "read_strict"]

_SHOWN = 60


def read_strict(text: str) -> object:
    """Read a document.

    Raises:
        ValueError: it is none, has a key twice in an object, or holds NaN or an infinity.
        RecursionError: it is nested too deep.
    """
    return json.loads(text, object_pairs_hook=distinct, parse_constant=_refused)


def distinct(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object of its pairs, for `json.loads`.

    Raises:
        ValueError: a key is there twice.
    """
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"has the key {twice[:_SHOWN]!r} twice")
    return values


def _refused(word: str) -> NoReturn:
    raise ValueError(f"{word} is no number of JSON")
