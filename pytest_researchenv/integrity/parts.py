"""Genuine files that stand for another module than the one that they are: by a link, or by a folder on the path.

That a file is somebody's says whose code it is, and not that it is the module of the name by which it is found.
`tinydep.py` may be a link to a published `six.py`, and a path line into a package makes top-level modules of its parts.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection
from functools import cached_property
from typing import final

from pytest_researchenv.integrity.installed import Distribution, Installed
from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.modulefiles import Form, Place
from pytest_researchenv.integrity.protocol import Snapshot, is_in_base
from pytest_researchenv.integrity.untracked import Untracked


__all__ = ["Parts"]

_PACKAGES = frozenset({Form.NATIVE_PACKAGE, Form.PACKAGE, Form.BYTECODE_PACKAGE})


@final
class Parts:
    """Tells modules from parts of others.

    Args:
        layout: where the interpreter looks.
        snapshot: the frozen image.
        installed: what is installed for it.
        untracked: what the agent left in the repository.
    """

    def __init__(self, layout: Layout, snapshot: Snapshot, installed: Installed, untracked: Untracked) -> None:
        self._layout = layout
        self._snapshot = snapshot
        self._installed = installed
        self._untracked = untracked

    def stranger(self, name: str, place: Place, owners: Collection[Distribution]) -> str:
        """Why what is found by a name is a part of something else, or another module; empty when it is neither.

        Args:
            name: the top-level name.
            place: where it is found.
            owners: the distributions that list what is found: they say so under its name.
        """
        if place.form in (Form.STANDARD, Form.ARCHIVE) or self._installed.egg(place.path):
            return ""
        shown = posixpath.dirname(place.path) if place.form in _PACKAGES else place.path
        if owners and _named(shown) == name:
            return self._inside(place.folder, owners, shown)
        real = self._snapshot.resolved(shown)
        below = f"{self._untracked.workdir}/"
        if real.startswith(below) and not any(real.startswith(f"{site}/") for site in self._installed.sites):
            # Whether anybody has it is for other checks.
            is_called = self._untracked.is_called(name, real.removeprefix(below))
            return "" if is_called else f"{shown}, which is {real} by another name"
        if not real or not self._is_anothers(real, place):
            return ""
        if _named(real) != name:
            return f"{shown}, which is {real} by another name"
        return self._inside(posixpath.dirname(real), self._owners(real, place), shown)

    def within(self, folder: str, name: str) -> Place | None:
        """A module in a package that is a folder of the path, where what an agent changed does not tell of it."""
        if folder in self._installed.sites or self._snapshot.base(f"{folder}/__init__.py") is None:
            return None
        for suffix, form in (("/__init__.py", Form.PACKAGE), (".py", Form.SOURCE)):
            if self._snapshot.link(f"{folder}/{name}{suffix}") is not None:
                return Place(f"{folder}/{name}{suffix}", folder, form)
        return None

    def _inside(self, folder: str, owners: Collection[Distribution], shown: str) -> str:
        """Why modules in a folder are parts of a package that is a module itself."""
        if folder in self._installed.sites or any(
            one is None or one in owners for one in self._leading.get(folder, ())
        ):
            return ""
        below = any(folder.startswith(f"{site}/") for site in self._installed.sites)
        if not below and self._snapshot.link(f"{folder}/__init__.py") is None:
            return ""
        return f"{shown}, which is a part of {folder}"

    @cached_property
    def _leading(self) -> dict[str, tuple[Distribution | None, ...]]:
        """Folders that lie on the path by files that distributions list → those; None for the base image's files."""
        found: dict[str, tuple[Distribution | None, ...]] = {}
        for pth in self._layout.pths:
            site, file = posixpath.split(pth.path)
            path = posixpath.join(self._snapshot.resolved(site), file)
            having = [one for one in self._installed.owners(path) if one.files[path] in (pth.sha256, "")]
            first = [None] if is_in_base(self._snapshot, path, pth.sha256) else []
            for folder in pth.folders if first or having else ():
                real = self._snapshot.resolved(folder)
                found[real] = (*found.get(real, ()), *first, *having)
        return found

    def _owners(self, real: str, place: Place) -> tuple[Distribution, ...]:
        """The distributions that have what a place leads to."""
        if place.form is not Form.NAMESPACE:
            return self._installed.owners(self._snapshot.resolved(place.path))
        below = (path for path in self._installed.code if path.startswith(f"{real}/"))
        return tuple(dict.fromkeys(one for path in below for one in self._installed.owners(path)))

    def _is_anothers(self, real: str, place: Place) -> bool:
        """Whether what a place leads to is a distribution's, or the base image's as it was."""
        path = real if place.form is Form.NAMESPACE else self._snapshot.resolved(place.path)
        return path not in self._snapshot.touched(posixpath.dirname(path)) or bool(self._owners(real, place))


def _named(path: str) -> str:
    """The name of a module; of a compiled one without what it was compiled for."""
    return posixpath.basename(path).partition(".")[0]
