"""Whether packages that an agent upgraded or installed are what their archive has, as far as probes run them."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import final
from urllib.parse import urlsplit

from pytest_researchenv._apt import Source, sources_in
from pytest_researchenv.integrity.archives import Archive, Archives, Package, Unpublished
from pytest_researchenv.integrity.installed import is_code
from pytest_researchenv.integrity.outside import asked_for, fetched_code
from pytest_researchenv.integrity.packages import (
    Judged,
    Packages,
    Standing,
    installed_packages,
    merged_folders,
    native_architecture,
)
from pytest_researchenv.integrity.protocol import Entry, Kind, Signs, Snapshot, at_most
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.imports import scan_files
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["Claims", "upgrades"]

_LISTED = 20
#: Packages that archives are asked about: those first that probes run for sure. A desktop has some 2000.
_MOST_PACKAGES = 400
#: Repositories that are read of the frozen image's settings, which may name any number.
_MOST_SOURCES = 20

_FOLDERS = ("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/libexec")
_PYTHON = re.compile(r"/usr/lib/python3[^/]*/.*|/usr/bin/python3[^/]*", re.DOTALL)
_MODULE = re.compile(r"/usr/lib/python3[^/]*/dist-packages/(\w+)[./].*", re.DOTALL)
_STARTED = re.compile(r".*\.(?:pth|start)", re.DOTALL)
_LIBRARY = re.compile(r"/usr/lib(?:32|64|x32)?/.*\.so(?:\.[\d.]+)?", re.DOTALL)
#: Code of a package that nobody writes to satisfy an import, in bytes; as of distributions of Python's.
_LARGE_BYTES = 256 * 1024
#: Folders of libraries that the loader looks in before those above.
_BEFORE = "/glibc-hwcaps/"

_APT = "/etc/apt"
_KEYS = (f"{_APT}/trusted.gpg.d", f"{_APT}/keyrings", "/usr/share/keyrings")
#: A clock may be wrong by as much.
_SLACK = timedelta(minutes=10)


def upgrades(task: ProbeTask, snapshot: Snapshot, archives: Archives) -> Signs:
    """Look at what only records say that the agent could write: those of packages which the base image has not.

    Args:
        task: what is audited.
        snapshot: its image.
        archives: whom to ask.

    Raises:
        SandboxError: the engine refuses to read.
    """
    look = _Look(task, snapshot, archives)
    look.packages()
    listed = at_most(_LISTED, look.findings, "what was published")
    return Signs((*listed, *look.stubs), modules=look.modules, remarks=tuple(look.remarks))


@final
class Claims:
    """Tells whether a package that came later vouches for what it does not have, or is of nobody's.

    Args:
        task: what is audited.
        snapshot: its image.
        archives: whom to ask; None: nobody.
    """

    def __init__(self, task: ProbeTask, snapshot: Snapshot, archives: Archives | None) -> None:
        self._look = None if archives is None else _Look(task, snapshot, archives)

    def vouches(self, judged: Judged) -> bool:
        """Whether a file is as the base image or a package has it that somebody may have published.

        People build packages of their own, but for a module that is imported by its path, or for a library that a
        configuration names, such a package says no more than the file itself.

        Raises:
            SandboxError: the engine refuses to read.
        """
        if judged.standing is not Standing.GENUINE or not judged.claimed:
            return judged.standing is Standing.GENUINE
        look = self._look
        return look is None or any(look.may_have(name, judged) for name in judged.claimed)


@final
@dataclass
class _Look:
    """One look at packages."""

    task: ProbeTask
    snapshot: Snapshot
    archives: Archives
    findings: list[Finding] = field(default_factory=list)
    modules: dict[str, str] = field(default_factory=dict)
    remarks: dict[str, None] = field(default_factory=dict)

    def packages(self) -> None:
        """Ask for each package that vouches alone for a file which probes may run."""
        claims = self._claims()
        known = installed_packages(self.snapshot) if claims else {}
        for count, (name, files) in enumerate(sorted(claims.items(), key=lambda item: self._rank(item[1]))):
            if count == _MOST_PACKAGES:
                self.remarks[f"{len(claims) - count} packages are as their own records say: there are too many"] = None
                break
            package, found = self._asked(name, known)
            match found:
                case Unpublished() as said:
                    self._unpublished(package, files, said)
                case Unknown(reason):
                    self.remarks |= {f"{package} is as its own records say: {reason}": None} if reason else {}
                case published:
                    self._compare(package, files, published)

    def may_have(self, name: str, judged: Judged) -> bool:
        """Whether a package that somebody published may have a file."""
        _, found = self._asked(name, installed_packages(self.snapshot))
        match found:
            case Unpublished() as said:
                return bool(self._elsewhere(said))
            case Unknown():
                return fetched_code(self.task) is not False
            case published:
                return judged.entry.sha256 in {
                    digest for path, digest in published.items() if _merged(path, self._merged) == judged.entry.path
                }

    def _asked(
        self, name: str, known: Mapping[str, tuple[str, str]]
    ) -> tuple[Package, Mapping[str, str] | Unpublished | Unknown]:
        """What archives say of a package, by the name of its record."""
        package = Package(name.partition(":")[0], *known.get(name, ("", "")))
        return package, self.archives.of(self._archive, package)

    # --- which ---

    def _claims(self) -> dict[str, list[Judged]]:
        """Package → the files that it alone vouches for."""
        places = sorted({self.snapshot.resolved(folder) or folder for folder in _FOLDERS})
        touched = self.snapshot.touched(*places)
        paths = [path for path, kind in touched.items() if kind != "D" and self._matters(path, kind)]
        found: dict[str, list[Judged]] = {}
        for judged in Packages(self.task, self.snapshot).judged(paths):
            if judged.standing is Standing.GENUINE:
                for name in judged.claimed:
                    found.setdefault(name, []).append(judged)
        return found

    def _matters(self, path: str, kind: str) -> bool:
        if "/__pycache__/" in path:
            return False
        if _PYTHON.fullmatch(path):
            return kind != "A" or is_code(path) or _STARTED.fullmatch(path) is not None or "/bin/" in path
        return kind != "A" or _LIBRARY.fullmatch(path) is not None

    def _rank(self, files: list[Judged]) -> int:
        """Those first in the place of something that the base image has, then Python's, then all other libraries."""
        if any(map(self._replaces, files)):
            return 0
        return 1 if any(_PYTHON.fullmatch(judged.entry.path) for judged in files) else 2

    def _replaces(self, judged: Judged) -> bool:
        """Whether a file is in the place of one that the base image has, or goes before it."""
        path = judged.entry.path
        if _BEFORE in path:
            folder = path.partition(_BEFORE)[0]
            return self.snapshot.base(f"{folder}/{posixpath.basename(path)}") is not None
        return self.snapshot.base(path) is not None

    # --- what is said of them ---

    def _compare(self, package: Package, files: list[Judged], published: Mapping[str, str]) -> None:
        merged = self._merged
        named = {_merged(path, merged): digest for path, digest in published.items()}
        for judged in files:
            path = judged.entry.path
            if path not in named:
                self._found(path, f"what the published {package} has", "a file that it does not have")
            elif named[path] != judged.entry.sha256:
                self._found(path, f"the file of the published {package}", "its content differs")

    def _unpublished(self, package: Package, files: list[Judged], said: Unpublished) -> None:
        if names := self._stands_in(files, said):
            self.modules |= dict.fromkeys(names, f"the package {package}: {said.reason}")
        elif why := self._excuse(files, said):
            self.remarks[f"{package} is as its own records say: {why}"] = None
        else:
            self._found(f"the package {package}", "a package that somebody publishes", said.reason)

    @property
    def stubs(self) -> tuple[Finding, ...]:
        """What is imported, and is of packages that nobody has."""
        should = "a package that somebody publishes"
        return tuple(
            Finding(Sign.STUB, name, should, printable(why, 500)) for name, why in sorted(self.modules.items())
        )

    def _stands_in(self, files: list[Judged], said: Unpublished) -> frozenset[str]:
        """Modules that the repository imports, of a small package by a name that nobody has."""
        small = sum(judged.entry.size for judged in files) < _LARGE_BYTES
        if said.known or not small or any(map(self._is_plausible, self._others)):
            return frozenset()
        found = (_MODULE.fullmatch(judged.entry.path) for judged in files)
        return self._imported & {match[1] for match in found if match}

    @cached_property
    def _imported(self) -> frozenset[str]:
        names = scan_files(self.task.tree.root, self.task.tree.own).names
        return frozenset(names) - frozenset(self.task.repository.imports.unsatisfiable)

    def _excuse(self, files: list[Judged], said: Unpublished) -> str:
        """Why an honest environment may have a package that no known repository has; empty where it hardly does."""
        if not said.known and not any(map(self._replaces, files)):
            # People build packages, and fetch some that their authors publish elsewhere.
            return said.reason
        return self._elsewhere(said)

    def _elsewhere(self, said: Unpublished) -> str:
        """From where a package may have come that no known repository has; empty where it hardly came from there."""
        if other := next((source for source in self._others if self._is_plausible(source)), None):
            return f"{printable(other.uri, 200)}, which cannot be asked, may have it"
        if said.later and (said.since is None or said.since > _made(self.task) - _SLACK):
            return f"a later one may have taken its place; {said.reason}"
        return ""

    def _is_plausible(self, source: Source) -> bool:
        """Whether packages may have come from another repository than those that are known."""
        try:
            parts = urlsplit(source.uri)
        except ValueError:
            return False
        # Without a record of what was asked for, that can only be believed.
        return parts.scheme in ("http", "https") and asked_for(self.task, parts.hostname or "") is not False

    def _found(self, path: str, claimed: str, observed: str) -> None:
        self.findings.append(Finding(Sign.SYSTEM, printable(path), printable(claimed), printable(observed, 500)))

    # --- repositories ---

    @cached_property
    def _merged(self) -> Mapping[str, str]:
        return merged_folders(self.snapshot)

    @cached_property
    def _known(self) -> tuple[Source, ...]:
        """The base image's repositories."""
        entries = (self.snapshot.base(f"{_APT}/sources.list"), *self.snapshot.base_tree(f"{_APT}/sources.list.d", _any))
        return tuple(dict.fromkeys(_sources(filter(None, entries))))

    @cached_property
    def _said(self) -> tuple[Source, ...]:
        """The frozen image's repositories."""
        entries = (self.snapshot.entry(f"{_APT}/sources.list"), *self.snapshot.tree(f"{_APT}/sources.list.d", _any))
        return tuple(dict.fromkeys(_sources(filter(None, entries))))[:_MOST_SOURCES]

    @cached_property
    def _others(self) -> tuple[Source, ...]:
        """The repositories that the agent added, on other hosts or in other folders than the known ones."""
        known = {source.uri.rstrip("/") for source in self._known}
        return tuple(source for source in self._said if source.uri.rstrip("/") not in known)

    @cached_property
    def _keys(self) -> tuple[bytes, ...]:
        entries = [self.snapshot.base(f"{_APT}/trusted.gpg")]
        entries += [entry for folder in _KEYS for entry in self.snapshot.base_tree(folder, _any)]
        return tuple(dict.fromkeys(entry.content for entry in entries if entry is not None and entry.content))

    @cached_property
    def _archive(self) -> Archive:
        """Where packages are looked for: what an agent chose of the known repositories is still theirs."""
        known = {source.uri.rstrip("/") for source in self._known}
        chosen = (source for source in self._said if source.uri.rstrip("/") in known and source not in self._known)
        return Archive(self._known, self._keys, native_architecture(self.snapshot), tuple(chosen))


def _any(_: str) -> bool:
    return True


def _sources(entries: Iterator[Entry]) -> Iterator[Source]:
    for entry in entries:
        if entry.kind is Kind.FILE and entry.path.endswith((".list", ".sources")):
            yield from sources_in(entry.text, deb822=entry.path.endswith(".sources"))


def _merged(path: str, merged: Mapping[str, str]) -> str:
    """A path as it is in the image, where folders at its root may be links."""
    first, _, rest = path.removeprefix("/").partition("/")
    return f"{merged.get(first, f'/{first}')}/{rest}"


def _made(task: ProbeTask) -> datetime:
    try:
        made = datetime.fromisoformat(task.environment.created)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC) + _SLACK
    return made if made.tzinfo else made.replace(tzinfo=UTC)
