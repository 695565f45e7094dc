"""Where the dynamic loader finds libraries: what its cache says, read from outside."""

from __future__ import annotations

import posixpath
import struct
from collections.abc import Iterator

from pytest_researchenv.integrity.elf import Elf
from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot


__all__ = ["CACHE", "DEFAULTS", "cached", "found_at"]

CACHE = "/etc/ld.so.cache"

_MAGIC = b"glibc-ld.so.cache1.1"
#: What the format before began with, the size of its entries, and where the table after them may begin.
_OLD, _OLD_ENTRY_BYTES, _ALIGNED = b"ld.so-1.7.0\0", 12, 8
_HEADER, _ENTRY = struct.Struct("<20sII"), struct.Struct("<iIIIQ")
#: Bytes of the header, and most entries; a system with everything has some 3000.
_HEADER_BYTES, _MOST = 48, 100_000
_LONGEST = 4096

#: Where the loader looks for what its cache does not have.
DEFAULTS = (
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/lib64",
    "/lib",
    "/usr/lib",
)


def cached(snapshot: Snapshot) -> dict[str, list[str]] | None:
    """Return where the loader's cache has libraries, by name; None when there is no cache that can be read."""
    entry = snapshot.entry(CACHE)
    content = entry.content if entry is not None and entry.kind is Kind.FILE else None
    if content is None:
        return None
    found: dict[str, list[str]] = {}
    try:
        for name, path in _entries(content[_start(content) :]):
            found.setdefault(name, []).append(path)
    except struct.error:
        return None
    return found


def _start(content: bytes) -> int:
    """Where the table begins that the loader reads: at the start, or right after all of the old format's entries."""
    if not content.startswith(_OLD):
        return 0
    count = int.from_bytes(content[len(_OLD) :][:4], "little")
    end = len(_OLD) + 4 + count * _OLD_ENTRY_BYTES
    return end + -end % _ALIGNED


def _entries(table: bytes) -> Iterator[tuple[str, str]]:
    magic, count, _ = _HEADER.unpack_from(table)
    if magic != _MAGIC or count > _MOST:
        raise struct.error("no table of libraries")
    for index in range(count):
        _, key, value, _, _ = _ENTRY.unpack_from(table, _HEADER_BYTES + index * _ENTRY.size)
        yield _text(table, key), _text(table, value)


def _text(table: bytes, start: int) -> str:
    return table[start : start + _LONGEST].partition(b"\0")[0].decode(errors="surrogateescape")


def found_at(snapshot: Snapshot, binary: str, elf: Elf, name: str) -> Entry | None:
    """Return the file that the loader takes for a library which a program needs; None when there is none.

    Args:
        snapshot: the image.
        binary: the program, without links on the way.
        elf: what it says of itself.
        name: the library, as the program names it.
    """
    origin = posixpath.dirname(binary)

    def placed(path: str) -> str:
        return posixpath.normpath(path.replace("${ORIGIN}", origin).replace("$ORIGIN", origin))

    if "/" in name:
        paths = [placed(name)]
    else:
        own = [f"{placed(folder)}/{name}" for folder in elf.runpath if folder]
        paths = [*own, *(cached(snapshot) or {}).get(name, []), *(f"{folder}/{name}" for folder in DEFAULTS)]
    entries = (snapshot.entry(path) for path in paths)
    return next((entry for entry in entries if entry is not None and entry.kind is Kind.FILE), None)
