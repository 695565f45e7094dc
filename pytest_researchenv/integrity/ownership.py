"""Where Python finds top-level modules, and whose they are, worked out from outside."""

from __future__ import annotations

import io
import json
import posixpath
import sys
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from pytest_researchenv.integrity._archives import ZIP_ERRORS, table_doubt
from pytest_researchenv.integrity.archives import Archives
from pytest_researchenv.integrity.finders import Finders
from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.installed import Distribution, Installed, is_module
from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.modulefiles import Form, Place, modules_in
from pytest_researchenv.integrity.parts import Parts
from pytest_researchenv.integrity.protocol import Kind, Snapshot
from pytest_researchenv.integrity.untracked import Untracked
from pytest_researchenv.integrity.vouching import Vouching, lists
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.outside import standard_library
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["BYSTANDERS", "ELSEWHERE", "Modules", "Owned"]

#: Folders on the path that are looked in; honest environments have some ten.
_MOST_FOLDERS = 300
#: Files of a namespace package that are looked at one by one.
_MOST_LOOKS = 20
_SUFFIXES = ("/__init__.py", ".py", ".pyc")
#: Modules of the standard library that are no part of any program, and whose names people give to files of their own.
BYSTANDERS = frozenset({"antigravity", "idlelib", "lib2to3", "test", "this", "turtledemo", "turtle"})
#: What the standard library imports where it can, beside its own modules: those of Jython, VMS and pywin32.
ELSEWHERE = frozenset(
    {"EasyDialogs", "_winreg", "java", "org", "vms_lib", "win32api", "win32con", "win32evtlog", "win32evtlogutil"}
)


@dataclass(frozen=True, slots=True)
class Owned:
    """Whose a module is.

    Attributes:
        distributions: those that list it.
        stranger: why nobody's; empty when it is somebody's.
    """

    distributions: tuple[Distribution, ...] = ()
    stranger: str = ""


@final
class Modules:
    """The top-level modules that an interpreter finds.

    Args:
        task: what is audited.
        layout: where the interpreter looks.
        snapshot: the frozen image.
        installed: what is installed for it.
        untracked: what the agent left in the repository.
        archives: whom to ask of the system's packages; None: nobody.
    """

    def __init__(
        self,
        task: ProbeTask,
        layout: Layout,
        snapshot: Snapshot,
        *,
        installed: Installed,
        untracked: Untracked,
        archives: Archives | None = None,
    ) -> None:
        self._task = task
        self._layout = layout
        self._snapshot = snapshot
        self._installed = installed
        self._untracked = untracked
        self._workdir = snapshot.resolved(task.environment.workdir) or task.environment.workdir
        self._vouching = Vouching(task, snapshot, installed, untracked, archives)
        self._parts = Parts(layout, snapshot, installed, untracked)
        self._finders = Finders(layout, snapshot, installed, self._workdir)
        self._known: dict[str, Mapping[str, tuple[Place, ...]]] = {}
        # Folder → the first part of a path in it, without its ending → the paths.
        self._files: dict[str, dict[str, list[str]]] = {}
        self._stdlib = standard_library(layout.version)

    def find(self, name: str) -> Place | None:
        """Where a top-level module would be found, the repository's own folders apart; None when it is not seen.

        Of a namespace package, which is all folders of its name together, it is one that nobody has if there is one.
        """
        first = self._finders.places(name, first=True)
        return self._doubtful(name, first) if first else self.on_path(name)

    def on_path(self, name: str) -> Place | None:
        """The same, where no finder of an editable install is asked before the path."""
        parts: list[Place] = []
        for folder in self._path:
            if folder in self._standard and name in self._stdlib:
                return Place(name, folder, Form.STANDARD)
            there = self._there(folder, name)
            if there is not None and there.form is not Form.NAMESPACE:
                # It goes before all folders without an `__init__`, wherever they are.
                return there
            parts += [there] if there is not None else []
        parts += self._finders.spaces(name)
        return self._doubtful(name, parts or self._finders.places(name, first=False))

    def _doubtful(self, name: str, places: Sequence[Place]) -> Place | None:
        """Of several places together the first that nobody has, and else the first."""
        strange = (place for place in places[:_MOST_LOOKS] if len(places) > 1 and self.owned(name, place).stranger)
        return next(strange, places[0] if places else None)

    def _there(self, folder: str, name: str) -> Place | None:
        """What an import of a name leads to in one folder."""
        places = [place for place in self._in(folder).get(name, ()) if not self._is_dead(place)]
        found = (self._behind(place) if place.form is Form.LINK else place for place in places)
        return next((place for place in found if place is not None), None) or self._parts.within(folder, name)

    def _is_dead(self, place: Place) -> bool:
        """Whether a file is a link that leads nowhere, so that Python looks on."""
        if place.form in (Form.LINK, Form.NAMESPACE):
            return False
        entry = self._snapshot.link(place.path)
        is_link = entry is not None and entry.kind is Kind.LINK
        return is_link and not self._snapshot.resolved(place.path) and not is_fleeting(self._snapshot, place.path)

    def in_sites(self) -> frozenset[str]:
        """The names of all top-level modules of the site folders."""
        return frozenset(name for site in self._installed.sites for name in self._in(site))

    def beside(self) -> frozenset[str]:
        """The names of modules that an agent put into other folders of the path, or linked into site folders."""
        known = {*self._installed.sites, *self._standard}
        names = {name for folder in self._path if folder not in known for name in self._in(folder)}
        return self._finders.names.union(names, (name for name, _, is_plain in self._unlisted() if not is_plain))

    def astray(self, finder: str) -> str:
        """Where the finder of an editable install leads that is nobody's; empty when nowhere."""
        return self._finders.astray(finder, self._vouching.vouches, self._task.tree.files)

    def strays(self) -> dict[str, str]:
        """Modules of the site folders that an agent put there, and that no distribution has → why nobody has them.

        There may be any number of them. Links count for those that somebody has: what they lead to is not looked at.
        """
        return {name: self._stranger(place) for name, place, is_plain in self._unlisted() if is_plain}

    def _unlisted(self) -> Iterator[tuple[str, Place, bool]]:
        """Modules that an agent put into site folders, and no distribution lists; and whether none is a link."""
        installed = self._installed
        claimed = {(one.site, name) for one in installed.distributions for name in one.modules}
        for site in installed.sites:
            for name, (place, *_) in self._in(site).items():
                paths = self._files[site][name] if place.form is Form.NAMESPACE else [place.path]
                listed = any(lists(one, path) for path in paths for one in installed.owners(path))
                put = all(path in installed.touched for path in paths)
                if put and not listed and (site, name) not in claimed and not installed.egg(place.path):
                    yield name, place, all(installed.code[path].kind is Kind.FILE for path in paths)

    def lent(self) -> Iterator[tuple[str, Place]]:
        """Modules that the standard library imports where it can, and does not have itself: where it would get them.

        It asks for what other systems have, wherever it runs, and for what was taken out of it. What goes before it is
        asked for in any case.
        """
        before = set(map(self._snapshot.resolved, self._layout.first))
        # Of older versions only those names are known that are documented; public ones of others are packages' names.
        wanted = (self._stdlib | set(filter(_is_inner, sys.stdlib_module_names)) | ELSEWHERE) - BYSTANDERS
        for folder in self._path:
            for name in wanted.intersection(self._in(folder)) if folder not in self._standard else ():
                place = self._in(folder)[name][0]
                there = self._behind(place) if place.form is Form.LINK else place
                goes_before = folder in before and there is not None and there.form is not Form.NAMESPACE
                if there is not None and (goes_before or not self._is_standard(name)):
                    yield name, there

    def _is_standard(self, name: str) -> bool:
        """Whether the standard library has a module as a file."""
        if any(entry.startswith(f"{name}.") for entry in self._compiled):
            return True
        below = (f"{folder}/{name}{suffix}" for folder in self._standard for suffix in _SUFFIXES)
        return any(self._snapshot.entry(path) is not None for path in below)

    @cached_property
    def _compiled(self) -> frozenset[str]:
        """Names of the standard library's own compiled modules."""
        folders = (folder for folder in self._standard if folder.endswith("/lib-dynload"))
        return frozenset(posixpath.basename(entry.path) for folder in folders for entry in self._snapshot.tree(folder))

    def files(self, name: str, place: Place) -> tuple[str, ...]:
        """The code of a top-level module in a folder of the path: its own file, and all that is in its package."""
        return tuple(dict.fromkeys((*self._files.get(place.folder, {}).get(name, ()), place.path)))

    def owned(self, name: str, place: Place) -> Owned:
        """Whose a module is."""
        if place.form is Form.STANDARD:
            return Owned()
        below = self._files.get(place.folder, {}).get(name, [])
        paths = below if place.form is Form.NAMESPACE and below else [place.path]
        listed = [one for path in paths for one in self._installed.owners(path) if lists(one, path)]
        claimed = [one for one in self._installed.distributions if one.site == place.folder and name in one.modules]
        egg = self._installed.egg(place.path)
        everyone = tuple(dict.fromkeys((*listed, *claimed, *((egg,) if egg else ()))))
        if part := self._parts.stranger(name, place, everyone):
            return Owned(stranger=part)
        if everyone:
            return Owned(everyone)
        if any(map(self._vouching.vouches, paths[:_MOST_LOOKS])):
            return Owned(tuple(self._vouching.editable(place.path)))
        return Owned(stranger=self._stranger(place))

    # --- finding ------------------------------------------------------------------------------------------

    @cached_property
    def _path(self) -> tuple[str, ...]:
        """`sys.path`, links followed."""
        entries = list(dict.fromkeys((*self._variable(), *self._layout.first, *self._layout.path)))
        if len(entries) > _MOST_FOLDERS:
            self._installed.problems.append(f"more than {_MOST_FOLDERS} folders are on the path")
        return tuple(dict.fromkeys(filter(None, map(self._snapshot.resolved, entries[:_MOST_FOLDERS]))))

    @cached_property
    def _standard(self) -> frozenset[str]:
        return frozenset(map(self._snapshot.resolved, self._layout.stdlib))

    def _variable(self) -> list[str]:
        """What a conda environment's own variables add."""
        entry = self._snapshot.entry(f"{self._layout.prefix}/conda-meta/state")
        try:
            state = json.loads(entry.text if entry else "{}")
            value = state["env_vars"]["PYTHONPATH"]
        except (ValueError, RecursionError, KeyError, TypeError):
            return []
        return [folder for folder in str(value).split(":") if folder.startswith("/")]

    def _in(self, folder: str) -> Mapping[str, tuple[Place, ...]]:
        if folder not in self._known:
            self._known[folder] = self._listed(folder)
        return self._known[folder]

    def _listed(self, folder: str) -> Mapping[str, tuple[Place, ...]]:
        installed, below = self._installed, f"{folder.rstrip('/')}/"
        if folder in installed.sites or any(folder.startswith(f"{site}/") for site in installed.sites):
            paths: Iterable[str] = installed.code
        else:
            paths = self._snapshot.touched(folder)
        paths = [path for path in paths if path.startswith(below) and not _is_of_another(path.removeprefix(below))]
        files = self._files.setdefault(folder, {})
        for path in paths:
            if is_module(path):
                name = path.removeprefix(below).partition("/")[0].partition(".")[0]
                files.setdefault(name, []).append(path)
        if not paths and (entry := self._snapshot.entry(folder)) is not None and entry.kind is Kind.FILE:
            if entry.content is None:
                self._installed.problems.append(f"{printable(folder)}, which is on the path, is too large to be read")
            return {name: (Place(folder, folder, Form.ARCHIVE),) for name in self._packed(folder, entry.content or b"")}
        return modules_in(folder, paths, self._layout.version)

    def _packed(self, archive: str, content: bytes) -> Iterable[str]:
        """Top-level modules of an archive; none when it is no archive. Python asks nothing of its name."""
        if doubt := table_doubt(io.BytesIO(content)):
            self._installed.problems.append(f"{printable(archive)}, which is on the path: {printable(doubt)}")
        try:
            with zipfile.ZipFile(io.BytesIO(content)) as opened:
                names = opened.namelist()
        except ZIP_ERRORS:
            return ()
        return modules_in(archive, (f"{archive}/{name}" for name in names if is_module(name)), self._layout.version)

    def _behind(self, place: Place) -> Place | None:
        """What a link leads to, if that is a module of its name."""
        entry = self._snapshot.link(place.path)
        if entry is None or entry.kind is not Kind.LINK:
            return None
        package = self._snapshot.entry(f"{place.path}/__init__.py")
        if package is not None:
            return Place(f"{place.path}/__init__.py", place.folder, Form.PACKAGE)
        target = self._snapshot.resolved(place.path)
        if not target and is_fleeting(self._snapshot, place.path):
            return place
        inside = modules_in(posixpath.dirname(target), self._snapshot.touched(target), self._layout.version)
        within = inside.get(posixpath.basename(target), ())
        forms = [one.form for one in within if one.form is not Form.LINK]
        if not inside and target.count("/") > 1 and any(self._snapshot.tree(target, is_module)):
            forms = [Form.NAMESPACE]
        return Place(place.path, place.folder, forms[0]) if forms else None

    # --- owning -------------------------------------------------------------------------------------------

    def _stranger(self, place: Place) -> str:
        return f"{place.path}, which no distribution and no project has"


def _is_inner(name: str) -> bool:
    """Whether only the standard library itself imports a module of it by that name."""
    return name.startswith("_") or name == "nt"


def _is_of_another(path: str) -> bool:
    """Whether a path in a folder of the standard library is that of a site folder in it."""
    return path.startswith(("site-packages/", "dist-packages/"))
