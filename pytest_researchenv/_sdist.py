"""Source distributions: find them on the package index that pip uses, check them, lay them out. Nothing is executed."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import zlib
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import IO

import requests
from pypi_simple import DistributionPackage, NoSuchProjectError, PyPISimple

from pytest_researchenv._indexerrors import INDEX_ERRORS
from pytest_researchenv._packageindex import (
    TIMEOUT_S,
    configured_index,
    same_version,
    session_for,
    without_secrets,
)
from pytest_researchenv.errors import SourceError
from pytest_researchenv.model import PypiSource


__all__ = ["download", "unpack"]

# Far above any sdist, and what a small archive could unpack to has no bound of its own.
_MAX_BYTES = 8 * 1024**3


def download(source: PypiSource, target: Path) -> None:
    """Download a source distribution from the first index that has it, and check its digest.

    Args:
        source: what to download.
        target: file to write.

    Raises:
        SourceError: no index has it, or it is not what was pinned; the message says what each index answered.
    """
    answers: list[str] = []
    index = configured_index()
    with session_for(index) as session:
        for url in index.urls:
            try:
                answer = _download_from(url, session, source, target)
            except NoSuchProjectError:
                answer = f"does not know {source.pypi}"
            except INDEX_ERRORS as error:
                answer = str(error)
            if not answer:
                return
            answers.append(f"{without_secrets(url)}: {without_secrets(answer)}")
    tried = "\n  ".join(answers) or "no index that is reached over HTTP is configured for pip"
    raise SourceError(f"the sdist of {source.pypi} {source.version} cannot be had:\n  {tried}")


def _download_from(url: str, session: requests.Session, source: PypiSource, target: Path) -> str:
    """Download from one index; return what was wrong, nothing when all is well."""
    client = PyPISimple(url, session=session)
    packages = client.get_project_page(source.pypi, timeout=TIMEOUT_S).packages
    sdists = [package for package in packages if package.package_type == "sdist" and package.version]
    candidates = [package for package in sdists if same_version(str(package.version), source.version)]
    if not candidates:
        versions = ", ".join(sorted({str(package.version) for package in sdists})[-10:]) or "none at all"
        return f"has no sdist of version {source.version}; it has sdists of: {versions}"
    problem = ""
    for package in candidates:
        problem = _download_package(client, package, source, target)
        if not problem:
            break
    return problem


def _download_package(client: PyPISimple, package: DistributionPackage, source: PypiSource, target: Path) -> str:
    announced = package.digests.get("sha256", source.sha256)
    if announced != source.sha256:
        return f"{package.filename} has the sha256 {announced} there, but {source.sha256} is pinned"
    client.download_package(package, target, verify=False, timeout=TIMEOUT_S)
    with target.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != source.sha256:
        target.unlink()
        return f"{package.filename} came with the sha256 {found}, but {source.sha256} is pinned"
    return ""


# --- laying out -------------------------------------------------------------------------------------------


def unpack(archive: Path, target: Path) -> None:
    """Lay out a source distribution, without its top folder.

    Not by `extractall(filter="data")`: Python 3.11.2 (Debian 12) does not have it, and before 3.11.13 it can be led
    outside (CVE-2025-4517). Here nothing can, by construction: the folder is new, every file and folder is made before
    the first link, and no link stands in the way of another. Components named `.git` are left out, since Git would obey
    the configuration in them.

    Args:
        archive: a tar archive, compressed or not.
        target: new folder.

    Raises:
        SourceError: it is no archive, or holds what a source distribution must not: more than one top folder, paths or
            links that lead outside, devices.
    """
    target.mkdir()
    try:
        with tarfile.open(archive, "r:*") as members:
            _unpack(members, target)
    except (tarfile.TarError, EOFError, LookupError, OSError, RecursionError, ValueError, zlib.error) as error:
        raise SourceError(f"the sdist {archive.name} cannot be unpacked: {error}") from error


def _unpack(members: tarfile.TarFile, target: Path) -> None:
    links: dict[Path, str] = {}
    times: dict[Path, int] = {}
    tops: set[str] = set()
    total = 0
    for member in members:
        top, path = _inside(member)
        tops.add(top)
        total += member.size
        if len(tops) > 1 or total > _MAX_BYTES:
            raise ValueError(f"it has several top folders, {sorted(tops)}, or more than {_MAX_BYTES} bytes")
        if any(part.lower() == ".git" for part in path.parts):
            continue
        place = target / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if member.isdir():
            place.mkdir(exist_ok=True)
        elif member.issym():
            links[place] = member.linkname
        elif member.type in {tarfile.REGTYPE, tarfile.AREGTYPE, tarfile.LNKTYPE}:
            _write(members.extractfile(member), place, executable=bool(member.mode & 0o100))
            times[place] = int(member.mtime)
        else:
            raise ValueError(f"{member.name!r} is a device or another special file")
    if not tops:
        raise ValueError("it is empty")
    _link(links, target)
    for place, time in times.items():
        os.utime(place, (time, time), follow_symlinks=False)


def _link(links: Mapping[Path, str], target: Path) -> None:
    """Make the links, and refuse them all when one leads out of the tree, as pip does."""
    for place, link in links.items():
        place.symlink_to(link)
    # Only now, since a link may lead through others.
    inside = os.path.realpath(target)
    for place, link in links.items():
        if link.startswith("/") or os.path.commonpath([inside, os.path.realpath(place)]) != inside:
            raise ValueError(f"the link {place.relative_to(target).as_posix()!r} leads outside: {link!r}")


def _inside(member: tarfile.TarInfo) -> tuple[str, PurePosixPath]:
    """Return the top folder of a member and its path below."""
    path = PurePosixPath(member.name)
    if path.is_absolute() or ".." in path.parts or not path.parts:
        raise ValueError(f"the path {member.name!r} leads outside")
    if len(path.parts) == 1 and not member.isdir():
        raise ValueError(f"{member.name!r} lies beside the top folder")
    return path.parts[0], PurePosixPath(*path.parts[1:])


def _write(stream: IO[bytes] | None, place: Path, *, executable: bool) -> None:
    if stream is None:
        raise ValueError(f"a hard link to {place.name!r} leads nowhere")
    # A name that comes twice replaces the first, as in tar; nothing but files and folders is there yet.
    place.unlink(missing_ok=True)
    with place.open("xb") as file:
        shutil.copyfileobj(stream, file)
    place.chmod(0o755 if executable else 0o644)
