"""What is installed: whose it is, whether it is what was installed, and where it came from. Read from outside."""

from __future__ import annotations

from dataclasses import replace

from pytest_researchenv.integrity._reading import read_installed
from pytest_researchenv.integrity.archives import Archives
from pytest_researchenv.integrity.changes import change_findings
from pytest_researchenv.integrity.frameworks import Frameworks, core_problem
from pytest_researchenv.integrity.installed import Distribution, Installed, Style
from pytest_researchenv.integrity.layout import Layout, NoLayout, layout_of
from pytest_researchenv.integrity.loose import loose_signs
from pytest_researchenv.integrity.origins import Doubt, Origins
from pytest_researchenv.integrity.ownership import Modules
from pytest_researchenv.integrity.protocol import Signs, Snapshot, merged
from pytest_researchenv.integrity.startup import startup_signs
from pytest_researchenv.integrity.stubs import Satisfied, foreign_names, satisfied, stub_signs
from pytest_researchenv.integrity.untracked import Untracked
from pytest_researchenv.integrity.witness import Nothing, Published
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.imports import OwnModules, scan_files
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["distributions"]

_NOTHING = Nothing()


def distributions(
    task: ProbeTask, snapshot: Snapshot, published: Published = _NOTHING, archives: Archives | None = None
) -> Signs:
    """Look at all that is installed for the reported interpreter.

    Args:
        task: what is audited.
        snapshot: its frozen image.
        published: what the package index says of distributions.
        archives: whom to ask of the system's packages; None: nobody.

    Raises:
        SandboxError: the engine refuses to read.
    """
    layout = layout_of(task, snapshot)
    if isinstance(layout, NoLayout):
        return Signs(remarks=(f"nothing is known of what is installed: {layout.reason}",))
    installed = read_installed(task, layout, snapshot)
    scan = scan_files(task.tree.root, task.tree.own)
    frameworks = Frameworks.of(task.repository.frameworks, frozenset(scan.names))
    untracked = Untracked(task, snapshot)
    modules = Modules(task, layout, snapshot, installed=installed, untracked=untracked, archives=archives)
    found = satisfied(foreign_names(scan, OwnModules.of(task.tree.root, task.tree.files)), modules)
    stubs = stub_signs(
        task,
        snapshot,
        version=layout.version,
        scan=scan,
        found=found,
        modules=modules,
        installed=installed,
        untracked=untracked,
    )
    origins = Origins(
        task, snapshot, installed=installed, frameworks=frameworks, published=published, compiles=untracked.compiles
    )
    looked = (
        stubs,
        _changes(layout, installed, frameworks, found),
        _cores(layout, snapshot, modules, installed, frameworks),
        _lent(modules, origins),
        origins.signs(found),
        loose_signs(task, snapshot, layout, installed),
        startup_signs(task, snapshot, layout, installed=installed, modules=modules, origins=origins),
        origins.others(found),
    )
    # Links were followed only now. What runs at start may be what the repository imports as well.
    signs = merged((*looked, _unread(installed)))
    return replace(signs, findings=tuple(dict.fromkeys(signs.findings)))


def _changes(layout: Layout, installed: Installed, frameworks: Frameworks, found: Satisfied) -> Signs:
    """Accuse what differs from its record. A framework that was changed is not what its version says."""
    changes = list(change_findings(installed, frameworks, layout.prefix))
    modules = {
        name: f"{one}: {finding.observed}"
        for one, finding in changes
        if finding.kind is Sign.FRAMEWORK
        for name in found.of(one, frameworks.names)
    }
    return Signs(tuple(finding for _, finding in changes), modules=modules)


def _lent(modules: Modules, origins: Origins) -> Signs:
    """Accuse what the standard library itself would import, and what nobody published."""
    findings = []
    for name, place in modules.lent():
        owned = modules.owned(name, place)
        why = owned.stranger or next(filter(None, (_unpublished(one, origins) for one in owned.distributions)), "")
        if why:
            should = "nothing of anybody's that the standard library imports"
            findings.append(Finding(Sign.INTERPRETER, printable(name), should, printable(why, 500)))
    return Signs(tuple(findings))


def _unpublished(one: Distribution, origins: Origins) -> str:
    """Why nobody published a distribution for what it has of the standard library; empty when somebody did."""
    if one.style in (Style.CONDA, Style.DEBIAN):
        # No package of theirs has such a module, and their records are root's to write.
        return f"{one} has it, of which only {one.style} has a record"
    doubt = origins.code_doubt(one)
    return doubt.why if isinstance(doubt, Doubt) and doubt.accuses else ""


def _unread(installed: Installed) -> Signs:
    should = "all of it can be read"
    problems = installed.problems
    return Signs(tuple(Finding(Sign.UNREADABLE, "what is installed", should, problem) for problem in problems))


def _cores(layout: Layout, snapshot: Snapshot, modules: Modules, installed: Installed, frameworks: Frameworks) -> Signs:
    """Accuse frameworks without a compiled core, and those that another distribution has."""
    prefixes = tuple(dict.fromkeys((layout.prefix, layout.base_prefix, "/usr")))
    problems = {}
    for framework, module, place in frameworks.cores(modules):
        problem = core_problem(framework, place, prefixes=prefixes, snapshot=snapshot, installed=installed)
        owners = [one for one in modules.owned(module, place).distributions if one.style is Style.WHEEL]
        if not problem and owners and not any(map(frameworks.have, owners)):
            problem = f"{place.path} is of {', '.join(map(str, owners))}"
        if problem:
            problems[framework] = printable(problem, 500)
    should = "a framework with a compiled core, of its own distribution"
    findings = (Finding(Sign.FRAMEWORK, name, should, problem) for name, problem in problems.items())
    return Signs(tuple(findings), modules=problems)
