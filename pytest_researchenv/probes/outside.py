"""Whether a module is there, seen from outside: read through the engine, in a container that never runs.

What an interpreter says of its modules is a claim. Nothing of the environment takes part in the look.
"""

from __future__ import annotations

import re
import shutil
import struct
import tempfile
import zipfile
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import PurePosixPath
from typing import final

from stdlib_list import short_versions, stdlib_list

from pytest_researchenv.probes.lookup import Module, printable
from pytest_researchenv.sandbox.peek import followed, opened, readable
from pytest_researchenv.sandbox.protocol import Container


__all__ = ["Outside", "standard_library"]

#: Looks at one snapshot. One takes 5 to 90 ms; an honest module needs one, one behind a link some ten.
_MOST_LOOKS = 2000
#: Files of one module that are looked for before it counts as absent.
_CANDIDATES = 5
#: Largest archive that is searched for modules; zipped eggs are a few MB.
_LARGEST_ARCHIVE = 16 * 1024**2
#: Bytes by which a file's kind is told.
_HEAD_BYTES = 1024

#: Names of module files: source, bytecode only, extension; what stands before is the module's own name.
_MODULE_FILE = re.compile(r"([^.]+)(\.py|\.pyc|(?:\.[^./]+)?\.so)")

#: Modules that a known finder takes from another name: setuptools' stand-in for what Python 3.12 dropped.
_ALIASES = {"distutils": "/setuptools/_distutils/__init__.py"}


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is at a path.

    Attributes:
        link: target, when it is a symbolic link.
        regular: whether it is a regular file.
        is_folder: whether it is a folder.
        head: its first bytes, when it is a regular file.
    """

    link: str = ""
    regular: bool = False
    is_folder: bool = False
    head: bytes = b""


@final
class Outside:
    """Looks for modules in a snapshot.

    Args:
        container: made from the snapshot and never started, so that nothing in it can have changed.
        version: of the interpreter, as it says.
    """

    def __init__(self, container: Container, version: str) -> None:
        self._container = container
        self._stdlib = standard_library(version)
        self._looks = 0
        self._seen: dict[str, _Entry | None] = {}
        self._archives: dict[str, Collection[str]] = {"": ()}

    def doubt(self, name: str, module: Module) -> str:
        """Why a module that an interpreter says it finds is not there; empty when it is.

        Raises:
            SandboxError: the engine refuses to read.
        """
        claim = f"only finder {printable(module.finder)} claims it"
        if module.origin in ("built-in", "frozen"):
            return "" if name in self._stdlib else f"{claim}, as {module.origin}"
        # Of a namespace package, the origin is a folder, and the files are what is in it.
        paths = [path for path in dict.fromkeys((module.origin, *module.files)) if readable(path)]
        fitting = [path for path in paths if _fits(name, path)]
        if not paths:
            return f"{claim}, and names no file"
        if not fitting:
            return f"{claim}: {printable(paths[-1])} is no module of that name"
        if any(self._is_module(path) for path in fitting[:_CANDIDATES]):
            return ""
        return f"{claim}: there is no module {printable(fitting[0])}"

    def _is_module(self, path: str) -> bool:
        entry = self._look(path)
        if entry is None:
            return self._in_archive(path)
        if entry.link or ".." in path.split("/"):
            entry = self._look(followed(path, self._look))
        return entry is not None and entry.regular and _has_form(path, entry.head)

    def _look(self, path: str) -> _Entry | None:
        """What is at a path; the last component is not followed. The engine follows the others, below its root."""
        if path in self._seen:
            return self._seen[path]
        self._looks += 1
        if self._looks > _MOST_LOOKS or not readable(path):
            return None
        with opened(self._container, path) as found:
            entry = None
            if found is not None:
                member, content = found
                link = member.linkname if member.issym() else ""
                head = content.read(_HEAD_BYTES) if content else b""
                entry = _Entry(link, regular=content is not None, is_folder=member.isdir(), head=head)
        self._seen[path] = entry
        return entry

    def _in_archive(self, path: str) -> bool:
        """Whether a path leads into a zip archive, such as an egg, and the archive holds it."""
        for folder in PurePosixPath(path).parents:
            entry = self._look(str(folder))
            if entry is None:
                continue
            archive = followed(str(folder), self._look) if entry.link else str(folder)
            if archive not in self._archives:
                self._archives[archive] = self._members(archive)
            return PurePosixPath(path).relative_to(folder).as_posix() in self._archives[archive]
        return False

    def _members(self, archive: str) -> Collection[str]:
        """Names of what an archive holds; none when it is no archive, or too large a one."""
        with opened(self._container, archive) as found, tempfile.TemporaryFile() as file:
            if found is None or found[1] is None or found[0].size > _LARGEST_ARCHIVE:
                return ()
            shutil.copyfileobj(found[1], file)
            try:
                with zipfile.ZipFile(file) as packed:
                    return frozenset(packed.namelist())
            # What zipfile raises on archives that are made to confuse it.
            except (zipfile.BadZipFile, ValueError, NotImplementedError, struct.error):
                return ()


def _fits(name: str, path: str) -> bool:
    """Whether a file's place is that of a module, or of something in a package, of that name."""
    *folders, file = PurePosixPath(path).parts
    match = _MODULE_FILE.fullmatch(file)
    if match is None:
        return False
    if match[1] == name or path.endswith(_ALIASES.get(name, "\0")):
        return True
    if name not in folders:
        return False
    below = folders[len(folders) - folders[::-1].index(name) :]
    return all(part.isidentifier() for part in (*below, match[1]))


def _has_form(path: str, head: bytes) -> bool:
    """Whether a file's first bytes are those of what its name says; an empty source is a module, too."""
    if path.endswith(".so"):
        return head.startswith(b"\x7fELF")
    if path.endswith(".pyc"):
        return head[2:4] == b"\r\n"
    return b"\0" not in head


@cache
def standard_library(version: str) -> frozenset[str]:
    """Names of the standard library of a Python, on any platform, by its minor version; of the newest if unknown."""
    minor = ".".join(version.split(".")[:2])
    return frozenset(stdlib_list(minor if minor in short_versions else short_versions[-1]))
