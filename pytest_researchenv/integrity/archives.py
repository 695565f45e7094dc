"""What Debian's archives have of a package: the witness for packages that an agent upgraded or installed.

dpkg's records are root's to write, and the archives are not: their index is signed, names the checksum of each package,
and each package has the files that it installs. Nothing is asked for but names, in the repositories that apt of the
base image is configured for, from this host; where one of them does not answer, from this host's own mirror of it.
"""

from __future__ import annotations

import email.utils
import hashlib
import io
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Protocol, final

import requests

from pytest_researchenv._apt import Source, is_later, sources_in
from pytest_researchenv._packageindex import PackageIndex, session_for, without_secrets
from pytest_researchenv.integrity._archives import unpacked
from pytest_researchenv.integrity._debs import DEB_ERRORS, read_deb
from pytest_researchenv.integrity._kept import one_at_a_time, read_kept, write_kept
from pytest_researchenv.integrity._ranges import Deadline, download
from pytest_researchenv.integrity._signed import verified
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.probes.lookup import printable


__all__ = ["Archive", "Archives", "Package", "PublishedPackages", "Unpublished", "host_sources"]

_BUDGET_S = 120.0
#: A release's own file has 150 kB, the index of Debian's main part 9 MB, and a package of a compiler 60 MB.
_RELEASE_BYTES, _INDEX_BYTES, _PACKAGE_BYTES = 8 * 1024**2, 64 * 1024**2, 96 * 1024**2
#: Repositories, those that an agent named, and parts of one.
_MOST_SOURCES, _MOST_CHOSEN, _MOST_PARTS = 20, 4, 8

_NAME = re.compile(r"[a-z0-9][a-z0-9+.-]{0,100}")
_VERSION = re.compile(r"[A-Za-z0-9.+:~-]{1,100}")
_FIELD = re.compile(rb"^(Version|Architecture|Filename|SHA256): (.*)$", re.MULTILINE)
_FIELDS = (b"Version", b"Architecture", b"Filename", b"SHA256")
_SUM = re.compile(r"^ ([0-9a-f]{64}) +\d+ +(\S+)$", re.MULTILINE)
_DATE = re.compile(r"^Date: (.+)$", re.MULTILINE)
_PACKINGS = (".xz", ".gz", "")
# Changes with what is kept.
_FORMAT = "1"


@dataclass(frozen=True, slots=True)
class Archive:
    """The repositories that a system's packages come from.

    Attributes:
        sources: the repositories.
        keys: files of keys, one of which signs each of them.
        architecture: the system's own, in whose indexes packages are that fit any.
        chosen: further releases of these repositories, which an agent named: what is not there says nothing.
    """

    sources: tuple[Source, ...]
    keys: tuple[bytes, ...]
    architecture: str
    chosen: tuple[Source, ...] = ()


@dataclass(frozen=True, slots=True)
class Package:
    """A package in a version; anything may stand there."""

    name: str
    version: str
    architecture: str

    def __str__(self) -> str:
        return printable(f"{self.name} {self.version}", 200)


@dataclass(frozen=True, slots=True)
class Unpublished:
    """That no repository has a package in a version.

    Attributes:
        reason: in words.
        known: whether they have it in other versions.
        since: a time from which on they have had a later one; None where they have none, or do not say.
        later: whether they have a later one: it may have taken the place of this one.
    """

    reason: str
    known: bool = False
    since: datetime | None = None
    later: bool = False


class Archives(Protocol):
    """Knows what archives have."""

    def of(self, archive: Archive, package: Package) -> Mapping[str, str] | Unpublished | Unknown:
        """The files of a package: absolute path → SHA-256 in hexadecimal."""


@dataclass(frozen=True, slots=True)
class _Offer:
    version: str
    architecture: str
    root: str
    filename: str
    sha256: str
    dated: datetime | None

    @property
    def url(self) -> str:
        return f"{self.root}/{self.filename.removeprefix('./')}"


@dataclass(frozen=True, slots=True)
class _Index:
    """One part of a repository: where its packages are, what it says of all of them, and since when."""

    root: str
    text: bytes
    dated: datetime | None

    def offers(self, name: str) -> Iterator[_Offer]:
        needle, end = b"\nPackage: " + name.encode() + b"\n", 0
        while (start := self.text.find(needle, end)) >= 0:
            end = self.text.find(b"\n\n", start + 1)
            end = len(self.text) if end < 0 else end
            paragraph = self.text[start:end]
            fields = {key: value.decode(errors="replace").strip() for key, value in _FIELD.findall(paragraph)}
            version, architecture, filename, digest = (fields.get(key, "") for key in _FIELDS)
            yield _Offer(version, architecture, self.root, filename, digest, self.dated)


@dataclass(frozen=True, slots=True)
class _Silence:
    """Why nothing is known of a repository, and whether that is since it is not there, or is not what it should be."""

    words: str
    absent: bool


def host_sources(apt: Path = Path("/etc/apt")) -> tuple[Source, ...]:
    """The repositories that apt of this host is configured for."""
    found: dict[Source, None] = {}
    for path in (apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))):
        with suppress(OSError):
            if path.suffix in {".list", ".sources"}:
                found |= dict.fromkeys(sources_in(path.read_text(errors="replace"), deb822=path.suffix == ".sources"))
    return tuple(found)


@final
class PublishedPackages:
    """Reads archives, within a time limit for one audit, and keeps what it read on disk.

    Args:
        cache: folder that keeps it (`Settings.cache`); made when it is not there.
        budget_s: how long archives may be asked altogether, in seconds.
        mirrors: what is asked of the same suite where a repository does not answer; None: this host's own.
    """

    def __init__(self, cache: Path, *, budget_s: float = _BUDGET_S, mirrors: tuple[Source, ...] | None = None) -> None:
        self._cache = cache / "packages"
        self._left_s = budget_s
        self._given = mirrors
        self._indexes: dict[tuple[Source, str], list[_Index] | _Silence] = {}

    def of(self, archive: Archive, package: Package) -> Mapping[str, str] | Unpublished | Unknown:
        """The files of a package, or why there are none."""
        if not _NAME.fullmatch(package.name) or not _VERSION.fullmatch(package.version):
            return Unpublished(f"{package} is no name and version of a package")
        place = self._place(archive, package)
        if (kept := read_kept(place)) is not None:
            return kept
        with self._asking() as deadline, one_at_a_time(place, self._left_s):
            try:
                found = read_kept(place) or self._asked(archive, package, deadline)
            except (*DEB_ERRORS, requests.RequestException) as error:
                return Unknown(f"the published {package} is not known: {printable(without_secrets(str(error)))}")
            if isinstance(found, Mapping):
                write_kept(place, found)
            return found

    def _asked(self, archive: Archive, package: Package, deadline: Deadline) -> Mapping[str, str] | Unpublished:
        silent: list[str] = []
        offers: list[_Offer] = []
        architecture = archive.architecture if package.architecture in ("", "all") else package.architecture
        for source in (*archive.sources[:_MOST_SOURCES], *archive.chosen[:_MOST_CHOSEN]):
            indexes = self._of_source(archive, source, architecture, deadline)
            if isinstance(indexes, _Silence):
                silent += [indexes.words] if source in archive.sources or not indexes.absent else []
                continue
            found = [offer for index in indexes for offer in index.offers(package.name)]
            for offer in found:
                if offer.version == package.version and offer.architecture in ("all", architecture):
                    return self._files(offer, deadline)
            offers += found
        if silent or not archive.sources:
            raise OSError("; ".join(silent) or "the base image names no repository")
        # What a later one took the place of may lie there still, as may what came a minute ago.
        for beside in dict.fromkeys(_beside(offer, package) for offer in offers):
            if beside and (files := self._files_if_there(beside, deadline)):
                return files
        return _unpublished(offers, package)

    # --- asking -------------------------------------------------------------------------------------------

    @cached_property
    def _session(self) -> requests.Session:
        # Proxies are those of the environment.
        return session_for(PackageIndex(()))

    @cached_property
    def _mirrors(self) -> tuple[Source, ...]:
        return host_sources() if self._given is None else self._given

    @contextmanager
    def _asking(self) -> Iterator[Deadline]:
        started = time.monotonic()
        try:
            yield Deadline(self._left_s)
        finally:
            self._left_s -= time.monotonic() - started

    def _place(self, archive: Archive, package: Package) -> Path:
        # Other repositories may have another one.
        roots = sorted({(source.uri, source.suite) for source in archive.sources})
        key = hashlib.sha256(repr((_FORMAT, roots, package)).encode()).hexdigest()[:16]
        return self._cache / f"{package.name[:60]}-{key}.json"

    def _files(self, offer: _Offer, deadline: Deadline) -> Mapping[str, str]:
        content = download(self._session, offer.url, deadline, _PACKAGE_BYTES)
        if offer.sha256 and hashlib.sha256(content).hexdigest() != offer.sha256:
            raise OSError(f"{offer.url} is not what its index says")
        return read_deb(io.BytesIO(content))

    def _files_if_there(self, offer: _Offer, deadline: Deadline) -> Mapping[str, str] | None:
        try:
            return self._files(offer, deadline)
        except requests.HTTPError as error:
            if error.response is not None and error.response.status_code in (403, 404, 410):
                return None
            raise

    def _of_source(
        self, archive: Archive, source: Source, architecture: str, deadline: Deadline
    ) -> list[_Index] | _Silence:
        """All parts of a repository, from it or from a mirror of it; why there are none."""
        key = (source, architecture)
        if key not in self._indexes:
            said, absent = [], True
            others = [replace(one, components=source.components) for one in self._mirrors if one.suite == source.suite]
            for one in dict.fromkeys((source, *others)):
                try:
                    self._indexes[key] = list(self._read(archive, one, architecture, deadline))
                    break
                except (*DEB_ERRORS, requests.RequestException) as error:
                    said.append(f"{without_secrets(one.uri)} {one.suite}: {without_secrets(str(error))}")
                    absent = absent and not _is_trouble(error)
            else:
                self._indexes[key] = _Silence(printable("; ".join(said)), absent)
        return self._indexes[key]

    def _read(self, archive: Archive, source: Source, architecture: str, deadline: Deadline) -> Iterator[_Index]:
        if not source.uri.startswith(("http://", "https://")):
            raise OSError("only what is reached over HTTP is asked")
        root = source.uri.rstrip("/")
        top = f"{root}/dists/{source.suite}" if source.components else f"{root}/{source.suite.strip('/')}".rstrip("/")
        release = download(self._session, f"{top}/InRelease", deadline, _RELEASE_BYTES)
        signed = verified(release, archive.keys)
        sums = {path: digest for digest, path in _SUM.findall(signed)}
        folders = [f"{part}/binary-{architecture}/" for part in source.components[:_MOST_PARTS]] or [""]
        for folder in folders:
            path = next((path for packing in _PACKINGS if (path := f"{folder}Packages{packing}") in sums), "")
            if not path and architecture != archive.architecture:
                continue
            if not path:
                raise OSError(f"its release has no {folder}Packages")
            content = self._index(f"{top}/{path}", sums[path], deadline)
            with unpacked(io.BytesIO(content), path.rpartition("/")[2]) as stream:
                yield _Index(root, b"\n" + b"".join(iter(lambda: stream.read(1 << 20), b"")), _dated(signed))

    def _index(self, url: str, digest: str, deadline: Deadline) -> bytes:
        """An index, as it was kept while it stays the same."""
        place = self._cache / f"index-{hashlib.sha256(url.encode()).hexdigest()[:16]}"
        with one_at_a_time(place, self._left_s):
            with suppress(OSError):
                content = place.read_bytes()
                if hashlib.sha256(content).hexdigest() == digest:
                    return content
            content = download(self._session, url, deadline, _INDEX_BYTES)
            if hashlib.sha256(content).hexdigest() != digest:
                raise OSError(f"{without_secrets(url)} is not what its release says")
            with suppress(OSError):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.with_suffix(".part").write_bytes(content)
                place.with_suffix(".part").replace(place)
            return content


def _is_trouble(error: Exception) -> bool:
    """Whether somebody else would get another answer, or the same one later."""
    if isinstance(error, requests.HTTPError):
        return error.response is None or error.response.status_code >= requests.codes.server_error
    return isinstance(error, requests.RequestException | TimeoutError)


def _unpublished(offers: list[_Offer], package: Package) -> Unpublished:
    versions = ", ".join(sorted({printable(offer.version, 60) for offer in offers})[:3])
    has = f"they have {versions}" if versions else "they have nothing of that name"
    later = [offer for offer in offers if is_later(offer.version, package.version)]
    reason = f"no repository of the base image's has {package}: {has}"
    since = min((offer.dated for offer in later if offer.dated), default=None)
    return Unpublished(reason, known=bool(offers), since=since, later=bool(later))


def _beside(offer: _Offer, package: Package) -> _Offer | None:
    """Where another version would be, beside one that is there."""
    mine, other = (version.partition(":")[2] or version for version in (package.version, offer.version))
    if other not in offer.filename:
        return None
    return replace(offer, version=package.version, filename=offer.filename.replace(other, mine), sha256="")


def _dated(release: str) -> datetime | None:
    """When a release came to be as it is."""
    with suppress(ValueError, TypeError, IndexError):
        found = email.utils.parsedate_to_datetime(match[1] if (match := _DATE.search(release)) else "")
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return None
