"""What may come of a transcript: cut, damaged, or written by an agent that wants to break its reader."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any


__all__ = ["SPOILED"]


def _chance() -> random.Random:
    return random.Random(0)  # noqa: S311 - the same every time; nothing is hidden by it


def _random(_lines: list[bytes]) -> bytes:
    return _chance().randbytes(200_000)


def _nothing(_lines: list[bytes]) -> bytes:
    return b""


def _giant(lines: list[bytes]) -> bytes:
    return b'{"type": "assistant", "message": "' + b"x" * 20_000_000 + b'"}\n' + b"\n".join(lines)


def _deep(lines: list[bytes]) -> bytes:
    return b"[" * 300_000 + b"\n" + b'{"type":' * 300_000 + b"\n" + b"\n".join(lines)


def _cut(lines: list[bytes]) -> bytes:
    return b"\n".join(line[: len(line) * 2 // 3] for line in lines)


def _left_out(lines: list[bytes]) -> bytes:
    whole = b"\n".join(lines)
    return whole[: len(whole) // 3] + b"\n[... 1000 bytes left out ...]\n" + whole[len(whole) * 2 // 3 :]


def _other_types(lines: list[bytes]) -> bytes:
    """Values of every line, one after the other, replaced by one of each other type."""
    return b"\n".join(mutant for line in lines for mutant in _mutants(line))


def _surrogates(lines: list[bytes]) -> bytes:
    return b"\n".join(lines).replace(b"seen-42", b"\\ud800 \\u0000 1e999").replace(b"true", b"NaN")


def _mutants(line: bytes) -> Iterator[bytes]:
    try:
        document = json.loads(line)
    except ValueError:
        return
    places = list(_places(document))
    for place in _chance().sample(places, min(len(places), 50)):
        for value in (None, 7, 1.5, True, "text", [], {}, [None], {"type": None}, 10**400):
            yield json.dumps(_with(document, place, value)).encode()


def _places(value: object, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    yield at
    inner: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield from _places(each, (*at, key))


def _with(value: Any, place: tuple[str | int, ...], new: object) -> Any:  # noqa: ANN401 - any JSON
    if not place:
        return new
    copy = value.copy()
    copy[place[0]] = _with(copy[place[0]], place[1:], new)
    return copy


#: Name → what makes a spoiled transcript of a good one's lines.
SPOILED: dict[str, Callable[[list[bytes]], bytes]] = {
    "random bytes": _random,
    "nothing": _nothing,
    "a giant line": _giant,
    "deep nesting": _deep,
    "cut lines": _cut,
    "a gap": _left_out,
    "other types": _other_types,
    "no text and no numbers": _surrogates,
}
