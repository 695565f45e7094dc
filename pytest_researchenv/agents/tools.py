"""Agents' tools that come as packages of npm, each the programs of one platform."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import tarfile
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, final
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

from pytest_researchenv._cache import cache_folder
from pytest_researchenv.errors import ImageError


if TYPE_CHECKING:
    import requests


__all__ = ["NpmPackage", "NpmTool"]

_REGISTRY = "https://registry.npmjs.org/"

#: Bytes. Claude Code's package has 186 MB, and 402 MB unpacked.
_LARGEST = 1 << 30
_LARGEST_ANSWER = 1 << 22

_BLOCK = 1 << 20

#: Seconds until a connection stands, of silence in it, and for a whole package.
_TIMEOUT = (15, 60)
_LIMIT_S = 1800

_SHA512 = re.compile(r"sha512-([A-Za-z0-9+/]{86}==)")


@dataclass(frozen=True, slots=True)
class NpmPackage:
    """A package for one platform.

    Attributes:
        name: the package: `@openai/codex`.
        version: its version.
        programs: path in the package → path in the volume.
        integrity: digest of the package as npm writes it (`sha512-…`); empty: what the registry says.
    """

    name: str
    version: str
    programs: Mapping[str, str]
    integrity: str = ""


@final
@dataclass(frozen=True, slots=True)
class NpmTool:
    """Programs out of a package of npm, from the registry that the host's npm uses.

    Attributes:
        name: what the tool is called.
        version: its version.
        packages: architecture of an engine (`amd64`) → the package for it.
        cache: folder in which packages are kept; None: the user's cache folder.
    """

    name: str
    version: str
    packages: Mapping[str, NpmPackage]
    cache: Path | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        """Name, version, and a digest of which programs of which packages it has."""
        said = {
            architecture: [package.name, package.version, package.integrity, dict(package.programs)]
            for architecture, package in self.packages.items()
        }
        digest = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:8]
        return f"{self.name}-{re.sub('[^A-Za-z0-9_.-]', '-', self.version)}-{digest}"

    def fill(self, archive: tarfile.TarFile, *, architecture: str) -> None:
        """Add its programs.

        Raises:
            ImageError: there is no package for this architecture, it cannot be had, or it is not what it should be.
        """
        package = self.packages.get(architecture)
        if package is None:
            raise ImageError(
                f"the container engine runs on {architecture}, for which {self.name} has no known package; "
                f"use an engine on one of: {', '.join(self.packages)}"
            )
        path = _Fetcher.of_this_host(self.cache).fetch(package)
        try:
            with tarfile.open(path, "r:gz") as content:
                for source, target in package.programs.items():
                    _add(archive, content, source, target)
        except (KeyError, tarfile.TarError, EOFError, OSError) as error:
            raise ImageError(
                f"the package {package.name} {package.version} ({path}) does not hold what {self.name} needs: {error}; "
                "remove the file, and choose another version if it happens again"
            ) from error


def _add(archive: tarfile.TarFile, content: tarfile.TarFile, source: str, target: str) -> None:
    member = content.getmember(source)
    program = content.extractfile(member) if member.isreg() else None
    if program is None:
        raise KeyError(f"{source} is no file")
    entry = tarfile.TarInfo(target)
    entry.size, entry.mode = member.size, 0o755
    archive.addfile(entry, program)


@dataclass(frozen=True, slots=True)
class _Fetcher:
    """Fetches packages from one registry into a folder."""

    registry: str
    folder: Path

    @classmethod
    def of_this_host(cls, cache: Path | None) -> _Fetcher:
        # Of no use before a volume is filled.
        from pytest_researchenv.sandbox._hostconfig import HostConfiguration  # noqa: PLC0415 - see above

        folder = (cache or cache_folder()) / "npm"
        folder.mkdir(parents=True, exist_ok=True)
        return cls(HostConfiguration.read().npm.get("registry", _REGISTRY).rstrip("/") + "/", folder)

    def fetch(self, package: NpmPackage) -> Path:
        """Return the package's file, from the folder where it is there already."""
        import requests  # noqa: PLC0415 - heavy, and of use only here

        with requests.Session() as session:
            self._authenticate(session)
            integrity, tarball = package.integrity, ""
            if not integrity:
                integrity, tarball = self._published(session, package)
            expected = _sha512(integrity, package)
            path = self.folder / f"{expected.hex()[:32]}.tgz"
            if path.is_file() and _digest(path) == expected:
                return path
            self._download(session, tarball or self._published(session, package)[1], path, expected)
        return path

    def _authenticate(self, session: requests.Session) -> None:
        parts = urlsplit(self.registry)
        if parts.username:
            session.auth = (parts.username, parts.password or "")

    def _published(self, session: requests.Session, package: NpmPackage) -> tuple[str, str]:
        """What the registry says of a package: its digest, and where it is."""
        url = urljoin(_without_user(self.registry), f"{quote(package.name, safe='@')}/{quote(package.version)}")
        with _asked(session, url) as answer:
            content = b"".join(_bounded(answer, url, _LARGEST_ANSWER))
        try:
            dist = json.loads(content)["dist"]
            integrity, tarball = str(dist["integrity"]), urljoin(url, str(dist["tarball"]))
        except (ValueError, KeyError, TypeError) as error:
            raise ImageError(f"{url} does not answer as a registry of npm; check npm's setting `registry`") from error
        # As npm does it: mirrors hand on what the public registry says, where it cannot be reached.
        return integrity, tarball.replace(_REGISTRY, _without_user(self.registry), 1)

    def _download(self, session: requests.Session, url: str, path: Path, expected: bytes) -> None:
        if urlsplit(url).netloc != urlsplit(_without_user(self.registry)).netloc:
            session.auth = None
        digest = hashlib.sha512()
        with tempfile.NamedTemporaryFile(dir=self.folder, suffix=".part", delete=False) as file:
            part = Path(file.name)
            try:
                with _asked(session, url) as answer:
                    for block in _bounded(answer, url, _LARGEST):
                        digest.update(block)
                        file.write(block)
                file.flush()
                if digest.digest() != expected:
                    raise ImageError(
                        f"{_shown(url)} is not the expected package: sha512 {digest.hexdigest()[:16]}…, and not "
                        f"{expected.hex()[:16]}…; check npm's setting `registry`, or what changes downloads"
                    )
                part.replace(path)
            except OSError as error:
                raise ImageError(f"cannot keep {_shown(url)} in {self.folder}: {error}; make room there") from error
            finally:
                part.unlink(missing_ok=True)


@contextmanager
def _asked(session: requests.Session, url: str) -> Iterator[requests.Response]:
    import requests  # noqa: PLC0415 - loaded already

    try:
        with session.get(url, stream=True, timeout=_TIMEOUT) as answer:
            answer.raise_for_status()
            yield answer
    except requests.RequestException as error:
        status = getattr(error.response, "status_code", None)
        reason = f"HTTP {status}" if status else _without_urls(error)
        raise ImageError(
            f"cannot fetch {_shown(url)}: {reason}; check the network and npm's setting `registry`"
        ) from error


def _bounded(answer: Any, url: str, limit: int) -> Iterator[bytes]:  # noqa: ANN401 - a response of requests
    """An answer's bytes, as long as they are neither too many nor too slow."""
    end = time.monotonic() + _LIMIT_S
    read = 0
    for block in answer.iter_content(_BLOCK):
        read += len(block)
        if read > limit:
            raise ImageError(f"{_shown(url)} has more than {limit} bytes: this is no package of an agent's tool")
        if time.monotonic() > end:
            raise ImageError(f"{_shown(url)} did not come within {_LIMIT_S} s: check the network, and try again")
        yield block


def _sha512(integrity: str, package: NpmPackage) -> bytes:
    found = _SHA512.search(integrity)
    if found is None:
        raise ImageError(
            f"the registry gives no sha512 of {package.name} {package.version}, but {integrity!r}: "
            "choose another version, or another registry"
        )
    return base64.b64decode(found[1])


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha512").digest()


def _without_user(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _shown(url: str) -> str:
    """A URL without what may be a secret: user, password and query."""
    return urlunsplit(urlsplit(_without_user(url))._replace(query="", fragment=""))


def _without_urls(error: Exception) -> str:
    """What went wrong, without the addresses in it: a proxy's may hold a password."""
    return re.sub(r"\S*://\S+", "…", str(error))[:300] or type(error).__name__
