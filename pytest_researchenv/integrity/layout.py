"""What the reported interpreter would use, worked out from outside: nothing of the environment runs.

This follows what CPython's own start-up does on Linux: `Modules/getpath.py` for the standard library, and `sitefolders`
for the rest.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePosixPath
from weakref import WeakKeyDictionary

from pytest_researchenv.integrity.elf import Elf, read_elf
from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot
from pytest_researchenv.integrity.pth import moves
from pytest_researchenv.integrity.pyvenv import is_ambiguous, read_settings
from pytest_researchenv.integrity.raw import file_of
from pytest_researchenv.integrity.sitefolders import Look, Pth, Sites
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python
from pytest_researchenv.sandbox.peek import readable


__all__ = ["Layout", "Manager", "NoLayout", "layout_of"]

#: Levels of folders above an interpreter's that are searched for its standard library.
_MOST_LEVELS = 40

#: Where Python was made to be installed, when nothing else tells.
_PREFIXES = ("/usr/local", "/usr")

#: uv's older builds need `$ORIGIN/../lib/libpython3.11.so.1.0`.
_LIBRARY = re.compile(r"(?:^|/)libpython3\.(\d{1,2})t?\.so")


class Manager(StrEnum):
    """Who made the environment that the interpreter is in."""

    SYSTEM = "system"
    VENV = "virtual environment"
    CONDA = "conda"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Layout:
    """Where an interpreter finds its code, as its own start-up works it out.

    Paths are those that Python uses; links in them are not followed, unless an attribute says so.

    Attributes:
        python: the interpreter, as reported.
        binary: the file that runs: all links followed.
        elf: what this file says of itself.
        version: minor version, as `3.11`.
        manager: who made the environment.
        prefix: `sys.prefix`: the virtual environment, where there is one.
        base_prefix: `sys.base_prefix`: the installation with the standard library.
        archive: where Python looks first for modules of the standard library, as `/usr/lib/python311.zip`; mostly
            nothing is there.
        stdlib: folders of the standard library that are there: the sources' first, `lib-dynload` then.
        sites: site folders that are there, in the order in which Python reads their `.pth` files and looks in them.
        pths: the `.pth` files in them, in the order in which Python reads them.
        config: `pyvenv.cfg` that Python reads; empty when there is none.
        user: whether root's own site folder is used, and `usercustomize` is run.
        overrides: files beside the interpreter that replace all this (`python._pth`, `pybuilddir.txt`), which no
            installation for Linux has, and a `pyvenv.cfg` that Python may read in two ways.
        problems: what could not be worked out.
    """

    python: str
    binary: str
    elf: Elf
    version: str
    manager: Manager
    prefix: str
    base_prefix: str
    archive: str
    stdlib: tuple[str, ...]
    sites: tuple[str, ...]
    pths: tuple[Pth, ...] = ()
    config: str = ""
    user: bool = False
    overrides: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()

    @property
    def path(self) -> tuple[str, ...]:
        """`sys.path` as it is after the start, without the script's own folder and PYTHONPATH; each once."""
        added: dict[str, list[str]] = {}
        for pth in self.pths:
            added.setdefault(posixpath.dirname(pth.path), []).extend(pth.folders)
        sites = (entry for site in self.sites for entry in (site, *added.get(site, ())))
        return tuple(dict.fromkeys((self.archive, *self.stdlib, *sites)))

    @property
    def first(self) -> tuple[str, ...]:
        """What of it easy_install's lines move before the standard library: folders that were not on it before."""
        known = {self.archive, *self.stdlib}
        moved: dict[str, None] = {}
        for site in self.sites:
            known.add(site)
            for pth in (pth for pth in self.pths if posixpath.dirname(pth.path) == site):
                moved |= dict.fromkeys(folder for folder in pth.folders if folder not in known and moves(pth.text))
                known.update(pth.folders)
        return tuple(moved)


@dataclass(frozen=True, slots=True)
class NoLayout:
    """There is no interpreter to judge by.

    Attributes:
        reason: why, in words.
        forged: whether something is there that is no Python.
    """

    reason: str
    forged: bool = False


_KNOWN: WeakKeyDictionary[Snapshot, tuple[object, Layout | NoLayout]] = WeakKeyDictionary()


def layout_of(task: ProbeTask, snapshot: Snapshot) -> Layout | NoLayout:
    """Work out what the reported interpreter would use. It is done once for a snapshot.

    Raises:
        SandboxError: the engine refuses to read.
    """
    known = _KNOWN.get(snapshot)
    if known and known[0] == task.environment:
        return known[1]
    layout = _layout(task, snapshot)
    _KNOWN[snapshot] = (task.environment, layout)
    return layout


def _layout(task: ProbeTask, snapshot: Snapshot) -> Layout | NoLayout:
    python = reported_python(task.environment)
    if isinstance(python, Unreported):
        return NoLayout(python.reason)
    shown = printable(python)
    entry = snapshot.entry(python)
    if entry is None or entry.kind is not Kind.FILE:
        reason = f"the reported interpreter {shown} is no file"
        # Where only a process finds it, a probe could still start whatever is there.
        return NoLayout(reason, forged=is_fleeting(snapshot, python))
    if entry.head.startswith(b"#!"):
        return NoLayout(f"{shown} is a script: {_first_line(entry)}", forged=True)
    with file_of(task, entry) as file:
        elf = read_elf(file) if file else None
    if elf is None:
        return NoLayout(f"{shown} leads to {printable(entry.path)}, which is no program for this machine", forged=True)
    minor = elf.minor
    if minor is None:
        minor = next((int(found[1]) for name in elf.needed if (found := _LIBRARY.search(name))), None)
    if minor is None:
        reason = f"{shown} leads to {printable(entry.path)}, a program that holds no Python and needs no libpython"
        return NoLayout(reason, forged=True)
    free = any(f"libpython3.{minor}t" in name for name in elf.needed) or entry.path.endswith(f"3.{minor}t")
    return _Search(snapshot, python, entry.path, elf, f"3.{minor}{'t' if free else ''}").layout()


def _first_line(entry: Entry) -> str:
    return printable(entry.head.partition(b"\n")[0].decode(errors="replace"))


class _Search:
    """Python's search for its own files.

    Args:
        snapshot: the image.
        python: the interpreter, as reported.
        binary: the file behind it.
        elf: what that says of itself.
        suffix: what its folders are named by, as `3.11`, or `3.13t` of a build without the global lock.
    """

    def __init__(self, snapshot: Snapshot, python: str, binary: str, elf: Elf, suffix: str) -> None:
        self._look = Look(snapshot)
        self._python = python
        self._binary = binary
        self._elf = elf
        self._suffix = suffix

    def layout(self) -> Layout | NoLayout:
        """Work it all out."""
        venv = posixpath.dirname(posixpath.dirname(self._python))
        config = f"{venv}/pyvenv.cfg"
        settings = self._settings(config)
        home = (settings or {}).get("home", "")
        start = posixpath.join("/", home.rstrip("/") or posixpath.dirname(self._binary))
        base = self._base_prefix(start)
        if not base:
            return NoLayout(f"{printable(self._python)} has no standard library above {printable(start)}", forged=True)
        lib = f"{base}/lib/python{self._suffix}"
        user = settings is None or settings.get("include-system-site-packages", "true").lower() == "true"
        search = Sites(self._look, self._suffix)
        sites = tuple(search.folders(base, "" if settings is None else venv, user=user))
        return Layout(
            python=self._python,
            binary=self._binary,
            elf=self._elf,
            version=self._suffix.rstrip("t"),
            manager=self._manager(base, venv=settings is not None),
            prefix=base if settings is None else venv,
            base_prefix=base,
            archive=f"{base}/lib/python{self._suffix.replace('.', '')}.zip",
            stdlib=tuple(folder for folder in (lib, f"{lib}/lib-dynload") if self._look.has(folder, Kind.FOLDER)),
            sites=sites,
            pths=tuple(search.pths(sites)),
            config="" if settings is None else config,
            user=user,
            overrides=(*self._overrides(start, config), *self._platform(start, base)),
            problems=tuple(dict.fromkeys(self._look.problems)),
        )

    # --- the standard library ---

    def _settings(self, config: str) -> Mapping[str, str] | None:
        """What `pyvenv.cfg` says; None when there is none."""
        entry = self._look.entry(config)
        if entry is None or entry.kind is not Kind.FILE:
            return None
        return read_settings(entry.content or b"")

    def _base_prefix(self, start: str) -> str:
        """The folder that has the standard library: above where the search starts, or where Python was made to be."""
        zipped = f"lib/python{self._suffix.replace('.', '')}.zip"
        sources = (f"lib/python{self._suffix}/os.py", f"lib/python{self._suffix}/os.pyc")
        # Python's own search ends below the root.
        above = list(PurePosixPath("/", start).parents)[:-1] if readable(f"/{start}") else []
        for landmarks in ((zipped,), sources):
            for folder in (start, *map(str, above[:_MOST_LEVELS])):
                if any(self._look.has(posixpath.join(folder, name), Kind.FILE) for name in landmarks):
                    return folder
        if len(above) > _MOST_LEVELS:
            self._look.problems.append(f"{printable(start)} is more than {_MOST_LEVELS} folders deep")
        return next((prefix for prefix in _PREFIXES if self._look.has(f"{prefix}/{sources[0]}", Kind.FILE)), "")

    def _platform(self, start: str, base: str) -> Iterator[str]:
        """A folder for compiled modules that Python finds elsewhere than its sources: it searches for both apart.

        What is above the folder becomes `sys.exec_prefix`, which has site folders of its own.
        """
        name = f"lib/python{self._suffix}/lib-dynload"
        above = list(PurePosixPath("/", start).parents)[:-1] if readable(f"/{start}") else []
        places = (posixpath.join(folder, name) for folder in (start, *map(str, above[:_MOST_LEVELS])))
        found = next((path for path in places if self._look.has(path, Kind.FOLDER)), "")
        if found and found != f"{base}/{name}":
            yield found

    def _overrides(self, start: str, config: str) -> Iterator[str]:
        beside = dict.fromkeys((posixpath.dirname(self._python), posixpath.dirname(self._binary), start))
        names = [f"{folder}/{name}" for folder in beside for name in ("pybuilddir.txt", "Modules/Setup.local")]
        names += [f"{path}._pth" for path in (self._python, self._binary)]
        # Python reads the one above its folder first in one place, and this one first in another.
        names.append(f"{posixpath.dirname(self._python)}/pyvenv.cfg")
        for path in names:
            if self._look.has(path, Kind.FILE):
                yield path
        entry = self._look.snapshot.entry(config)
        if entry is not None and entry.kind is Kind.FILE and (entry.content is None or is_ambiguous(entry.content)):
            yield config

    def _manager(self, base: str, *, venv: bool) -> Manager:
        if venv:
            return Manager.VENV
        if self._look.has(f"{base}/conda-meta/history", Kind.FILE):
            return Manager.CONDA
        return Manager.SYSTEM if base == "/usr" else Manager.OTHER
