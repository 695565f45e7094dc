"""Programs that stand before the system's own on the path of probes, and that nobody published."""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import islice
from typing import final

from pytest_researchenv.integrity.blanking import place_of, without_place
from pytest_researchenv.integrity.conda import conda_sums, has_condas_python
from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.packages import Packages, Standing
from pytest_researchenv.integrity.pathfolders import probe_folders, touched_in
from pytest_researchenv.integrity.protocol import Entry, Kind, Signs, Snapshot
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python


__all__ = ["hiding"]

_ELF = b"\x7fELF"
#: Any of them may be called where the reported one is meant, whether the system has one by that name or not.
_PYTHON = re.compile(r"python[\d.]*t?")
#: What people take newer ones of than the system has, and have its names lead to.
_CHOSEN = re.compile(r"cmake|ctest|cpack|ninja|node|nodejs|npm|npx|clang[\w+-]*|java|javac|make")

#: Names that are looked up one by one; of more the system's folders are listed.
_FEW = 40
#: Programs that are judged; of the system's some dozen may be there once more.
_MOST = 200
#: Programs that a remark names.
_NAMED = 5


def hiding(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look for programs by the names of the system's compiled ones, and for other Pythons than the reported one.

    An agent may have built a later one, or cannot know better: nothing is held against it. But what a repository or a
    published package calls by its name while a probe runs is to be the system's, so such programs are empty files
    without the right to be run there, and whoever looks along `PATH` goes on.

    Args:
        task: what is audited.
        snapshot: its image.

    Raises:
        SandboxError: the engine refuses to read.
    """
    look = _Look(task, snapshot)
    passing = [folder for folder in look.folders if is_fleeting(snapshot, folder)]
    findings = [_unread(folder, "it leads somewhere only while a process runs") for folder in passing]
    blanked = {}
    paths = list(islice(look.nobodys(), _MOST + 1))
    if len(paths) > _MOST:
        findings.append(_unread(paths[-1], f"more than {_MOST} programs stand before the system's"))
    for path in paths[:_MOST]:
        if place := place_of(snapshot, path):
            blanked[place] = ""
        else:
            findings.append(without_place(path))
    return Signs(tuple(findings), blanked, remarks=_remarks(list(blanked)))


def _unread(path: str, why: str) -> Finding:
    return Finding(Sign.UNREADABLE, printable(path), "the system's programs are found on the path", why)


def _remarks(paths: list[str]) -> tuple[str, ...]:
    if not paths:
        return ()
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    named = ", ".join(map(printable, paths[:_NAMED]))
    return (f"not there for probes, since they are no package's and others go by their names: {named}{more}",)


@final
class _Look:
    """The programs on the path of probes.

    Args:
        task: what is audited.
        snapshot: its image.
    """

    def __init__(self, task: ProbeTask, snapshot: Snapshot) -> None:
        self.folders = probe_folders(task)
        self._snapshot = snapshot
        self._packages = Packages(task, snapshot)
        python = reported_python(task.environment)
        self._python = None if isinstance(python, Unreported) else snapshot.entry(python)
        self._touched = touched_in(snapshot, self.folders)

    def nobodys(self) -> Iterator[str]:
        """Paths of programs that nobody published, and that others are meant by."""
        named = Counter(map(posixpath.basename, self._touched))
        known = self._base_names() if len(named) > _FEW else named.keys()
        for path in self._touched:
            name = posixpath.basename(path)
            # One that the base image does not have may be a package's that was added.
            hidden = self._hidden(path, name) if name in known or named[name] > 1 else None
            if (hidden or _PYTHON.fullmatch(name)) and self._is_nobodys(path, hidden):
                yield path

    def _base_names(self) -> set[str]:
        """The names of what lies in the folders on the path in the base image."""
        entries = (entry for folder in self.folders for entry in self._snapshot.base_tree(folder))
        return {posixpath.basename(entry.path) for entry in entries}

    def _hidden(self, path: str, name: str) -> Entry | None:
        """A compiled program of the system that comes after a path, by the same name.

        That of the base image counts even where it is gone, but for what people replace by newer ones: without theirs,
        there would be none.
        """
        own = posixpath.dirname(path)
        places = [(folder, self._snapshot.resolved(folder)) for folder in self.folders]
        for folder, real in places[[real for _, real in places].index(own) :]:
            if real == own:
                continue
            before, other = self._snapshot.base(f"{folder}/{name}"), f"{real}/{name}"
            if _is_compiled(before) and not (_CHOSEN.fullmatch(name) and self._is_gone(path, other)):
                return before
            entry = self._snapshot.entry(other) if other in self._touched else None
            if entry is not None and _is_compiled(entry) and self._is_genuine(entry):
                return entry
        return None

    def _is_gone(self, path: str, other: str) -> bool:
        """Whether nothing is at another path, or the same as at this one."""
        return self._snapshot.resolved(other) in ("", self._snapshot.resolved(path))

    def _is_nobodys(self, path: str, hidden: Entry | None) -> bool:
        """Whether what can be run there is neither of a package nor one of the programs that it could be taken for."""
        entry = self._snapshot.entry(path)
        if entry is None or entry.kind is not Kind.FILE or not entry.size or not entry.mode & 0o111:
            return False
        same = {other.sha256 for other in (self._python, hidden) if other is not None} - {""}
        return entry.sha256 not in same and not self._is_genuine(entry) and not self._is_condas(entry)

    def _is_genuine(self, entry: Entry) -> bool:
        return any(one.standing is Standing.GENUINE for one in self._packages.judged([entry.path]))

    def _is_condas(self, entry: Entry) -> bool:
        """Whether it is in the environment that conda made the reported interpreter for, and as conda says."""
        return entry.sha256 != "" and self._conda.get(entry.path) == entry.sha256

    @cached_property
    def _conda(self) -> Mapping[str, str]:
        python = self._python.path if self._python else ""
        prefix = posixpath.dirname(posixpath.dirname(python))
        is_condas = python and has_condas_python(self._snapshot, prefix, python)
        return conda_sums(self._snapshot, prefix) if is_condas else {}


def _is_compiled(entry: Entry | None) -> bool:
    return entry is not None and entry.kind is Kind.FILE and entry.head.startswith(_ELF) and bool(entry.mode & 0o111)
