"""What says where a distribution came from: its own notes, the proxy's record, and what the repository has."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from functools import cached_property
from typing import final
from urllib.parse import SplitResult, urlsplit

from packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    parse_sdist_filename,
    parse_wheel_filename,
)
from packaging.version import InvalidVersion

from pytest_researchenv._packageindex import same_version
from pytest_researchenv.integrity._metadata import wheel_files
from pytest_researchenv.integrity.installed import Distribution
from pytest_researchenv.integrity.outside import asked_for, fetched_code
from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.integrity.untracked import LEFT
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["Tracing", "is_of", "is_wheel"]

_REMOTE = frozenset({"ftp", "git", "http", "https", "ssh"})
_WHEEL_BYTES = 256 * 1024**2


@final
class Tracing:
    """Follows what is noted of distributions.

    Args:
        task: what is audited.
        snapshot: the frozen image.
    """

    def __init__(self, task: ProbeTask, snapshot: Snapshot) -> None:
        self._task = task
        self._snapshot = snapshot

    def is_from_somewhere(self, one: Distribution) -> bool:
        """Whether it says that it came from another host, or from a project that has an author."""
        if one.direct is None or self.is_contradicted(one):
            return False
        if one.direct.folder:
            return any(self._snapshot.link(f"{one.direct.folder}/{name}") for name in LEFT)
        url = _parts(one.direct.url)
        at_hand = one.direct.source and url is not None and self._snapshot.link(f"{url.path}/.git") is not None
        return at_hand or self.is_from_another_host(one)

    def is_from_another_host(self, one: Distribution) -> bool:
        """Whether it says that it came from another host, and nothing contradicts that."""
        if one.direct is None or one.direct.folder or self.is_contradicted(one):
            return False
        url = _parts(one.direct.url)
        return url is not None and url.scheme.rpartition("+")[2] in _REMOTE and bool(url.netloc)

    def is_contradicted(self, one: Distribution) -> bool:
        """Whether it says that it came from elsewhere, and the proxy's record has nothing that the agent got there."""
        if one.direct is None or (one.direct.folder and self._snapshot.base(one.direct.folder) is not None):
            return False
        if self.fetched is not False:
            return False
        try:
            url = urlsplit(one.direct.url)
            return not url.hostname or asked_for(self._task, url.hostname) is False
        except ValueError:
            return True

    @cached_property
    def fetched(self) -> bool | None:
        """Whether the agent fetched code that is of no index; None where that is not on record."""
        return fetched_code(self._task)

    def is_at_hand(self, one: Distribution) -> bool:
        """Whether the repository itself has its wheel or source distribution."""
        return any(is_of(path, one) for path in self._task.tree.files if path.endswith((".whl", ".tar.gz", ".zip")))

    def vendored(self, one: Distribution) -> Mapping[str, str]:
        """What the wheel of it holds that the repository brings along."""
        for path in filter(is_wheel, self._task.tree.files):
            file = self._task.tree.root / path
            if is_of(path, one) and file.is_file() and not file.is_symlink() and file.stat().st_size < _WHEEL_BYTES:
                return wheel_files(file.read_bytes())
        return {}


def _parts(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        return None


def is_of(path: str, one: Distribution) -> bool:
    """Whether a file is a wheel or a source distribution of that name and version."""
    file = posixpath.basename(path)
    try:
        name, version = parse_wheel_filename(file)[:2] if is_wheel(file) else parse_sdist_filename(file)
    except (InvalidWheelFilename, InvalidSdistFilename, InvalidVersion):
        return False
    return name == one.name and same_version(str(version), one.version)


def is_wheel(path: str) -> bool:
    """Whether a file is a wheel, by its name."""
    return path.endswith(".whl")
