"""Everything below a folder, kept on disk: a hostile folder has millions of entries."""

from __future__ import annotations

import os
import sqlite3
import weakref
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import final

from pytest_researchenv.integrity.protocol import KEPT_BYTES, Entry, Kind


__all__ = ["COLUMNS", "Listing", "Row", "entry_of", "row_of"]

#: Of a table of entries, after their paths.
COLUMNS = "kind TEXT, mode INT, size INT, link BLOB, sha256 TEXT, content BLOB, head BLOB, canary TEXT"
_TABLE = f"CREATE TABLE entries (path BLOB PRIMARY KEY, {COLUMNS})"
_ADD = "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
_ALL = "SELECT * FROM entries ORDER BY rowid"
_ONE = "SELECT * FROM entries WHERE path = ?"
_WITHOUT = "SELECT path FROM entries WHERE kind = ? AND size <= ? AND content IS NULL"

Row = tuple[bytes, str, int, int, bytes, str, bytes | None, bytes, str]


@final
class Listing:
    """Entries by path, in the order in which they came."""

    def __init__(self) -> None:
        # Of no name: SQLite keeps it in memory while it is small, and then in a file that only it can find.
        # It is closed wherever it is let go of, which may be in another thread; it is used in one.
        self._entries = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        weakref.finalize(self, self._entries.close)
        for statement in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF", _TABLE):
            self._entries.execute(statement)

    def __iter__(self) -> Iterator[Entry]:
        """Every entry, with the content that was kept."""
        for row in self._entries.execute(_ALL):
            yield entry_of(row)

    def add(self, entry: Entry) -> None:
        """Add an entry, or put it in place of the one that has its path."""
        self._entries.execute(_ADD, row_of(entry))

    def find(self, path: str) -> Entry | None:
        """What is at a path."""
        row = self._entries.execute(_ONE, (os.fsencode(path),)).fetchone()
        return None if row is None else entry_of(row)

    def add_link(self, path: str, other: str) -> None:
        """Add another name of something that came before, which is all that an archive's hard links name."""
        if (first := self.find(other)) is not None:
            self.add(replace(first, path=path))

    def without(self, keep: Callable[[str], bool], most: int) -> list[str]:
        """Paths of files whose content is wanted and not here; one more than `most` at most."""
        found: list[str] = []
        for (raw,) in self._entries.execute(_WITHOUT, (Kind.FILE.value, KEPT_BYTES)):
            if keep(path := os.fsdecode(raw)):
                found.append(path)
            if len(found) > most:
                break
        return found


def row_of(entry: Entry) -> Row:
    """An entry as a row of a table: its path, and `COLUMNS`."""
    return (
        os.fsencode(entry.path),
        entry.kind.value,
        entry.mode,
        entry.size,
        os.fsencode(entry.link),
        entry.sha256,
        entry.content,
        entry.head,
        entry.canary,
    )


def entry_of(row: Row) -> Entry:
    """The entry that a row stands for."""
    path, kind, mode, size, link, sha256, content, head, canary = row
    return Entry(os.fsdecode(path), Kind(kind), mode, size, os.fsdecode(link), sha256, content, head, canary)
