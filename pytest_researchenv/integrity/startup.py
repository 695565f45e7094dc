"""Start-up code that distributions bring: whether somebody published it, and all that it imports.

What no RECORD lists is for `hooks`. But a RECORD is root's to write, so that it is a witness only where nobody better
answers. In this order, start-up code is somebody's

1. when the base image, a package of the system or conda has it as it is;
2. when its text is harmless by itself: paths, namespace packages, and what builders of editable installs write
   (`editable`);
3. when the published wheel of its distribution has the same file, and the distributions whose modules it imports are
   the published ones, too.

Where an index answers, and has no such file, version or project, that is a hook. What came from a Git host, a URL or a
folder is in no index, as is a wheel that was built here: few such distributions have start-up code and no probe needs
it, so it is taken out and held against nobody. Where no index answers, RECORD is believed, and a remark says so.
"""

from __future__ import annotations

import posixpath
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import final

from pytest_researchenv.integrity._imported import imported
from pytest_researchenv.integrity.blanking import place_of, without_place
from pytest_researchenv.integrity.bytecode import is_cached
from pytest_researchenv.integrity.customize import customizations
from pytest_researchenv.integrity.editable import generated_doubt, is_generated, is_redirect
from pytest_researchenv.integrity.finders import BUILDERS
from pytest_researchenv.integrity.frameworks import BACKENDS, PLUGINS
from pytest_researchenv.integrity.installed import Distribution, Installed, Style
from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.modulefiles import Form
from pytest_researchenv.integrity.namespaces import makes_namespace
from pytest_researchenv.integrity.origins import Doubt, Origins
from pytest_researchenv.integrity.ownership import Modules
from pytest_researchenv.integrity.packages import Packages, Standing
from pytest_researchenv.integrity.protocol import Signs, Snapshot, is_in_base
from pytest_researchenv.integrity.pth import EASY_INSTALL, STARTS_SINCE, paths_only
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.integrity.reaching import Reach
from pytest_researchenv.integrity.recorded import recorded
from pytest_researchenv.integrity.sitefolders import Pth
from pytest_researchenv.integrity.virtualenv import PTH, is_known_line
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["startup_signs"]

#: Modules and `.start` files that are looked at: where there are more, `hooks` says so.
_MOST = 500


def startup_signs(
    task: ProbeTask, snapshot: Snapshot, layout: Layout, *, installed: Installed, modules: Modules, origins: Origins
) -> Signs:
    """Accuse start-up code that distributions list and nobody published, and take it out.

    Args:
        task: what is audited.
        snapshot: its frozen image.
        layout: what its interpreter uses.
        installed: what is installed for it.
        modules: the modules that it finds.
        origins: where distributions came from.

    Raises:
        SandboxError: the engine refuses to read.
    """
    remarks: dict[str, None] = {}
    reach = Reach(task, snapshot, layout, installed=installed, modules=modules, origins=origins, remarks=remarks)
    look = _Look(task, snapshot, layout, installed, modules, origins, reach, remarks)
    for pth in layout.pths:
        look.pth(pth)
    look.customized()
    look.starts()
    look.plugins()
    return Signs(tuple(look.findings), look.blanked, remarks=tuple(look.remarks))


@final
@dataclass(slots=True)
class _Look:
    """One look at all start-up code that is listed."""

    task: ProbeTask
    snapshot: Snapshot
    layout: Layout
    installed: Installed
    modules: Modules
    origins: Origins
    reach: Reach
    remarks: dict[str, None]
    findings: list[Finding] = field(default_factory=list)
    blanked: dict[str, str] = field(default_factory=dict)

    # --- what runs ---

    def pth(self, pth: Pth) -> None:
        """Lines of a `.pth` file that run."""
        site = posixpath.dirname(pth.path)
        lines = [
            line
            for line in pth.imports
            if line not in EASY_INSTALL and not makes_namespace(self.snapshot, self.layout, site, line)
        ]
        path = self._real(pth.path)
        if pth.unread or not lines:
            return
        doubt: Doubt | None = None
        names = imported("\n".join(lines))
        if not self._is_theirs(path, pth.sha256):
            owners = self._owners(path, pth.sha256)
            if not owners and posixpath.basename(path) == PTH and is_known_line(pth.text):
                # What virtualenv leaves is listed by nothing, and for `hooks`, as far as it is what is imported.
                source = f"{posixpath.dirname(path)}/{PTH.removesuffix('.pth')}.py"
                self._taken(path, self.reach.another(source), "")
                return
            if not owners:
                self._taken(path, self._unowned(pth.path, pth.sha256), paths_only(pth.text))
                return
            generated = self._generated(path, lines, owners)
            if generated is None:
                doubt = self._listed(path, pth.sha256, owners)
            elif isinstance(generated, Doubt):
                doubt = generated
            else:
                names = generated
        self._taken(path, doubt or self.reach.doubt(names), paths_only(pth.text))

    def customized(self) -> None:
        """Modules such as `sitecustomize`."""
        for one in islice(customizations(self.task, self.snapshot, self.layout), _MOST):
            if not is_cached(one.path) and not one.archived:
                self._module(one.path, one.source)

    def starts(self) -> None:
        """Entry points that Python 3.15 and later run at start."""
        if int(self.layout.version.partition(".")[2]) < STARTS_SINCE:
            return
        paths = {
            path for one in self.installed.distributions for path in one.files if path.endswith(".start") and one.site
        }
        for path in sorted(paths)[:_MOST]:
            self._module(path, path)

    def plugins(self) -> None:
        """Entry points by which frameworks and pytest run code of any distribution as soon as they are imported."""
        for one in self.installed.distributions:
            points = PLUGINS & one.groups.keys()
            if points and self.reach.is_the_agents(one):
                said = self.origins.code_doubt(one)
                if isinstance(said, Unknown) and said.reason and points & BACKENDS:
                    # What torch and JAX load may be anything, and hardly any environment needs it.
                    said = Doubt(said.reason, accuses=False)
                said = said if isinstance(said, Doubt) else self.reach.pointed(one, points)
                doubt = replace(said, why=f"{min(points)} runs it: {said.why}") if said else None
                self._taken(f"{one.path}/entry_points.txt", doubt, "")

    def _module(self, path: str, source: str) -> None:
        entry = self.snapshot.entry(source)
        if entry is None or self._is_theirs(entry.path, entry.sha256):
            return
        owners = self._owners(entry.path, entry.sha256)
        if owners:
            doubt = self._listed(entry.path, entry.sha256, owners)
            self._taken(path, doubt or self.reach.doubt(imported(entry.text)), "")
        else:
            self._taken(path, self._unowned(source, entry.sha256), "")

    # --- whose it is ---

    def _real(self, path: str) -> str:
        return posixpath.join(self.snapshot.resolved(posixpath.dirname(path)), posixpath.basename(path))

    def _is_theirs(self, path: str, digest: str) -> bool:
        """Whether the base image, a package of it or conda has a file as it is."""
        if is_in_base(self.snapshot, path, digest):
            return True
        judged = Packages(self.task, self.snapshot).judged([path])
        genuine = any(one.standing is Standing.GENUINE and not one.claimed for one in judged)
        return genuine or self._is_condas(path, digest)

    def _is_condas(self, path: str, digest: str) -> bool:
        owners = (one for one in self.installed.owners(path) if one.style is Style.CONDA)
        return any(one.files[path] == digest for one in owners)

    def _owners(self, path: str, digest: str) -> list[Distribution]:
        owners = self.installed.owners(path)
        return [one for one in owners if one.style is Style.WHEEL and one.files[path] == digest != ""]

    def _unowned(self, path: str, digest: str) -> Doubt | None:
        """Why something is nobody's that `hooks` takes for listed; None where that accuses it already."""
        for site in self.layout.path:
            named = path.replace(f"{self.snapshot.resolved(site)}/", f"{site}/", 1)
            if named.startswith(f"{site}/") and digest in recorded(self.snapshot, site, [named]).get(named, ()):
                return Doubt("it is listed by nothing that is installed")
        return None

    def _listed(self, path: str, digest: str, owners: list[Distribution]) -> Doubt | None:
        """Why nobody published a file that distributions list."""
        doubts = []
        for one in owners:
            if not self.installed.is_agents(one):
                return None
            said = self.origins.file_doubt(one, path, digest)
            if isinstance(said, Unknown):
                self.remarks[f"{printable(path)} is as {one} itself says, which nobody else knows: {said.reason}"] = (
                    None
                )
            if not isinstance(said, Doubt):
                return None
            doubts.append(said)
        return next((doubt for doubt in doubts if doubt.accuses), doubts[0])

    def _generated(self, path: str, lines: Iterable[str], owners: list[Distribution]) -> frozenset[str] | Doubt | None:
        """What a file of an editable install imports, or what is strange about it; None when it is none."""
        found: set[str] = set()
        for line in lines:
            match = BUILDERS.fullmatch(line)
            source = f"{posixpath.dirname(path)}/{match['name']}.py" if match else ""
            place = self.modules.find(match["name"]) if match else None
            entry = self.snapshot.entry(source) if place is not None and place.path == source else None
            if match is None or entry is None or entry.content is None:
                return None
            doubt = generated_doubt(entry.content, partial(self._is_anothers, owners))
            if doubt and is_generated(match["name"]):
                why = f"{match['name']}.py is nothing that builders write: {doubt}"
                if is_redirect(match["name"]):
                    return Doubt(why, accuses=False)
                wanted = "the module that its builder wrote"
                return Doubt(why, finding=Finding(Sign.DISTRIBUTION, str(owners[0]), wanted, printable(why, 500)))
            if doubt or (doubt is None and not any(one.direct and one.direct.editable for one in owners)):
                return None
            if doubt is None:
                self.remarks[f"{printable(source)} is of no known version of a builder"] = None
            if astray := self.modules.astray(source):
                return Doubt(f"{match['name']}.py leads to {printable(astray)}", accuses=not is_redirect(match["name"]))
            found |= imported(entry.text, alone=True)
        return frozenset(found)

    def _is_anothers(self, owners: Collection[Distribution], name: str) -> bool:
        """Whether a top-level module is the standard library's, or of a distribution that is none of some."""
        place = self.modules.on_path(name)
        if place is None:
            return False
        having = self.modules.owned(name, place).distributions
        return place.form is Form.STANDARD or (bool(having) and not set(having) & set(owners))

    # --- what is done about it ---

    def _taken(self, path: str, doubt: Doubt | None, instead: str) -> None:
        if doubt is None:
            return
        if doubt.finding:
            self.findings.append(doubt.finding)
        real = place_of(self.snapshot, path)
        if doubt.accuses or not real:
            wanted = "start-up code that somebody published"
            self.findings.append(Finding(Sign.HOOK, printable(path), wanted, printable(doubt.why, 500)))
        else:
            self.remarks[f"{printable(path)} is not run in probes: {printable(doubt.why, 500)}"] = None
        if real:
            self.blanked[real] = instead
        else:
            self.findings.append(without_place(path))
