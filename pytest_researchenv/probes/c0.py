"""C0, static imports: can every import of the pinned tree be resolved in the environment?

The published figure comes from pyright's `reportMissingImports` alone, on a selection of the tree. The verdict is
stricter (everything is analysed, stubs and folders without code count as missing, nothing can be silenced, an agent's
stand-in is no package, nor is what the integrity audit found not to be genuine) and fairer (what the environment's
interpreter finds is not missing, whatever pyright says, provided that it is seen from outside; what no environment can
satisfy is named in `repo.toml`).

Beside the verdict the published figure is recorded for comparison (`published.py`): `missing_published` are the names
that the published harness would have counted, `published_selection` says what it would have analysed, and
`published_ratio` is its metric, their number over the published total. The `total` of the verdict is the number of
names that are judged: the published total, and those that only files with a byte order mark import.

What pyright resolves outside the tree has to be found by the interpreter, too. The standard library is left to pyright,
which knows it by version: much of it exists on some platforms only, and is imported where it does.

Only top-level names are judged. A missing submodule of a package that is there counts in the published figure, and is
recorded as `missing_submodules`: version-guarded imports of both an old and a new place are common, and whether the
code runs is for the tiers above to say.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources

from pytest_researchenv.errors import InfrastructureError, SandboxError
from pytest_researchenv.model import Cause, Tier, TierResult, TierSpec, Verdict
from pytest_researchenv.probes.imports import ImportScan, OwnModules, scan_files
from pytest_researchenv.probes.interpreter import Broken
from pytest_researchenv.probes.launch import attempt_labels, attempted, restored
from pytest_researchenv.probes.lookup import Lookup, LookupFailedError, Question, parse_lookup, printable
from pytest_researchenv.probes.outside import Outside, standard_library
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.published import Published, published_figure
from pytest_researchenv.probes.pyright import (
    Diagnostic,
    PyrightError,
    PyrightReport,
    analysed,
    blank_suppressions,
    configuration,
    heap_exhausted,
    parse_report,
    plain_path,
    renamed,
)
from pytest_researchenv.probes.reported import Unreported, reported_python
from pytest_researchenv.probes.world import Interpreter, probe_environment
from pytest_researchenv.sandbox.protocol import Completed, ContainerSpec, Limits, Termination
from pytest_researchenv.sandbox.tools import NODE, PYRIGHT


__all__ = ["C0Probe"]

#: Finding modules takes well under a second; start-up of an interpreter with many .pth files a few.
_LOOKUP_TIMEOUT_S = 300.0

#: What pyright gets at least; a `timeout_s` in `repo.toml` can only raise it. kvpress with torch takes 14 s.
_TIMEOUT_S = 1800.0

_LIMITS = Limits()

#: pyright's answer must come whole: 1000 files with 20 missing imports each make 8 MB.
_CAPTURE_BYTES = 64 * 1024 * 1024

#: Node's own limit of 4 GiB is too small for some trees with large frameworks. `repo.toml` may set another one.
_NODE_OPTIONS = "--max-old-space-size=8192"

#: How many names a reason lists.
_LISTED = 10

#: Modules that exist for type checkers alone.
_CHECKERS_ONLY = frozenset({"_typeshed"})

#: Characters of one entry of a result; paths may have 4096.
_LONGEST_REASON = 5000

_NO_CODE = "no code, only stubs or a folder"


class _BrokenEnvironmentError(Exception):
    """The environment is at fault, and the message says how."""


class _LimitError(InfrastructureError):
    """Pyright reached a limit that we set it."""


@dataclass(frozen=True, slots=True)
class _Findings:
    """What was observed, sorted into what counts and what does not.

    Attributes:
        scan: what the pinned tree imports.
        missing: names that count, each with a note (empty, or what was found or claimed instead).
        exempt: missing names that `repo.toml` lists as unsatisfiable.
        runtime_only: names that pyright misses and the interpreter finds → where.
        claims: names that the interpreter says it finds, and that are not there → why.
        stand_ins: names that count and are only found in an untracked file of the repository → that file.
        published: the published figure.
        submodules: dotted modules that pyright misses in packages that are there.
        passed_over: what could not be read of the environment.
        decisive: pyright's first message about a name that counts.
    """

    scan: ImportScan
    missing: Mapping[str, str]
    exempt: tuple[str, ...]
    runtime_only: Mapping[str, str]
    claims: Mapping[str, str]
    stand_ins: Mapping[str, str]
    published: Published
    submodules: tuple[str, ...]
    passed_over: tuple[str, ...]
    decisive: str


class C0Probe:
    """Runs pyright and the reported interpreter over the pinned tree, in throw-away containers."""

    @property
    def tier(self) -> Tier:
        """C0."""
        return Tier.C0

    def judge(self, task: ProbeTask) -> TierResult:
        """Observe and decide.

        Raises:
            InfrastructureError: pyright runs neither in the snapshot nor in the base image, or within its limits in
                neither, or an image or the tool volume is gone.
        """
        python = reported_python(task.environment)
        if isinstance(python, Unreported):
            return _failed(python.cause, python.reason)
        scan = scan_files(task.tree.root, task.tree.own)
        if not any(map(analysed, scan.files)):
            # Judged, this would be a pass that nothing can fail.
            return TierResult(Tier.C0, Verdict.SKIPPED, Cause.NOT_APPLICABLE, "the pinned tree has no Python files")
        try:
            with task.leased(0):
                lookup = _find_modules(task, scan, python)
                pyright = _analyse(task, scan, python)
                own = OwnModules.of(task.tree.root, task.tree.files)
                beyond = _beyond(scan, own, pyright, lookup.version)
                doubts = _doubts(task, lookup, beyond.union(item.name for item in pyright.diagnostics))
                hollow = beyond.difference(lookup.modules).union(beyond.intersection(doubts))
                # Not all of it need count: pyright says nothing of what is imported where it sees that no code runs.
                unmet = _analyse(task, scan, python, hidden=hollow, alone=pyright.alone).diagnostics if hollow else ()
        except _BrokenEnvironmentError as broken:
            return _failed(Cause.BROKEN_ENVIRONMENT, str(broken))
        unmet = tuple(item for item in unmet if item.name in hollow)
        judged = [item for item in (*pyright.diagnostics, *unmet) if not own.satisfy(item.name, item.path)]
        forged = _forged(task, scan, own)
        findings = _findings(task, scan, lookup, pyright, judged=judged, doubts=doubts, forged=forged)
        return _verdict(findings, task.settings.get("c0_max_missing", 0.0))


def _failed(cause: Cause, reason: str) -> TierResult:
    return TierResult(Tier.C0, Verdict.FAILED, cause, printable(reason, _LONGEST_REASON))


def _beyond(scan: ImportScan, own: OwnModules, pyright: PyrightReport, version: str) -> frozenset[str]:
    """Names of which pyright misses nothing, and that neither the tree nor the standard library satisfies."""
    known = _CHECKERS_ONLY | standard_library(version) | {item.name for item in pyright.diagnostics}
    foreign = {
        name
        for name, files in scan.importers.items()
        if any(analysed(file) and not own.satisfy(name, file) for file in files)
    }
    return frozenset(foreign - known)


def _forged(task: ProbeTask, scan: ImportScan, own: OwnModules) -> dict[str, str]:
    """Imported names that the tree does not satisfy → why what does is not genuine, as the audit found."""
    known = task.audit.modules if task.audit is not None else {}
    return {
        name: known[name]
        for name, files in scan.importers.items()
        if name in known and any(analysed(file) and not own.satisfy(name, file) for file in files)
    }


# --- observing --------------------------------------------------------------------------------------------


def _find_modules(task: ProbeTask, scan: ImportScan, python: str) -> Lookup:
    """Ask the reported interpreter where it finds every imported name."""
    question = Question(scan.names, task.environment.workdir)
    folder = _new_folder()
    script = resources.files("pytest_researchenv.probes").joinpath("inside", "find_modules.py").read_bytes()
    files = {f"{folder}/find_modules.py": script, f"{folder}/request.json": question.text().encode()}
    spec = ContainerSpec(
        image=task.environment.image,
        argv=(python, "-B", *files),
        environment=probe_environment(Interpreter(python)),
        workdir="/",
        labels=attempt_labels(task),
    )
    completed = attempted(task, lambda: _run(task, spec, files, timeout_s=_LOOKUP_TIMEOUT_S))
    if isinstance(completed, Broken):
        raise _BrokenEnvironmentError(f"{python} cannot be started: {completed.reason}")
    output = completed.output.text()
    if not completed.ok:
        last = (output.strip().splitlines() or ["(nothing printed)"])[-1][:200]
        raise _BrokenEnvironmentError(f"{python} {completed.how}: {last}")
    try:
        lookup = parse_lookup(completed.stdout.text(), question)
    except LookupFailedError as error:
        raise _BrokenEnvironmentError(f"{python}: {error}") from error
    if made_up := _doubts(task, lookup, question.controls):
        name = min(made_up)
        finder = lookup.modules[name].finder
        raise _BrokenEnvironmentError(f"{python} finds modules that do not exist, such as {name}, through {finder}")
    asked = {name: module for name, module in lookup.modules.items() if name in scan.importers}
    return lookup.model_copy(update={"modules": asked})


def _doubts(task: ProbeTask, lookup: Lookup, names: Collection[str]) -> dict[str, str]:
    """Look, from outside, for the modules of these names that the interpreter says it finds.

    Returns:
        Name → why it is not there; names of modules that are there are absent.
    """
    claimed = {name: lookup.modules[name] for name in sorted(names) if name in lookup.modules}
    if not claimed:
        return {}

    def look() -> dict[str, str]:
        # Never started: what the interpreter made when it was asked is not in this container.
        spec = ContainerSpec(image=task.environment.image, argv=("/bin/true",), labels=attempt_labels(task))
        with restored(task, spec) as container:
            outside = Outside(container, lookup.version)
            return {name: outside.doubt(name, module) for name, module in claimed.items()}

    found = attempted(task, look)
    if isinstance(found, Broken):
        raise _BrokenEnvironmentError(f"what the interpreter finds cannot be read: {found.reason}")
    return {name: doubt for name, doubt in found.items() if doubt}


def _analyse(
    task: ProbeTask, scan: ImportScan, python: str, *, hidden: Collection[str] = frozenset(), alone: str = ""
) -> PyrightReport:
    """Pyright's report on the snapshot; if there is none, find out who is to blame.

    What an environment brings along may take more time and memory than there is: a large good one, or stubs that are
    made for it. Then the tree is analysed in the base image. Pyright misses what is not there, and whether it is not is
    for the interpreter and for the look from outside to say.

    Args:
        task: what is judged.
        scan: what its tree imports.
        python: the reported interpreter.
        hidden: names that pyright is to miss wherever it sees that they are imported.
        alone: why the environment is left out; empty when it is not.
    """
    base = replace(task, environment=replace(task.environment, image=task.environment.base_image, changed=()))

    def bare() -> PyrightReport:
        try:
            return _pyright(base, scan, python, hidden)
        except (SandboxError, PyrightError) as error:
            raise InfrastructureError(
                f"pyright runs neither in the environment nor in the base image {base.environment.image}: {error}. "
                f"Remove its volume (`docker volume rm {task.tools.volume}`), so that it is filled anew, and run again."
            ) from error

    if alone:
        return replace(bare(), alone=alone)
    try:
        report = attempted(task, lambda: _pyright(task, scan, python, hidden), control=bare)
    except _LimitError as limit:
        task.log(f"[researchenv] {limit}; analysing the tree without the environment\n".encode())
        return replace(bare(), alone=str(limit))
    except PyrightError as error:
        bare()
        report = Broken(str(error))
    if isinstance(report, Broken):
        raise _BrokenEnvironmentError(f"pyright cannot run in the environment: {report.reason}")
    return report


def _pyright(task: ProbeTask, scan: ImportScan, python: str, hidden: Collection[str]) -> PyrightReport:
    folder = _new_folder()
    prefix = f"absent_{secrets.token_hex(8)}_" if hidden else ""
    tier = task.repository.tiers.get(Tier.C0, TierSpec())
    spec = ContainerSpec(
        image=task.environment.image,
        argv=(NODE, "--no-warnings", PYRIGHT, "--outputjson", "--pythonpath", python, "-p", folder),
        environment={
            **probe_environment(Interpreter(python)),
            "NODE_OPTIONS": tier.environment.get("NODE_OPTIONS", _NODE_OPTIONS),
        },
        workdir="/",
        mounts=(task.tools,),
        limits=_LIMITS,
        labels=attempt_labels(task),
    )
    sources = _sources(task)
    importers = {path for name in hidden for path in scan.importers[name]}
    files = {f"{folder}/{plain_path(path)}": renamed(text, hidden, prefix) for path, text in sources.items()}
    targets = [path for path in scan.files if analysed(path) and (not hidden or path in importers)]
    include = [plain_path(path) for path in targets] if hidden else ["."]
    files[f"{folder}/pyrightconfig.json"] = configuration(include).encode()
    completed = _run(task, spec, files, timeout_s=max(_TIMEOUT_S, tier.timeout_s))
    _check_limits(completed, spec)
    if completed.termination is not Termination.EXITED:
        raise PyrightError(f"pyright {completed.how}")
    if completed.output.omitted:
        raise PyrightError(f"pyright printed {completed.output.total} bytes, more than can be read")
    paths = {plain_path(path): path for path in sources}
    printed = completed.stdout if completed.stdout.total else completed.output
    report = parse_report(printed.text(), completed.exit_code, folder=folder, paths=paths, prefix=prefix)
    if report.files < len(targets):
        raise PyrightError(f"pyright analysed {report.files} of {len(targets)} files")
    return report


def _check_limits(completed: Completed, spec: ContainerSpec) -> None:
    """Pyright is our tool: that it needs more than we give it is not the environment's failure.

    Raises:
        _LimitError: it reached a limit; the message says which.
    """
    if completed.termination is Termination.TIMED_OUT:
        raise _LimitError(
            f"pyright {completed.how}: set a longer timeout_s in [tiers.C0] of the repository's repo.toml"
        )
    if completed.termination is Termination.SIGNALLED and heap_exhausted(completed.output.text()):
        raise _LimitError(
            f"pyright reached node's memory limit ({spec.environment['NODE_OPTIONS']}): set a higher one "
            'in the repository\'s repo.toml: environment = { NODE_OPTIONS = "--max-old-space-size=12288" } in '
            "[tiers.C0], in MiB"
        )
    if completed.termination is Termination.OUT_OF_MEMORY:
        raise _LimitError(
            f"pyright's container was killed for memory, below or at its limit of "
            f"{spec.limits.memory_bytes // 1024**3} GiB: give the container engine's host more memory, or "
            "run fewer tests at once"
        )


def _run(task: ProbeTask, spec: ContainerSpec, files: Mapping[str, bytes], *, timeout_s: float) -> Completed:
    with restored(task, spec, files=files) as container:
        return container.run(timeout_s=timeout_s, on_output=task.log, capture_bytes=_CAPTURE_BYTES)


def _new_folder() -> str:
    """A folder in which nothing can have been prepared."""
    return f"/researchenv-c0-{secrets.token_hex(8)}"


def _sources(task: ProbeTask) -> dict[str, bytes]:
    """The tracked Python files without suppressions; no links."""
    paths = {path: task.tree.root / path for path in task.tree.files if path.endswith(".py")}
    return {
        name: blank_suppressions(path.read_bytes())
        for name, path in paths.items()
        if path.is_file() and not path.is_symlink()
    }


# --- deciding ---------------------------------------------------------------------------------------------


def _findings(
    task: ProbeTask,
    scan: ImportScan,
    lookup: Lookup,
    pyright: PyrightReport,
    *,
    judged: Collection[Diagnostic],
    doubts: Mapping[str, str],
    forged: Mapping[str, str],
) -> _Findings:
    # Files that our parser cannot read are not in the total, so what pyright finds in them cannot be missing from it.
    counted = [item for item in judged if not item.relative and item.path not in scan.unparsable]
    reported = {item.name for item in counted}
    resolved = reported.difference(item.name for item in pyright.diagnostics)
    stand_ins = _stand_ins(task, lookup)
    claims = {name: doubts[name] for name in sorted(reported) if name in doubts and name not in stand_ins}
    missing = {name: _NO_CODE if name in resolved else "" for name in reported if name not in lookup.modules} | claims
    # pyright itself follows an editable install into the repository's folder, and finds the stand-in there.
    missing |= {name: f"only an untracked stand-in, {path}" for name, path in stand_ins.items()}
    missing |= {name: f"not genuine: {why}" for name, why in forged.items() if not missing.get(name)}
    exempt = task.repository.imports.unsatisfiable
    counts = {name: missing[name] for name in sorted(missing) if name not in exempt}
    found = [name for name in sorted(reported) if name not in missing]
    absolute = [item for item in pyright.diagnostics if not item.relative]
    return _Findings(
        scan=scan,
        missing=counts,
        exempt=tuple(sorted(name for name in missing if name in exempt)),
        runtime_only={name: str(lookup.modules[name]) for name in found},
        claims=claims,
        stand_ins={name: note for name, note in counts.items() if name in stand_ins},
        published=Published((), pyright.alone, known=False)
        if pyright.alone
        else published_figure(task.tree, pyright.diagnostics, workdir=task.environment.workdir),
        submodules=()
        if pyright.alone
        else tuple(sorted({item.module for item in absolute if "." in item.module and item.name in found})),
        passed_over=tuple(lookup.passed_over),
        decisive=next((str(item) for item in counted if item.name in counts), ""),
    )


def _stand_ins(task: ProbeTask, lookup: Lookup) -> dict[str, str]:
    """Names that the interpreter finds only in an untracked pure-Python file of the repository → that file."""
    tracked = frozenset(task.tree.files)
    found = {
        name: module.untracked_in(task.environment.workdir, tracked, lookup.editable)
        for name, module in lookup.modules.items()
    }
    return {name: path for name, path in found.items() if path}


def _verdict(findings: _Findings, most: float) -> TierResult:
    total = len(findings.scan.names)
    count = len(findings.missing)
    passed = not count or count / max(total, 1) <= most
    reason = f"{count} of {total} imports missing"
    if count:
        listed = [f"{name} ({note})" if note else name for name, note in findings.missing.items()][:_LISTED]
        more = f" and {count - _LISTED} more" if count > _LISTED else ""
        reason += f": {', '.join(listed)}{more}"
    if count and passed:
        reason += f" (allowed: {most:.0%})"
    return TierResult(
        tier=Tier.C0,
        verdict=Verdict.PASSED if passed else Verdict.FAILED,
        cause=Cause.NONE if passed else Cause.MISSING_IMPORTS,
        reason=printable(reason, _LONGEST_REASON),
        decisive="" if passed else printable(findings.decisive, _LONGEST_REASON),
        evidence={
            "missing": _printable(findings.missing),
            "missing_published": _printable(findings.published.missing),
            "published_selection": printable(findings.published.selection, _LONGEST_REASON),
            "published_ratio": findings.published.ratio(len(findings.scan.published_names)),
            "missing_submodules": _printable(findings.submodules),
            "total": total,
            "unsatisfiable": _printable(findings.exempt),
            "runtime_only": _printable(f"{name}: {where}" for name, where in findings.runtime_only.items()),
            "stand_ins": _printable(f"{name}: {note}" for name, note in findings.stand_ins.items()),
            "claims": _printable(f"{name}: {note}" for name, note in findings.claims.items()),
            "unparsable": _printable(findings.scan.unparsable),
            "passed_over": _printable(findings.passed_over),
        },
    )


def _printable(items: Iterable[str]) -> list[str]:
    """Names of a hostile tree and environment, as results may hold them."""
    return [printable(item, _LONGEST_REASON) for item in items]
