"""Code that runs before any program does: hooks of Python's start-up and of the dynamic loader.

What nobody installed is found, and taken out of the probe's world. What a distribution lists is for `startup`.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import final

from pytest_researchenv.integrity.blanking import place_of, without_place
from pytest_researchenv.integrity.bytecode import is_cached, is_unchecked
from pytest_researchenv.integrity.conda import has_condas_python
from pytest_researchenv.integrity.customize import Customization, customizations
from pytest_researchenv.integrity.fleeting import is_fleeting
from pytest_researchenv.integrity.layout import Layout, layout_of
from pytest_researchenv.integrity.namespaces import loads_library, makes_namespace
from pytest_researchenv.integrity.packages import Packages, Standing
from pytest_researchenv.integrity.protocol import Entry, Kind, Signs, Snapshot, at_most, is_in_base
from pytest_researchenv.integrity.pth import EASY_INSTALL, STARTS_SINCE, moves, paths_only
from pytest_researchenv.integrity.recorded import recorded
from pytest_researchenv.integrity.sitefolders import Pth
from pytest_researchenv.integrity.virtualenv import KNOWN, PTH, is_known_line, suspicion
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.interpreter import is_taken
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["hooks"]

_PRELOAD = "/etc/ld.so.preload"

#: Letters of a hook that a finding shows.
_SHOWN = 120
#: Findings that are listed. More hooks are blanked all the same, up to what is looked at.
_LISTED, _MOST = 50, 500

#: Variables by which a program runs or loads something else before its own code.
_RUNNING = re.compile(
    r"LD_PRELOAD|LD_AUDIT|PYTHONSTARTUP|PYTHONHOME|PYTHONINSPECT|BASH_ENV|ENV|PROMPT_COMMAND|PERL5OPT|RUBYOPT|GCONV_PATH"
    r"|COVERAGE_PROCESS_START|PYTEST_PLUGINS|CUDA_INJECTION\w*|OMP_TOOL_LIBRARIES"
    r"|INTEL_(?:LIBITTNOTIFY|JIT_PROFILER)(?:32|64)?"
)
_NODE_RUNS = re.compile(r"(?:^|\s)(?:-r|--require|--import|--(?:experimental-)?loader)\b")

_START = ".start"


def hooks(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look for start-up hooks that nobody installed.

    Raises:
        SandboxError: the engine refuses to read.
    """
    look = _Look(task, snapshot)
    look.preload()
    layout = layout_of(task, snapshot)
    if isinstance(layout, Layout):
        look.customized(layout)
        look.pths(layout)
        look.starts(layout)
        look.variables(layout)
    return look.signs()


@final
@dataclass(slots=True)
class _Look:
    """One look at all hooks."""

    task: ProbeTask
    snapshot: Snapshot
    findings: list[Finding] = field(default_factory=list)
    unreadable: list[Finding] = field(default_factory=list)
    blanked: dict[str, str] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def signs(self) -> Signs:
        """What was seen."""
        listed = at_most(_LISTED, self.findings, "no start-up code")
        return Signs((*listed, *self.unreadable), self.blanked, remarks=tuple(self.remarks))

    # --- the loader ---

    def preload(self) -> None:
        """A list of libraries that are loaded into every program."""
        entry = self.snapshot.entry(_PRELOAD)
        if entry is not None and entry.kind is Kind.LINK and is_fleeting(self.snapshot, _PRELOAD):
            self._found(_PRELOAD, "nothing that is loaded into every program", f"a link to {entry.link}")
        if entry is None or entry.kind is not Kind.FILE or (entry.content is not None and not entry.content.strip()):
            return
        if not is_in_base(self.snapshot, _PRELOAD, entry.sha256):
            self._found(_PRELOAD, "nothing that is loaded into every program", _shown(entry.text))

    # --- modules that are imported at start ---

    def customized(self, layout: Layout) -> None:
        """Modules such as `sitecustomize`."""
        found = list(islice(customizations(self.task, self.snapshot, layout), _MOST + 1))
        if len(found) > _MOST:
            self._unreadable("sys.path", f"more than {_MOST} files of start-up modules")
        genuine = self._genuine(one.source for one in found)
        for folder, ones in groupby(found, lambda one: one.folder):
            own = list(ones)
            listed = self._listed(folder, {one.source: one for one in own})
            for one in own:
                if one.source in genuine and not is_cached(one.path):
                    self._set_aside(one.path, genuine[one.source])
                else:
                    self._customization(one, is_listed=one.source in listed)

    def _customization(self, one: Customization, *, is_listed: bool) -> None:
        if is_cached(one.path):
            self._cached(one.path)
        elif one.archived:
            self._found(one.path, "an archive without start-up code", f"it holds {printable(one.archived)}")
        elif not is_listed and not self._is_tracked(one.path):
            entry = self.snapshot.entry(one.source)
            shown = _shown(entry.text) if entry and entry.kind is Kind.FILE else "a folder, or a link to nothing"
            self._found(one.path, "no such module, or one that a distribution lists", shown)

    def _cached(self, path: str) -> None:
        """Bytecode of start-up code. Python may take it for what its source is compiled to, whatever it is."""
        entry = self.snapshot.entry(path)
        if entry is not None and is_unchecked(entry):
            self._found(path, "bytecode that Python compares with its source", "bytecode that it just runs")
        else:
            self._blank(path, "")

    # --- .pth and .start ---

    def pths(self, layout: Layout) -> None:
        """Lines of `.pth` files that run, and that no distribution lists."""
        others = (pth for pth in layout.pths if pth.unread or not set(pth.imports).issubset(EASY_INSTALL))
        # Nobody publishes such, and easy_install leaves none.
        moving = {pth.path: pth for pth in layout.pths if moves(pth.text) is None}
        running = [*moving.values(), *(pth for pth in others if pth.path not in moving)]
        running = [pth for pth in running if not is_in_base(self.snapshot, pth.path, pth.sha256)]
        genuine = self._genuine(pth.path for pth in running)
        for site in layout.sites:
            own = {pth.path: pth for pth in running if posixpath.dirname(pth.path) == site}
            claimed = recorded(self.snapshot, site, own.keys())
            for path, pth in own.items():
                if any(loads_library(self.snapshot, layout, site, line) for line in pth.imports):
                    said = "a compiled module by its name, which the line loads"
                    self._found(path, "a namespace package", said, paths_only(pth.text))
                    continue
                is_claimed = pth.sha256 in claimed.get(path, ()) and path not in moving
                if is_claimed or (path in genuine and self._is_harmless(pth, layout)):
                    continue
                if path in genuine:
                    self._set_aside(path, genuine[path], paths_only(pth.text))
                else:
                    self._pth(pth, layout, is_listed=path in claimed)

    def _pth(self, pth: Pth, layout: Layout, *, is_listed: bool) -> None:
        if pth.unread:
            self._found(pth.path, "a file that can be read", "more bytes than Python's own files have")
            return
        if not is_listed and self._is_harmless(pth, layout):
            return
        kept = paths_only(pth.text)
        if posixpath.basename(pth.path) == PTH and is_known_line(pth.text):
            self._virtualenv(pth, kept)
            return
        wanted = "the file that its distribution lists" if is_listed else "paths, or a file that a distribution lists"
        self._found(pth.path, wanted, _shown("; ".join(pth.imports)), kept)

    def _is_harmless(self, pth: Pth, layout: Layout) -> bool:
        site = posixpath.dirname(pth.path)
        return not pth.unread and all(makes_namespace(self.snapshot, layout, site, line) for line in pth.imports)

    def _virtualenv(self, pth: Pth, kept: str) -> None:
        folder = posixpath.dirname(pth.path)
        source = self.snapshot.entry(f"{folder}/_virtualenv.py")
        cached = [path for path in self.snapshot.touched(folder) if "/__pycache__/_virtualenv." in path]
        if source is not None and source.sha256 in KNOWN:
            for path in cached[:_MOST]:
                self._cached(path)
            return
        why = suspicion(source.text) if source is not None and source.content is not None else "it is no source"
        if why:
            self._found(pth.path, "the start-up code of virtualenv", f"_virtualenv.py is not that: {why}", kept)
            return
        self._blank(pth.path, kept)
        self.remarks.append(f"{printable(pth.path)} is of no known version of virtualenv, and not run in probes")

    def starts(self, layout: Layout) -> None:
        """Entry points that Python 3.15 and later run at start."""
        if int(layout.version.partition(".")[2]) < STARTS_SINCE:
            return
        for site in layout.sites:
            top = self.snapshot.resolved(site)
            entries = (entry for entry in self.snapshot.tree(site) if posixpath.dirname(entry.path) == top)
            own = {entry.path: f"{site}/{posixpath.basename(entry.path)}" for entry in entries if _is_start(entry)}
            listed = self._listed(site, own.values())
            genuine = self._genuine(own)
            if len(own) > _MOST:
                self._unreadable(site, f"more than {_MOST} .start files")
            for path, named in islice(own.items(), _MOST):
                if path in genuine:
                    self._set_aside(path, genuine[path])
                elif named not in listed:
                    entry = self.snapshot.entry(path)
                    self._found(path, "a file that a distribution lists", _shown(entry.text if entry else ""))

    # --- variables ---

    def variables(self, layout: Layout) -> None:
        """Variables that a conda environment asks for, and that make programs run something else first."""
        prefix = posixpath.dirname(posixpath.dirname(layout.python))
        path = f"{prefix}/conda-meta/state"
        entry = self.snapshot.entry(path)
        try:
            # As bytes, of whatever encoding: so the probe's world reads it.
            state = json.loads(entry.content or b"{}") if entry else {}
        except (ValueError, RecursionError):
            return
        found = state.get("env_vars") if isinstance(state, dict) else None
        # What conda did not make has no such record, but to have something run.
        is_faked = not has_condas_python(self.snapshot, self.snapshot.resolved(prefix), layout.binary)
        asked = found if isinstance(found, dict) else {}
        if len(asked) > _MOST:
            self._unreadable(path, f"more than {_MOST} variables")
        for name, value in islice(asked.items(), _MOST):
            shown = f"{printable(name, 60)}={_shown(str(value))}"
            runs = _RUNNING.fullmatch(name) or (name == "NODE_OPTIONS" and _NODE_RUNS.search(str(value)))
            if runs or (is_faked and not is_taken(name)):
                self.findings.append(Finding(Sign.HOOK, printable(path), "no variable that runs code", shown))
            elif not is_taken(name):
                self.remarks.append(f"{printable(path)} asks for {shown}, which probes do not set")

    # --- whose it is ---

    def _genuine(self, paths: Iterable[str]) -> Mapping[str, bool]:
        """Which of some files a package of the system has as they are → whether an agent may have made that package."""
        real = {path: entry.path for path in paths if (entry := self.snapshot.entry(path))}
        judged = Packages(self.task, self.snapshot).judged(set(real.values()))
        genuine = {one.entry.path: bool(one.claimed) for one in judged if one.standing is Standing.GENUINE}
        return {path: genuine[target] for path, target in real.items() if target in genuine}

    def _listed(self, folder: str, paths: Collection[str]) -> Collection[str]:
        """Which of some files in a site folder a distribution lists as they are."""
        top = self.snapshot.resolved(folder)
        names = {path: path.replace(f"{top}/", f"{folder}/", 1) for path in paths}
        claimed = recorded(self.snapshot, folder, set(names.values())) if folder.endswith("-packages") else {}
        return {
            path
            for path, name in names.items()
            if (entry := self.snapshot.entry(path)) and entry.sha256 in claimed.get(name, ())
        }

    def _is_tracked(self, path: str) -> bool:
        below = f"{self.task.environment.workdir}/"
        return path.startswith(below) and path.removeprefix(below) in self.task.tree.files

    # --- what is done about it ---

    def _found(self, path: str, claimed: str, observed: str, instead: str = "") -> None:
        self.findings.append(Finding(Sign.HOOK, printable(path), claimed, observed))
        self._blank(path, instead)

    def _set_aside(self, path: str, is_claimed: bool, instead: str = "") -> None:  # noqa: FBT001 - a fact, named
        """Have start-up code not run that a package brought which the base image does not have. Nobody is accused.

        dpkg's record of such a package is all that vouches for it, and an agent may have written that.
        """
        if is_claimed:
            self._blank(path, instead)
            self.remarks.append(f"{printable(path)} is of a package that was installed later, and not run in probes")

    def _blank(self, path: str, text: str) -> None:
        """Put a text in the place of a hook."""
        if real := place_of(self.snapshot, path):
            self.blanked[real] = text
        else:
            self.unreadable.append(without_place(path))

    def _unreadable(self, path: str, why: str) -> None:
        self.unreadable.append(Finding(Sign.UNREADABLE, printable(path), "start-up code that can be told", why))


def _is_start(entry: Entry) -> bool:
    return entry.path.endswith(_START) and entry.kind in (Kind.FILE, Kind.LINK)


def _shown(text: str) -> str:
    return printable(" ".join(text[: 4 * _SHOWN].split()), _SHOWN) or "an empty file"
