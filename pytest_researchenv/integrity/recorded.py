"""What the distributions of a site folder say that they installed there."""

from __future__ import annotations

import base64
import binascii
import csv
import posixpath
import re
from collections.abc import Collection
from contextlib import suppress

from pytest_researchenv.integrity.protocol import Snapshot


__all__ = ["recorded"]

_RECORD = re.compile(r"[^/]+\.dist-info/RECORD")


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
        lines = [line for line in entry.text.splitlines() if _name(line) in names]
        with suppress(csv.Error):
            for row in csv.reader(lines):
                path = posixpath.normpath(posixpath.join(site, row[0])) if row else ""
                if path in paths and len(row) > 1 and (digest := _hexadecimal(row[1])):
                    found.setdefault(path, set()).add(digest)
    return found


def _name(line: str) -> str:
    """The name of the file that a line is about."""
    # A name with a comma stands in quotes.
    path = line[1:].partition('"')[0] if line.startswith('"') else line.partition(",")[0]
    return posixpath.basename(path)


def _hexadecimal(field: str) -> str:
    """A RECORD's hash as hexadecimal digits; empty when it is none, or of another kind."""
    kind, _, text = field.partition("=")
    if kind != "sha256":
        return ""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)).hex()
    except (binascii.Error, ValueError):
        return ""
