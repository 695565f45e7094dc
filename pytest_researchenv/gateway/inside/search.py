"""Looks for texts in a body that passes in pieces, also where it is packed. Pure: knows nothing of the proxy.

Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable

from .unpack import MAGIC_BYTES, Take, Unpacker, unpacker


__all__ = ["PACKED_BYTES", "SEARCHED_BYTES", "BodySearch", "Search", "encoded"]

#: So many bytes of a body are searched as they come, and as many of what is packed in it.
SEARCHED_BYTES = 64 * 1024 * 1024

#: So many bytes of a packed body are unpacked, and nothing of one that is known to be larger. Unpacking takes a core a
#: second for some 150 MB; our own wheel and repository have less than 2 MB.
PACKED_BYTES = 16 * 1024 * 1024

#: What is packed may hold something packed: a file that the service compressed, an archive in an archive.
_DEPTH = 3

#: A text of JSON may hold a file in base64: GitHub's and GitLab's interfaces have it so.
_JSON = (b"{", b"[")


class Search:
    """Looks for texts in what comes in pieces.

    Args:
        texts: what to look for.
    """

    __slots__ = ("_keep", "_rest", "_texts")

    def __init__(self, texts: Iterable[bytes]) -> None:
        self._texts = tuple(text for text in texts if text)
        self._keep = max(map(len, self._texts), default=1) - 1
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """Take a piece; returns the first of the texts that is in what came so far, and was not in it before."""
        data = self._rest + data
        for text in self._texts:
            if text in data:
                return text
        self._rest = data[-self._keep :] if self._keep else b""
        return b""


class BodySearch:
    """Looks for texts in a body and in what is packed in it.

    Args:
        texts: what to look for.
        length: how many bytes the body has, where that is known.
    """

    __slots__ = ("_left", "_stream", "found")

    def __init__(self, texts: Iterable[str], *, length: int | None = None) -> None:
        self.found = ""
        #: Bytes that may still be searched: as they come, and unpacked.
        self._left = [SEARCHED_BYTES, SEARCHED_BYTES]
        forms = {text: text.encode() for text in texts if text}
        unpacked = length is None or length <= PACKED_BYTES
        self._stream = _Stream(self, forms, _DEPTH if unpacked else 0) if forms else None

    def feed(self, data: bytes) -> bool:
        """Take a piece; returns whether one of the texts was found, then or before: `found` has it."""
        if self._stream is not None and not self.found and self._left[0] > 0:
            self._left[0] -= len(data)
            if self._left[0] < SEARCHED_BYTES - PACKED_BYTES:
                self._left[1] = 0
            self._stream.feed(data)
        return bool(self.found)

    def unpacked(self, count: int) -> bool:
        """So much was unpacked; returns whether more may be."""
        self._left[1] -= count
        return self._left[1] > 0


class _Stream:
    """A body, or one file that was packed in it."""

    __slots__ = ("_body", "_depth", "_head", "_in_json", "_search", "_texts", "_unpacker")

    def __init__(self, body: BodySearch, texts: dict[str, bytes], depth: int) -> None:
        self._body = body
        self._texts = texts
        self._depth = depth
        self._search = Search(texts.values())
        self._in_json: Search | None = None
        self._unpacker: Unpacker | None = None
        #: None once it is known what this is.
        self._head: bytes | None = b""

    def feed(self, data: bytes) -> bool:
        """Take a piece; returns whether more of it is wanted."""
        if found := self._search.feed(data):
            self._note(found)
            return False
        if self._head is not None:
            self._head += data
            if len(self._head) < MAGIC_BYTES:
                return True
            data, self._head = self._head, None
            self._begin(data)
        if self._in_json is not None and (found := self._in_json.feed(data)):
            self._note(found)
            return False
        if self._unpacker is not None and not self._unpacker.feed(data):
            self._unpacker = None
        return not self._body.found

    def _begin(self, data: bytes) -> None:
        if data.lstrip().startswith(_JSON):
            self._in_json = Search(form for text in self._texts.values() for form in encoded(text))
        if self._depth:
            self._unpacker = unpacker(data[:MAGIC_BYTES], self._inner)

    def _inner(self) -> Take:
        stream = _Stream(self._body, self._texts, self._depth - 1)

        def take(data: bytes) -> bool:
            return stream.feed(data) and self._body.unpacked(len(data))

        return take

    def _note(self, found: bytes) -> None:
        holding = (text for text, plain in self._texts.items() if found == plain or found in encoded(plain))
        self._body.found = next(holding, "")


def encoded(text: bytes) -> tuple[bytes, ...]:
    """Parts of what a text becomes in base64, wherever it stands: of two halves, a line break spoils one at most."""
    forms: list[bytes] = []
    for before in range(3):
        # Digits at the ends are also made of what stands beside the text.
        digits = base64.b64encode(bytes(before) + text + bytes(-(before + len(text)) % 3))
        own = digits[-(-8 * before // 6) : 8 * (before + len(text)) // 6]
        middle = len(own) // 2
        forms += [own[:middle], own[middle:]]
    return tuple(forms)
