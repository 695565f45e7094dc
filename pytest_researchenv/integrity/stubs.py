"""Modules that satisfy an import of the repository, and that nobody has: neither a distribution nor the repository."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from pytest_researchenv.integrity._imported import imported as imported_names
from pytest_researchenv.integrity.installed import Distribution, Installed
from pytest_researchenv.integrity.modulefiles import Place
from pytest_researchenv.integrity.ownership import BYSTANDERS, ELSEWHERE, Modules
from pytest_researchenv.integrity.protocol import Entry, Signs, Snapshot
from pytest_researchenv.integrity.untracked import Offer, Untracked
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.imports import ImportScan, OwnModules
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.outside import standard_library
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["Satisfied", "imported_by_distributions", "satisfied", "stub_signs"]

#: Names that some distributions install by mistake, and every other repository has.
_COMMON = frozenset(
    {"benchmark", "benchmarks", "build", "conftest", "docs", "examples", "scripts", "setup", "test", "tests", "tools"}
)
#: What no repository compiles for itself.
_NEVER_BUILT = frozenset({"jax", "jaxlib", "numpy", "tensorflow", "torch", "torchaudio", "torchvision", "triton"})
#: What runs at the start of Python is for another check.
_HOOKS = frozenset({"sitecustomize", "usercustomize", "_virtualenv"})
#: Links by themselves that are followed; of more than these, what is installed has a problem of its own.
_MOST_SINGLE = 2000
#: Statements that import, with what they name.
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+(\w+)|import[ \t]+([\w., \t]+))", re.MULTILINE)
_OWNED = "a distribution or the repository has it"


@dataclass(frozen=True, slots=True)
class Satisfied:
    """What satisfies the imports of the repository.

    Attributes:
        owners: top-level name → the distributions that have it.
        places: top-level name → where it is.
        strangers: top-level name → why nobody has it.
    """

    owners: Mapping[str, tuple[Distribution, ...]] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)
    strangers: Mapping[str, str] = field(default_factory=dict)

    def of(self, one: Distribution, frameworks: Collection[str]) -> Iterator[str]:
        """The modules of a distribution: those that the repository imports, and frameworks in any case."""
        yield from (name for name, owners in self.owners.items() if one in owners)
        yield from (name for name in frameworks if f"{one.site}/{name}/__init__.py" in one.files)


def satisfied(names: Collection[str], modules: Modules) -> Satisfied:
    """Find what satisfies some imports.

    Args:
        names: top-level names.
        modules: what the interpreter finds.

    Raises:
        SandboxError: the engine refuses to read.
    """
    places = {name: place for name in sorted(names) if (place := modules.find(name)) is not None}
    owned = {name: modules.owned(name, place) for name, place in places.items()}
    return Satisfied(
        owners={name: one.distributions for name, one in owned.items() if one.distributions},
        places=places,
        strangers={name: one.stranger for name, one in owned.items() if one.stranger},
    )


def foreign_names(scan: ImportScan, own: OwnModules) -> frozenset[str]:
    """Imported names that the tree does not satisfy by itself, wherever they are imported."""
    return frozenset(
        name for name, files in scan.importers.items() if any(not own.satisfy(name, file) for file in files)
    )


def stub_signs(
    task: ProbeTask,
    snapshot: Snapshot,
    *,
    version: str,
    scan: ImportScan,
    found: Satisfied,
    modules: Modules,
    installed: Installed,
    untracked: Untracked,
) -> Signs:
    """Accuse what nobody has.

    Args:
        task: what is audited.
        snapshot: the frozen image.
        version: minor version of the Python.
        scan: what the pinned tree imports.
        found: what satisfies it.
        modules: what the interpreter finds.
        installed: what is installed for it.
        untracked: what the agent left in the repository.

    Raises:
        SandboxError: the engine refuses to read.
    """
    exempt = task.repository.imports.unsatisfiable
    strangers = {name: why for name, why in found.strangers.items() if name not in exempt}
    strays = modules.strays()
    # What runs in distributions may answer for them, also where the repository takes no part.
    offered = _offered(task, untracked)
    shared = imported_by_distributions(snapshot, installed, {*strangers, *strays, *modules.beside(), *offered})
    beside = satisfied(shared - strays.keys() - scan.importers.keys(), modules).strangers
    strangers |= {
        name: f"{why}, and which distributions import"
        for name, why in {**strays, **beside}.items()
        if name in shared and name not in scan.importers and name not in _HOOKS
    }
    in_tree = _in_repository(task, scan, untracked, modules, stdlib=standard_library(version), shared=shared & offered)
    kinds = dict.fromkeys(shared, Sign.DISTRIBUTION)
    findings = [_stub(name, why, kinds.get(name, Sign.STUB)) for name, why in sorted(strangers.items())]
    findings += [_stub(name, why, Sign.STUB) for name, why in sorted(in_tree.items())]
    findings += [
        Finding(Sign.STUB, printable(path), f"the tracked {printable(module)} is imported", "Python prefers this one")
        for path, module in untracked.overriding()
    ]
    findings += [
        Finding(Sign.STUB, printable(path), "nothing by the name of a placeholder", "Python looks for modules in it")
        for path in untracked.placeholders()
    ]
    named = {name: why for name, why in {**strangers, **in_tree}.items() if name in scan.importers}
    return Signs(tuple(findings), modules={name: printable(why, 500) for name, why in named.items()})


def _stub(name: str, why: str, kind: Sign) -> Finding:
    return Finding(kind, printable(name), _OWNED, printable(why, 500))


# --- in the repository ------------------------------------------------------------------------------------


def _in_repository(
    task: ProbeTask,
    scan: ImportScan,
    untracked: Untracked,
    modules: Modules,
    *,
    stdlib: Collection[str],
    shared: Collection[str],
) -> dict[str, str]:
    """Names that untracked files of the repository stand for, which are another's or nobody's."""
    own = OwnModules.of(task.tree.root, task.tree.files)
    wanted = (set(stdlib) - BYSTANDERS) | ELSEWHERE
    elsewhere = dict.fromkeys(wanted, "the standard library's")
    installed = modules.in_sites() - modules.strays().keys() - elsewhere.keys()
    elsewhere |= dict.fromkeys(installed, "an installed distribution's")
    meant = (name for name in shared if name not in elsewhere and name not in scan.importers)
    elsewhere |= dict.fromkeys(meant, "what distributions import by the name of")
    scripts = _script_folders(task.tree.files)
    found = {}
    for folder, name, offer in untracked.offers():
        importers = [file for file in scan.importers.get(name, ()) if folder == "src" or _is_above(folder, file)]
        if (folder, name) in own.places or name in task.repository.imports.unsatisfiable:
            continue
        if not importers and (name not in elsewhere or folder not in scripts):
            continue
        if offer.linked and not untracked.is_package(offer.path):
            continue
        # What a repository builds in place may be installed as well.
        built = offer.native and untracked.builds and name not in _NEVER_BUILT and name not in stdlib
        if built:
            continue
        regular = offer.regular or name in ELSEWHERE
        if name in elsewhere and regular and (importers or (folder in scripts and name not in _COMMON)):
            found[name] = f"the untracked {offer.path} goes before {elsewhere[name]} {name}"
        elif importers and name not in elsewhere and _stands_in(offer, name, importers, own):
            found[name] = f"only the untracked {offer.path}, which no project in the repository has"
    return found


def _offered(task: ProbeTask, untracked: Untracked) -> frozenset[str]:
    """Untracked modules in folders from which code is run: whatever runs there finds them first."""
    scripts = _script_folders(task.tree.files)
    return frozenset(name for folder, name, offer in untracked.offers() if folder in scripts and offer.regular)


def _stands_in(offer: Offer, name: str, importers: Collection[str], own: OwnModules) -> bool:
    """Whether a module that nobody else has is imported, or one that the tree has elsewhere is hidden."""
    return offer.regular or any(not own.satisfy(name, file) for file in importers)


def _is_above(folder: str, file: str) -> bool:
    return folder == "." or file.startswith(f"{folder}/")


def _script_folders(files: Collection[str]) -> frozenset[str]:
    """Folders from which code is run: they are first on the path of what runs there."""
    folders = {posixpath.dirname(path) or "." for path in files if path.endswith(".py")}
    packages = {posixpath.dirname(path) or "." for path in files if posixpath.basename(path) == "__init__.py"}
    return frozenset({".", "src", *(folders - packages)})


# --- in site folders --------------------------------------------------------------------------------------


def imported_by_distributions(
    snapshot: Snapshot, installed: Installed, names: Collection[str], but: Collection[Distribution] = ()
) -> frozenset[str]:
    """Which of some names the code of distributions imports.

    Args:
        snapshot: the frozen image.
        installed: what is installed.
        names: top-level modules; without any nothing is read.
        but: distributions whose code does not count.

    Raises:
        SandboxError: the engine refuses to read.
    """
    imported: set[str] = set()

    def counts(path: str) -> bool:
        return path.endswith(".py") and any(one not in but for one in installed.owners(path))

    for entry in _sources(snapshot, installed, counts) if names else ():
        said = (re.findall(r"(?:^|,)\s*(\w+)", _named(match)) for match in _IMPORT.finditer(entry.content or b""))
        # Prose has lines of this form as well.
        if not imported.issuperset(maybe := set(chain.from_iterable(said)).intersection(names)):
            imported |= maybe & imported_names(entry.text)
    return frozenset(imported)


def _sources(snapshot: Snapshot, installed: Installed, counts: Callable[[str], bool]) -> Iterator[Entry]:
    """Sources of distributions, with content; those behind links, as some installers leave all of them, too."""
    for site in installed.sites:
        yield from (entry for entry in snapshot.tree(site, counts) if entry.content is not None)
    beyond: dict[str, set[str]] = {}
    for path in {path for one in installed.distributions for path in one.files if counts(path)}:
        if found := installed.beyond(path):
            folder, target = found
            beyond.setdefault(folder, set()).add(target)
    single = [folder for folder, targets in beyond.items() if targets == {folder}]
    for folder in beyond.keys() - set(single):
        real = snapshot.resolved(folder)
        wanted = {f"{real}{target.removeprefix(folder)}" for target in beyond[folder]}
        yield from (entry for entry in snapshot.tree(folder, wanted.__contains__) if entry.content is not None)
    yield from filter(None, map(installed.content, sorted(single)[:_MOST_SINGLE]))


def _named(match: re.Match[bytes]) -> str:
    return bytes(match[1] or match[2]).decode(errors="replace")
