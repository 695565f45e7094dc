"""Which paths of a snapshot are as the base image has them."""

from __future__ import annotations

import bisect
import posixpath
from collections.abc import Collection, Iterable
from typing import final

from pytest_researchenv.errors import UnknownChangesError
from pytest_researchenv.sandbox.protocol import Change, ChangeKind


__all__ = ["Layer"]

#: Changes beyond which everything counts as changed: memory is for something better then.
_MOST = 300_000
#: Whatever has such a name stands in a layer for the removal of what is called by the rest of it (OCI image format).
_MARK = "/.wh."


@final
class Layer:
    """What the engine says that an agent's layer changed, for asking what it did not.

    Args:
        changes: what it changed; where that is not known, or too much, everything counts as changed.

    Attributes:
        mark: a path that is named as engines name what a layer removes, so that something was removed when the image
            was made, of which no record tells; empty where there is none.
    """

    def __init__(self, changes: Iterable[Change]) -> None:
        self.mark = ""
        self._kinds: dict[str, ChangeKind] | None = {}
        try:
            for change in changes:
                if _MARK in change.path:
                    self.mark = change.path
                if self._kinds is not None:
                    self._kinds[change.path] = change.kind
                    self._kinds = self._kinds if len(self._kinds) <= _MOST else None
        except UnknownChangesError:
            self._kinds = None
        self._sorted = sorted(self._kinds or ())

    def untouched(self, path: str) -> bool:
        """Whether what is at a path without links is what the base image has there.

        A folder above it that counts as changed may be another one, or a link: who follows a path looks at each of its
        folders, and those that count as changed are looked at in the snapshot.
        """
        # Of names that are no UTF-8 the engine's record has something else.
        if self._kinds is None or not path.isascii() or path in self._kinds:
            return False
        above = posixpath.dirname(path)
        while above != "/":
            if self._kinds.get(above, ChangeKind.CHANGED) is not ChangeKind.CHANGED:
                return False
            above = posixpath.dirname(above)
        return True

    def untouched_below(self, folder: str) -> bool:
        """Whether a folder and everything below it is what the base image has there."""
        if not self.untouched(folder):
            return False
        prefix = f"{folder.rstrip('/')}/"
        place = bisect.bisect_left(self._sorted, prefix)
        return place == len(self._sorted) or not self._sorted[place].startswith(prefix)

    def below(self, folders: Collection[str]) -> dict[str, ChangeKind] | None:
        """What was changed at or below some folders; None where that is not kept here."""
        if self._kinds is None:
            return None
        found = {folder: self._kinds[folder] for folder in folders if folder in self._kinds}
        for folder in folders:
            prefix = f"{folder.rstrip('/')}/"
            place = bisect.bisect_left(self._sorted, prefix)
            while place < len(self._sorted) and self._sorted[place].startswith(prefix):
                found[self._sorted[place]] = self._kinds[self._sorted[place]]
                place += 1
        return found
