"""What CPython's releases have as their standard library: the witness for an interpreter that nobody else vouches for.

uv, pyenv and builds from sources all start from the same archive of sources, so that what they leave of it can be told
from what somebody wrote into it later.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, final

from pytest_researchenv._packageindex import configured_index, session_for
from pytest_researchenv.integrity._distfiles import READ_ERRORS, read_sources, read_texts
from pytest_researchenv.integrity._kept import one_at_a_time, read_kept, write_kept
from pytest_researchenv.integrity._ranges import Deadline, download
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.probes.lookup import printable


__all__ = ["PATCHED", "Library", "ReleasedLibraries", "StandardLibraries"]

#: Sources that builders of interpreters are known to change: conda, and python-build-standalone in any of its versions.
PATCHED = frozenset(
    {
        "ctypes/__init__.py",
        "ctypes/util.py",
        "ssl.py",
        "sysconfig.py",
        "sysconfig/__init__.py",
        "sysconfig/__main__.py",
        "tkinter/__init__.py",
        "uuid.py",
    }
)

_RELEASES = "https://www.python.org/ftp/python"
_VERSION = re.compile(r"(3\.\d{1,2}\.\d{1,2})(?:(?:a|b|rc)\d{1,2})?")
#: The sources of 3.14 have 30 MB.
_MOST_BYTES = 64 * 1024**2
_BUDGET_S = 120.0
_LIB = "Lib/"


@dataclass(frozen=True, slots=True)
class Library:
    """The standard library of one release.

    Attributes:
        files: path in it → SHA-256 in hexadecimal, of each Python source.
        texts: path in it → content, of those that are `PATCHED`.
    """

    files: Mapping[str, str]
    texts: Mapping[str, str]


class StandardLibraries(Protocol):
    """Knows the standard libraries of CPython's releases."""

    def of(self, version: str) -> Library | Unknown:
        """That of a release.

        Args:
            version: as `3.11.9` or `3.14.0rc1`; anything may stand there.
        """


@final
class ReleasedLibraries:
    """Reads them from the archives of sources that are published for each release, and keeps them on disk.

    Args:
        cache: folder that keeps them (`Settings.cache`); made when it is not there.
        budget_s: how long one audit waits for an archive, in seconds.
        url: where the releases are.
    """

    def __init__(self, cache: Path, *, budget_s: float = _BUDGET_S, url: str = _RELEASES) -> None:
        self._cache = cache / "releases"
        self._budget_s = budget_s
        self._url = url

    def of(self, version: str) -> Library | Unknown:
        """That of a release."""
        match = _VERSION.fullmatch(version)
        if match is None:
            return Unknown(f"{printable(version)} is no release of CPython")
        place = self._cache / f"{version}.json"
        started = time.monotonic()
        with one_at_a_time(place, self._budget_s):
            if (known := self._kept(place)) is not None:
                return known
            try:
                library = self._fetched(version, match[1], self._budget_s - (time.monotonic() - started))
            except READ_ERRORS as error:
                return Unknown(f"the standard library of CPython {version} is not known: {printable(str(error))}")
            write_kept(_texts(place), library.texts)
            write_kept(place, library.files)
        return library

    def _kept(self, place: Path) -> Library | None:
        files, texts = read_kept(place), read_kept(_texts(place))
        return None if files is None or texts is None else Library(files, texts)

    def _fetched(self, version: str, final_version: str, left_s: float) -> Library:
        name = f"Python-{version}.tgz"
        session = session_for(configured_index())
        content = download(session, f"{self._url}/{final_version}/{name}", Deadline(left_s), _MOST_BYTES)
        sources = read_sources(io.BytesIO(content), name)
        texts = read_texts(io.BytesIO(content), name, {f"{_LIB}{path}" for path in PATCHED})
        files = {path.removeprefix(_LIB): digest for path, digest in sources.items() if path.startswith(_LIB)}
        if "os.py" not in files:
            raise ValueError(f"{name} has no standard library")
        return Library(files, {path.removeprefix(_LIB): text for path, text in texts.items()})


def _texts(place: Path) -> Path:
    return place.with_suffix(".texts.json")
