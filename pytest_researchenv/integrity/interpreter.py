"""Whether the reported interpreter is a Python, and its standard library what was installed."""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from functools import cached_property
from typing import final

from pytest_researchenv.integrity.bytecode import is_cached, is_unchecked
from pytest_researchenv.integrity.conda import conda_sums, is_conda
from pytest_researchenv.integrity.copies import Copy, copy_of
from pytest_researchenv.integrity.elf import read_elf
from pytest_researchenv.integrity.genuine import doubt, launches
from pytest_researchenv.integrity.layout import Layout, NoLayout, layout_of
from pytest_researchenv.integrity.libraryfiles import MODULES, compared, goes_before, is_python, is_site
from pytest_researchenv.integrity.loader import found_at
from pytest_researchenv.integrity.packages import Judged, Packages, Standing, entries_at
from pytest_researchenv.integrity.pickles import runs_code
from pytest_researchenv.integrity.protocol import Entry, Kind, Signs, Snapshot, at_most
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.integrity.raw import file_of
from pytest_researchenv.integrity.released import differences, release_of
from pytest_researchenv.integrity.releases import StandardLibraries
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["interpreter"]

#: Findings of a standard library that are listed.
_LISTED = 20
#: Files of bytecode in one folder that are blanked one by one; of more the whole folder is.
_FEW = 20
#: Links in a standard library that are followed; the system's has one.
_MOST_LINKS = 200

_DIFFERS = "its content differs"


def interpreter(task: ProbeTask, snapshot: Snapshot, libraries: StandardLibraries | None = None) -> Signs:
    """Look at the reported interpreter, and at all that it is made of.

    Args:
        task: what is audited.
        snapshot: its image.
        libraries: whom to ask of a standard library that nobody owns; None: nobody.

    Raises:
        SandboxError: the engine refuses to read.
    """
    layout = layout_of(task, snapshot)
    if isinstance(layout, NoLayout):
        if not layout.forged or task.environment.report is None:
            return Signs()
        path = printable(task.environment.report.python_path or "")
        finding = Finding(Sign.INTERPRETER, path, "a Python interpreter, or a link to one", layout.reason)
        return Signs((finding,), interpreter=layout.reason)
    return _Look(task, snapshot, layout, libraries).signs()


class _Source(Enum):
    """Who has a standard library."""

    SYSTEM = auto()
    CONDA = auto()
    #: Nobody, but it was copied from one that somebody has.
    COPY = auto()
    UNKNOWN = auto()


@final
@dataclass
class _Look:
    """One look at an interpreter."""

    task: ProbeTask
    snapshot: Snapshot
    layout: Layout
    libraries: StandardLibraries | None
    findings: list[Finding] = field(default_factory=list)
    blanked: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def signs(self) -> Signs:
        """What was seen."""
        unread = [Finding(Sign.UNREADABLE, "sys.path", "few files that say so", why) for why in self.layout.problems]
        for path in self.layout.overrides:
            self._found(
                path, "Python's own search for its modules", "a file that replaces it, or may be read in two ways"
            )
        self._program()
        self._standard_library()
        self._archive()
        why = "; ".join(f"{finding.field}: {finding.observed}" for finding in self.findings[:3])
        listed = at_most(_LISTED, self.findings, "what was installed")
        return Signs((*listed, *unread), self.blanked, interpreter=why, remarks=tuple(self.remarks))

    # --- the program ---

    def _program(self) -> None:
        judged = self._judged(self.layout.binary)
        if judged is None:
            return
        path, is_copy = judged.entry.path, False
        if (judged.claimed or judged.standing is Standing.UNOWNED) and (one := self._original(judged.entry)):
            judged, is_copy = one, True
        standard = self._owner_of_library()
        if judged.owner:
            self._found(path, f"the file of {judged.owner}", _DIFFERS)
        elif judged.claimed and (why := doubt(self.layout.elf)):
            self._found(path, f"the Python of the package {judged.claimed[0]}", why)
        elif judged.standing is Standing.GENUINE and (not judged.claimed or self._is_systems(path, standard)):
            self._library(path, is_packaged=True)
            if standard not in (_Source.SYSTEM, _Source.COPY):
                self._found(
                    self.layout.base_prefix, "the standard library of the system's Python", "one that no package owns"
                )
        elif self._is_conda(judged.entry):
            self._library(path, is_packaged=True)
        elif why := doubt(self.layout.elf):
            self._found(path, "a Python interpreter", why)
        elif standard is not _Source.UNKNOWN and not is_copy:
            wanted = f"the interpreter of the standard library in {self.layout.base_prefix}"
            self._found(path, wanted, "a program that no package owns")
        else:
            self._library(path, is_packaged=False)
            self.remarks.append(f"{printable(path)} is a Python, and no package owns it to compare it with")

    def _is_systems(self, path: str, standard: _Source) -> bool:
        """Whether a program that a package came with lies where Debian has it, for the library that it has."""
        return standard is _Source.SYSTEM and path == f"/usr/bin/python{self.layout.version}"

    def _original(self, entry: Entry) -> Judged | None:
        """The interpreter of which this one is a copy, as `venv --copies` makes them."""
        names = (f"python{self.layout.version}", "python3", "python")
        # The system's is the system's, wherever it was copied to, and with whatever else.
        for path in (f"{folder}/bin/{name}" for folder in (self.layout.base_prefix, "/usr") for name in names):
            before, original = self.snapshot.base(path), self.snapshot.entry(path)
            if before is not None and before.sha256 == entry.sha256 != "":
                return Judged(before, Standing.GENUINE)
            if original is not None and original.path != entry.path and original.sha256 == entry.sha256 != "":
                return self._judged(original.path)
        return None

    def _owner_of_library(self) -> _Source:
        """Who has the standard library."""
        top = self.snapshot.resolved(self.layout.stdlib[0]) if self.layout.stdlib else ""
        judged = self._judged(f"{top}/os.py")
        is_owned = judged is not None and judged.standing is not Standing.UNOWNED
        # What only records of the agent's time vouch for is compared as nobody's, but where Debian has its own.
        if judged is not None and is_owned and (not judged.claimed or top == f"/usr/lib/python{self.layout.version}"):
            return _Source.SYSTEM
        if is_conda(self.snapshot, self.snapshot.resolved(self.layout.base_prefix)):
            return _Source.CONDA
        return _Source.COPY if self._copy is not None else _Source.UNKNOWN

    def _is_conda(self, entry: Entry) -> bool:
        prefix = posixpath.dirname(posixpath.dirname(entry.path))
        if not is_conda(self.snapshot, prefix):
            return False
        listed = conda_sums(self.snapshot, prefix, is_python).get(entry.path)
        if listed is not None and listed != entry.sha256:
            self._found(entry.path, "the file of conda's package", _DIFFERS)
        return listed is not None

    def _library(self, path: str, *, is_packaged: bool) -> None:
        """Look at the libpython that a program starts, when it has not all of Python in itself.

        Args:
            path: the program.
            is_packaged: whether a package has the program, and so the library.
        """
        name = launches(self.layout.elf)
        if not name:
            return
        found = found_at(self.snapshot, path, self.layout.elf, name)
        if found is None:
            self._found(path, f"the {name} that it starts", "it is nowhere")
            return
        judged = self._judged(found.path)
        is_genuine = judged is not None and judged.standing is Standing.GENUINE
        if (judged is not None and is_genuine and not judged.claimed) or self._is_conda(found):
            return
        owner = judged.owner if judged else ""
        if owner or (is_packaged and not is_genuine):
            self._found(found.path, f"the {name} of {owner or 'the package that has the interpreter'}", _DIFFERS)
            return
        with file_of(self.task, found) as file:
            library = read_elf(file) if file else None
        if why := "it is no library" if library is None else doubt(library):
            self._found(found.path, "Python's own library", why)

    # --- the standard library ---

    def _standard_library(self) -> None:
        if not self.layout.stdlib:
            return
        top, present = self._touched
        match self._owner_of_library():
            case _Source.SYSTEM:
                self._packaged(present, top)
                self._unchecked(present)
            case _Source.CONDA:
                prefix = self.snapshot.resolved(self.layout.base_prefix)
                self._recorded(present, top, conda_sums(self.snapshot, prefix, is_python))
            case _Source.COPY:
                self._copied(top)
            case _Source.UNKNOWN:
                self._released(present, top)
        self._pickled(present)
        self._bytecode(present)

    @cached_property
    def _touched(self) -> tuple[str, list[str]]:
        """The standard library's folder, and what the agent's layer has in it; without site folders."""
        top = self.snapshot.resolved(self.layout.stdlib[0]) if self.layout.stdlib else ""
        touched = self.snapshot.touched(top) if top else {}
        return top, [path for path, kind in touched.items() if kind != "D" and not is_site(path, top)]

    @cached_property
    def _copy(self) -> Copy | None:
        top, present = self._touched
        return copy_of(self.task, self.snapshot, top, compared(present, top))

    def _copied(self, top: str) -> None:
        """Accuse what is not as it was copied."""
        if self._copy is None:
            return
        original = printable(self._copy.original)
        for name in self._copy.differing:
            self._found(f"{top}/{name}", f"a copy of the file in {original}", _DIFFERS)
        for name in self._copy.strange:
            if name.endswith(MODULES):
                self._found(f"{top}/{name}", f"a copy of {original}", "a module that is not there")

    def _released(self, present: Collection[str], top: str) -> None:
        """Compare a standard library with that of the release which the interpreter says it is."""
        version = self._release()
        library = self.libraries.of(version) if self.libraries is not None and version else Unknown("")
        shown = printable(self.layout.stdlib[0])
        if isinstance(library, Unknown):
            why = f": {library.reason}" if library.reason else ""
            self.remarks.append(f"the standard library {shown} has no record to compare it with{why}")
            return
        for difference in differences(self.snapshot, top, compared(present, top), library):
            if difference.patched:
                self.remarks.append(
                    f"{printable(difference.path)} differs from CPython {version}, as builders change it"
                )
            else:
                self._found(difference.path, f"{difference.released} {version}", difference.observed)

    def _release(self) -> str:
        """The release of CPython that the program holds, or the library that it starts."""
        entry, minor = self.snapshot.entry(self.layout.binary), int(self.layout.version.partition(".")[2])
        if entry is not None and (name := launches(self.layout.elf)):
            entry = found_at(self.snapshot, entry.path, self.layout.elf, name)
        if entry is None:
            return ""
        with file_of(self.task, entry) as file:
            return release_of(file, minor) if file else ""

    def _packaged(self, present: Collection[str], top: str) -> None:
        """Compare a standard library with the base image's, or with what dpkg recorded."""
        own = compared(present, top)
        files, links = [], 0
        for entry in entries_at(self.snapshot, own):
            if entry.kind is Kind.FILE:
                files.append(entry.path)
            elif entry.kind is Kind.LINK:
                links += 1
                if links > _MOST_LINKS or not self._is_same_link(entry.path):
                    self._found(entry.path, "the file that was installed", f"a link to {entry.link}")
        for judged in Packages(self.task, self.snapshot).judged(files):
            path = judged.entry.path
            if judged.owner:
                self._found(path, f"the file of {judged.owner}", _DIFFERS)
            elif judged.standing is Standing.UNOWNED and path.endswith(MODULES):
                self._found(path, "modules of the standard library", "a module that no package owns")
            elif judged.claimed and goes_before(self.snapshot, path):
                whose = f"a module of the package {judged.claimed[0]}"
                self._found(path, "the module of its name", f"{whose}, which Python prefers")

    def _is_same_link(self, path: str) -> bool:
        """Whether a link leads to what the base image has there."""
        before, entry = self.snapshot.base(path), self.snapshot.entry(path)
        if before is None:
            return not path.endswith(MODULES) and not (entry is not None and entry.is_folder)
        return entry is not None and before.kind is entry.kind is Kind.FILE and before.sha256 == entry.sha256

    def _recorded(self, present: Collection[str], top: str, listed: Mapping[str, str]) -> None:
        """Compare a standard library with what conda recorded."""
        own = compared(present, top)
        for entry in entries_at(self.snapshot, own):
            path = entry.path
            if entry.kind is Kind.LINK and not self.snapshot.resolved(path).startswith(f"{top}/"):
                self._found(path, "the file of conda's package", f"a link to {entry.link}")
            elif entry.kind is not Kind.FILE:
                continue
            elif path not in listed:
                if path.endswith(MODULES):
                    self._found(path, "modules of the standard library", "a module that conda's package does not have")
            elif entry.sha256 != listed[path]:
                self._found(path, "the file of conda's package", _DIFFERS)

    def _unchecked(self, present: Collection[str]) -> None:
        """Bytecode of the system's standard library that no longer depends on its source."""
        for entry in entries_at(self.snapshot, {path for path in present if is_cached(path)}):
            if is_unchecked(entry):
                self._found(entry.path, "bytecode that Python compares with its source", "bytecode that it just runs")

    def _pickled(self, present: Collection[str]) -> None:
        """Tables that Python itself leaves, and loads again; loading runs what they say."""
        for entry in entries_at(self.snapshot, {path for path in present if path.endswith(".pickle")}):
            if entry.kind is not Kind.FILE or entry.content is None or runs_code(entry.content):
                self._found(entry.path, "a table that Python made", "a pickle that runs code, or no file")

    def _bytecode(self, present: Collection[str]) -> None:
        """Take bytecode that nobody vouches for out of the probe's world.

        Python trusts it on the time and size of its source, or on nothing at all, so that it may be anything's. It is
        no sign against anybody: Python itself leaves some. To compile what torch takes of the standard library costs
        0.4 s of 1.5 s for its import.
        """
        folders: dict[str, list[str]] = {}
        for path in present:
            if is_cached(path) and "\ufffd" not in path:
                folders.setdefault(posixpath.dirname(path), []).append(path)
        for folder, paths in folders.items():
            self.blanked |= dict.fromkeys(paths if len(paths) <= _FEW else [folder], "")

    def _archive(self) -> None:
        """Where Python looks first, and where no installation for Linux has anything."""
        path = self.layout.archive
        entry, before = self.snapshot.entry(path), self.snapshot.base(path)
        if entry is not None and (before is None or before.kind is not entry.kind or before.sha256 != entry.sha256):
            self._found(path, "nothing", f"a {entry.kind} in which Python looks before all else")

    # --- what is made of it ---

    def _judged(self, path: str) -> Judged | None:
        return next(Packages(self.task, self.snapshot).judged([path]), None)

    def _found(self, path: str, claimed: str, observed: str) -> None:
        self.findings.append(Finding(Sign.INTERPRETER, printable(path), claimed, printable(observed)))
