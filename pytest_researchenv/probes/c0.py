"""C0, static imports: can every import of the pinned tree be resolved in the environment?

The published figure comes from pyright's `reportMissingImports` alone. The verdict is stricter (stubs without their
package count as missing, nothing can be silenced, an agent's stand-in is no package) and fairer (what the environment's
interpreter finds is not missing, whatever pyright says; what no environment can satisfy is named in `repo.toml`).

Only top-level names are judged. A missing submodule of a package that is there counts in the published figure and is
recorded as `missing_submodules`: version-guarded imports of both an old and a new place are common, and whether the
code runs is for the tiers above to say.
"""

from __future__ import annotations

import io
import secrets
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import PurePosixPath

from pytest_researchenv.errors import InfrastructureError, SandboxError
from pytest_researchenv.model import Cause, Tier, TierResult, Verdict
from pytest_researchenv.probes.imports import ImportScan, scan_files
from pytest_researchenv.probes.lookup import Lookup, LookupFailedError, parse_lookup, request
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.pyright import (
    MISSING,
    PyrightError,
    PyrightReport,
    analysed,
    blank_suppressions,
    configuration,
    parse_report,
)
from pytest_researchenv.probes.reported import Unreported, reported_python
from pytest_researchenv.probes.world import Interpreter, probe_environment
from pytest_researchenv.sandbox.protocol import Completed, ContainerSpec, Termination
from pytest_researchenv.sandbox.tools import NODE, PYRIGHT


__all__ = ["C0Probe"]

#: Finding modules takes well under a second; start-up of an interpreter with many .pth files a few.
_LOOKUP_TIMEOUT_S = 300.0

_DEFAULT_TIMEOUT_S = 1800.0

#: pyright's answer must come whole: 1000 files with 20 missing imports each make 8 MB.
_CAPTURE_BYTES = 64 * 1024 * 1024

#: Node's own limit of 4 GiB is too small for some trees with large frameworks.
_NODE_OPTIONS = ("--no-warnings", "--max-old-space-size=8192")

#: How many names a reason lists.
_LISTED = 10


class _BrokenEnvironmentError(Exception):
    """The environment is at fault, and the message says how."""


@dataclass(frozen=True, slots=True)
class _Findings:
    """What was observed, sorted into what counts and what does not.

    Attributes:
        scan: what the pinned tree imports.
        missing: names that count, each with a note (empty, or the stand-in that was found).
        exempt: missing names that `repo.toml` lists as unsatisfiable.
        runtime_only: names that pyright misses and the interpreter finds → where.
        published: names of the published figure.
        submodules: dotted modules that pyright misses in packages that are there.
        decisive: pyright's first message about a name that counts.
    """

    scan: ImportScan
    missing: Mapping[str, str]
    exempt: tuple[str, ...]
    runtime_only: Mapping[str, str]
    published: tuple[str, ...]
    submodules: tuple[str, ...]
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
            InfrastructureError: pyright runs neither in the snapshot nor in the base image, or an image or the tool
                volume is gone.
        """
        python = reported_python(task.environment)
        if isinstance(python, Unreported):
            return _failed(python.cause, python.reason)
        scan = scan_files(task.tree.root, task.tree.files)
        if not any(map(analysed, scan.files)):
            # Judged, this would be a pass that nothing can fail.
            return TierResult(Tier.C0, Verdict.SKIPPED, Cause.NOT_APPLICABLE, "the pinned tree has no Python files")
        try:
            lookup = _find_modules(task, scan, python)
            pyright = _analyse(task, scan, python)
        except _BrokenEnvironmentError as broken:
            return _failed(Cause.BROKEN_ENVIRONMENT, str(broken))
        return _verdict(_findings(task, scan, lookup, pyright), task.settings.get("c0_max_missing", 0.0))


def _failed(cause: Cause, reason: str) -> TierResult:
    return TierResult(Tier.C0, Verdict.FAILED, cause, reason)


# --- observing --------------------------------------------------------------------------------------------


def _find_modules(task: ProbeTask, scan: ImportScan, python: str) -> Lookup:
    """Ask the reported interpreter where it finds every imported name."""
    nonce = secrets.token_hex(8)
    folder = f"/researchenv-c0-{nonce}"
    script = resources.files("pytest_researchenv.probes").joinpath("inside", "find_modules.py").read_bytes()
    files = {
        "find_modules.py": script,
        "request.json": request(nonce, scan.names, task.environment.workdir).encode(),
    }
    spec = ContainerSpec(
        image=task.environment.image,
        argv=(python, "-B", f"{folder}/find_modules.py", f"{folder}/request.json"),
        environment=probe_environment(Interpreter(python), pycache=f"{folder}/pycache"),
        workdir="/",
    )
    try:
        completed = _run(task, spec, _archive(folder, files), timeout_s=_LOOKUP_TIMEOUT_S)
    except SandboxError as error:
        raise _blamed(task, scan, python, f"{python} cannot be started: {error}") from error
    output = completed.output.text()
    if not completed.ok:
        last = (output.strip().splitlines() or ["(nothing printed)"])[-1][:200]
        raise _BrokenEnvironmentError(f"{python} {completed.how}: {last}")
    try:
        return parse_lookup(output, nonce, scan.names)
    except LookupFailedError as error:
        raise _BrokenEnvironmentError(f"{python}: {error}") from error


def _analyse(task: ProbeTask, scan: ImportScan, python: str) -> PyrightReport:
    """Pyright's report on the snapshot; if there is none, find out who is to blame."""
    try:
        return _pyright(task, scan, python, image=task.environment.image)
    except (SandboxError, PyrightError) as error:
        raise _blamed(task, scan, python, f"pyright cannot run in the environment: {error}") from error


def _blamed(task: ProbeTask, scan: ImportScan, python: str, problem: str) -> _BrokenEnvironmentError:
    """The environment's fault, provided that pyright runs on the same tree in the base image.

    Raises:
        InfrastructureError: it does not.
    """
    try:
        _pyright(task, scan, python, image=task.environment.base_image)
    except (SandboxError, PyrightError) as error:
        raise InfrastructureError(
            f"{problem}; nor does pyright run in the base image {task.environment.base_image}: {error}. "
            "Check the container engine and the tool volume with `researchenv doctor`."
        ) from error
    return _BrokenEnvironmentError(problem)


def _pyright(task: ProbeTask, scan: ImportScan, python: str, *, image: str) -> PyrightReport:
    folder = f"/researchenv-c0-{secrets.token_hex(8)}"
    spec = ContainerSpec(
        image=image,
        argv=(NODE, *_NODE_OPTIONS, PYRIGHT, "--outputjson", "--pythonpath", python, "-p", folder),
        environment=probe_environment(Interpreter(python), pycache=f"{folder}/pycache"),
        workdir="/",
        mounts=(task.tools,),
    )
    completed = _run(task, spec, _archive(folder, _analysed_files(task)), timeout_s=_timeout(task))
    if completed.termination is not Termination.EXITED:
        raise PyrightError(f"pyright {completed.how}")
    if completed.output.omitted:
        raise PyrightError(f"pyright printed {completed.output.total} bytes, more than can be read")
    report = parse_report(completed.output.text(), completed.exit_code, folder=folder)
    expected = sum(map(analysed, scan.files))
    if report.files < expected:
        raise PyrightError(f"pyright analysed {report.files} of {expected} files")
    return report


def _run(task: ProbeTask, spec: ContainerSpec, archive: io.BytesIO, *, timeout_s: float) -> Completed:
    with task.sandbox.opened(spec) as container:
        container.put("/", archive)
        return container.run(timeout_s=timeout_s, on_output=task.log, capture_bytes=_CAPTURE_BYTES)


def _timeout(task: ProbeTask) -> float:
    spec = task.repository.tiers.get(Tier.C0)
    return spec.timeout_s if spec else _DEFAULT_TIMEOUT_S


def _analysed_files(task: ProbeTask) -> dict[str, bytes]:
    """The tracked Python files without suppressions, and our configuration; no links."""
    paths = [task.tree.root / path for path in task.tree.files if path.endswith(".py")]
    files = {
        path.relative_to(task.tree.root).as_posix(): blank_suppressions(path.read_bytes())
        for path in paths
        if path.is_file() and not path.is_symlink()
    }
    return files | {"pyrightconfig.json": configuration().encode()}


def _archive(folder: str, files: Mapping[str, bytes]) -> io.BytesIO:
    """A tar of files below a folder, to be unpacked at `/`; it names every folder on the way."""
    buffer = io.BytesIO()
    root = PurePosixPath(folder.lstrip("/"))
    folders = {root} | {root / parent for path in files for parent in PurePosixPath(path).parents}
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for path in sorted(folders):
            member = tarfile.TarInfo(str(path))
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(member)
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(str(root / name))
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    buffer.seek(0)
    return buffer


# --- deciding ---------------------------------------------------------------------------------------------


def _findings(task: ProbeTask, scan: ImportScan, lookup: Lookup, pyright: PyrightReport) -> _Findings:
    absolute = [item for item in pyright.diagnostics if not item.relative]
    # Files that our parser cannot read are not in the total, so what pyright finds in them cannot be missing from it.
    reported = {item.name: item for item in reversed(absolute) if item.path not in scan.unparsable}
    stand_ins = _stand_ins(task, lookup)
    missing = {name: "" for name in reported if name not in lookup.modules}
    # pyright itself follows an editable install into the repository's folder, and finds the stand-in there.
    missing |= {name: f"only an untracked stand-in, {path}" for name, path in stand_ins.items()}
    exempt = task.repository.imports.unsatisfiable
    counts = {name: missing[name] for name in sorted(missing) if name not in exempt}
    found = [name for name in sorted(reported) if name not in missing]
    return _Findings(
        scan=scan,
        missing=counts,
        exempt=tuple(sorted(name for name in missing if name in exempt)),
        runtime_only={name: str(lookup.modules[name]) for name in found},
        published=tuple(sorted({item.name for item in absolute if item.rule == MISSING})),
        submodules=tuple(sorted({item.module for item in absolute if "." in item.module and item.name in found})),
        decisive=next((str(item) for item in absolute if item.name in counts), ""),
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
        reason=reason,
        decisive="" if passed else findings.decisive,
        evidence={
            "missing": list(findings.missing),
            "missing_published": list(findings.published),
            "missing_submodules": list(findings.submodules),
            "total": total,
            "unsatisfiable": list(findings.exempt),
            "runtime_only": [f"{name}: {where}" for name, where in findings.runtime_only.items()],
            "stand_ins": [f"{name}: {note}" for name, note in findings.missing.items() if note],
            "unparsable": list(findings.scan.unparsable),
        },
    )
