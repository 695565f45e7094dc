"""What the package index says the files of a distribution are: the one witness that no agent can change.

Builds of torch whose version has a local part are looked for on the index of their own, too. Of a wheel only RECORD and
WHEEL are read, by ranges of bytes, so that a gigabyte costs less than two megabytes. Nothing is asked for but names and
versions, on the indexes and in the folders that this host's pip is configured for.
"""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, final

from packaging.utils import canonicalize_name, canonicalize_version
from packaging.version import Version

from pytest_researchenv._packageindex import PackageIndex, configured_index, session_for
from pytest_researchenv.integrity._distfiles import READ_ERRORS, expanded, read_sources, read_wheel, wheel_digest
from pytest_researchenv.integrity._kept import one_at_a_time, read_kept, write_kept
from pytest_researchenv.integrity._ranges import Deadline
from pytest_researchenv.integrity.labelled import all_of, index_of, label_of
from pytest_researchenv.probes.lookup import printable


if TYPE_CHECKING:
    from pytest_researchenv.integrity._offers import Offer, Offers

__all__ = ["BUDGET_S", "PublishedRecords", "Unknown"]

#: How long one audit may ask indexes, in seconds.
BUDGET_S = 120.0

# No distribution has a longer name, version or list of tags, and parsing a hostile one takes long.
_LETTERS = 200
_TAGS = 100
# Of wheels that may be the one; one is, nearly always.
_WHEELS = 6
_SDIST_BYTES = 64 * 1024**2
# Changes with what is kept.
_FORMAT = "1"


@dataclass(frozen=True, slots=True)
class Unknown:
    """Why nothing is known of what was published: a remark, and never a finding.

    Attributes:
        reason: in words; what came from the image in it is printable.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A distribution that is looked for.

    Attributes:
        name: normalized.
        version: normalized.
        tags: each for one platform; none: its sources.
    """

    name: str
    version: str
    tags: frozenset[str] = frozenset()

    @property
    def words(self) -> str:
        return f"{self.name} {self.version}"


_Hashes: TypeAlias = Mapping[str, str]
_Reading: TypeAlias = Callable[[_Wanted, Deadline, list[str]], _Hashes | None]


@final
class PublishedRecords:
    """Reads the published records of distributions, within a time limit for all of them together.

    What was read once is kept on disk. One instance serves one audit.

    Args:
        cache: folder that keeps records (`Settings.cache`); made when it is not there.
        budget_s: how long indexes may be asked altogether, in seconds.
        index: where to look; None: where pip does on this host.
    """

    def __init__(self, cache: Path, *, budget_s: float = BUDGET_S, index: PackageIndex | None = None) -> None:
        self._cache = cache / "records"
        self._left_s = budget_s
        self._given = index
        self._labels: dict[str, tuple[Offers, ...]] = {}
        self._known: dict[_Wanted, _Hashes | Unknown] = {}

    def of(self, name: str, version: str, tags: Collection[str]) -> _Hashes | Unknown:
        """The files of a published wheel.

        It is the wheel whose own `WHEEL` has the same tags. A wheel that was built on the spot has other tags than the
        published one where it holds compiled code, and then nothing is known; but the same where it is pure Python
        (`py3-none-any`). Whether the installed one is the published one shows in its `WHEEL` file, whose hash is among
        those here; one that was built on the spot may differ in METADATA, WHEEL and generated files, and has its
        sources (`sources_of`) otherwise.

        Args:
            name: the distribution, from METADATA; anything may stand there.
            version: its version, likewise.
            tags: every `Tag:` of the installed `WHEEL`, likewise.

        Returns:
            Path → SHA-256 in hexadecimal, of each file that RECORD gives a hash of (RECORD itself has none). Paths are
            those in RECORD: relative to the folder of packages, with `NAME-VERSION.data/purelib/` and `…/platlib/`
            taken off, since installers do so too; other folders of `NAME-VERSION.data/` are left as they are, and what
            installers make of scripts has other hashes.
        """
        wanted = _validated(name, version, tags)
        if isinstance(wanted, Unknown):
            return wanted
        if not wanted.tags:
            return Unknown(f"the wheel of {wanted.words} does not say what it is for")
        return self._kept(wanted, self._read_wheel)

    def held(self, name: str, version: str, tags: Collection[str], path: str) -> str | Unknown:
        """The SHA-256 of what a published wheel really holds at a path, for one whose RECORD is wrong.

        Installers do not compare: a wheel with a wrong RECORD installs. So ask before anybody is accused.

        Args:
            name: as of `of`.
            version: likewise.
            tags: likewise.
            path: one of the paths that `of` returned.
        """
        wanted = _validated(name, version, tags)
        if isinstance(wanted, Unknown):
            return wanted

        files = self.of(name, version, tags)
        if isinstance(files, Unknown):
            return files
        if path not in files:
            return Unknown(f"the published {wanted.words} has no such file")
        answers: list[str] = []
        with self._asking() as deadline:
            try:
                for offer, recorded in self._wheels(wanted, deadline, answers):
                    if recorded == files:
                        with self._offers.opened(offer, deadline) as file:
                            return wheel_digest(file, wanted.name, path)
            except READ_ERRORS as error:
                answers.append(str(error))
        return _unknown(wanted, answers)

    def sources_of(self, name: str, version: str) -> _Hashes | Unknown:
        """The Python sources in a published source distribution.

        Args:
            name: as of `of`.
            version: likewise.

        Returns:
            Path below its top folder → SHA-256 in hexadecimal, of each `.py` file. An installed `foo/bar.py` may be
            `foo/bar.py`, `src/foo/bar.py` or `anything/foo/bar.py` there.
        """
        wanted = _validated(name, version)
        if isinstance(wanted, Unknown):
            return wanted
        return self._kept(wanted, self._read_sources)

    def offered(self, name: str, version: str = "") -> bool | Unknown:
        """Whether any index or folder has a distribution of a name.

        That none has is only said where an index was asked that has what every index has.

        Args:
            name: the distribution, from METADATA; anything may stand there.
            version: likewise; empty: in whatever version.
        """
        wanted = _validated(name, version or "0")
        if isinstance(wanted, Unknown):
            return wanted
        with self._asking() as deadline:
            try:
                found = self._offers.has_project(wanted.name, deadline, wanted.version if version else "")
                if found is False and self._offers.has_project("pip", deadline) is not True:
                    found = None
                if version and not found and (label := label_of(wanted.name, wanted.version)):
                    found = self._is_labelled(wanted, label, deadline)
            except TimeoutError as error:
                return _unknown(wanted, [str(error)])
        return Unknown(f"whether anybody publishes {wanted.name} is not known") if found is None else found

    # --- what is kept -------------------------------------------------------------------------------------

    def _kept(self, wanted: _Wanted, read: _Reading) -> _Hashes | Unknown:
        """Take it from memory or the disk, else ask and keep it."""
        if wanted not in self._known:
            place = self._place(wanted)
            self._known[wanted] = read_kept(place) or self._asked(wanted, read, place)
        return self._known[wanted]

    def _asked(self, wanted: _Wanted, read: _Reading, place: Path) -> _Hashes | Unknown:
        with self._asking() as deadline, one_at_a_time(place, self._left_s):
            # Another process may have asked meanwhile.
            found = read_kept(place)
            if found:
                return found
            answers: list[str] = []
            try:
                asked = read(wanted, deadline, answers)
            except TimeoutError as error:
                asked = None
                answers.append(str(error))
            if asked:
                write_kept(place, asked)
            return asked or _unknown(wanted, answers)

    def _place(self, wanted: _Wanted) -> Path:
        # Another index may have another one.
        index = (self._index.urls, self._index.local, self._index.links, self._index.pages)
        key = hashlib.sha256(repr((_FORMAT, index, sorted(wanted.tags))).encode()).hexdigest()[:16]
        return self._cache / f"{wanted.name}-{wanted.version}-{key}.json"

    # --- asking -------------------------------------------------------------------------------------------

    @cached_property
    def _index(self) -> PackageIndex:
        return self._given or configured_index()

    @cached_property
    def _offers(self) -> Offers:
        return _offers_of(self._index)

    @contextmanager
    def _asking(self) -> Iterator[Deadline]:
        started = time.monotonic()
        try:
            yield Deadline(self._left_s)
        finally:
            self._left_s -= time.monotonic() - started

    def _labelled(self, label: str) -> tuple[Offers, ...]:
        """The index of a label, and that of all of them; none of no label."""
        if label not in self._labels:
            indexes = (index_of(label, self._index), all_of(self._index)) if label else ()
            self._labels[label] = tuple(map(_offers_of, indexes))
        return self._labels[label]

    def _is_labelled(self, wanted: _Wanted, label: str, deadline: Deadline) -> bool | None:
        """Whether one of the indexes for a label has a build. That of a label which there is not need not answer."""
        one, every = self._labelled(label)
        return one.has_project(wanted.name, deadline, wanted.version) or every.has_project(
            wanted.name, deadline, wanted.version
        )

    def _read_wheel(self, wanted: _Wanted, deadline: Deadline, answers: list[str]) -> _Hashes | None:
        for _, files in self._wheels(wanted, deadline, answers):
            return files
        return None

    def _wheels(self, wanted: _Wanted, deadline: Deadline, answers: list[str]) -> Iterator[tuple[Offer, _Hashes]]:
        """The wheels that have the wanted tags inside."""
        places = (self._offers, *self._labelled(label_of(wanted.name, wanted.version)))
        found = (one.wheels(wanted.name, wanted.version, wanted.tags, deadline, answers) for one in places)
        for offer in islice(chain.from_iterable(found), _WHEELS):
            try:
                with self._offers.opened(offer, deadline) as file:
                    wheel = read_wheel(file, wanted.name)
            except READ_ERRORS as error:
                answers.append(f"{offer.filename}: {error}")
                continue
            if wheel.tags == wanted.tags:
                yield offer, wheel.files
            answers.append(f"{offer.filename}: has other tags inside")

    def _read_sources(self, wanted: _Wanted, deadline: Deadline, answers: list[str]) -> _Hashes | None:
        for offer in self._offers.sources(wanted.name, wanted.version, deadline, answers):
            try:
                content = self._offers.content(offer, deadline, _SDIST_BYTES)
                return read_sources(io.BytesIO(content), offer.filename)
            except READ_ERRORS as error:
                answers.append(f"{offer.filename}: {error}")
        return None


def _validated(name: str, version: str, tags: Collection[str] = ()) -> _Wanted | Unknown:
    """What is looked for: names and versions as indexes have them, and nothing else, since the image says them."""
    shown = f"{printable(name)} {printable(version)}"
    if max(len(name), len(version)) > _LETTERS or len(tags) > _TAGS:
        return Unknown(f"{shown} is no distribution that an index could have: it is too long")
    try:
        return _Wanted(canonicalize_name(name, validate=True), canonicalize_version(Version(version)), expanded(tags))
    except ValueError as error:
        return Unknown(f"{shown} is no distribution that an index could have: {printable(str(error))}")


def _unknown(wanted: _Wanted, answers: list[str]) -> Unknown:
    said = "; ".join(printable(answer) for answer in answers)
    return Unknown(f"the published {wanted.words} is not known: {said}")


def _offers_of(index: PackageIndex) -> Offers:
    # With it comes a parser of HTML, which takes 0.1 s to load, and most audits ask no index.
    from pytest_researchenv.integrity._offers import Offers  # noqa: PLC0415 - see above

    return Offers(index, session_for(index))
