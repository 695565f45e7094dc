"""Takes secrets out of bytes before they are stored: the value itself, and the usual encodings of it.

It is the second line: no agent is given a real key. What is recognised is a value as it stands, and what common tools
make of it: URL, JSON, HTML, quoted-printable and shell escapes of any of its characters, base64 at any place in longer
text, base32, hexadecimal digits, UTF-16, and the value backwards; each also where lines were broken in its midst.
Compressed, encrypted or freely scrambled values are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, final
from urllib.parse import unquote

from pytest_researchenv._encodings import CUT, DECIDING, LAST, TRAILING, WIDEST, Escapes, Simplified, Variant, variants
from pytest_researchenv.secrets import Secret


__all__ = ["SHORTEST", "SHORTEST_ENCODED", "RedactedStream", "Redactor", "secrets_in"]

#: Values of fewer characters are left alone: to take out `abc` wherever it stands would spoil every text.
SHORTEST: Final = 4

#: Values of fewer characters are taken out as they stand, and not in encodings: too much else looks like these.
SHORTEST_ENCODED: Final = 8

#: A user name in a URL of this many characters is a token, whatever its password.
_TOKEN = 20

#: Whole documents are looked at in pieces of this many bytes: only those pay for patterns that may hold something.
_PIECE = 1 << 16


#: What the method `Redactor.bytes` takes and gives; in its class that name is the method's.
_Bytes = bytes


@dataclass(frozen=True, slots=True)
class _Span:
    """Where a secret stands."""

    start: int
    end: int
    number: int


@final
class Redactor:
    """Replaces secrets by `[redacted NAME]`."""

    __slots__ = ("_beginning", "_escapes", "_labels", "_last", "_longest", "_trailing", "_variants")

    def __init__(self, secrets: Iterable[Secret]) -> None:
        known = tuple({one.value: one for one in secrets if len(one.value) >= SHORTEST}.values())
        self._labels = [f"[redacted {re.sub(r'[^A-Za-z0-9_.-]', '_', one.name)}]".encode() for one in known]
        self._variants = [
            variant
            for number, one in enumerate(known)
            for variant in variants(number, one.value, shortest_encoded=SHORTEST_ENCODED)
        ]
        self._escapes = Escapes(one.value for one in known if len(one.value) >= SHORTEST_ENCODED)
        self._longest = max((variant.longest for variant in self._variants), default=0)
        letters = frozenset(b"".join(variant.letters for variant in self._variants))
        self._last = LAST | letters
        self._trailing = bytes(set(TRAILING) - letters)
        beginnings = dict.fromkeys(variant.beginning for variant in self._variants)
        self._beginning = re.compile(b"|".join([*beginnings, CUT]))

    def bytes(self, data: _Bytes) -> _Bytes:
        """Return a whole document without secrets."""
        stream = self.stream()
        pieces = [stream.feed(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE)]
        return b"".join([*pieces, stream.end()])

    def stream(self) -> RedactedStream:
        """Begin to take secrets out of what comes in pieces."""
        return RedactedStream(self)

    def settle(self, data: _Bytes, *, last: bool) -> tuple[_Bytes, _Bytes]:
        """Return what is settled of data, without secrets, and the rest, which may be the beginning of a secret."""
        if not self._variants:
            return data, b""
        simplified = Simplified(data)
        escapes = self._escapes.found(simplified)
        possible = [one for one in self._variants if one.possible(simplified, escapes=escapes)]
        end = len(data) if last else self._held(data, possible)
        done, position = [], 0
        for span in _spans(data, possible):
            if span.end > end:
                # What stands across the end is settled with the rest, unless that has become too long.
                end = min(end, span.start) if len(data) - span.start <= 2 * self._longest else span.end
            if span.start >= end:
                break
            done += [data[position : span.start], self._labels[span.number]]
            position = span.end
        return b"".join([*done, data[position:end]]), data[end:]

    def _held(self, data: _Bytes, possible: list[Variant]) -> int:
        """Return from where on data may be the beginning of a secret."""
        held = len(data)
        near = data[-DECIDING * WIDEST :]
        last = near.rstrip(self._trailing)[-1:]
        # Most pieces are lines that end in a sign that no secret holds.
        if (not last or last[0] in self._last) and (match := self._beginning.search(near)):
            held += match.start() - len(near)
        for variant in possible:
            for found in variant.first.finditer(data, max(0, len(data) - variant.longest)):
                if found.start() >= held:
                    break
                if not variant.whole.match(data, found.start()):
                    held = found.start()
                    break
        return held


@final
class RedactedStream:
    """Takes secrets out of what comes in pieces, wherever it is cut.

    What may be the beginning of a secret is held back until it is known whether it is one; most pieces come out whole.
    """

    __slots__ = ("_redactor", "_rest")

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._rest = b""

    def feed(self, piece: bytes) -> bytes:
        """Take the next piece, and return what is settled."""
        done, self._rest = self._redactor.settle(self._rest + piece, last=False)
        return done

    def end(self) -> bytes:
        """Return what was held back: nothing more comes."""
        done, self._rest = self._redactor.settle(self._rest, last=True)
        return done


def secrets_in(environment: Mapping[str, str]) -> tuple[Secret, ...]:
    """Find names and passwords inside URLs, such as those of a package index or a proxy.

    Each is given as it stands in the URL, and decoded where that differs.
    """
    found: dict[str, Secret] = {}
    for name, text in environment.items():
        # A setting may hold several URLs, with spaces or commas between them.
        for match in _USER_INFO.finditer(text):
            user, _, password = match["info"].partition(":")
            # Without a password of its own the name is the token.
            parts = [match["info"], password] + ([user] if not password or len(user) >= _TOKEN else [])
            for part in parts:
                for value in (part, unquote(part)):
                    if value:
                        found.setdefault(value, Secret(name, value))
    return tuple(found.values())


_USER_INFO: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://(?P<info>[^/?#\s]+)@")


def _spans(data: bytes, possible: Iterable[Variant]) -> Iterator[_Span]:
    """Find where secrets stand, in order; those that overlap are one."""
    found = sorted(
        (match.start(), -match.end(), variant.number) for variant in possible for match in variant.whole.finditer(data)
    )
    current: _Span | None = None
    for start, end, number in found:
        if current and start < current.end:
            current = _Span(current.start, max(current.end, -end), current.number)
            continue
        if current:
            yield current
        current = _Span(start, -end, number)
    if current:
        yield current
