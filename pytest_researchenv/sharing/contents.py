"""What an export holds: its table of contents, and what may stand in one.

    researchenv-export.json    the table: size and SHA-256 of every other file
    run/…                      files of a run's folder, by the paths that they have there
    images.tar                 frozen images and the base images that they grew from, as the engine saves them

An export of a run is one archive (`.tar.gz`) with the table first; that of an environment is a folder.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, ClassVar, Literal

from pydantic import Field, TypeAdapter, ValidationError

from pytest_researchenv._sources import STRICT
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.runs.folders import ATTEMPT


__all__ = [
    "IMAGES",
    "TABLE",
    "Contents",
    "Member",
    "attempts_in",
    "contents_json",
    "is_run_file",
    "parse_contents",
]

#: The table's name. No archive's table is larger than this, in bytes: some 200,000 files.
TABLE = "researchenv-export.json"
TABLE_BYTES = 64 * 1024**2

IMAGES = re.compile(r"images\.tar(?:\.gz)?")

_RUN = "run"

#: What a run's folder holds beside its attempts.
_OF_THE_RUN = re.compile(r"manifest-[\w.+-]+\.json|journal-[\w.+-]+\.jsonl|\.spending\.json")

#: A folder's or a file's name: nothing hidden, nothing that leads elsewhere, nothing that is not seen.
_NAME = re.compile(r"[^./\\\x00-\x1f\x7f-\x9f][^/\\\x00-\x1f\x7f-\x9f]{0,254}")

_DIGEST = r"^[0-9a-f]{64}$"
_IMAGE = r"^sha256:[0-9a-f]{64}$"

#: agent, suite and repository at least, then the attempt and its file; names of repositories may have several parts.
_FEWEST, _MOST = 4, 8


@dataclass(frozen=True, slots=True)
class Member:
    """A file of an export.

    Attributes:
        bytes: its size.
        sha256: its digest, in hexadecimal.
    """

    __pydantic_config__: ClassVar = STRICT

    bytes: Annotated[int, Field(ge=0)]
    sha256: Annotated[str, Field(pattern=_DIGEST)]


@dataclass(frozen=True, slots=True)
class Contents:
    """The table of contents.

    Attributes:
        kind: whether it is of a whole run or of one environment.
        run: name of the run.
        created: UTC, ISO 8601.
        harness: what made it: version of this package, and a digest of its code.
        members: path of each file in it → what it is.
        images: ids of the images in it.
        schema: version of this record's schema.
    """

    __pydantic_config__: ClassVar = STRICT

    kind: Literal["run", "environment"]
    run: str
    created: str
    harness: str
    members: dict[str, Member]
    images: tuple[Annotated[str, Field(pattern=_IMAGE)], ...] = ()
    schema: Literal[1] = 1

    @property
    def total_bytes(self) -> int:
        """Bytes of all files."""
        return sum(member.bytes for member in self.members.values())

    @property
    def archive(self) -> str:
        """Name of the file with the images; empty where there is none."""
        return next((name for name in self.members if IMAGES.fullmatch(name)), "")


_CONTENTS = TypeAdapter(Contents)


def contents_json(contents: Contents) -> bytes:
    """Return the table as it is written."""
    return _CONTENTS.dump_json(contents, indent=1)


def parse_contents(raw: bytes, where: str) -> Contents:
    """Read a table, and make sure that every file in it has a place in a results folder.

    Args:
        raw: the table.
        where: name of the export, for messages.

    Raises:
        ConfigurationError: it is none, or of another version, or names a file that has no place.
    """
    try:
        contents = _CONTENTS.validate_json(raw)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = printable(".".join(map(str, first["loc"])))
        if place == "schema":
            raise ConfigurationError(
                f"{where} is of another version of the format, {printable(repr(first['input']))}; this one reads 1: "
                "import it with the version of pytest-researchenv that exported it, or a newer one"
            ) from error
        raise ConfigurationError(f"{where} is no export of researchenv: {TABLE}: {place}: {first['msg']}") from error
    if not _NAME.fullmatch(contents.run):
        raise ConfigurationError(f"{where} names a run that cannot have a folder: {printable(contents.run)}")
    for name in contents.members:
        if not (IMAGES.fullmatch(name) or is_run_file(name)):
            raise ConfigurationError(f"{where} holds a file that has no place in a run: {printable(name)}")
    if len([name for name in contents.members if IMAGES.fullmatch(name)]) != bool(contents.images):
        raise ConfigurationError(f"{where} names images, and does not hold just one file of them")
    return contents


def is_run_file(name: str) -> bool:
    """Whether a path in an export is that of a file which a run's folder may hold."""
    top, _, rest = name.partition("/")
    if top != _RUN:
        return False
    if _OF_THE_RUN.fullmatch(rest):
        return True
    *folders, attempt, file = rest.split("/") if rest.count("/") else ("", rest)
    return (
        _FEWEST <= len(folders) + 2 <= _MOST
        and all(_NAME.fullmatch(folder) and not ATTEMPT.fullmatch(folder) for folder in folders)
        and ATTEMPT.fullmatch(attempt) is not None
        and _NAME.fullmatch(file) is not None
    )


def attempts_in(names: Iterable[str]) -> Iterator[PurePosixPath]:
    """Yield the folder of each attempt among the paths of an export, relative to the run's folder."""
    folders = {PurePosixPath(name).parent.relative_to(_RUN) for name in names if is_run_file(name)}
    yield from sorted(folder for folder in folders if ATTEMPT.fullmatch(folder.name))
