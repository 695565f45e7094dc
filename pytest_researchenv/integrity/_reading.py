"""Reads what is installed: each site folder once."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import final

from packaging.utils import canonicalize_name

from pytest_researchenv.integrity._metadata import (
    Direct,
    Record,
    conda_files,
    direct_url,
    egg_contents,
    entry_points,
    header_fields,
    installed_files,
    module_names,
    record_rows,
)
from pytest_researchenv.integrity.bytecode import is_unchecked
from pytest_researchenv.integrity.conda import has_condas_python
from pytest_researchenv.integrity.installed import Distribution, Installed, Style, is_code, is_program
from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.packages import Packages, Standing
from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["read_installed"]

#: Files of code, and links, of one interpreter's site folders. torch with its libraries has 6,000, everything that
#: people put beside it some 60,000.
_MOST_CODE = 400_000
#: Distributions of one interpreter, and rows of all of their records.
_MOST_DISTRIBUTIONS = 5_000
_MOST_ROWS = 2_000_000
#: Files of such records that are links, as in environments of links into a cache; one takes some ten milliseconds.
_MOST_LINKS = 3_000
#: Folders on the path of which is asked whether they were filled.
_MOST_FOLDERS = 300
#: Letters of a name or version; those of honest ones have some twenty.
_LETTERS = 200

_DPKG = "/var/lib/dpkg"
#: What no file has.
_NO_DIGEST = "another"
#: Where Debian's packages install modules.
_SYSTEM_SITE = re.compile(r"/usr/lib/python3[^/]*/(?:dist|site)-packages")

#: What is read of a record of a distribution. It is a folder, or (for distutils) a file.
#: pip renames what it removes to begin with a tilde, and leaves that when it is interrupted.
_INFO = re.compile(r"[^/~][^/]*\.(?:dist-info|egg-info)|[^/]+\.egg/EGG-INFO")
_FILLED = re.compile(r"[^/~][^/]*\.dist-info(?:/|$)")
_READ = frozenset(
    {
        "INSTALLER",
        "METADATA",
        "PKG-INFO",
        "RECORD",
        "SOURCES.txt",
        "WHEEL",
        "direct_url.json",
        "entry_points.txt",
        "installed-files.txt",
        "top_level.txt",
    }
)
#: Records that are single files: distutils', and a whole distribution in an archive.
_SINGLE = (".egg-info", ".egg")


def read_installed(task: ProbeTask, layout: Layout, snapshot: Snapshot) -> Installed:
    """Read what is installed for an interpreter.

    Raises:
        SandboxError: the engine refuses to read.
    """
    sites = tuple(dict.fromkeys(filter(None, map(snapshot.resolved, (*layout.sites, *_filled(layout, snapshot))))))
    reader = _Reader(snapshot, snapshot.touched(*sites) if sites else {})
    for site in sites:
        for entry in snapshot.tree(site, _wanted(site)):
            reader.take(site, entry)
    elsewhere = (*_conda(layout, snapshot, reader), *_debian(task, sites, snapshot, reader))
    return Installed(
        snapshot,
        sites=sites,
        distributions=(*reader.distributions(), *elsewhere),
        code=reader.code,
        touched=reader.touched,
        unchecked=tuple(reader.unchecked),
        problems=tuple(reader.problems),
    )


def _filled(layout: Layout, snapshot: Snapshot) -> Iterator[str]:
    """Folders that `.pth` files add, and that an installer filled (`pip install --target`)."""
    known = {*layout.sites, *layout.stdlib, layout.archive}
    for folder in layout.path[:_MOST_FOLDERS]:
        real = "" if folder in known else snapshot.resolved(folder)
        if real not in ("", "/") and any(
            _FILLED.match(path.removeprefix(f"{real}/")) for path in snapshot.touched(real)
        ):
            yield real


def _wanted(site: str) -> Callable[[str], bool]:
    """Whether the content of a file is read."""

    def keep(path: str) -> bool:
        folder, _, name = path.removeprefix(f"{site}/").rpartition("/")
        return (name in _READ and _INFO.fullmatch(folder) is not None) or (not folder and name.endswith(_SINGLE))

    return keep


@final
class _Reader:
    """Sorts what is in site folders.

    Args:
        snapshot: the frozen image.
        touched: what the agent changed in them.
    """

    def __init__(self, snapshot: Snapshot, touched: Mapping[str, str]) -> None:
        self._snapshot = snapshot
        self._links = _MOST_LINKS
        self.touched = touched
        self.code: dict[str, Entry] = {}
        self.unchecked: list[str] = []
        self.problems: list[str] = []
        self._infos: dict[str, _Info] = {}
        self._rows = 0

    def take(self, site: str, entry: Entry) -> None:
        """Take what is at a path of a site folder."""
        path = entry.path
        if is_code(path) or is_program(path) or entry.kind is Kind.LINK:
            if len(self.code) < _MOST_CODE:
                # What was kept of small files is not needed any more.
                self.code[path] = entry if entry.content is None else _without_content(entry)
            else:
                self._problem(f"there are more than {_MOST_CODE} files of code in {printable(site)}")
        elif path.endswith(".pyc") and is_unchecked(entry):
            self.unchecked.append(path)
        info = _info_path(site, path)
        if info and entry.kind is Kind.LINK:
            if not self._links:
                self._problem(f"more than {_MOST_LINKS} files of records are links")
                return
            self._links -= 1
            target = self._snapshot.entry(path)
            entry = replace(target, path=path) if target is not None else entry
        if info and entry.kind is Kind.FILE:
            self._read(site, info, entry)

    def distributions(self) -> Iterator[Distribution]:
        """What is installed by what was taken."""
        for info in self._infos.values():
            yield info.distribution()

    def count(self, rows: Collection[object]) -> bool:
        """Count rows of a record; whether so many are borne."""
        self._rows += len(rows)
        if self._rows > _MOST_ROWS:
            self._problem(f"distributions list more than {_MOST_ROWS} files")
        return self._rows <= _MOST_ROWS

    def _read(self, site: str, path: str, entry: Entry) -> None:
        if path not in self._infos:
            if len(self._infos) == _MOST_DISTRIBUTIONS:
                self._problem(f"there are more than {_MOST_DISTRIBUTIONS} distributions")
                return
            self._infos[path] = _Info(site, path)
        info = self._infos[path]
        if entry.content is None and not entry.path.endswith(".egg"):
            self._problem(f"{printable(entry.path)} has {entry.size} bytes, too many to be read")
        info.take(entry)
        if not self.count(info.record.files if entry.path.endswith("/RECORD") else ()):
            info.record = Record()

    def _problem(self, words: str) -> None:
        if words not in self.problems:
            self.problems.append(words)


def _without_content(entry: Entry) -> Entry:
    return Entry(entry.path, entry.kind, entry.mode, entry.size, entry.link, entry.sha256, head=entry.head)


def _info_path(site: str, path: str) -> str:
    """The record of a distribution that a path is in or is; empty for anything else."""
    folder, _, name = path.removeprefix(f"{site}/").rpartition("/")
    if name in _READ and _INFO.fullmatch(folder):
        return f"{site}/{folder}"
    return path if not folder and name.endswith(_SINGLE) else ""


@final
class _Info:
    """What is known of one distribution by its record."""

    def __init__(self, site: str, path: str) -> None:
        self._site, self._path = site, path
        self._there: set[str] = set()
        self._fields: dict[str, tuple[str, ...]] = {}
        self._tags: tuple[str, ...] = ()
        self._direct: Direct | None = None
        self._modules: frozenset[str] = frozenset()
        self._groups: Mapping[str, frozenset[str]] = {}
        self._listed: tuple[str, ...] = ()
        self.record = Record()

    def take(self, entry: Entry) -> None:
        """Read one of its files."""
        name = "PKG-INFO" if entry.path == self._path else posixpath.basename(entry.path)
        text = entry.text
        if self._path.endswith(".egg"):
            text, self._listed = egg_contents(entry.content or b"", self._path)
        self._there.add(name)
        match name:
            case "METADATA" | "PKG-INFO":
                self._fields = header_fields(text)
            case "RECORD":
                self.record = record_rows(text, self._site, entry.path)
            case "WHEEL":
                self._tags = header_fields(text).get("tag", ())
            case "direct_url.json":
                self._direct = direct_url(text)
            case "top_level.txt":
                self._modules = module_names(text)
            case "entry_points.txt":
                self._groups = entry_points(text)
            case "installed-files.txt":
                self._listed = installed_files(text, self._path)
            case _:
                pass

    def distribution(self) -> Distribution:
        """What it comes to."""
        path = self._path.removesuffix("/EGG-INFO")
        egg = path.endswith(".egg")
        stem = posixpath.basename(path).rpartition(".")[0]
        name = canonicalize_name((self._fields.get("name", ("",))[0] or stem.partition("-")[0])[:_LETTERS])
        version = (self._fields.get("version", ("",))[0] or stem.partition("-")[2].partition("-")[0])[:_LETTERS]
        wheel = path.endswith(".dist-info")
        files = self.record.files if wheel else dict.fromkeys(self._listed, "")
        modules = self._modules or (frozenset() if files else frozenset({name.replace("-", "_")}))
        return Distribution(
            name=printable(name),
            version=printable(version),
            style=Style.WHEEL if wheel else Style.EGG if egg else Style.LEGACY,
            path=path,
            site=self._site,
            files=files,
            modules=modules if not any(map(is_code, files)) and not egg else frozenset(),
            tags=self._tags,
            direct=self._direct,
            requires=frozenset(map(_required, self._fields.get("requires-dist", ()))),
            groups=self._groups,
            gaps=tuple(self._gaps()),
        )

    def _gaps(self) -> Iterator[str]:
        if self._path.endswith(".dist-info"):
            yield from (name for name in ("RECORD", "INSTALLER", "WHEEL") if name not in self._there)
            if "RECORD" in self._there and not self.record.lists_itself:
                yield "RECORD of itself"
        # What distutils leaves is a single file.
        elif self._path.endswith(".egg-info") and self._there > {"PKG-INFO"}:
            known = {"SOURCES.txt", "installed-files.txt"}
            yield from ("list of files",) if self._there.isdisjoint(known) else ()


def _required(requirement: str) -> str:
    found = re.match(r"[A-Za-z0-9._-]{1,200}", requirement)
    return canonicalize_name(found[0]) if found else ""


# --- other records ----------------------------------------------------------------------------------------


def _conda(layout: Layout, snapshot: Snapshot, reader: _Reader) -> Iterator[Distribution]:
    """What conda installed into the interpreter's environment, or into the one that it was made from."""
    for prefix in dict.fromkeys((layout.prefix, layout.base_prefix)):
        folder = f"{prefix}/conda-meta"
        real = snapshot.resolved(prefix) or prefix
        if not has_condas_python(snapshot, real, layout.binary):
            continue
        for entry in snapshot.tree(folder, lambda path: path.endswith(".json")):
            name, version, files = conda_files(entry.text, real) if entry.path.endswith(".json") else ("", "", {})
            if files and reader.count(files):
                name = canonicalize_name(name[:_LETTERS])
                yield Distribution(printable(name), printable(version[:_LETTERS]), Style.CONDA, entry.path, files=files)


def _debian(task: ProbeTask, sites: tuple[str, ...], snapshot: Snapshot, reader: _Reader) -> Iterator[Distribution]:
    """What the system's packages hold of what the agent put into their site folders."""
    system = tuple(f"{site}/" for site in sites if _SYSTEM_SITE.fullmatch(site))
    ours = {
        path
        for path in reader.touched
        if system and path.startswith(system) and (is_code(path) or _INFO.match(path.rpartition("-packages/")[2]))
    }
    judged = Packages(task, snapshot).judged(ours) if ours else ()
    files = {
        one.entry.path: one.entry.sha256 if one.standing is Standing.GENUINE else _NO_DIGEST
        for one in judged
        if one.standing in (Standing.GENUINE, Standing.CHANGED)
    }
    if files:
        yield Distribution("packages of the system", "", Style.DEBIAN, _DPKG, files=files)
