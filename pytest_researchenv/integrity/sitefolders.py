"""Where Python looks for what was installed, and the `.pth` files that it reads there.

This is what `Lib/site.py` does, with Debian's changes.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import final

from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot
from pytest_researchenv.integrity.pth import split
from pytest_researchenv.probes.lookup import printable


__all__ = ["Look", "Pth", "Sites"]

#: Most `.pth` files that are read, and path lines that are looked at in one; environments have some ten of each.
_MOST_PTHS, _MOST_LINES = 500, 200
#: Path lines of all of them together; each costs some twenty milliseconds here, 200 on a busy host, and as much again
#: wherever modules of a name are looked for: 2000 took the audit of one environment more than ten minutes there.
_MOST_LOOKS = 300


@dataclass(frozen=True, slots=True)
class Pth:
    """One `.pth` file of a site folder that Python reads at start.

    Attributes:
        path: where it is, as Python names it: its site folder and its name; that may be a link.
        folders: what its path lines add to `sys.path`, absolute, as Python makes them; only what is there.
        imports: its lines that are run.
        text: all of it; bytes that are no text are U+FFFD. Empty when it is too large to be kept.
        sha256: of its content.
        unread: whether it is too large to be kept.
    """

    path: str
    folders: tuple[str, ...]
    imports: tuple[str, ...]
    text: str
    sha256: str
    unread: bool = False


@final
@dataclass(frozen=True, slots=True)
class Look:
    """A look at an image, as a process in it would have one.

    Attributes:
        snapshot: the image.
        problems: what could not be seen from outside.
    """

    snapshot: Snapshot
    problems: list[str] = field(default_factory=list)

    def has(self, path: str, kind: Kind) -> bool:
        """Whether something of a kind is at a path, links followed."""
        entry = self.entry(path)
        return entry is not None and entry.kind is kind

    def entry(self, path: str) -> Entry | None:
        """What a path leads to; what only a process would find there is a problem."""
        entry = self.snapshot.entry(path)
        if (entry is None or entry.kind is Kind.LINK) and is_fleeting(self.snapshot, path):
            self.problems.append(f"{printable(path)} leads somewhere only while a process runs")
        return entry


@final
class Sites:
    """An interpreter's search for site folders and what is in them.

    Args:
        look: at the image.
        suffix: what its folders are named by, as `3.11`, or `3.13t` of a build without the global lock.
    """

    def __init__(self, look: Look, suffix: str) -> None:
        self._look = look
        self._suffix = suffix
        self._looks = 0

    def folders(self, base: str, venv: str, *, user: bool) -> Iterator[str]:
        """Site folders that are there, in Python's order."""
        user_site = f"/root/.local/lib/python{self._suffix.rstrip('t')}/site-packages"
        debian = self._is_debian(f"{base}/lib/python{self._suffix}/site.py")
        wanted: list[str] = []
        if venv:
            wanted += self._below(venv, debian=debian, venv=True)
        if user:
            wanted.append(user_site)
        if user or not venv:
            wanted += self._below(base, debian=debian, venv=bool(venv))
        for folder in dict.fromkeys(wanted):
            if self._look.has(folder, Kind.FOLDER):
                yield folder

    def _below(self, prefix: str, *, debian: bool, venv: bool) -> list[str]:
        own = f"{prefix}/lib/python{self._suffix}"
        if not debian:
            return [f"{own}/site-packages"]
        local = f"{prefix}/local/lib/python{self._suffix}/dist-packages"
        shared = [local, f"{prefix}/lib/python3/dist-packages", f"{own}/dist-packages"]
        return [f"{own}/site-packages", *shared] if venv else shared

    def _is_debian(self, site: str) -> bool:
        """Whether Python's own `site.py` is Debian's."""
        entry = self._look.snapshot.entry(site)
        return entry is not None and "dist-packages" in entry.text and "local/lib" in entry.text

    def pths(self, sites: tuple[str, ...]) -> Iterator[Pth]:
        """The `.pth` files of site folders, in the order in which Python reads them."""
        count = 0
        for site in sites:
            top = self._look.snapshot.resolved(site)
            names = (entry.path for entry in self._look.snapshot.tree(site) if posixpath.dirname(entry.path) == top)
            for name in sorted(posixpath.basename(path) for path in names if path.endswith(".pth")):
                if count == _MOST_PTHS:
                    self._look.problems.append(f"{printable(site)} has more than {_MOST_PTHS} .pth files")
                    return
                count += 1
                with suppress(FileNotFoundError):
                    yield self._pth(site, name)

    def _pth(self, site: str, name: str) -> Pth:
        path = f"{site}/{name}"
        entry = self._look.entry(path)
        if entry is None or entry.kind is not Kind.FILE:
            raise FileNotFoundError(path)
        looks, before = 0, self._looks

        def exists(folder: str) -> bool:
            nonlocal looks
            looks += 1
            self._looks += 1
            many = looks > _MOST_LINES or self._looks > _MOST_LOOKS
            return not many and self._look.entry(folder) is not None and bool(self._look.snapshot.resolved(folder))

        folders, imports = split(entry.text, site, exists)
        if looks > _MOST_LINES:
            self._look.problems.append(f"{printable(path)} has more than {_MOST_LINES} path lines")
        if before <= _MOST_LOOKS < self._looks:
            self._look.problems.append(f".pth files have more than {_MOST_LOOKS} path lines")
        return Pth(path, folders, imports, entry.text, entry.sha256, unread=entry.content is None)
