"""What start-up code reaches: whether all that it imports is somebody's, and as it was published."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, MutableMapping
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import final

from pytest_researchenv.integrity._imported import imported
from pytest_researchenv.integrity.changes import SPARE
from pytest_researchenv.integrity.customize import python_path
from pytest_researchenv.integrity.installed import Distribution, Installed, Style, is_code
from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.modulefiles import Form, Place
from pytest_researchenv.integrity.origins import Doubt, Origins
from pytest_researchenv.integrity.ownership import Modules, Owned
from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.outside import standard_library
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["Reach"]

#: How code asks for what any distribution names as its plugins, and how it sets variables, which others act upon:
#: from a file of anybody's, for all that it tells.
_POINTS = re.compile(r"\b(?:iter_)?entry_points\b")
_SETTING = re.compile(r"\benviron\.(?:update|setdefault)\b|\bputenv\b")
#: A match wherever one begins, to its bracket or the line's end, so that no letter is looked at twice.
_ITEM = re.compile(r"\benviron\[[^\]\n]*(?:\][ \t]*(?P<sets>=(?!=))?)?")
#: Modules that one hook may reach, and files of them that are read for what they import.
_MOST_MODULES, _MOST_FILES = 60, 1500


@final
class Reach:
    """Follows imports from start-up code on.

    Args:
        task: what is audited.
        snapshot: its frozen image.
        layout: what its interpreter uses.
        installed: what is installed for it.
        modules: the modules that it finds.
        origins: where distributions came from.
        remarks: gets what nobody could be asked of.
    """

    def __init__(
        self,
        task: ProbeTask,
        snapshot: Snapshot,
        layout: Layout,
        *,
        installed: Installed,
        modules: Modules,
        origins: Origins,
        remarks: MutableMapping[str, None],
    ) -> None:
        self._task = task
        self._snapshot = snapshot
        self._layout = layout
        self._installed = installed
        self._modules = modules
        self._origins = origins
        self._remarks = remarks
        self._known: dict[str, Doubt | None] = {}
        self._asking: dict[str, str] = {}

    def doubt(self, names: Collection[str]) -> Doubt | None:
        """Why something that start-up code imports is not what was published."""
        waiting, seen = list(names), set(names)
        while waiting:
            name = waiting.pop(0)
            if name in standard_library(self._layout.version):
                continue
            if (shadow := self._shadow(name)) or (place := self._modules.find(name)) is None:
                if shadow:
                    return Doubt(f"it imports {name}, for which the untracked {printable(shadow)} stands")
                continue
            if place.form is Form.STANDARD:
                continue
            if name not in self._known:
                self._known[name] = self._doubt_of(name, place)
            if doubt := self._known[name]:
                return replace(doubt, why=f"it imports {name}: {doubt.why}")
            if len(seen) < _MOST_MODULES:
                more = self._imports(place) - seen
                if place.path in self._asking:
                    return Doubt(f"it imports {name}, which {self._asking[place.path]}", accuses=False)
                seen |= more
                waiting.extend(sorted(more))
        return None

    def another(self, path: str) -> Doubt | None:
        """Why an import of a module of a site folder leads to another; None where it leads there, or nowhere."""
        name = posixpath.basename(path).partition(".")[0]
        place = self._modules.find(name)
        other = self._shadow(name) or (place.path if place is not None and place.path != path else "")
        return Doubt(f"it imports {name}, for which {printable(other)} stands") if other else None

    def pointed(self, one: Distribution, points: Collection[str]) -> Doubt | None:
        """Why what a distribution's entry points lead to is nobody's, or another's that is not what was published."""
        for name in sorted({module.partition(".")[0] for point in points for module in one.groups[point]}):
            place = self._modules.find(name)
            owned = self._modules.owned(name, place) if place else Owned()
            if owned.stranger:
                return Doubt(owned.stranger)
            for other in owned.distributions:
                said = None if other is one or not self.is_the_agents(other) else self._origins.code_doubt(other)
                if isinstance(said, Doubt) and said.accuses:
                    return said
        return None

    def is_the_agents(self, one: Distribution) -> bool:
        """Whether an agent installed or changed a distribution, and neither conda nor the system brought it."""
        return self._installed.is_agents(one) and not self._installed.is_packaged(one)

    def _shadow(self, name: str) -> str:
        """An untracked file that is found before what is installed, since probes put its folder on PYTHONPATH."""
        below = f"{self._task.environment.workdir}/"
        for folder in dict.fromkeys(python_path(self._task)):
            for path in (f"{folder}/{name}.py", f"{folder}/{name}/__init__.py"):
                tracked = path.removeprefix(below) in self._task.tree.files
                if not tracked and self._snapshot.entry(path) is not None and self._snapshot.base(path) is None:
                    return path
        return self._compiled.get(name, "")

    @cached_property
    def _compiled(self) -> dict[str, str]:
        """The same for extensions and bytecode: top-level name → file."""
        found: dict[str, str] = {}
        for folder in dict.fromkeys(python_path(self._task)):
            for path, kind in self._snapshot.touched(folder).items():
                name, _, rest = path.removeprefix(f"{folder}/").partition("/")
                stem = (rest or name).partition(".")[0]
                if kind != "D" and path.endswith((".so", ".pyc")) and (not rest or stem == "__init__"):
                    found.setdefault(name.partition(".")[0], path)
        return found

    def _doubt_of(self, name: str, place: Place) -> Doubt | None:
        owned = self._modules.owned(name, place)
        if owned.stranger:
            return Doubt(owned.stranger)
        if self._is_elsewhere(place.path):
            return Doubt(f"{printable(place.path)} is in no site folder, and of no distribution")
        for path in self._modules.files(name, place):
            if is_code(path) and not self._is_installed(path):
                return Doubt(f"{printable(path)} is not what was installed")
        for one in owned.distributions:
            if one.style in (Style.CONDA, Style.DEBIAN) or not self.is_the_agents(one):
                continue
            said = self._origins.reached_doubt(one)
            if isinstance(said, Doubt):
                return said
            if isinstance(said, Unknown) and said.reason:
                self._remarks[f"{one} runs at start, and is as it says itself: {said.reason}"] = None
        return None

    def _is_elsewhere(self, path: str) -> bool:
        """Whether an agent put a module where no installer does, and the repository does not have it."""
        if any(path.startswith(f"{site}/") for site in self._installed.sites):
            return False
        tracked = path.removeprefix(f"{self._task.environment.workdir}/") in self._task.tree.files
        return not tracked and path in self._snapshot.touched(posixpath.dirname(path))

    def _is_installed(self, path: str) -> bool:
        """Whether code of a site folder is as its distribution lists it; without digests nothing is said."""
        if not self._installed.is_touched(path):
            return True
        owners = self._installed.owners(path)
        digests = {one.files[path] for one in owners} - {""}
        entry = self._installed.at(path)
        return not digests or entry is None or entry.sha256 in digests

    def _imports(self, place: Place) -> set[str]:
        """What its modules import when they are imported."""
        package = posixpath.basename(place.path).startswith("__init__.")
        folder = posixpath.dirname(place.path) if package else place.path
        # A package's own folder: to read the whole site folder again would take long.
        below = f"{self._snapshot.resolved(folder)}/"
        entries = self._snapshot.tree(folder, _is_source) if package or place.form is Form.NAMESPACE else ()
        own = (entry for entry in entries if SPARE.isdisjoint(entry.path.removeprefix(below).split("/")))
        alone = self._snapshot.entry(place.path) if place.form is Form.SOURCE else None
        found: set[str] = set()
        for entry in islice(chain(own, (alone,) if alone else ()), _MOST_FILES):
            found |= imported(entry.text, alone=True)
            if what := _asking(entry.text):
                self._asking.setdefault(place.path, what)
        return found


def _asking(text: str) -> str:
    """What a source does that may have code of anybody's run; empty when nothing."""
    if _POINTS.search(text):
        return "asks for entry points, and those may be anybody's"
    if _SETTING.search(text) or any(match["sets"] for match in _ITEM.finditer(text)):
        return "sets variables, and what they make others do may be anybody's"
    return ""


def _is_source(path: str) -> bool:
    return path.endswith(".py")
