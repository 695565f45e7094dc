"""What was read of an image once."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import final

from pytest_researchenv.integrity._imagefile import ImageFile
from pytest_researchenv.integrity._listing import Listing
from pytest_researchenv.integrity.protocol import Entry


__all__ = ["Memory"]

#: Paths, and bytes of content, that are remembered.
_MOST_SEEN = 100_000
_MOST_SEEN_BYTES = 64 * 1024**2
#: Trees that are remembered, on disk.
_MOST_LISTINGS = 8

#: An image by its content, which it shares with no other.
_CONTENT = re.compile(r"sha256:([0-9a-f]{64})")
#: So many paths have to be new for all to be written anew.
_WORTH_WRITING = 50


@final
class Memory:
    """What was read of an image, by path; bounded.

    Args:
        image: the engine's name of it. What is known by its content alone, other processes know, too.
        cache: where what they are to know is kept; None: nowhere. What cannot be read any more is forgotten.
    """

    def __init__(self, image: str = "", cache: Path | None = None) -> None:
        content = _CONTENT.fullmatch(image)
        self._file = ImageFile(cache / "base-images", content[1]) if content and cache else None
        self._listings: dict[str, Listing | None] = {}
        self._seen: dict[str, Entry | None] = {}
        self._bytes = self._new = 0
        if self._file:
            with self._or_forgotten():
                self._listings = dict.fromkeys(self._file.tops())
                for path, entry in self._file.singles():
                    self._remember(path, entry)

    def __contains__(self, path: str) -> bool:
        return path in self._seen

    def __getitem__(self, path: str) -> Entry | None:
        return self._seen[path]

    def keep(self, path: str, entry: Entry | None) -> None:
        """Remember what is at a path."""
        self._new += path not in self._seen
        self._remember(path, entry)

    def tops(self) -> Iterator[str]:
        """The folders of which everything below is remembered."""
        return iter(self._listings)

    def listing(self, top: str) -> Listing | None:
        """What is remembered of everything below a folder."""
        if self._file and top in self._listings and self._listings[top] is None:
            with self._or_forgotten():
                self._listings[top] = self._file.listing(top)
        return self._listings.get(top)

    def keep_listing(self, top: str, listing: Listing) -> None:
        """Remember everything below a folder."""
        self._new += _WORTH_WRITING
        if top not in self._listings and len(self._listings) >= _MOST_LISTINGS:
            del self._listings[next(iter(self._listings))]
        self._listings[top] = listing

    def write(self) -> None:
        """Let other processes know, where that is worth it and can be done."""
        if self._file is None or self._new < _WORTH_WRITING:
            return
        self._new = 0
        listings = {top: listing for top in list(self._listings) if (listing := self.listing(top))}
        if self._file:
            self._file.write(self._seen, listings)

    @contextmanager
    def _or_forgotten(self) -> Iterator[None]:
        """Do without the file where it cannot be read any more, as on a share that is gone."""
        try:
            yield
        except sqlite3.Error:
            self._file = None
            self._listings = {top: listing for top, listing in self._listings.items() if listing is not None}

    def _remember(self, path: str, entry: Entry | None) -> None:
        self._bytes += len(entry.content or b"") if entry else 0
        if len(self._seen) == _MOST_SEEN or self._bytes > _MOST_SEEN_BYTES:
            self._seen.clear()
            self._bytes = len(entry.content or b"") if entry else 0
        self._seen[path] = entry
