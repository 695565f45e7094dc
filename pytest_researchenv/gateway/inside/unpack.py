"""Looks into what is packed while it passes in pieces: gzip, zlib, zip, and the packs in which Git sends objects. Pure.

Nothing is kept but what is needed to go on, and nothing here fails: what is damaged, or packed in another way, is not
looked into any further. Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable
from typing import Protocol


__all__ = ["MAGIC_BYTES", "Take", "Unpacker", "unpacker"]

#: So many bytes at the beginning tell how a stream is packed.
MAGIC_BYTES = 16

#: Unpacked at once: a few kilobytes can become gigabytes.
_STEP = 256 * 1024

#: Is given what was unpacked; returns whether more is wanted.
Take = Callable[[bytes], bool]

_GZIP = b"\x1f\x8b\x08"
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")

#: Of a zip: before each member, its fixed part is 30 bytes long.
_MEMBER = b"PK\x03\x04"
_MEMBER_BYTES = 30
_DEFLATED, _ENCRYPTED = 8, 1

#: What a service of Git begins its answer with, behind the length of the line.
_ANSWER = re.compile(rb"[0-9a-f]{4}(?:NAK|ACK |packfile|acknowl|shallow|wanted-|[\x01\x02])")
_PACK = b"PACK"
_PACK_BYTES = 12
_DELTA_BY_OFFSET, _DELTA_BY_NAME = 6, 7
_NAME_BYTES = 20
#: A number of 64 bits takes so many bytes.
_NUMBER_BYTES = 10


class Unpacker(Protocol):
    """Takes a packed stream in pieces, and hands on what is in it."""

    def feed(self, data: bytes) -> bool:
        """Take a piece; returns whether anything more can come of it."""


def unpacker(head: bytes, begin: Callable[[], Take]) -> Unpacker | None:
    """What unpacks a stream; None where it is not packed in a way that is known here.

    Args:
        head: its first `MAGIC_BYTES` bytes, or all that it has.
        begin: called for each file in it; gives what takes the file's content.
    """
    if head.startswith(_GZIP) or head.startswith(_ZLIB):
        return _Compressed(begin())
    if head.startswith(_MEMBER):
        return _Zip(begin)
    if head.startswith(_PACK):
        return _Pack(begin())
    if _ANSWER.match(head):
        return _GitAnswer(begin())
    return None


class _Inflating:
    """One compressed piece."""

    def __init__(self, take: Take, *, raw: bool = False) -> None:
        self._take = take
        # Either gzip or zlib, as it says itself.
        self._decoder = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS | 32)
        self.wanted = True

    @property
    def ended(self) -> bool:
        return self._decoder.eof

    @property
    def rest(self) -> bytes:
        """What follows it."""
        return self._decoder.unused_data

    def feed(self, data: bytes) -> bool:
        """Take a piece; returns whether it could be read."""
        while self.wanted:
            try:
                out = self._decoder.decompress(data, _STEP)
            except zlib.error:
                return False
            self.wanted = self._take(out) if out else True
            data = self._decoder.unconsumed_tail
            # All is taken in, and yet more may come out.
            if self._decoder.eof or (not data and len(out) < _STEP):
                break
        return True


class _Compressed:
    """gzip, of one member or several, or zlib."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._inflating = _Inflating(take)

    def feed(self, data: bytes) -> bool:
        while data:
            if not self._inflating.feed(data) or not self._inflating.wanted:
                return False
            if not self._inflating.ended:
                return True
            data = self._inflating.rest
            if data and not data.startswith(_GZIP[:1]):
                return False
            self._inflating = _Inflating(self._take)
        return True


class _Zip:
    """A zip: what stands before each member is enough. One in another that is only stored is found as well."""

    def __init__(self, begin: Callable[[], Take]) -> None:
        self._begin = begin
        self._rest = b""
        #: Of the next member's name, bytes that have not come yet.
        self._skip = 0
        self._member: _Inflating | None = None

    def feed(self, data: bytes) -> bool:
        data, self._rest = self._rest + data, b""
        while data:
            if self._member is None:
                data = self._search(data)
                continue
            if self._skip:
                data, self._skip = data[self._skip :], max(0, self._skip - len(data))
                continue
            read = self._member.feed(data)
            if not self._member.wanted:
                return False
            if read and not self._member.ended:
                return True
            # What is damaged may end anywhere.
            data = self._member.rest if read else data
            self._member = None
        return True

    def _search(self, data: bytes) -> bytes:
        """Go on to the next compressed member; returns what follows its header, or nothing where that is not there."""
        at = data.find(_MEMBER)
        if at < 0:
            self._rest = data[1 - len(_MEMBER) :]
            return b""
        header = data[at : at + _MEMBER_BYTES]
        if len(header) < _MEMBER_BYTES:
            self._rest = data[at:]
            return b""
        flags, method = struct.unpack_from("<HH", header, 6)
        if method != _DEFLATED or flags & _ENCRYPTED:
            return data[at + len(_MEMBER) :]
        self._skip = sum(struct.unpack_from("<HH", header, 26))
        self._member = _Inflating(self._begin(), raw=True)
        return data[at + _MEMBER_BYTES :]


class _Pack:
    """Git's objects, one after another. Of those that are written as a difference, what is new in them."""

    def __init__(self, take: Take) -> None:
        self._take = take
        self._rest = b""
        self._begun = False
        self._object: _Inflating | None = None

    def feed(self, data: bytes) -> bool:
        data, self._rest = self._rest + data, b""
        if not self._begun:
            if len(data) < _PACK_BYTES:
                self._rest = data
                return True
            self._begun, data = True, data[_PACK_BYTES:]
        while data:
            if self._object is None:
                begins = _object_begins(data)
                if begins < 0:
                    self._rest = data
                    return len(data) < 2 * _NUMBER_BYTES + _NAME_BYTES
                self._object, data = _Inflating(self._take), data[begins:]
            if not self._object.feed(data) or not self._object.wanted:
                return False
            if not self._object.ended:
                return True
            data, self._object = self._object.rest, None
        return True


def _object_begins(data: bytes) -> int:
    """Where an object's compressed part begins; negative where that is not there yet."""
    kind = data[0] >> 4 & 7
    at = _after_number(data, 0)
    if kind == _DELTA_BY_OFFSET and at > 0:
        at = _after_number(data, at)
    elif kind == _DELTA_BY_NAME and at > 0:
        at += _NAME_BYTES
    return at if at < len(data) else -1


def _after_number(data: bytes, at: int) -> int:
    for place in range(at, min(at + _NUMBER_BYTES, len(data))):
        if data[place] < 0x80:  # noqa: PLR2004 - the high bit says that more follows
            return place + 1
    return -1


class _GitAnswer:
    """What a service of Git answers: lines that begin with their length. The first band, or what follows, is a pack."""

    def __init__(self, take: Take) -> None:
        self._pack = _Pack(take)
        self._rest = b""
        #: Bytes of the line that have not come yet, and whether they are the pack's.
        self._line = 0
        self._packed = False
        self._behind = False

    def feed(self, data: bytes) -> bool:
        data, self._rest = self._rest + data, b""
        while data:
            if self._behind:
                return self._pack.feed(data)
            if self._line:
                line, data = data[: self._line], data[self._line :]
                self._line -= len(line)
                if self._packed and not self._pack.feed(line):
                    return False
            elif len(data) <= len(_PACK):
                self._rest = data
                break
            else:
                data = self._begin(data)
        return True

    def _begin(self, data: bytes) -> bytes:
        """A line begins; returns what follows what tells of it."""
        self._behind = data.startswith(_PACK)
        if self._behind:
            return data
        try:
            length = int(data[:4], 16)
        except ValueError:
            return b""
        # Without a line of its own, the length is a sign.
        self._line = max(length - 4, 0)
        self._packed = bool(self._line) and data[4] == 1
        if self._packed:
            self._line -= 1
        return data[5:] if self._packed else data[4:]
