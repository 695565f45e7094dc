"""What the package indexes and folders of this host offer of a distribution."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, TypeAlias, final
from urllib.parse import unquote, urlsplit

import requests
from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename
from packaging.version import InvalidVersion
from pypi_simple import NoSuchProjectError, ProjectPage, PyPISimple, UnparsableFilenameError, parse_filename

from pytest_researchenv._indexerrors import INDEX_ERRORS
from pytest_researchenv._packageindex import PackageIndex, same_version, without_secrets
from pytest_researchenv.integrity._ranges import Deadline, download, opened


__all__ = ["Offer", "Offers"]

# A page with links to every wheel of a project for every CUDA and Python has 2 MB.
_LINKS_BYTES = 32 * 1024**2
_LINUX = re.compile(r"^(?:many|musl)?linux(?:\d+)?(?:_\d+_\d+)?_(?=[a-z])")


@dataclass(frozen=True, slots=True)
class Offer:
    """A file that can be had.

    Attributes:
        filename: its name.
        url: where it is, over HTTP or on this host.
        size: in bytes, where the index says so.
    """

    filename: str
    url: str
    size: int | None

    @property
    def local(self) -> Path | None:
        """The file itself where it is on this host."""
        parts = urlsplit(self.url)
        return Path(unquote(parts.path)) if parts.scheme == "file" else None


#: What one place offers of one version.
_Page: TypeAlias = tuple[Offer, ...]


@final
class Offers:
    """Asks the folders of this host first, as pip does, and the indexes in order.

    Args:
        index: what to ask.
        session: what to ask by.
    """

    def __init__(self, index: PackageIndex, session: requests.Session) -> None:
        self._index = index
        self._session = session
        self._pages: dict[tuple[str, str, str], _Page] = {}
        self._contents: dict[str, bytes] = {}
        # An index that does not answer is not waited for again.
        self._silent: dict[str, str] = {}

    def wheels(
        self, name: str, version: str, tags: frozenset[str], deadline: Deadline, answers: list[str]
    ) -> Iterator[Offer]:
        """Wheels of a version, of each place the likeliest first.

        Args:
            name: normalized name.
            version: normalized version.
            tags: what they should be for, each for one platform.
            deadline: when to give up.
            answers: gets what was said by each place that has none.

        Raises:
            TimeoutError: it has passed.
        """
        for place, page in self._asked(name, version, deadline, answers):
            ranked = [(rank, offer) for offer in page if (rank := _rank(offer.filename, tags)) is not None]
            for _, offer in sorted(ranked, key=lambda one: one[0]):
                yield offer
            if not ranked:
                answers.append(f"{place}: has no wheel of this version for the same platform")

    def sources(self, name: str, version: str, deadline: Deadline, answers: list[str]) -> Iterator[Offer]:
        """Source distributions of a version; arguments as of `wheels`.

        Raises:
            TimeoutError: the deadline has passed.
        """
        for place, page in self._asked(name, version, deadline, answers):
            found = [offer for offer in page if offer.filename.endswith((".tar.gz", ".tgz", ".tar.bz2", ".zip"))]
            yield from found
            if not found:
                answers.append(f"{place}: has no source distribution of this version")

    def has_project(self, name: str, deadline: Deadline, version: str = "") -> bool | None:
        """Whether any place has something of a name; None when an index does not say, or none is asked over HTTP.

        Args:
            name: normalized name.
            deadline: when to give up.
            version: normalized version that is wanted; empty: any.

        Raises:
            TimeoutError: it has passed.
        """
        if any(_has(folder, name, version) for folder in self._index.links):
            return True
        for folder in self._index.local:
            if _local_page(folder, name, version) if version else (folder / name / "index.html").is_file():
                return True
        silent = not self._index.urls
        for url in (*self._index.pages, *self._index.urls):
            try:
                page = self._over_http(url, name, version, deadline)
            except NoSuchProjectError:
                continue
            except INDEX_ERRORS:
                silent = True
            else:
                if page or not version:
                    return True
        return None if silent else False

    def opened(self, offer: Offer, deadline: Deadline) -> BinaryIO:
        """A file, to be read anywhere.

        Raises:
            OSError: it cannot be had.
        """
        if offer.local:
            return offer.local.open("rb")
        return opened(self._session, offer.url, offer.size, deadline)

    def content(self, offer: Offer, deadline: Deadline, most: int) -> bytes:
        """All of a file.

        Raises:
            OSError: it cannot be had, or has more than `most` bytes.
        """
        if not offer.local:
            return download(self._session, offer.url, deadline, most)
        with offer.local.open("rb") as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise OSError(f"{offer.filename} has more than {most} bytes")
        return content

    def _asked(self, name: str, version: str, deadline: Deadline, answers: list[str]) -> Iterator[tuple[str, _Page]]:
        # What a folder of this host lacks is not worth a word.
        for folder in self._index.links:
            if page := _lying_in(folder, name, version):
                yield str(folder), page
        for folder in self._index.local:
            if page := _local_page(folder, name, version):
                yield str(folder), page
        for url in (*self._index.pages, *self._index.urls):
            place = without_secrets(url)
            try:
                page = self._over_http(url, name, version, deadline)
            except NoSuchProjectError:
                answers.append(f"{place}: does not know it")
            except INDEX_ERRORS as error:
                answers.append(f"{place}: {without_secrets(str(error))}")
            else:
                yield place, page
        if not self._index.urls:
            answers.append("no index that is reached over HTTP is configured for pip")

    def _over_http(self, url: str, name: str, version: str, deadline: Deadline) -> _Page:
        if url in self._silent:
            raise requests.ConnectionError(self._silent[url])
        key = (url, name, version)
        if key not in self._pages:
            try:
                page = (
                    self._links(url, name, deadline) if url in self._index.pages else self._project(url, name, deadline)
                )
            except (requests.ConnectionError, requests.Timeout) as error:
                self._silent[url] = f"did not answer before: {error}"
                raise
            self._pages[key] = _published(page, version)
        return self._pages[key]

    def _project(self, url: str, name: str, deadline: Deadline) -> ProjectPage:
        return PyPISimple(url, session=self._session).get_project_page(name, timeout=deadline.timeout())

    def _links(self, url: str, name: str, deadline: Deadline) -> ProjectPage:
        """What a page with links to distributions of many projects has of one."""
        if url not in self._contents:
            self._contents[url] = download(self._session, url, deadline, _LINKS_BYTES)
        page = ProjectPage.from_html(name, self._contents[url], url)
        packages = [package for package in page.packages if canonicalize_name(package.project or "") == name]
        if not packages:
            raise NoSuchProjectError(name, url)
        return replace(page, packages=packages)


def _published(page: ProjectPage, version: str) -> _Page:
    """What a page has of a version; withdrawn files were published, too."""
    return tuple(
        Offer(package.filename, package.url, package.size)
        for package in page.packages
        if package.version and same_version(package.version, version)
    )


def _local_page(folder: Path, name: str, version: str) -> _Page:
    """What an index on this host has of a version."""
    home = folder / name
    try:
        content = (home / "index.html").read_bytes()
    except OSError:
        return ()
    return _published(ProjectPage.from_html(name, content, f"{home.absolute().as_uri()}/"), version)


def _files(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _is_of(filename: str, name: str) -> bool:
    """Whether a file is a distribution of a normalized name."""
    with suppress(UnparsableFilenameError):
        return canonicalize_name(parse_filename(filename, project_hint=name)[0]) == name
    return False


def _has(folder: Path, name: str, version: str) -> bool:
    """Whether a folder has a distribution of a normalized name, and of a version where one is wanted."""
    if version:
        return bool(_lying_in(folder, name, version))
    return any(_is_of(path.name, name) for path in _files(folder))


def _lying_in(folder: Path, name: str, version: str) -> _Page:
    """What a folder of distributions has of a version."""
    found = []
    for path in _files(folder):
        with suppress(UnparsableFilenameError):
            project, found_version, _ = parse_filename(path.name, project_hint=name)
            if canonicalize_name(project) == name and same_version(found_version, version):
                found.append(Offer(path.name, path.absolute().as_uri(), None))
    return tuple(found)


def _rank(filename: str, tags: frozenset[str]) -> tuple[int, int] | None:
    """How likely it is that a wheel has these tags inside; None: it cannot be.

    Some wheels are renamed for another platform than they name inside, as those of torch were until 2.6.
    """
    try:
        _, _, build, offered = parse_wheel_filename(filename)
    except (InvalidWheelFilename, InvalidVersion):
        return None
    # Of several builds, pip takes the highest.
    number = -build[0] if build else 0
    if tags == {str(tag) for tag in offered}:
        return 0, number
    if tags & {str(tag) for tag in offered}:
        return 1, number
    if {_kind(tag) for tag in tags} & {_kind(str(tag)) for tag in offered}:
        return 2, number
    return None


def _kind(tag: str) -> str:
    """A tag without the flavour of Linux, but with the machine."""
    interpreter, abi, platform = tag.split("-")
    return f"{interpreter}-{abi}-{_LINUX.sub('linux_', platform)}"
