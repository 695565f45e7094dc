"""Whether files are as the base image or a package of the system has them: what dpkg recorded, read from outside.

The agent could rewrite dpkg's records. So a package whose version is the base image's is judged by the base image's
records, whatever other packages claim, and a file that is the base image's is not judged at all. Of a package that was
installed or upgraded, dpkg's records in the snapshot are all there is here: `upgrades` asks its archive.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import final
from weakref import WeakKeyDictionary

from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot
from pytest_researchenv.integrity.raw import md5_of, md5_sums
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = [
    "Judged",
    "Packages",
    "Standing",
    "entries_at",
    "installed_packages",
    "merged_folders",
    "native_architecture",
]

_INFO = "/var/lib/dpkg/info"
_STATUS = "/var/lib/dpkg/status"
_SUMS = ".md5sums"

#: Folders at the root that are links where /usr is merged.
_MERGED = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")

#: Files that are read one by one; of more the whole folder is read at once.
_FEW = 40
#: Most lines of records that are read; a system with everything has some 500,000.
_MOST_LINES = 2_000_000
#: Parts of the folders that are read at once, as in `/usr/lib/x86_64-linux-gnu`.
_DEPTH = 4
#: Such folders, and files that are read alone: of more, larger folders are read.
_MOST_FOLDERS, _MOST_SINGLE = 100, 1000

_STDLIB = re.compile(r"(.*/lib/python3\.\d+t?/[^/]+)/.*|.*/lib/python3\.\d+t?/[^/]+", re.DOTALL)
_LINE = re.compile(r"([0-9a-f]{32}) [ *](.+)")
_FIELD = re.compile(r"^(Package|Version|Architecture|Status): (.*)$", re.MULTILINE)


class Standing(StrEnum):
    """What is known of a file."""

    #: It is as the base image or its package has it.
    GENUINE = "genuine"
    #: A package has another file at its place.
    CHANGED = "changed"
    #: The base image has another file at its place, which no package claims.
    REPLACED = "replaced"
    #: Nobody's: neither the base image nor a package has a file there.
    UNOWNED = "unowned"


@dataclass(frozen=True, slots=True)
class Judged:
    """What is known of one regular file.

    Attributes:
        entry: the file, as it is, without content.
        standing: what is known.
        owner: who has another file there, in words; empty when nobody does.
        claimed: of a genuine one, the packages that say so, where the base image has none of them as it is: an agent
            may have made them. By the names that dpkg's records have.
    """

    entry: Entry
    standing: Standing
    owner: str = ""
    claimed: tuple[str, ...] = ()


class _Trust(IntEnum):
    """Whose word counts; that of lower ones only where nobody above says anything."""

    #: The base image's, of a package that it has and that was removed since.
    REMOVED = 0
    #: The snapshot's.
    CLAIMED = 1
    #: The base image's, of a package that was not upgraded since.
    VOUCHED = 2


@dataclass(frozen=True, slots=True)
class _Owner:
    package: str
    md5: str
    trust: _Trust


def entries_at(snapshot: Snapshot, paths: Collection[str]) -> Iterator[Entry]:
    """What is at paths, links at their ends not followed, with content; nothing of those at which nothing is.

    Args:
        snapshot: the image.
        paths: absolute, without links on the way.
    """
    wanted = frozenset(paths)
    folders, single = _grouped(wanted) if len(wanted) > _FEW else ((), wanted)
    for folder in folders:
        yield from (entry for entry in snapshot.tree(folder, wanted.__contains__) if entry.path in wanted)
    yield from (entry for path in single if (entry := snapshot.link(path)) is not None)


def _grouped(paths: Collection[str]) -> tuple[Collection[str], Collection[str]]:
    """Folders that are read at once, none in another, and the paths that are read alone."""
    places = {path: _folder(path) for path in paths}
    folders = set(places.values()) - {""}
    single = [path for path, folder in places.items() if not folder]
    if len(folders) > _MOST_FOLDERS or len(single) > _MOST_SINGLE:
        folders, single = (
            {"/".join(path.split("/")[: _DEPTH - 1]) for path in paths if path.count("/") >= _DEPTH - 1},
            [],
        )
        if len(folders) > _MOST_FOLDERS or any(path.count("/") < _DEPTH - 1 for path in paths):
            folders = {"/"}
    return [folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders)], single


def _folder(path: str) -> str:
    """The folder in which a path is read with others; empty of what is read alone.

    Beside the folders of a standard library are site folders, of gigabytes.
    """
    if match := _STDLIB.fullmatch(path):
        return match[1] or ""
    return "/".join(path.split("/")[:_DEPTH]) if path.count("/") >= _DEPTH else posixpath.dirname(path)


@final
class Packages:
    """The system's packages.

    Args:
        task: what is audited.
        snapshot: its image.
    """

    def __init__(self, task: ProbeTask, snapshot: Snapshot) -> None:
        self._task = task
        self._snapshot = snapshot

    def judged(self, paths: Collection[str]) -> Iterator[Judged]:
        """What is known of regular files; nothing of paths at which there is none.

        Args:
            paths: absolute, without links on the way. A link at the end is no file.

        Raises:
            SandboxError: the engine refuses to read.
        """
        files: list[Entry] = []
        sums: dict[str, str] = {}
        for entry in entries_at(self._snapshot, paths):
            if entry.kind is Kind.FILE:
                files.append(replace(entry, content=None))
                if entry.content is not None:
                    sums[entry.path] = md5_of(entry.content)
        owners = _owners_of(self._snapshot) if files else {}
        known = _SEEN.setdefault(self._snapshot, {})
        wanted = [entry for entry in files if entry.path in owners and entry.path not in sums.keys() | known.keys()]
        known |= md5_sums(self._task, wanted)
        sums = {**known, **sums}
        unlike = []
        for entry in files:
            same = [owner for owner in owners.get(entry.path, ()) if owner.md5 == sums.get(entry.path)]
            if same:
                vouched = any(owner.trust is not _Trust.CLAIMED for owner in same)
                yield Judged(entry, Standing.GENUINE, claimed=() if vouched else tuple(one.package for one in same))
            else:
                unlike.append(entry)
        # The base image is asked last, and only of what it can have: each question is one to the engine.
        added = self._added(unlike) if len(unlike) > _FEW else frozenset()
        for entry in unlike:
            before = None if entry.path in added else self._snapshot.base(entry.path)
            yield self._compared(entry, owners.get(entry.path, []), before)

    def _added(self, entries: list[Entry]) -> frozenset[str]:
        """Which of some files the agent added."""
        folders = sorted({posixpath.dirname(entry.path) for entry in entries})
        if len(folders) > _MOST_FOLDERS:
            folders = sorted({"/".join(folder.split("/")[: _DEPTH - 1]) for folder in folders})[:_MOST_FOLDERS]
        return frozenset(path for path, kind in self._snapshot.touched(*folders).items() if kind == "A")

    def _compared(self, entry: Entry, owners: list[_Owner], before: Entry | None) -> Judged:
        if before is not None and before.sha256 == entry.sha256 != "":
            return Judged(entry, Standing.GENUINE)
        if owners:
            names = ", ".join(sorted({printable(owner.package.partition(":")[0], 60) for owner in owners})[:3])
            return Judged(entry, Standing.CHANGED, f"the package {names}")
        if before is not None and before.kind is Kind.FILE:
            return Judged(entry, Standing.REPLACED, "the base image")
        return Judged(entry, Standing.UNOWNED)


#: MD5 sums of what is not kept, by path: more than one check asks for them.
_SEEN: WeakKeyDictionary[Snapshot, dict[str, str]] = WeakKeyDictionary()
_KNOWN: WeakKeyDictionary[Snapshot, dict[str, list[_Owner]]] = WeakKeyDictionary()


def _owners_of(snapshot: Snapshot) -> dict[str, list[_Owner]]:
    """Who says what is at a path, of all paths; read once for a snapshot."""
    found = _KNOWN.get(snapshot)
    if found is None:
        found = _KNOWN[snapshot] = _read_owners(snapshot)
    return found


def _read_owners(snapshot: Snapshot) -> dict[str, list[_Owner]]:
    merged = merged_folders(snapshot)
    found: dict[str, list[_Owner]] = {}
    lines = 0
    for package, sums, trust in _records(snapshot):
        for path, md5 in _sums(sums, merged):
            lines += 1
            if lines > _MOST_LINES:
                return found
            owners = found.setdefault(path, [])
            # Where the base image knows the owner, nobody else can say that he put the file there.
            if not owners or owners[0].trust is trust:
                owners.append(_Owner(package, md5, trust))
    return found


def _records(snapshot: Snapshot) -> Iterator[tuple[str, Entry, _Trust]]:
    """Each package with what is said of its files, and by whom; those first whose word counts."""
    versions, before = _versions(snapshot.entry(_STATUS)), _versions(snapshot.base(_STATUS))
    touched, seen = snapshot.touched(_INFO), set()
    claimed = []
    for entry in snapshot.tree(_INFO, lambda path: path.endswith(_SUMS)):
        package = posixpath.basename(entry.path).removesuffix(_SUMS)
        if not entry.path.endswith(_SUMS) or package not in versions:
            continue
        seen.add(package.partition(":")[0])
        known = None
        if versions[package] == before.get(package):
            known = snapshot.base(entry.path) if entry.path in touched else entry
        if known is None:
            claimed.append(entry.path)
        else:
            yield package, known, _Trust.VOUCHED
    absent = {name: version for name, version in before.items() if name.partition(":")[0] not in seen}
    # Packages that are installed, as far as that is known, and whose records were taken away.
    stripped = {name for name, version in absent.items() if versions.get(name) == version}
    yield from _base_records(snapshot, stripped, _Trust.VOUCHED)
    for path in claimed:
        if (sums := snapshot.entry(path)) is not None:
            yield posixpath.basename(path).removesuffix(_SUMS), sums, _Trust.CLAIMED
    # An upgrade removes what the package no longer has, so that nobody else may have it there.
    names = {posixpath.basename(path).removesuffix(_SUMS).partition(":")[0] for path in claimed}
    upgraded = {name for name in before if name.partition(":")[0] in names}
    yield from _base_records(snapshot, (absent.keys() - stripped) | upgraded, _Trust.REMOVED)


def _base_records(snapshot: Snapshot, names: Collection[str], trust: _Trust) -> Iterator[tuple[str, Entry, _Trust]]:
    for package in sorted(names):
        if (sums := snapshot.base(f"{_INFO}/{package}{_SUMS}")) is not None:
            yield package, sums, trust


def _sums(entry: Entry, merged: dict[str, str]) -> Iterator[tuple[str, str]]:
    for line in (entry.content or b"").decode(errors="surrogateescape").split("\n"):
        if match := _LINE.fullmatch(line):
            first, _, rest = match[2].removeprefix("./").partition("/")
            yield f"{merged.get(first, f'/{first}')}/{rest}", match[1]


def _versions(status: Entry | None) -> dict[str, str]:
    """Versions of what is installed, by the names that dpkg's records may have."""
    return {name: version for name, (version, _) in _installed(status).items()}


def _installed(status: Entry | None) -> dict[str, tuple[str, str]]:
    """The version and architecture of each package that is installed, by the names that dpkg's records may have."""
    found = {}
    for paragraph in (status.text if status else "").split("\n\n"):
        fields = dict(_FIELD.findall(paragraph))
        if fields.get("Status", "").endswith(" installed") and "Package" in fields:
            known = fields.get("Version", ""), fields.get("Architecture", "")
            found[fields["Package"]] = found[f"{fields['Package']}:{known[1]}"] = known
    return found


def native_architecture(snapshot: Snapshot) -> str:
    """The architecture of the base image: that of its dpkg; empty where it has none."""
    return _installed(snapshot.base(_STATUS)).get("dpkg", ("", ""))[1]


def installed_packages(snapshot: Snapshot) -> dict[str, tuple[str, str]]:
    """The version and architecture that dpkg in a snapshot has for each package, by the names of its records."""
    return _installed(snapshot.entry(_STATUS))


def merged_folders(snapshot: Snapshot) -> dict[str, str]:
    """Folders at the root of the base image, by name, and where they lead to: where /usr is merged, into it."""
    return {name: entry.path for name in _MERGED if (entry := snapshot.base(f"/{name}")) is not None}
