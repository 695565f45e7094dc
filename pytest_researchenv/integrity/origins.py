"""Where distributions came from, and whether they are what was published."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import final

from pytest_researchenv.integrity._metadata import wheel_files
from pytest_researchenv.integrity.changes import sign_of
from pytest_researchenv.integrity.comparing import Comparison, Compiles, Difference
from pytest_researchenv.integrity.frameworks import Frameworks
from pytest_researchenv.integrity.installed import Distribution, Installed, Style, is_module
from pytest_researchenv.integrity.labelled import label_of
from pytest_researchenv.integrity.packages import Packages, Standing
from pytest_researchenv.integrity.protocol import Entry, Signs, Snapshot
from pytest_researchenv.integrity.published import Unknown
from pytest_researchenv.integrity.stubs import Satisfied, imported_by_distributions
from pytest_researchenv.integrity.tracing import Tracing, is_of, is_wheel
from pytest_researchenv.integrity.unlicensed import unlicensed_packages
from pytest_researchenv.integrity.untracked import PROJECT
from pytest_researchenv.integrity.witness import Published
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["Doubt", "Origins"]

#: Code of a distribution that nobody writes to satisfy an import; detectron2 has 11 MB, a typical library 200 kB.
_LARGE_BYTES = 256 * 1024
_EGG = ".egg/"
_WHEELS = "/usr/share/python-wheels"


@dataclass(frozen=True, slots=True)
class Doubt:
    """Why code that runs at start is not what somebody published.

    Attributes:
        why: in words.
        accuses: whether an honest environment hardly has such.
        finding: what is said of its distribution, too; None where nothing is.
    """

    why: str
    accuses: bool = True
    finding: Finding | None = None


@final
class Origins:
    """Asks where distributions came from.

    Args:
        task: what is audited.
        snapshot: the frozen image.
        installed: what is installed.
        frameworks: those that the repository is judged by.
        published: what is known of published distributions.
        compiles: whether the repository has anything that is compiled to a module of some name.
    """

    def __init__(
        self,
        task: ProbeTask,
        snapshot: Snapshot,
        *,
        installed: Installed,
        frameworks: Frameworks,
        published: Published,
        compiles: Compiles,
    ) -> None:
        self._task = task
        self._snapshot = snapshot
        self._installed = installed
        self._frameworks = frameworks
        self._published = published
        self._compiles = compiles
        self._tracing = Tracing(task, snapshot)
        self._comparisons: dict[Distribution, Comparison] = {}
        self._workdir = snapshot.resolved(task.environment.workdir) or task.environment.workdir

    def signs(self, found: Satisfied) -> Signs:
        """Accuse what is not what it says, and what nobody knows.

        Args:
            found: what satisfies the imports of the repository.

        Raises:
            SandboxError: the engine refuses to read.
        """
        findings: list[Finding] = []
        remarks: list[str] = []
        modules: dict[str, str] = {}
        strange: dict[Distribution, str] = {}
        first, needed = self._that_matter(found)
        for one in (*first, *needed):
            if not self._may_be_published(one):
                continue
            if self._installed.is_packaged(one):
                remarks += [f"{one} is not the index's: conda or the system brought it"] if one in first else []
                continue
            said = self._comparison(one).result()
            if isinstance(said, Difference):
                findings.append(self._unlike(one, said))
                modules |= dict.fromkeys(self._not_theirs(one, said, found), f"{one}: {said.words}")
            elif one in first:
                findings += self._provenance(one, published=said is None)
                why = self._untraceable(one)
                if isinstance(why, str) and why:
                    strange[one] = why
                    names = (name for name, owners in found.owners.items() if owners == (one,))
                    modules |= dict.fromkeys(names, f"{one}: {why}")
                reasons = (word.reason for word in (said, why) if isinstance(word, Unknown) and word.reason)
                remarks += islice(filter(None, (*reasons, self._comparison(one).unseen)), 1)
        shared = self._shared(strange).values()
        for one, why in strange.items():
            kind = Sign.DISTRIBUTION if one in shared else Sign.STUB
            findings.append(Finding(kind, str(one), "somebody publishes it", why))
        own = unlicensed_packages(self._snapshot, found)
        findings += [Finding(Sign.STUB, name, "a package that its system publishes", why) for name, why in own.items()]
        return Signs((*findings, *self._plugs()), modules={**modules, **own}, remarks=tuple(remarks))

    def others(self, found: Satisfied) -> Signs:
        """Accuse distributions that the repository does not import itself, and that what it imports may.

        All that an agent installed is asked about, since metadata is no witness of what a distribution needs, and
        frameworks import much that they do not need. It is asked last, of what is left of the time.

        Args:
            found: what satisfies the imports of the repository.

        Raises:
            SandboxError: the engine refuses to read.
        """
        first, needed = self._that_matter(found)
        known = {*first, *needed}
        findings: list[Finding] = []
        strange: dict[Distribution, str] = {}
        for one in self._installed.distributions:
            if one in known or not self._may_be_published(one) or self._installed.is_packaged(one):
                continue
            said = self._comparison(one).result()
            if isinstance(said, Difference):
                findings.append(self._unlike(one, said))
            elif said is not None and isinstance(why := self._untraceable(one), str) and why:
                strange[one] = why
        for _, one in sorted(self._shared(strange).items()):
            why = f"{strange[one]}; other distributions import it"
            findings.append(Finding(Sign.DISTRIBUTION, str(one), "somebody publishes it", printable(why, 500)))
        return Signs(tuple(dict.fromkeys(findings)))

    def _shared(self, strange: Collection[Distribution]) -> dict[str, Distribution]:
        """Modules of some distributions that others import, so that those may run in them: name → whose it is."""
        tops = {name: one for one in strange for name in self._tops(one)}
        imported = imported_by_distributions(self._snapshot, self._installed, tops, but=strange)
        return {name: tops[name] for name in imported}

    def _tops(self, one: Distribution) -> Iterator[str]:
        """The top-level modules that a distribution has, or says that it has."""
        egg = one.style is Style.EGG
        below = f"{one.path if egg else one.site}/"
        yield from one.modules
        yield from filter(None, (_top_module(path.removeprefix(below)) for path in one.files if path.startswith(below)))
        yield from self._in_eggs.get(one.path, ()) if egg else ()

    @cached_property
    def _in_eggs(self) -> Mapping[str, set[str]]:
        """The top-level modules that lie in eggs that are folders: the egg's path → names."""
        found: dict[str, set[str]] = {}
        for path in self._installed.code:
            folder, egg, inner = path.partition(_EGG)
            if egg and (name := _top_module(inner)):
                found.setdefault(f"{folder}{_EGG.removesuffix('/')}", set()).add(name)
        return found

    def file_doubt(self, one: Distribution, path: str, digest: str) -> Doubt | Unknown | None:
        """Why nobody published a file that a distribution lists; None when somebody did.

        Args:
            one: the distribution.
            path: absolute, in its site folder.
            digest: the file's SHA-256 in hexadecimal.
        """
        has = self._comparison(one).has(path, digest)
        if not isinstance(has, Unknown):
            return None if has else Doubt(f"the published {one} has no such file")
        if self._is_explained(one):
            return Doubt(f"{one} is of no index", accuses=False)
        offered = self._published.offered(one.name, one.version)
        if isinstance(offered, Unknown):
            return Unknown(offered.reason or has.reason)
        return Doubt(has.reason, accuses=False) if offered else Doubt(f"no index has {one}, which lists it")

    def code_doubt(self, one: Distribution) -> Doubt | Unknown | None:
        """Why the code of a distribution is not what somebody published; None when it is."""
        said = self._comparison(one).result()
        if isinstance(said, Difference):
            return Doubt(f"{one} has {said.words}", finding=self._unlike(one, said))
        why = "" if said is None else self._untraceable(one)
        if isinstance(why, str) and why:
            return Doubt(why)
        if said and not self._is_explained(one) and self._published.offered(one.name, one.version) is False:
            # Builds with a local version may be on indexes of their own; those of torch that are known were asked.
            return Doubt(f"no index has {one}", accuses="+" not in one.version or bool(label_of(one.name, one.version)))
        return next((word for word in (said, why) if isinstance(word, Unknown)), None)

    def reached_doubt(self, one: Distribution) -> Doubt | Unknown | None:
        """The same of one that start-up code imports: what came from elsewhere than an index is not run, either."""
        said = self.code_doubt(one)
        elsewhere = isinstance(said, Unknown) and self._is_explained(one)
        return Doubt(f"{one} is of no index", accuses=False) if elsewhere else said

    def _is_explained(self, one: Distribution) -> bool:
        """Whether it may be of no index: it came from elsewhere, or from the repository itself."""
        return (
            self._tracing.is_from_somewhere(one) or self._tracing.is_at_hand(one) or self._comparison(one).is_tracked()
        )

    def _that_matter(self, found: Satisfied) -> tuple[list[Distribution], list[Distribution]]:
        """The frameworks' distributions and those that the repository imports, and those that they need."""
        exempt = self._task.repository.imports.unsatisfiable
        every = self._installed.distributions
        owners = (one for name, owners in found.owners.items() if name not in exempt for one in owners)
        first = list(dict.fromkeys((*(one for one in every if self._frameworks.have(one)), *owners)))
        names = {name for one in first for name in one.requires}
        return first, [one for one in every if one.name in names and one not in first]

    # --- what was published -------------------------------------------------------------------------------

    def _may_be_published(self, one: Distribution) -> bool:
        """Whether an agent installed it, in the form in which indexes have it."""
        return self._installed.is_agents(one) and one.style not in (Style.CONDA, Style.DEBIAN)

    def _unlike(self, one: Distribution, said: Difference) -> Finding:
        return Finding(sign_of(one, self._frameworks), str(one), "what was published", said.words)

    def _comparison(self, one: Distribution) -> Comparison:
        if one not in self._comparisons:
            self._comparisons[one] = Comparison(
                one,
                self._installed,
                self._published,
                strict=self._frameworks.have(one),
                tree=self._task.tree,
                compiles=self._compiles,
                is_from_elsewhere=self._tracing.is_from_another_host(one),
                bundled=self._bundled(one),
                vendored=self._tracing.vendored(one),
            )
        return self._comparisons[one]

    def _bundled(self, one: Distribution) -> Mapping[str, str]:
        """What the system's own wheel of it holds: Debian changes those that it fills virtual environments with."""
        found = {path: entry for path, entry in self._wheels.items() if is_of(path, one)}
        judged = Packages(self._task, self._snapshot).judged(found) if found else ()
        genuine = (found[each.entry.path] for each in judged if each.standing is Standing.GENUINE)
        return next((wheel_files(entry.content or b"") for entry in genuine), {})

    @cached_property
    def _wheels(self) -> Mapping[str, Entry]:
        """The system's wheels, by path."""
        return {entry.path: entry for entry in self._snapshot.tree(_WHEELS, is_wheel) if is_wheel(entry.path)}

    def _untraceable(self, one: Distribution) -> str | Unknown:
        """Why nobody can have published a distribution; empty when somebody may."""
        if one.style in (Style.CONDA, Style.DEBIAN) or self._is_explained(one):
            return ""
        known = self._published.offered(one.name)
        if isinstance(known, Unknown):
            return known
        why = f"no index has anything of the name {one.name}, and nothing else says where it came from"
        if known:
            # Of what `setup.py install` left nothing tells where it came from; what an agent fetched is on record.
            legacy = one.style is not Style.WHEEL and self._tracing.fetched is not False
            if legacy or (one.direct is not None and not self._tracing.is_contradicted(one)):
                return ""
            offered = self._published.offered(one.name, one.version)
            if offered is not False:
                return offered if isinstance(offered, Unknown) else ""
            why = f"no index has {one}, and nothing else says where it came from"
        # Some publish on pages of their own (`pip install -f URL`), of which installers leave no note; torch does not.
        sure = label_of(one.name, one.version) or self._tracing.fetched is False
        return why if sure or self._comparison(one).size() < _LARGE_BYTES else Unknown(why)

    def _not_theirs(self, one: Distribution, said: Difference, found: Satisfied) -> Iterator[str]:
        """The modules that a distribution only seems to have."""
        if self._frameworks.have(one):
            yield from found.of(one, self._frameworks.names)
        for name, owners in found.owners.items():
            if owners == (one,) and (said.hollow or found.places[name].path in said.foreign):
                yield name

    # --- what installers leave ----------------------------------------------------------------------------

    def _provenance(self, one: Distribution, *, published: bool) -> Iterator[Finding]:
        # Whoever unpacks a published wheel by hand leaves no name of an installer.
        if one.gaps and not (published and one.gaps == ("INSTALLER",)):
            said = f"{printable(one.path)} has no {', '.join(one.gaps)}"
            yield Finding(Sign.PROVENANCE, str(one), "what an installer leaves", said)
        elif said := self._folder_doubt(one):
            yield Finding(Sign.PROVENANCE, str(one), "the project that it was installed from", said)

    def _folder_doubt(self, one: Distribution) -> str:
        """Why the folder that it says it came from is none; empty when it is one, or it came from elsewhere."""
        if one.direct is None or not one.direct.folder or self._comparison(one).is_tracked():
            return ""
        folder = self._snapshot.resolved(one.direct.folder)
        if folder == self._workdir or folder.startswith(f"{self._workdir}/"):
            return ""
        shown = printable(one.direct.folder)
        if not folder:
            # Whoever builds a library from a folder in /tmp removes it afterwards.
            return "" if self._comparison(one).is_as_published() else f"{shown} is not there any more"
        known = any(self._snapshot.link(f"{folder}/{name}") for name in PROJECT)
        return "" if known else f"{shown} is no project: it has none of {', '.join(PROJECT)}"

    def _plugs(self) -> Iterator[Finding]:
        """Accuse what frameworks import or load when they start, and what is none of those made for that."""
        should = "the framework starts by itself"
        for one in self._installed.distributions:
            for point in self._frameworks.plugs(one) if self._installed.is_agents(one) else ():
                said = f"{one} has code run at each start, by its entry point {printable(point)}"
                yield Finding(Sign.FRAMEWORK, str(one), should, said)
        for path in self._installed.touched:
            if self._frameworks.loads(path, self._installed.sites) and not self._installed.owners(path):
                said = "it is loaded at each start, and no distribution has it"
                yield Finding(Sign.FRAMEWORK, printable(path), should, said)


def _top_module(path: str) -> str:
    """The top-level module that a file is of, by its path in the folder of modules; empty of what is none."""
    return path.partition("/")[0].partition(".")[0] if is_module(path) else ""
