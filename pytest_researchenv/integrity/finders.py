"""Where the finders of editable installs look for modules, as the literals in them say."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import final

from pytest_researchenv.integrity._metadata import editable_mapping
from pytest_researchenv.integrity.editable import literals
from pytest_researchenv.integrity.installed import Installed
from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.modulefiles import Form, Place
from pytest_researchenv.integrity.protocol import Kind, Snapshot


__all__ = ["BUILDERS", "Finder", "Finders", "Search", "finder_of"]

#: What a line of an editable install does.
BUILDERS = re.compile(r"import (?P<name>\w+)(?:; ?(?P=name)\.(?:install|init)\(\))?\s*")
_FINDER = re.compile(r"__editable___[^/]*_finder\.py")
#: Files of editable installs that are read, and names in all of them.
_MOST_FINDERS, _MOST_NAMES = 200, 20_000
_FORMS = {".py": (Form.SOURCE, Form.PACKAGE), ".pyc": (Form.BYTECODE, Form.BYTECODE_PACKAGE)}


class Search(Enum):
    """What a finder makes of a path that it has for a module."""

    FILE = auto()
    SUFFIX = auto()
    PATH = auto()


@dataclass(frozen=True, slots=True)
class Finder:
    """What the finder of an editable install leads to.

    Attributes:
        modules: full names of modules → paths at which each may be: as it has them.
        folders: full names of packages → folders that are, or are among, their `__path__`.
        first: whether it is asked before all others.
        search: what it makes of the paths of modules: files, what it tries suffixes at, or what Python itself does.
    """

    modules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    folders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    first: bool = False
    search: Search = Search.FILE

    @property
    def every(self) -> list[tuple[str, str, bool]]:
        """Each name with each path, and whether that is one of `folders`."""
        modules = [(name, path, False) for name, paths in self.modules.items() for path in paths]
        return modules + [(name, path, True) for name, paths in self.folders.items() for path in paths]


def finder_of(source: bytes, site: str, workdir: str) -> Finder:
    """Read the literals of a finder; those of a text of no known version as setuptools has them.

    Args:
        source: all of it.
        site: the site folder that it is in.
        workdir: where the repository runs, for paths that are relative to that.
    """
    known = literals(source.decode(errors="replace"))
    if known is None or known.builder == "setuptools":
        found = editable_mapping(source), editable_mapping(source, "NAMESPACES")
        own, spaces = ({name: _below(workdir, paths) for name, paths in each.items()} for each in found)
        return Finder(own, spaces, search=Search.SUFFIX)
    if known.builder == "editables":
        pairs = [(one[0], one[1]) for one in known.values if isinstance(one, list) and len(one) == 2]  # noqa: PLR2004
        return Finder({str(name): _below(workdir, [path]) for name, path in pairs})
    names, folders = [*known.values, None, None][:2]
    if isinstance(names, list) and isinstance(folders, list):
        # In place: the finder has names, and folders in which it looks for each.
        return Finder(
            {str(name): _below(workdir, [f"{folder}/{name}" for folder in folders]) for name in names},
            first=True,
            search=Search.PATH,
        )
    modules: dict[str, tuple[str, ...]] = {}
    among: dict[str, tuple[str, ...]] = {}
    for number, value in enumerate(known.values):
        for name, path in value.items() if isinstance(value, dict) else ():
            paths = [path] if isinstance(path, str) else path if isinstance(path, list | set | tuple) else []
            kept = modules if isinstance(path, str) else among
            kept[str(name)] = (*kept.get(str(name), ()), *_below(workdir if number == 0 else site, paths))
    return Finder(modules, among, first=True)


@final
class Finders:
    """All finders of editable installs in the site folders.

    Args:
        layout: where the interpreter looks.
        snapshot: the frozen image.
        installed: what is installed for it.
        workdir: the repository's folder.
    """

    def __init__(self, layout: Layout, snapshot: Snapshot, installed: Installed, workdir: str) -> None:
        self._layout = layout
        self._snapshot = snapshot
        self._installed = installed
        self._workdir = workdir

    @property
    def names(self) -> frozenset[str]:
        """The top-level names that they lead from."""
        return frozenset(name for one in self._all.values() for name in (*one.modules, *one.folders) if "." not in name)

    def places(self, name: str, *, first: bool) -> tuple[Place, ...]:
        """All that a name may lead to: of the finders that are asked before the path, or of those after it."""
        finders = [one for one in self._all.values() if one.first is first]
        found = [place for one in finders for path in one.modules.get(name, ()) for place in self._at(path, one.search)]
        return (*found, *self._spaces(name, finders)) if first else tuple(found)

    def spaces(self, name: str) -> tuple[Place, ...]:
        """Folders without an `__init__` that are parts of a namespace package, with those on the path."""
        return tuple(self._spaces(name, [one for one in self._all.values() if not one.first]))

    def astray(self, source: str, is_vouched: Callable[[str], bool], tracked: Iterable[str]) -> str:
        """Where one leads that is neither the package that it is for nor anybody's; empty when nowhere.

        Args:
            source: the finder's file.
            is_vouched: whether a file is somebody's.
            tracked: paths of the pinned tree, which has names of its own: the rest is for others.
        """
        one = self._all.get(source, Finder())
        site = posixpath.dirname(source)
        names = {part.partition(".")[0] for path in tracked for part in path.split("/")}
        for name, path, is_folder in one.every:
            top, *rest = name.split(".")
            bases = [f"{site}/{top}", *map(_package, one.modules.get(top, ()) if rest or is_folder else ())]
            bases += one.folders.get(top, ()) if rest and not is_folder else ()
            own = {posixpath.join(base, *rest) for base in bases}
            # Most are where they would be found without it, and there may be thousands.
            if not own.isdisjoint({path, _package(path), posixpath.splitext(path)[0]}):
                continue
            there = [path] if is_folder else [place.path for place in self._at(path, one.search)]
            for real in filter(None, map(self._snapshot.resolved, there)):
                inside = top not in names and not rest and not is_folder and real.startswith(f"{self._workdir}/")
                if not inside and own.isdisjoint({real, _package(real)}) and not is_vouched(real):
                    return f"{real}, by the name of {name}"
        return ""

    @cached_property
    def _all(self) -> Mapping[str, Finder]:
        """Finder's file → what it says."""
        sites = self._installed.sites
        known = (path for path in self._installed.code if _FINDER.fullmatch(posixpath.basename(path)))
        lines = [
            (pth, match) for pth in self._layout.pths for line in pth.imports if (match := BUILDERS.fullmatch(line))
        ]
        run = (f"{self._snapshot.resolved(posixpath.dirname(pth.path))}/{match['name']}.py" for pth, match in lines)
        paths = list(dict.fromkeys(path for path in (*known, *run) if posixpath.dirname(path) in sites))
        if len(paths) > _MOST_FINDERS:
            self._installed.problems.append(f"there are more than {_MOST_FINDERS} finders of editable installs")
        found = {}
        for path in paths[:_MOST_FINDERS]:
            entry = self._snapshot.entry(path)
            content = (entry.content if entry else None) or b""
            found[path] = finder_of(content, posixpath.dirname(path), self._workdir)
        if sum(len(one.every) for one in found.values()) > _MOST_NAMES:
            self._installed.problems.append(f"finders of editable installs have more than {_MOST_NAMES} names")
            return {}
        return found

    def _at(self, path: str, search: Search) -> Iterator[Place]:
        """The module that a finder finds by a path that it has, if any."""
        for each in _candidates(path, search, self._layout.version):
            entry = self._snapshot.entry(each)
            if entry is not None and entry.kind is Kind.FILE:
                alone, package = _FORMS.get(posixpath.splitext(each)[1], (Form.NATIVE, Form.NATIVE_PACKAGE))
                form = package if posixpath.basename(each).startswith("__init__.") else alone
                folder = posixpath.dirname(_package(each))
                yield Place(self._snapshot.resolved(each), folder, form)
                return

    def _spaces(self, name: str, finders: Iterable[Finder]) -> Iterator[Place]:
        for path in (path for one in finders for path in one.folders.get(name, ())):
            entry = self._snapshot.entry(path)
            if entry is not None and entry.is_folder and self._snapshot.entry(f"{path}/__init__.py") is None:
                yield Place(path, posixpath.dirname(path), Form.NAMESPACE)


def _package(path: str) -> str:
    """The folder of a package; any other path as it is."""
    return posixpath.dirname(path) if posixpath.basename(path).startswith("__init__.") else path


def _candidates(path: str, search: Search, version: str) -> Iterator[str]:
    """The files at which a finder looks for a module by a path that it has, in its order."""
    if search is Search.FILE:
        yield path
        return
    tags = [f".cpython-{version.replace('.', '')}-{machine}-linux-gnu.so" for machine in ("x86_64", "aarch64")]
    native, other = (*tags, ".abi3.so", ".so"), (".py", ".pyc")
    if search is Search.PATH:
        yield from (f"{path}{end}{suffix}" for end in ("/__init__", "") for suffix in (*native, *other))
        return
    yield f"{path}/__init__.py"
    # A suffix takes the place of one that is there.
    folder, name = posixpath.split(path)
    stem = posixpath.splitext(name)[0]
    yield from (posixpath.join(folder, f"{stem}{suffix}") for suffix in (*other, *native) if stem)


def _below(folder: str, paths: Iterable[object]) -> tuple[str, ...]:
    found = (path for path in paths if isinstance(path, str) and path and "\0" not in path)
    # As it is written: a link before `..` leads elsewhere.
    return tuple(posixpath.join(folder, path) for path in found)
