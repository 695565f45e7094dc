"""What was read of one image, kept in a file for other processes."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
import time
import weakref
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import final

from pytest_researchenv.integrity._listing import COLUMNS, Listing, entry_of, row_of
from pytest_researchenv.integrity.protocol import Entry


__all__ = ["ImageFile"]

#: Another number when other things are read of a file, or are written down in another way.
_FORM = 1
_TABLES = (
    "CREATE TABLE absent (path BLOB)",
    f"CREATE TABLE single (path BLOB, {COLUMNS})",
    "CREATE TABLE folders (top BLOB PRIMARY KEY)",
    f"CREATE TABLE below (top BLOB, path BLOB, {COLUMNS})",
    "CREATE INDEX by_top ON below (top)",
)
_MARKS = ", ".join("?" * (1 + len(COLUMNS.split(","))))
#: Whoever takes another base image each day needs no more than so many of them.
_MOST_IMAGES = 16
#: Nobody writes for so long, in seconds.
_LEFT_S = 3600


@final
class ImageFile:
    """What other processes wrote down of an image until now; a file that is damaged is none.

    Args:
        folder: where such files are.
        image: digest of the image's content, in hexadecimal.

    Raises (from every method that reads):
        sqlite3.Error: the file cannot be read any more.
    """

    def __init__(self, folder: Path, image: str) -> None:
        self._folder = folder
        self._name = f"{image}.{_FORM}"
        self._kept: sqlite3.Connection | None = None
        with suppress(OSError, sqlite3.Error):
            found = next(filter(_is_whole, folder.glob(f"{self._name}.*.sqlite")), None)
            if found:
                # Nobody writes to it: another one takes its place.
                uri = f"{found.absolute().as_uri()}?mode=ro&immutable=1"
                kept = sqlite3.connect(uri, uri=True, check_same_thread=False)
                weakref.finalize(self, kept.close)
                # Another process may have removed it by now; what is open stays.
                kept.execute("SELECT top FROM folders").fetchone()
                self._kept = kept
                os.utime(found)

    def singles(self) -> Iterator[tuple[str, Entry | None]]:
        """What is at each path that was looked at by itself; None for nothing."""
        if self._kept:
            for (path,) in self._kept.execute("SELECT path FROM absent"):
                yield os.fsdecode(path), None
            for row in self._kept.execute("SELECT * FROM single"):
                yield os.fsdecode(row[0]), entry_of(row)

    def tops(self) -> list[str]:
        """The folders of which everything below was read."""
        return [os.fsdecode(top) for (top,) in self._kept.execute("SELECT top FROM folders")] if self._kept else []

    def listing(self, top: str) -> Listing:
        """Everything below one of these folders."""
        listing = Listing()
        if self._kept:
            for _, *row in self._kept.execute("SELECT * FROM below WHERE top = ? ORDER BY rowid", (os.fsencode(top),)):
                listing.add(entry_of(tuple(row)))
        return listing

    def write(self, singles: Mapping[str, Entry | None], listings: Mapping[str, Listing]) -> None:
        """Keep this instead, if that can be done; of two who write at the same time, what the later one knows stays."""
        with suppress(OSError, sqlite3.Error):
            self._folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=self._folder) as own:
                part = Path(own, "part")
                with closing(sqlite3.connect(part)) as connection:
                    _fill(connection, singles, listings)
                # Whoever opened an older one meanwhile has made that one newer.
                os.utime(part.replace(self._folder / f"{self._name}.{_digest(part)}.sqlite"))
            _forget(self._folder)


def _fill(connection: sqlite3.Connection, singles: Mapping[str, Entry | None], listings: Mapping[str, Listing]) -> None:
    for table in _TABLES:
        connection.execute(table)
    with connection:
        absent = ((os.fsencode(path),) for path, entry in singles.items() if entry is None)
        connection.executemany("INSERT INTO absent VALUES (?)", absent)
        there = (row_of(entry) for entry in singles.values() if entry)
        connection.executemany(f"INSERT INTO single VALUES ({_MARKS})", there)  # noqa: S608 - question marks
        for top, listing in listings.items():
            raw = os.fsencode(top)
            connection.execute("INSERT INTO folders VALUES (?)", (raw,))
            rows = ((raw, *row_of(entry)) for entry in listing)
            connection.executemany(f"INSERT INTO below VALUES (?, {_MARKS})", rows)  # noqa: S608 - likewise


def _digest(place: Path) -> str:
    with place.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _is_whole(place: Path) -> bool:
    return place.suffixes[-2:-1] == [f".{_digest(place)}"]


def _forget(folder: Path) -> None:
    """Remove what another file took the place of, images that nobody took for the longest time, and what is left over.

    Of several of one image the newest stays, whoever wrote it, so that two who write at once leave one.
    """
    kept: set[str] = set()
    for path in sorted(folder.glob("*.sqlite"), key=lambda path: path.stat().st_mtime, reverse=True):
        image = path.name.rsplit(".", 2)[0]
        if image in kept or len(kept) == _MOST_IMAGES:
            path.unlink(missing_ok=True)
        kept.add(image)
    for path in folder.glob("tmp*"):
        # Of a process that was killed.
        if time.time() - path.stat().st_mtime > _LEFT_S:
            shutil.rmtree(path, ignore_errors=True)
