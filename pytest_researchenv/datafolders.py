"""Folders of data on this host, as containers see them: what is in them, and under which names.

Importing this module imports nothing heavy.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pytest_researchenv.errors import ConfigurationError


__all__ = ["HOME", "DataFile", "content_key", "data_target", "file_name", "files_below", "listing_key"]

#: Below which folder containers have data.
HOME = "/data"


class DataFile(NamedTuple):
    """A file of a data set.

    Attributes:
        name: relative to the data set's folder; the file's own name where the data set is one file.
        path: where it is.
        size: in bytes.
        changed: when it was changed, in nanoseconds.
    """

    name: str
    path: Path
    size: int
    changed: int


def file_name(data: str) -> str:
    """Return how the folder of a data set is called: letters, digits, `.`, `_` and `-` stay, the rest is `_`."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", data).strip("._-") or "data"


def data_target(data: str) -> str:
    """Return where a data set lies in a container."""
    return f"{HOME}/{file_name(data)}"


def files_below(place: Path) -> Iterator[DataFile]:
    """Yield the files of a data set, in order. Links to files are followed.

    Args:
        place: a folder, or a file.

    Raises:
        ConfigurationError: a link leads to a folder or to nothing, or something is neither file nor folder.
    """
    if place.is_file():
        yield _described(place, place.name)
        return
    for parent, folders, names in os.walk(place):
        folders.sort()
        if linked := next((name for name in folders if Path(parent, name).is_symlink()), None):
            raise ConfigurationError(
                f"{Path(parent, linked)} is a link to a folder, which could lead anywhere: put the folder itself there"
            )
        for name in sorted(names):
            path = Path(parent, name)
            yield _described(path, path.relative_to(place).as_posix())


def content_key(place: Path) -> str:
    """Return what tells a data set from another on every machine: a digest of its files' names and sizes."""
    return _digest((file.name, file.size) for file in files_below(place))


def listing_key(place: Path) -> str:
    """Return what changes as soon as a file of a data set is written to: the same, with times."""
    return _digest((file.name, file.size, file.changed) for file in files_below(place))


def _digest(listing: Iterator[tuple[object, ...]]) -> str:
    digest = hashlib.sha256()
    for entry in listing:
        digest.update(repr(entry).encode(errors="surrogateescape"))
    return digest.hexdigest()[:16]


def _described(path: Path, name: str) -> DataFile:
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be read: {error.strerror}") from error
    if not path.is_file():
        raise ConfigurationError(f"{path} is neither a file nor a folder: take it out of the data")
    return DataFile(name, path, status.st_size, status.st_mtime_ns)
