"""Whether a standard library that nobody owns is a copy of the system's: then what differs in it was changed since."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from pytest_researchenv.integrity.packages import Packages, Standing, entries_at
from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["Copy", "copy_of"]

#: Where systems, and images of Python itself, have their standard libraries.
_PREFIXES = ("/usr", "/usr/local")

#: The part of its sources that a copy shares with its original at least.
_SHARE = 0.8
#: What only one build has: its settings, and what it compiled. Releases of one version share all but that.
_BUILD = re.compile(r"_sysconfigdata[\w-]*\.py|lib-dynload/.*\.so")
#: Debian's changes, by which its `site.py` and `sysconfig.py` are told from all others.
_PATCHED, _DEBIAN = ("site.py", "sysconfig.py"), b"dist-packages"

#: Files of an original that are asked of the base image one by one.
_MOST_ASKED = 2000


@dataclass(frozen=True, slots=True)
class Copy:
    """A standard library that was copied.

    Attributes:
        original: folder of the one that it was copied from.
        differing: files that differ from the original's, relative to the folder.
        strange: files that the original does not have.
    """

    original: str
    differing: tuple[str, ...]
    strange: tuple[str, ...]


def copy_of(task: ProbeTask, snapshot: Snapshot, top: str, files: Collection[str]) -> Copy | None:
    """Say of which genuine standard library another one is a copy; None when of none that is known.

    An original is what the base image, or a package of the system, has: what the agent changed in it is not looked at.

    Args:
        task: what is audited.
        snapshot: its image.
        top: folder of the standard library, named by Python's version, without links on the way.
        files: the files in it that are compared, absolute.

    Raises:
        SandboxError: the engine refuses to read.
    """
    originals = [f"{prefix}/lib/{posixpath.basename(top)}" for prefix in _PREFIXES]
    originals = [one for one in originals if one != top and _is_there(snapshot, f"{one}/os.py")]
    own = {entry.path.removeprefix(f"{top}/"): entry for entry in entries_at(snapshot, files)} if originals else {}
    for original in originals:
        genuine = dict(_genuine(task, snapshot, original, own))
        if _is_copy(own, genuine):
            differing = (name for name in own.keys() & genuine.keys() if _what(own[name]) != _what(genuine[name]))
            return Copy(original, tuple(sorted(differing)), tuple(sorted(own.keys() - genuine.keys())))
    return None


def _is_there(snapshot: Snapshot, path: str) -> bool:
    return snapshot.entry(path) is not None or snapshot.base(path) is not None


def _is_copy(own: Mapping[str, Entry], genuine: Mapping[str, Entry]) -> bool:
    shared = [name for name in own.keys() & genuine.keys() if name.endswith(".py")]
    same = {name for name in own.keys() & genuine.keys() if _what(own[name]) == _what(genuine[name])}
    if not shared or len(same.intersection(shared)) < _SHARE * len(shared):
        return False
    return any(_BUILD.fullmatch(name) or (name in _PATCHED and _DEBIAN in (own[name].content or b"")) for name in same)


def _what(entry: Entry) -> str:
    return entry.sha256 if entry.kind is Kind.FILE else f"{entry.kind} {entry.link}"


def _genuine(task: ProbeTask, snapshot: Snapshot, original: str, names: Collection[str]) -> Iterator[tuple[str, Entry]]:
    """What an original has of some names, without what the agent did to it."""
    paths = {f"{original}/{name}": name for name in names}
    touched = snapshot.touched(original)
    for entry in entries_at(snapshot, paths.keys() - touched.keys()):
        yield paths[entry.path], entry
    changed = paths.keys() & touched.keys()
    for judged in Packages(task, snapshot).judged(changed):
        if judged.standing is Standing.GENUINE:
            changed.discard(judged.entry.path)
            yield paths[judged.entry.path], judged.entry
    # What was added is nobody's.
    for path in sorted(path for path in changed if touched[path] != "A")[:_MOST_ASKED]:
        if (before := snapshot.base(path)) is not None:
            yield paths[path], before
