"""What an ELF file says of itself, as far as an audit asks. A hostile one says nothing, and costs little."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO


__all__ = ["Elf", "read_elf"]

#: Largest file that is searched; a Python with everything in it has 30 MB, with debug symbols 100.
_MOST_BYTES = 256 * 1024**2
#: Bytes of names of dynamic symbols; Python's are 40 kB.
_MOST_STRINGS = 2 * 1024**2
_MOST_SEGMENTS, _SEGMENT_BYTES = 256, 56
_MOST_DYNAMIC = 4096
#: Longest path that Linux takes.
_LONGEST = 4096
_BLOCK = 1 << 20

_LOAD, _DYNAMIC, _INTERP = 1, 2, 3
_NULL, _NEEDED, _STRTAB, _STRSZ, _RPATH, _RUNPATH = 0, 1, 5, 10, 15, 29
#: Libraries that watch the loading of others, before any of them runs.
_AUDIT, _DEPAUDIT = 0x6FFFFEFC, 0x6FFFFEFB

#: How CPython calls the bytecode that it writes: `cpython-311`..
_TAG = re.compile(rb"cpython-3(\d{1,2})t?\0")
_TAG_BYTES = 32


@dataclass(frozen=True, slots=True)
class Elf:
    """A program or library for this kind of machine (64 bits, little endian).

    Attributes:
        loader: the dynamic loader that it asks for; empty when it asks for none.
        needed: libraries that it needs, in order.
        runpath: where these are looked for first; `$ORIGIN` is the file's own folder.
        auditors: libraries that watch its loading.
        names: dynamic strings: symbols that it has or wants, versions, libraries.
        minor: of a file that holds CPython, its minor version; None of any other.
    """

    loader: str = ""
    needed: tuple[str, ...] = ()
    runpath: tuple[str, ...] = ()
    auditors: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()
    minor: int | None = None


def read_elf(file: IO[bytes]) -> Elf | None:
    """Read a file that can be sought in; None when it is no such file, or a damaged one.

    Args:
        file: at its start.
    """
    try:
        return _read(file)
    except (struct.error, OverflowError, OSError, ValueError):
        return None


def _read(file: IO[bytes]) -> Elf | None:
    header = file.read(64)
    if header[:6] != b"\x7fELF\x02\x01":
        return None
    offset, size, count = struct.unpack_from("<Q", header, 32)[0], *struct.unpack_from("<HH", header, 54)
    if size != _SEGMENT_BYTES or count > _MOST_SEGMENTS:
        return None
    file.seek(offset)
    table = file.read(size * count)
    segments = [_Segment(*struct.unpack_from("<IIQQQQ", table, size * index)) for index in range(count)]
    loader = next((_text(_part(file, part, _LONGEST)) for part in segments if part.kind == _INTERP), "")
    dynamic = next((_part(file, part, 16 * _MOST_DYNAMIC) for part in segments if part.kind == _DYNAMIC), b"")
    entries = list(_entries(dynamic))
    values = dict(reversed(entries))
    strings = b""
    if _STRTAB in values:
        file.seek(_offset(values[_STRTAB], segments))
        strings = file.read(min(values.get(_STRSZ, 0), _MOST_STRINGS))

    def named(*tags: int) -> tuple[str, ...]:
        return tuple(_text(strings[value : value + _LONGEST]) for tag, value in entries if tag in tags)

    return Elf(
        loader=loader,
        needed=named(_NEEDED),
        runpath=tuple(folder for path in named(_RPATH, _RUNPATH) for folder in path.split(":")),
        auditors=named(_AUDIT, _DEPAUDIT),
        names=frozenset(name.decode(errors="replace") for name in strings.split(b"\0")),
        minor=_minor(file),
    )


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    size: int


def _part(file: IO[bytes], segment: _Segment, most: int) -> bytes:
    file.seek(segment.offset)
    return file.read(min(segment.size, most))


def _entries(dynamic: bytes) -> Iterator[tuple[int, int]]:
    for tag, value in struct.iter_unpack("<qQ", dynamic[: len(dynamic) // 16 * 16]):
        if tag == _NULL:
            return
        yield tag, value


def _offset(address: int, segments: list[_Segment]) -> int:
    """Where in the file is what the loader finds at an address."""
    for segment in segments:
        if segment.kind == _LOAD and segment.address <= address < segment.address + segment.size:
            return address - segment.address + segment.offset
    raise ValueError(f"no segment holds the address {address}")


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="surrogateescape")


def _minor(file: IO[bytes]) -> int | None:
    """The minor version of the CPython that a file holds."""
    file.seek(0, io.SEEK_SET)
    before = b""
    for _ in range(_MOST_BYTES // _BLOCK):
        block = file.read(_BLOCK)
        if found := _TAG.search(before + block):
            return int(found[1])
        if not block:
            break
        before = block[-_TAG_BYTES:]
    return None
