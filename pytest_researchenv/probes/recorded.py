"""What an environment's files record of its interpreter and its torch, read from outside: nothing of it takes part.

What is printed inside can be compared with it. Only what no honest installation shows is a contradiction.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import final

from packaging.utils import canonicalize_name

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.sandbox.peek import followed, opened, readable
from pytest_researchenv.sandbox.protocol import Container


__all__ = ["Recorded", "same_release"]

#: Most bytes of a record that are read; the version stands at its head.
_RECORD_BYTES = 1 << 16
#: Places of records that are looked at.
_MOST_PLACES = 8
#: Minor versions of Python 3 that a folder is looked for.
_MINORS = range(8, 21)

_MINOR = re.compile(r"(\d+)\.(\d+)")
_RELEASE = re.compile(r"v?(\d+(?:\.\d+)*)")
#: `pyvenv.cfg`: venv writes `version`, uv `version_info`, virtualenv both.
_VENV_VERSION = re.compile(r"^[ \t]*version(?:_info)?[ \t]*=[ \t]*(\d+\.\d+)", re.MULTILINE | re.IGNORECASE)
_FIELD = re.compile(r"(Name|Version):(.*)", re.IGNORECASE)
_EXECUTABLE = re.compile(r"(?:python|pypy)(\d+\.\d+)[a-z]*")


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is at a path.

    Attributes:
        link: target, when it is a symbolic link.
        is_folder: whether it is a folder.
        content: the first bytes of a regular file; None of anything else.
    """

    link: str = ""
    is_folder: bool = False
    content: bytes | None = None


@final
class Recorded:
    """Reads what files record.

    Args:
        container: made from the snapshot and never started, so that nothing in it can have changed.
    """

    def __init__(self, container: Container) -> None:
        self._container = container
        self._seen: dict[str, _Entry | None] = {}

    def python_doubt(self, python: str, printed: str) -> str:
        """In what way the files know another Python than the one that the interpreter says it is; empty when in none.

        One place that agrees is enough: the `pyvenv.cfg` of a virtual environment stays as it was when the interpreter
        below it becomes a newer one, and a prefix may hold the folders of several versions. Patch releases are not
        compared, for the first of these reasons.

        Args:
            python: the reported interpreter's path.
            printed: the version that it printed.

        Raises:
            SandboxError: the engine refuses to read.
        """
        match = _MINOR.match(printed)
        if match is None:
            return ""
        minor = match[0]
        root = str(PurePosixPath(python).parent.parent)
        config = self._venv_version(root)
        if minor == config or self._has_library((root,), minor):
            return ""
        binary = followed(python, self._look) or python
        named = _EXECUTABLE.fullmatch(PurePosixPath(binary).name)
        roots = tuple(dict.fromkeys((root, str(PurePosixPath(binary).parent.parent))))
        if (named and named[1] == minor) or self._has_library(roots, minor):
            return ""
        others = [f"pyvenv.cfg says {config}"] if config else []
        others += [
            f"there is a library for {other} and none for {minor}"
            for other in (f"3.{number}" for number in _MINORS)
            if other != minor and self._has_library(roots, other)
        ][:1]
        return ", ".join(others)

    def torch_versions(self, file: str, version: str, records: Collection[str]) -> tuple[str, ...]:
        """The versions of torch that installers recorded, up to the first that agrees; none where there is no record.

        Args:
            file: where torch says it was imported from.
            version: the version that it printed.
            records: where the interpreter says that torch is recorded.

        Raises:
            SandboxError: the engine refuses to read.
        """
        found: list[str] = []
        for place in list(dict.fromkeys((*_beside(file, version), *records)))[:_MOST_PLACES]:
            recorded = self._torch_version(place)
            if recorded and recorded not in found:
                found.append(recorded)
            if recorded and same_release(version, recorded):
                break
        return tuple(found)

    def _torch_version(self, place: str) -> str:
        for path in (f"{place}/METADATA", f"{place}/PKG-INFO", place):
            entry = self._followed(path)
            if entry is None or entry.content is None:
                continue
            fields = _fields(entry.content)
            if canonicalize_name(fields.get("name", "")) == "torch":
                return printable(fields.get("version", ""))
        return ""

    def _venv_version(self, root: str) -> str:
        entry = self._followed(f"{root}/pyvenv.cfg")
        match = _VENV_VERSION.search(entry.content.decode(errors="replace")) if entry and entry.content else None
        return match[1] if match else ""

    def _has_library(self, roots: Collection[str], minor: str) -> bool:
        return any(
            self._is_folder(f"{root.rstrip('/')}/lib/{name}{minor}") for root in roots for name in ("python", "pypy")
        )

    def _is_folder(self, path: str) -> bool:
        entry = self._followed(path)
        return entry is not None and entry.is_folder

    def _followed(self, path: str) -> _Entry | None:
        entry = self._look(path)
        return self._look(followed(path, self._look)) if entry is not None and entry.link else entry

    def _look(self, path: str) -> _Entry | None:
        """What is at a path; the last component is not followed. The engine follows the others, below its root."""
        if path not in self._seen:
            self._seen[path] = self._read(path) if readable(path) else None
        return self._seen[path]

    def _read(self, path: str) -> _Entry | None:
        try:
            return self._opened(path)
        except SandboxError:
            # Docker fails on a link that leads in a circle, and then reads the next path as if nothing had been.
            self._opened("/")
            return None

    def _opened(self, path: str) -> _Entry | None:
        with opened(self._container, path) as found:
            if found is None:
                return None
            member, content = found
            link = member.linkname if member.issym() else ""
            return _Entry(link, member.isdir(), content.read(_RECORD_BYTES) if content else None)


def same_release(printed: str, recorded: str) -> bool:
    """Whether two versions of torch have the same release number; what has none is not compared.

    More is not the same in honest installations. Measured: torch 2.15.0 for CUDA says `2.15.0+cu132` and is recorded as
    `2.15.0`; Debian's says `1.13.0a0` and is recorded as `1.13.0a0+gitunknown`. NVIDIA's builds say `2.0.0.nv23.05`,
    which is no version at all to PEP 440, and conda's say `2.5.1.post103`.
    """
    releases = [_RELEASE.match(version) for version in (printed, recorded)]
    if releases[0] is None or releases[1] is None:
        return True
    first, second = (_numbers(release[1]) for release in releases if release)
    return first == second


def _fields(content: bytes) -> dict[str, str]:
    """Name and version at the head of a record, the first of each.

    Not by a parser of messages, such as `packaging.metadata.parse_email`: its recursion ends at some 1000 messages in
    each other, which take 50 kB.
    """
    found: dict[str, str] = {}
    for line in content.decode(errors="replace").splitlines():
        if not line.strip():
            break
        if match := _FIELD.fullmatch(line):
            found.setdefault(match[1].lower(), match[2].strip())
    return found


def _numbers(release: str) -> list[str]:
    numbers = [number.lstrip("0") for number in release.split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()
    return numbers


def _beside(file: str, version: str) -> Iterator[str]:
    """Where the record of a package is that was imported from a file, when it has the version that it printed."""
    path = PurePosixPath(file)
    if path.name != "__init__.py" or "/" in version:
        return
    site = path.parent.parent
    for named in dict.fromkeys((version, version.partition("+")[0])):
        yield from (f"{site}/torch-{named}.dist-info", f"{site}/torch-{named}.egg-info")
