"""Whether the system's programs and libraries are those that its packages installed."""

from __future__ import annotations

import io
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import final

from pytest_researchenv.integrity.conda import conda_sums, has_condas_python, is_conda
from pytest_researchenv.integrity.elf import read_elf
from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.layout import Layout, NoLayout, layout_of
from pytest_researchenv.integrity.loader import CACHE, DEFAULTS, cached, found_at
from pytest_researchenv.integrity.newer import is_built_anew, newer_doubt
from pytest_researchenv.integrity.packages import Judged, Packages, Standing, entries_at
from pytest_researchenv.integrity.protocol import Entry, Kind, Signs, Snapshot, at_most
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["system"]

#: Findings that are listed, and libraries of the interpreter that are looked for.
_LISTED, _MOST_NEEDED = 20, 50
#: Links in the place of the system's files, and libraries of the names that matter, that are followed.
_MOST_FOLLOWED = 500
#: Compiled modules of a standard library; the system's has some 50.
_MOST_EXTENSIONS = 300

#: Folders of programs and libraries. Where /usr is merged, those at the root are links.
_FOLDERS = (
    *("/usr/bin", "/usr/sbin", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/libx32", "/usr/libexec"),
    *("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"),
)
_ALTERNATIVES = "/etc/alternatives"
#: Folders that lead to the others, or to what is known of them.
_ABOVE = ("/usr", "/etc", "/var", "/var/lib", "/var/lib/dpkg", "/var/lib/dpkg/info")

#: What other checks look at, what programs rewrite themselves, and what package managers of languages upgrade.
_APART = re.compile(
    r"/usr/lib/python[23][^/]*/.*|.*/__pycache__/.*|.*(?<!/gconv-modules)\.cache|/usr/lib/locale/locale-archive|.*/node_modules/.*"
    r"|/usr/lib/R/library/.*",
    re.DOTALL,
)
#: Of files that are new, those that programs run or load.
_LOADED = re.compile(r"(?:/usr)?/s?bin/[^/]*|.*\.so(?:\.[\d.]+)?|.*/(?:gconv|glibc-hwcaps)/.*", re.DOTALL)
#: Links that people set to another version, or to an environment's program; `shadows` looks at those that matter.
_CHOSEN = re.compile(
    r"(?:/usr/bin|/bin|/etc/alternatives)/(?:python[\d.]*|pip[\d.]*|python3?-config|cmake|ctest|cpack|ninja|node|nodejs|npm|npx|clang[\w+-]*|ld|"
    r"editor|vi|vim|pager|awk|which|java|javac|nvcc|make)"
)

#: What every program loads; other libraries may be built anew by whoever needs a newer one.
_CORE = frozenset(
    (
        *("libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1"),
        *("ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1", "libgcc_s.so.1", "libstdc++.so.6"),
        # What Python's own compiled modules load everywhere.
        *("libffi.so.6", "libffi.so.7", "libffi.so.8", "liblzma.so.5", "libbz2.so.1.0", "libuuid.so.1"),
    )
)
#: What OpenSSL loads by its name alone.
_OPENSSL = re.compile(r".*/(?:engines-[\d.]+|ossl-modules)/[^/]*\.so", re.DOTALL)
#: What the C library itself loads to convert text, in every program that has a locale, and what it is told by.
_CONVERTING = re.compile(r"/usr/lib(?:\d+|x32)?/(?:[^/]*/)?gconv/.*", re.DOTALL)
_NAME_SERVICE = re.compile(r"libnss_.+\.so\.2", re.DOTALL)
_SERVICES = "/etc/nsswitch.conf"


def system(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look at the system's programs and libraries, and at what takes their place.

    Raises:
        SandboxError: the engine refuses to read.
    """
    look = _Look(task, snapshot)
    look.folders()
    look.files()
    look.libraries()
    look.services()
    return look.signs()


@final
@dataclass(slots=True)
class _Look:
    """One look at the system."""

    task: ProbeTask
    snapshot: Snapshot
    findings: list[Finding] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    conda: dict[str, dict[str, str]] = field(default_factory=dict)

    def signs(self) -> Signs:
        """What was seen."""
        listed = at_most(_LISTED, self.findings, "what was installed")
        return Signs(listed, interpreter=self._loaded(), remarks=tuple(self.remarks))

    def _loaded(self) -> str:
        """What is found of all that the interpreter itself loads."""
        layout = layout_of(self.task, self.snapshot)
        if not isinstance(layout, Layout) or not self.findings:
            return ""
        found = (found_at(self.snapshot, layout.binary, layout.elf, name) for name in layout.elf.needed[:_MOST_NEEDED])
        paths = {printable(entry.path) for entry in found if entry is not None}
        if layout.elf.loader and (loader := self.snapshot.entry(layout.elf.loader)) is not None:
            paths |= {printable(loader.path), printable(layout.elf.loader)}
        loaded = [finding for finding in self.findings if finding.field in paths]
        return "; ".join(f"it loads {finding.field}: {finding.observed}" for finding in loaded[:3])

    def folders(self) -> None:
        """Folders that lead elsewhere than in the base image."""
        for folder in (*_ABOVE, *_FOLDERS):
            before = self.snapshot.base(folder)
            where = self.snapshot.resolved(folder)
            if before is not None and before.is_folder and where != before.path:
                self._found(folder, f"the folder {before.path}", f"it leads to {where or 'nothing'}")

    def files(self) -> None:
        """Files that are not as their package has them."""
        touched = self.snapshot.touched(*self._places(), _ALTERNATIVES)
        wanted = {path: kind for path, kind in touched.items() if kind != "D" and not _APART.fullmatch(path)}
        paths = {path for path, kind in wanted.items() if kind != "A" or _LOADED.fullmatch(path)}
        files, links, added = [], [], []
        for entry in entries_at(self.snapshot, paths):
            if entry.kind is Kind.FILE:
                files.append(entry.path)
            elif entry.kind is Kind.LINK and wanted[entry.path] != "A":
                links.append(entry)
            elif entry.kind is Kind.LINK and (_OPENSSL.fullmatch(entry.path) or _CONVERTING.fullmatch(entry.path)):
                added.append(entry)
        for entry in links[:_MOST_FOLLOWED]:
            self._link(entry.path, entry)
        for entry in added[:_MOST_FOLLOWED]:
            self._added_link(entry)
        if len(links) > _MOST_FOLLOWED or len(added) > _MOST_FOLLOWED:
            last = max(links, added, key=len)
            self._found(last[-1].path, "the file of the base image", f"one of {len(last)} links")
        for judged in Packages(self.task, self.snapshot).judged(files):
            self._judged(judged)

    def _judged(self, judged: Judged) -> None:
        path = judged.entry.path
        if judged.standing is Standing.CHANGED:
            self._found(path, f"the file of {judged.owner}", "its content differs")
        elif judged.standing is not Standing.GENUINE and _CONVERTING.fullmatch(path):
            self._found(path, "what packages of the C library have", "what every program loads to convert text")
        elif judged.standing is Standing.REPLACED:
            self._replaced(path)
        elif judged.standing is Standing.UNOWNED and _OPENSSL.fullmatch(path):
            self._found(path, "what a package of OpenSSL has", "a library that its configuration loads by name")

    def _replaced(self, path: str) -> None:
        before = self.snapshot.base(path)
        # Files that no package has, such as what was put into the base image by hand, are upgraded by hand.
        if before is not None and before.path != path:
            self._chosen(path, f"a link to {before.path}", "a file with other content")

    def _places(self) -> list[str]:
        return sorted({self.snapshot.resolved(folder) or folder for folder in _FOLDERS})

    def _link(self, path: str, link: Entry) -> None:
        """A link in the place of something that the base image has."""
        before, target = self.snapshot.base(path), self.snapshot.entry(path)
        if before is None:
            return
        shown = f"a link to {link.link}"
        if target is None or target.kind is Kind.LINK:
            if is_fleeting(self.snapshot, path):
                self._found(path, f"the file {before.path}", shown)
            return
        if before.is_folder:
            if target.path != before.path:
                self._found(path, "a folder of the system", shown)
        elif target.kind is not Kind.FILE or target.sha256 != before.sha256:
            judged = next(Packages(self.task, self.snapshot).judged([target.path]), None)
            if (judged is None or judged.standing is not Standing.GENUINE) and not self._is_conda(target):
                self._chosen(path, "the file of the base image", shown)

    def _added_link(self, link: Entry) -> None:
        """A link where programs load whatever lies there by its name."""
        target = self.snapshot.entry(link.path)
        if target is None or target.kind is Kind.LINK:
            is_strange = is_fleeting(self.snapshot, link.path)
        else:
            judged = next(Packages(self.task, self.snapshot).judged([target.path]), None)
            is_strange = judged is None or judged.standing is not Standing.GENUINE
        if is_strange:
            self._found(link.path, "what a package has", f"a link to {link.link}")

    def _chosen(self, path: str, claimed: str, observed: str) -> None:
        """Something stands in the place of a link, or of a program, and people may have chosen that."""
        if _CHOSEN.fullmatch(path):
            self.remarks.append(f"{printable(path)} is {printable(observed)}")
        else:
            self._found(path, claimed, observed)

    def libraries(self) -> None:
        """Libraries that the loader takes in place of the system's."""
        layout = layout_of(self.task, self.snapshot)
        names = _CORE | set(layout.elf.needed if isinstance(layout, Layout) else ())
        extended = (
            self._extensions(layout) - names if isinstance(layout, Layout) and self._is_recached() else frozenset()
        )
        names |= extended
        places = self._places()
        beside = [
            path
            for path, kind in self.snapshot.touched(*places).items()
            if kind != "D" and _is_loaded(posixpath.basename(path), names) and not _APART.fullmatch(path)
        ]
        candidates = list(dict.fromkeys((*self._newly_cached(names), *beside)))
        if len(candidates) > _MOST_FOLLOWED:
            self._found(candidates[-1], "one library of each name", f"one of {len(candidates)} that programs may load")
        real: dict[str, str] = {}
        for path in candidates[:_MOST_FOLLOWED]:
            entry = self.snapshot.entry(path)
            if entry is not None and entry.kind is Kind.FILE:
                real[entry.path] = posixpath.basename(path)
            elif is_fleeting(self.snapshot, path) and all(one.field != printable(path) for one in self.findings):
                self._found(path, "a library", "a way that leads somewhere only while a process runs")
        for judged in Packages(self.task, self.snapshot).judged(real):
            path, name = judged.entry.path, real[judged.entry.path]
            is_elsewhere = not path.startswith(tuple(f"{place}/" for place in places))
            # Packages of the system have none there, so that one which has is the agent's, or another's.
            is_anothers = bool(judged.owner or judged.claimed) and is_elsewhere
            is_strange = judged.standing is Standing.UNOWNED or is_anothers
            if not is_strange or not self._shadows(name, path) or self._is_own_conda(layout, judged.entry):
                continue
            whose = f"the package {judged.claimed[0]}" if judged.claimed else "no package"
            observed = f"a library that {whose} has, and that programs load"
            if name in extended and is_built_anew(name):
                if not (why := self._newer_doubt(name, judged.entry)):
                    self.remarks.append(f"{printable(path)} goes before the system's {name}, and is later")
                    continue
                observed = f"{observed}: {why}"
            self._found(path, f"the system's own {name}", observed)

    def services(self) -> None:
        """Name services whose names are ways to a library."""
        entry = self.snapshot.entry(_SERVICES)
        lines = (line.partition("#")[0] for line in (entry.text if entry else "").splitlines())
        if strange := next((word for line in lines for word in line.split() if "/" in word), ""):
            self._found(_SERVICES, "the names of services", strange)

    def _is_recached(self) -> bool:
        """Whether the loader's cache is not the base image's own; without one, it looks in other folders first."""
        entry, before = self.snapshot.entry(CACHE), self.snapshot.base(CACHE)
        return (entry.sha256 if entry is not None else "") != (before.sha256 if before is not None else "")

    def _extensions(self, layout: Layout) -> frozenset[str]:
        """The libraries that the standard library's own compiled modules need, and those that these need."""
        found: set[str] = set()
        for folder in layout.stdlib:
            if folder.endswith("/lib-dynload"):
                for entry in islice(self.snapshot.tree(folder, _is_library), _MOST_EXTENSIONS):
                    library = read_elf(io.BytesIO(entry.content)) if entry.content else None
                    found.update(library.needed[:_MOST_NEEDED] if library else ())
        systems = (self._systems(name) for name in sorted(found)[:_MOST_NEEDED])
        for one in systems:
            library = read_elf(io.BytesIO(one.content)) if one is not None and one.content else None
            found.update(library.needed[:_MOST_NEEDED] if library else ())
        return frozenset(found)

    def _systems(self, name: str) -> Entry | None:
        """The system's own library of a name."""
        found = (self.snapshot.entry(f"{folder}/{name}") for folder in DEFAULTS)
        return next((entry for entry in found if entry is not None and entry.kind is Kind.FILE), None)

    def _newer_doubt(self, name: str, entry: Entry) -> str:
        system = self._systems(name)
        return newer_doubt(self.task, name, entry, system) if system is not None else "there is none to compare it with"

    def _shadows(self, name: str, path: str) -> bool:
        """Whether a library stands before one of the system's; `interpreter` looks at Python's own."""
        if name.startswith("libpython"):
            return False
        others = (self.snapshot.entry(f"{folder}/{name}") for folder in DEFAULTS)
        return _NAME_SERVICE.fullmatch(name) is not None or any(other and other.path != path for other in others)

    def _newly_cached(self, names: Iterable[str]) -> Iterator[str]:
        """Where the loader's cache has some libraries, unless it is the base image's own."""
        if not self._is_recached() or self.snapshot.link(CACHE) is None:
            return
        found = cached(self.snapshot)
        if found is None:
            self.findings.append(Finding(Sign.UNREADABLE, CACHE, "the cache that ldconfig makes", "another file"))
            return
        if strange := next((path for paths in found.values() for path in paths if not path.startswith("/")), ""):
            # It would be another file wherever a process runs.
            self._found(CACHE, "the cache that ldconfig makes", f"it names {strange}")
        for name, paths in found.items():
            if _is_loaded(name, names):
                yield from (path for path in paths if path.startswith("/"))

    def _is_conda(self, entry: Entry) -> bool:
        prefix = posixpath.dirname(posixpath.dirname(entry.path))
        if prefix not in self.conda:
            self.conda[prefix] = conda_sums(self.snapshot, prefix) if is_conda(self.snapshot, prefix) else {}
        return self.conda[prefix].get(entry.path) == entry.sha256

    def _is_own_conda(self, layout: Layout | NoLayout, entry: Entry) -> bool:
        """Whether conda has a library as it is, where conda has the interpreter as well: its records are root's."""
        if not isinstance(layout, Layout) or not self._is_conda(entry):
            return False
        return has_condas_python(self.snapshot, self.snapshot.resolved(layout.base_prefix), layout.binary)

    def _found(self, path: str, claimed: str, observed: str) -> None:
        self.findings.append(Finding(Sign.SYSTEM, printable(path), claimed, printable(observed)))


def _is_library(path: str) -> bool:
    return path.endswith(".so")


def _is_loaded(name: str, names: Iterable[str]) -> bool:
    return name in names or _NAME_SERVICE.fullmatch(name) is not None
