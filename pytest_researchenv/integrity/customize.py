"""Modules that Python imports at start when they are there: where one is found that the base image does not have."""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass

from pytest_researchenv.integrity._archives import ZIP_ERRORS, table_doubt
from pytest_researchenv.integrity._metadata import entry_points
from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.frameworks import BACKENDS
from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot, is_in_base
from pytest_researchenv.integrity.raw import file_of
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["Customization", "customizations", "python_path"]

#: Largest archive on the path that is searched; zipped eggs are a few MB.
_LARGEST_ARCHIVE = 16 * 1024**2

#: Entry points in an archive, and bytes of them that are read.
_POINTS = re.compile(r"(?:[^/]+\.(?:dist|egg)-info|EGG-INFO)/entry_points\.txt", re.IGNORECASE)
_POINTS_BYTES = 1024**2

#: What Debian's own sitecustomize imports.
_APPORT = "apport_python_hook"


@dataclass(frozen=True, slots=True)
class Customization:
    """Something that may hold start-up code.

    Attributes:
        path: what has to be blanked so that it is not run; of a package its folder.
        source: the file that would be run: what a distribution would list.
        folder: the entry of `sys.path` in which it is.
        archived: of an archive on the path, what it holds; empty of everything else.
    """

    path: str
    source: str
    folder: str
    archived: str = ""


def customizations(task: ProbeTask, snapshot: Snapshot, layout: Layout) -> Iterator[Customization]:
    """Look wherever Python does, in its order.

    Raises:
        SandboxError: the engine refuses to read.
    """
    folders = tuple(dict.fromkeys((*python_path(task), *layout.path)))
    names = ["sitecustomize", *(["usercustomize"] if layout.user else [])]
    if any(_APPORT in entry.text for folder in folders if (entry := snapshot.entry(f"{folder}/sitecustomize.py"))):
        names.append(_APPORT)
    for folder in folders:
        entry = snapshot.entry(folder)
        if entry is not None and entry.kind is Kind.FILE:
            yield from _archived(task, snapshot, entry, names)
        elif entry is not None and entry.is_folder:
            for name in names:
                yield from _files(snapshot, entry.path, folder, name)


def python_path(task: ProbeTask) -> Iterator[str]:
    """Folders that probes put on PYTHONPATH."""
    workdir = task.environment.workdir
    if task.repository.root_on_path:
        yield workdir
    for tier in task.repository.tiers.values():
        for folder in tier.environment.get("PYTHONPATH", "").split(":"):
            if folder:
                yield folder.replace("{repo}", workdir)


def _files(snapshot: Snapshot, top: str, folder: str, name: str) -> Iterator[Customization]:
    """The files of one module, bytecode included."""
    module = re.compile(
        rf"{name}(?:\.pyc|\.so|\.abi3t?\.so|\.cpython-\d+\w*-[\w-]+\.so)|__pycache__/{name}\.cpython-\d+t?(?:\.opt-\w+)?\.pyc"
    )
    touched = snapshot.touched(top)
    # In a folder of the agent's there is what the record has, which may have another name for what is no ASCII; in one
    # of the base image's a link may lead to what was changed.
    below_top = f"{top.rstrip('/')}/"
    source, package = f"{below_top}{name}.py", f"{below_top}{name}"
    is_agents = top.isascii() and snapshot.touched(posixpath.dirname(top)).get(top) == "A"
    found = set() if is_agents and source not in touched else {source}
    for path in touched:
        below = path.removeprefix(below_top)
        if module.fullmatch(below):
            found.add(path)
        elif below == name or below.startswith(f"{name}/"):
            found.add(package)
    for path in sorted(found):
        entry = snapshot.entry(path)
        if entry is None or is_in_base(snapshot, path, entry.sha256):
            continue
        fleeting = entry.kind is Kind.LINK and is_fleeting(snapshot, path)
        if path == package and (entry.is_folder or fleeting):
            yield Customization(path, f"{path}/__init__.py", folder)
        elif path != package and (entry.kind is Kind.FILE or fleeting):
            yield Customization(path, path, folder)


def _archived(task: ProbeTask, snapshot: Snapshot, entry: Entry, names: list[str]) -> Iterator[Customization]:
    """An archive on the path, as an egg is, with such a module in it."""
    if is_in_base(snapshot, entry.path, entry.sha256):
        return
    held = f"{entry.size} bytes, too many to be searched"
    if entry.size <= _LARGEST_ARCHIVE:
        with file_of(task, entry) as file:
            if file is None:
                return
            held = table_doubt(file)
            try:
                with zipfile.ZipFile(file) as archive:
                    held = held or _start_up(archive, names)
            except ZIP_ERRORS:
                pass
    if held:
        yield Customization(entry.path, entry.path, entry.path, held)


def _start_up(archive: zipfile.ZipFile, names: list[str]) -> str:
    """What an archive has that runs at start, or as soon as a framework is imported; empty for nothing."""
    module = re.compile(rf"(?:{'|'.join(names)})(?:/__init__)?\.pyc?")
    members = archive.namelist()
    held = next((member for member in members if module.fullmatch(member)), "")
    for member in () if held else filter(_POINTS.fullmatch, members):
        with archive.open(member) as file:
            text = file.read(_POINTS_BYTES + 1).decode(errors="replace")
        if len(text) > _POINTS_BYTES or not BACKENDS.isdisjoint(entry_points(text)):
            return member
    return held
