"""What the distributions of a site folder say that they installed there."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection

from pytest_researchenv.integrity._metadata import record_rows
from pytest_researchenv.integrity.protocol import Snapshot


__all__ = ["recorded"]

#: Of what is installed: what pip removes begins with a tilde.
_RECORD = re.compile(r"[^/~][^/]*\.dist-info/RECORD")


def recorded(snapshot: Snapshot, site: str, paths: Collection[str]) -> dict[str, set[str]]:
    """Return what RECORDs of a site folder say is at some paths, as SHA-256 in hexadecimal; often one, mostly none.

    Args:
        snapshot: the image.
        site: the site folder.
        paths: absolute, below the site folder as it is named there.
    """
    found: dict[str, set[str]] = {}
    names = {posixpath.basename(path) for path in paths}
    top = snapshot.resolved(site)
    if not paths or not top:
        return found
    for entry in snapshot.tree(site, lambda path: _RECORD.fullmatch(path.removeprefix(f"{top}/")) is not None):
        if not _RECORD.fullmatch(entry.path.removeprefix(f"{top}/")):
            continue
        # Most have none of them. All of one is read, as whoever asks what is installed reads it: what a row is depends
        # on what is before it.
        text = entry.text
        files = record_rows(text, site, entry.path).files if any(name in text for name in names) else {}
        for path in files.keys() & set(paths):
            if files[path]:
                found.setdefault(path, set()).add(files[path])
    return found
