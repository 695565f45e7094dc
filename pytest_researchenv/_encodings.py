"""How a secret may stand in what is printed: as it is, and in the usual encodings of it; for `redaction.py`.

A pattern for each way tells exactly where it stands, and a cheap look at a simplified text tells first whether it can
stand there at all: patterns alone take some 60 ns a byte and secret, which is too slow for long transcripts.
"""

from __future__ import annotations

import base64
import html.entities
import re
import string
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import final


__all__ = ["CUT", "DECIDING", "LAST", "TRAILING", "WIDEST", "Escapes", "Simplified", "Variant", "variants"]

#: That many characters decide whether what came so far may become the whole.
DECIDING = 9

#: Most bytes that one character may take, what stands before the next one included (at most 54: four bytes in octal).
WIDEST = 64

#: The beginning of an encoded character, or of what stands between two, at the end of what came so far.
CUT = rb"[\x00\\%&=\r\x80-\xff][\x00\\%&=\r\x80-\xff#;0-9A-Za-z]{0,48}\Z"

#: Of what came so far, what may stand at the end and be a break.
TRAILING = b"\x00\r\n :,-"

#: Of what came so far, what may be the last byte of a character or of a cut one, whatever the secret.
LAST = frozenset(b"\\%&=#;" + string.ascii_letters.encode() + string.digits.encode() + bytes(range(0x80, 0x100)))

_SLASHES = rb"\\{1,4}"

#: What may stand between two characters: zero bytes (UTF-16 and UTF-32), and line breaks, these also as escapes.
_BREAK = rb"(?:\x00{1,3}|=?\r?\n|" + _SLASHES + rb"(?:r|n|u000[0dDaA])|%0[0dDaA]){0,2}"

#: Hexadecimal digits are also set apart by signs.
_HEX_BREAK = rb"(?:[ \x00:,\r\n-]|" + _SLASHES + rb"(?:r|n|u000[0dDaA])|%0[0dDaA]|0x){0,4}"

#: Characters that JSON escapes, or escapes with: a backslash before them must go with them.
_WITH_BACKSLASH = "\"'/"
_LETTERS_OF_JSON = "bfnrtu"


@final
class Simplified:
    """A text without what may stand between the characters of a secret.

    Attributes:
        data: the text itself.
        slashed: without escaped line breaks and quotes, which most backslashes of JSON belong to.
        text: for values as they stand.
        base64: for base64, with the signs that URLs escape.
        digits: in lower case, for base32 and hexadecimal digits.
    """

    __slots__ = ("base64", "data", "digits", "slashed", "text")

    _BETWEEN = b"\\\x00\r\n="
    _LOWER = bytes.maketrans(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ", b"abcdefghijklmnopqrstuvwxyz")

    def __init__(self, data: bytes) -> None:
        self.data = data
        if b"%0" in data:
            data = re.sub(rb"%0[0dDaA]", b"", data)
        self.slashed = b""
        if b"\\" in data:
            if b"\\u000" in data:
                data = re.sub(rb"\\u000[0dDaA]", b"", data)
            data = data.replace(b"\\n", b"").replace(b"\\r", b"")
            self.slashed = data.replace(b'\\"', b"")
        self.text = self.base64 = data.translate(None, self._BETWEEN)
        if b"%2" in data:
            self.base64 = re.sub(b"%2[bB]", b"+", re.sub(b"%2[fF]", b"/", self.text))
        self.digits = data.replace(b"0x", b"").translate(self._LOWER, self._BETWEEN + b" :,-")


@final
class Variant:
    """One way in which a secret may stand.

    Attributes:
        number: which secret.
        letters: the characters that decide, as they stand.
        longest: most bytes that it may take.
    """

    # No slots: patterns are compiled when a text may hold them, which is hardly ever.

    def __init__(
        self, number: int, units: Iterable[bytes], text: str, *, where: str, between: bytes, escapable: bool
    ) -> None:
        self._units = tuple(units)
        self._between = between
        self._where = where
        self._escapable = escapable
        # Not the first one: with a backslash before it, it may look like an escape that is left out.
        needle: bytes = getattr(Simplified(_utf8(text[1:DECIDING])), where)
        # Of the two alphabets of base64, a text has one.
        self._needles = {needle, needle.translate(bytes.maketrans(b"+/", b"-_"))} if where == "base64" else {needle}
        self.number = number
        self.letters = _utf8(text[:DECIDING])
        self.longest = WIDEST * len(self._units)

    @cached_property
    def whole(self) -> re.Pattern[bytes]:
        """Matches all of it."""
        return re.compile(self._between.join(self._units))

    @cached_property
    def first(self) -> re.Pattern[bytes]:
        """Matches the characters that decide."""
        return re.compile(self._between.join(self._units[:DECIDING]))

    @property
    def beginning(self) -> bytes:
        """Source of a pattern for less than the characters that decide, at the end of what came so far."""
        cut = CUT + (rb"|0\Z" if self._between is _HEX_BREAK else b"")
        source = b""
        for unit in reversed(self._units[: DECIDING - 1]):
            further = rb"(?:\Z|" + cut + (b"|" + source if source else b"") + b")"
            source = unit + self._between + further
        return source

    def possible(self, simplified: Simplified, *, escapes: bool) -> bool:
        """Tell whether it may stand, wholly or with the characters that decide, in a text; escapes: it has some."""
        if escapes and self._escapable:
            return True
        text: bytes = getattr(simplified, self._where)
        return any(needle in text for needle in self._needles)


@final
class Escapes:
    """Finds escapes that may be of the first characters of secrets."""

    __slots__ = ("_backslashed", "_patterns")

    def __init__(self, values: Iterable[str]) -> None:
        firsts = sorted({letter for value in values for text in (value, value[::-1]) for letter in text[:DECIDING]})
        kinds: dict[bytes, dict[bytes, None]] = {}
        for letter in firsts:
            for sign, rest in _escapes(letter):
                kinds.setdefault(sign, {})[rest] = None
        # Each begins with a character of its own, which `re` looks for with memchr.
        patterns = {sign: re.compile(sign + b"(?:" + b"|".join(rests) + b")") for sign, rests in kinds.items()}
        self._backslashed = patterns.pop(rb"\\", None)
        self._patterns = tuple(patterns.values())

    def found(self, simplified: Simplified) -> bool:
        """Tell whether there are any in a text."""
        if any(pattern.search(simplified.data) for pattern in self._patterns):
            return True
        return self._backslashed is not None and self._backslashed.search(simplified.slashed) is not None


def variants(number: int, value: str, *, shortest_encoded: int) -> Iterator[Variant]:
    """Make all variants of a secret; of a short one, only the value itself."""
    if len(value) < shortest_encoded:
        units = [re.escape(letter.encode("utf-8", "surrogateescape")) for letter in value]
        yield Variant(number, units, value, where="text", between=b"", escapable=False)
        return
    for text in (value, value[::-1]):
        # Before a letter that JSON escapes with, a backslash left alone would spoil the text.
        first = rb"\\{0,4}" if text[0] in _LETTERS_OF_JSON else b""
        units = [first + _escaped(text[0]), *map(_escaped, text[1:])]
        yield Variant(number, units, text, where="text", between=_BREAK, escapable=True)
    raw = _utf8(value)
    for before in range(3):
        padded = bytes(before) + raw + bytes(-(before + len(raw)) % 3)
        digits = _inner(base64.b64encode(padded), before, len(raw), bits=6)
        yield Variant(number, map(_base64_digit, digits), digits, where="base64", between=_BREAK, escapable=False)
    for before in range(5):
        padded = bytes(before) + raw + bytes(-(before + len(raw)) % 5)
        digits = _inner(base64.b32encode(padded), before, len(raw), bits=5)
        units = [*map(_either_case, digits)]
        yield Variant(number, units, digits.lower(), where="digits", between=_BREAK, escapable=False)
    units = [*map(_either_case, raw.hex())]
    yield Variant(number, units, raw.hex(), where="digits", between=_HEX_BREAK, escapable=False)


def _inner(encoded: bytes, before: int, length: int, *, bits: int) -> str:
    """Return the digits that the value alone decides, wherever it stands in a longer text that was encoded."""
    return encoded[-(-8 * before // bits) : 8 * (before + length) // bits].decode()


def _base64_digit(digit: str) -> bytes:
    # Of the two usual alphabets, and as URLs and JSON write them.
    return {"+": rb"(?:[+-]|%2[bB])", "/": rb"(?:\\{0,4}/|_|%2[fF])"}.get(digit, digit.encode())


def _escaped(letter: str) -> bytes:
    """Match a character as it stands, and as URLs, JSON, HTML, quoted-printable and shells write it."""
    plain = rb"\\{1,16}" if letter == "\\" else re.escape(_utf8(letter))
    if letter in _WITH_BACKSLASH:
        plain = rb"\\{0,4}" + plain
    signs: dict[bytes, list[bytes]] = {}
    for sign, rest in _escapes(letter):
        signs.setdefault(rb"\\{1,4}" if sign == rb"\\" else sign, []).append(rest)
    escapes = (sign + b"(?:" + b"|".join(rests) + b")" for sign, rests in signs.items())
    return b"(?:" + b"|".join([plain, *escapes]) + b")"


def _escapes(letter: str) -> Iterator[tuple[bytes, bytes]]:
    r"""Give the ways to escape a character: the sign that they begin with, and what follows.

    Behind a backslash: `u0041`, `U00000041`, `x41`, `101`; of more bytes or units, one after another.
    """
    code, raw = ord(letter), _utf8(letter)
    utf16 = letter.encode("utf-16-be", "surrogatepass")
    for form in (utf16, letter.encode("utf-16-le", "surrogatepass")) if len(raw) > 1 else ():
        yield re.escape(form[:1]), re.escape(form[1:])
    yield rb"\\", _SLASHES.join(b"x" + _hex(byte, 2) for byte in raw)
    yield rb"\\", _SLASHES.join(b"0?%03o" % byte for byte in raw)
    units = [int.from_bytes(utf16[at : at + 2], "big") for at in range(0, len(utf16), 2)]
    yield rb"\\", _SLASHES.join(b"u" + _hex(unit, 4) for unit in units)
    yield rb"\\", b"U" + _hex(code, 8)
    yield b"%", b"%".join(b"(?:25){0,3}" + _hex(byte, 2) for byte in raw)
    yield b"=", rb"(?:=\r?\n)?=".join(_hex(byte, 2) for byte in raw)
    yield b"&", rb"(?:amp;)?#0{0,6}%d;?" % code
    yield b"&", b"(?:amp;)?#[xX]0{0,6}" + _hex(code, 1) + b";?"
    if name := html.entities.codepoint2name.get(code):
        yield b"&", b"(?:amp;)?" + name.encode() + b";"


def _hex(number: int, digits: int) -> bytes:
    return b"".join(map(_either_case, f"{number:0{digits}x}"))


def _either_case(digit: str) -> bytes:
    lower, upper = digit.lower(), digit.upper()
    return digit.encode() if lower == upper else f"[{lower}{upper}]".encode()


def _utf8(text: str) -> bytes:
    # Variables of a system hold bytes that are no text.
    return text.encode("utf-8", "surrogateescape")
