"""What an archive holds: one index for each, which says of every file where its content is.

    attempt-001/archive/
        001.tar              files that are new or have changed since the archive before
        001.json.gz          every file there is, and in which archive its content is

An archive is whole once its index is there.
"""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._sources import STRICT
from pytest_researchenv.errors import StoreError
from pytest_researchenv.store import write_whole


__all__ = ["FOLDER", "Entry", "Index", "Kind", "archive_path", "newest_index", "save_index"]

#: In an attempt's folder.
FOLDER = "archive"


class Kind(StrEnum):
    """What is at a path."""

    FILE = "file"
    FOLDER = "folder"
    LINK = "link"


@dataclass(frozen=True, slots=True)
class Entry:
    """One path.

    Attributes:
        kind: what is there.
        mode: permission bits.
        size: of a file, in bytes.
        changed: when it was changed, in nanoseconds since 1970, by the engine's host.
        link: where a link leads.
        sha256: of a file's content as it is archived, in hexadecimal.
        archive: number of the archive that holds the content.
        torn: whether it was written to each time that it was read, so that its content may be of no one moment.
    """

    __pydantic_config__: ClassVar = STRICT

    kind: Kind
    mode: int = 0o644
    size: int = 0
    changed: int = 0
    link: str = ""
    sha256: str = ""
    archive: int = 0
    torn: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """Every path of a folder at about one time.

    Attributes:
        number: of the archive.
        root: absolute path of the folder in the container.
        began: when it was begun to read, in seconds since 1970, UTC.
        seconds: how long that took.
        added_bytes: size of this archive.
        entries: path relative to `root` → what is there.
        left_out: paths that are not archived, each with the reason.
        schema: version of this record's schema.
    """

    __pydantic_config__: ClassVar = STRICT

    number: int
    root: str
    began: float
    seconds: float
    added_bytes: int
    entries: dict[str, Entry] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    schema: Literal[1] = 1

    @property
    def torn(self) -> tuple[str, ...]:
        """Files whose content may be of no one moment."""
        return tuple(path for path, entry in self.entries.items() if entry.torn)


_INDEX = TypeAdapter(Index)


def archive_path(folder: Path, number: int) -> Path:
    """Return the file of an archive of an attempt."""
    return folder / FOLDER / f"{number:03d}.tar"


def save_index(folder: Path, index: Index) -> None:
    """Record what an archive holds, which makes it count."""
    # Compressed without a time: the same index is the same file.
    content = gzip.compress(_INDEX.dump_json(index), compresslevel=3, mtime=0)
    write_whole(_place(folder, index.number), content)


def newest_index(folder: Path) -> Index | None:
    """Return the index of the newest archive of an attempt that can be read; None where there is none.

    Args:
        folder: the attempt's.

    Raises:
        StoreError: none of those that are there can be read.
    """
    problems = []
    for path in sorted((folder / FOLDER).glob("*.json.gz"), reverse=True):
        try:
            return _INDEX.validate_json(gzip.decompress(path.read_bytes()))
        except (OSError, EOFError, ValidationError) as error:
            problems.append(f"{path}: {error}")
    if problems:
        raise StoreError(f"no archive of {folder} can be read: {'; '.join(problems)}")
    return None


def _place(folder: Path, number: int) -> Path:
    return folder / FOLDER / f"{number:03d}.json.gz"
