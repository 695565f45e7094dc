"""The evaluation of a task of which its suite has one: a script of ours, in a fresh container from the snapshot.

The container has no network. Beside what the agent left, it alone has two read-only volumes: the evaluation with the
pinned code and the data, and an interpreter that needs nothing of the image (`sandbox/interpreter.py`). Hidden data are
drawn from a secret that is made for this evaluation and comes on standard input; the report is believed only with a
seal that needs it. Deadline, memory and disk are limited from outside.

What becomes of what (DESIGN.md: an agent must not be able to turn a failure into an error): where the container was
ended for its time, memory or disk, what was handed in is to blame. Where the evaluation ends without a report, the same
evaluation is made of the pinned tree on the base image, which the agent never touched: if that yields a report, the
environment is broken, and only otherwise it is an error.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import resources
from pathlib import Path
from typing import Protocol, final

from packaging.requirements import InvalidRequirement, Requirement

from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import SandboxError, SuiteError
from pytest_researchenv.model import Audit, Cause, Sign
from pytest_researchenv.probes.interpreter import Broken
from pytest_researchenv.probes.launch import attempt_labels, attempted, blanked, files_tar, seen_interpreter
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python
from pytest_researchenv.probes.world import SYSTEM_PATH, Interpreter
from pytest_researchenv.progress import Say, Teller
from pytest_researchenv.research.reported import Unreadable, read_report, sealed_report
from pytest_researchenv.research.result import ResearchCause, ResearchFinding
from pytest_researchenv.research.task import Task
from pytest_researchenv.research.verdict import Evaluated
from pytest_researchenv.sandbox.protocol import Completed, Container, ContainerSpec, Limits, Mount, Termination
from pytest_researchenv.source import tree_tar


__all__ = [
    "ENDED",
    "EVALUATION",
    "ContainedEvaluation",
    "EvaluationTask",
    "Evaluator",
    "evaluation_files",
    "found",
    "interpreter_of",
    "requirements_of",
]

#: Where the evaluation is mounted.
EVALUATION = "/researchenv/evaluation"

_SHARED = "_shared"
_HOME = "/researchenv/probes"

_REPORTS = {
    Cause.NO_REPORT: ResearchCause.NO_REPORT,
    Cause.INVALID_REPORT: ResearchCause.INVALID_REPORT,
    Cause.BROKEN_ENVIRONMENT: ResearchCause.BROKEN_ENVIRONMENT,
}

#: Signs that mean more here than for tiers: a hook can know when it is judged, and who has the answers did no research.
_SIGNS = {Sign.HOOK: "environment", Sign.ANSWER: "answers"}

#: How a container was ended → what the sub-task fails for.
ENDED = {
    Termination.OUT_OF_MEMORY: ResearchCause.OUT_OF_MEMORY,
    Termination.TIMED_OUT: ResearchCause.TIMEOUT,
    Termination.DISK_FULL: ResearchCause.DISK_FULL,
}


@dataclass(frozen=True, slots=True)
class EvaluationTask:
    """What an evaluation gets.

    Attributes:
        task: the task.
        subtask: id of the sub-task.
        probe: the environment, as probes get it.
        engine: what volumes come from.
        secret: what hidden data are drawn from; made for this evaluation.
        say: called with what is being done.
    """

    task: Task
    subtask: str
    probe: ProbeTask
    engine: Engine
    secret: bytes
    say: Say = field(default_factory=Teller)


class Evaluator(Protocol):
    """Evaluates what an agent handed in for a task. It never touches the agent."""

    def basis(self, task: Task, subtask: str) -> str:
        """Digest of what decides, beside the environment.

        Raises:
            SuiteError: the suite lacks what is needed.
        """

    def evaluate(self, given: EvaluationTask) -> Evaluated:
        """Measure what was handed in.

        Raises:
            InfrastructureError: no verdict is possible, and the environment is not to blame.
        """


@final
class ContainedEvaluation:
    """Runs the evaluation that lies beside the task."""

    def basis(self, task: Task, subtask: str) -> str:
        """Digest of the sub-task's part of `task.toml`, of every file of the evaluation, and of the code here."""
        from pytest_researchenv.sandbox.scripts import digest_of_files  # noqa: PLC0415 - docker only where it is used

        asked = (task.subtasks[subtask], task.measures, task.evaluation, requirements_of(task))
        text = f"{_own_code()} {digest_of_files(evaluation_files(task))} {asked!r}"
        return hashlib.sha256(text.encode()).hexdigest()

    def evaluate(self, given: EvaluationTask) -> Evaluated:
        """Run it in a fresh container, and read its report."""
        python = _interpreter(given.probe)
        if isinstance(python, Evaluated):
            return python
        mounts = _mounts(given)
        given.say(f"evaluating {given.subtask}", limit_s=given.task.evaluation.limit_minutes * 60)
        run = partial(_run, given, mounts, image=given.probe.environment.image, python=python)
        with given.probe.leased(0):
            found = _concluded(given, run, control=partial(_control, given, mounts))
        return replace(found, interpreter=mounts[-1].volume)


def _interpreter(probe: ProbeTask) -> str | Evaluated:
    """Return the reported interpreter, or why nothing of the environment is run."""
    python = reported_python(probe.environment)
    if isinstance(python, Unreported):
        return found("self-report", python.reason, _REPORTS[python.cause])
    if forged := _forged(probe.audit):
        return Evaluated(findings=forged)
    looked = attempted(probe, lambda: seen_interpreter(probe, python))
    if isinstance(looked, Broken):
        return found("environment", looked.reason, ResearchCause.BROKEN_ENVIRONMENT)
    return python


def _concluded(given: EvaluationTask, run: Callable[[], Completed], *, control: Callable[[], object]) -> Evaluated:
    """Run the evaluation, and find out who is to blame where it comes to nothing."""
    ended = attempted(given.probe, run, control=control)
    if isinstance(ended, Broken):
        return found("environment", ended.reason, ResearchCause.BROKEN_ENVIRONMENT)
    if ended.termination in ENDED:
        return found("limits", f"the evaluation {ended.how}", ENDED[ended.termination])
    try:
        return _report_of(ended, given)
    except Unreadable as error:
        given.probe.log(f"[researchenv] {error}; trying the base image\n".encode())
        control()
        what = f"the evaluation cannot be carried out in this environment: {error}"
        return found("environment", what, ResearchCause.BROKEN_ENVIRONMENT)


def interpreter_of(probe: ProbeTask) -> Interpreter | Evaluated:
    """Return the interpreter that the self-report names, or what its absence means for the results."""
    python = reported_python(probe.environment)
    if isinstance(python, Unreported):
        return found("self-report", python.reason, _REPORTS[python.cause])
    looked = attempted(probe, lambda: seen_interpreter(probe, python))
    return (
        found("environment", looked.reason, ResearchCause.BROKEN_ENVIRONMENT) if isinstance(looked, Broken) else looked
    )


def evaluation_files(task: Task) -> Mapping[str, Path]:
    """Return the files that an evaluation brings along: path below `EVALUATION` → file.

    These are `task.toml`, the code that agents begin with, the folder of the evaluation's script, and what the suite's
    tasks share. The withheld method is not among them.

    Raises:
        SuiteError: the task has no such script.
    """
    folder = Path(task.folder)
    script = _script(task)
    if not (folder / script).is_file():
        raise SuiteError(f"{task.key}: there is no {script} in {folder}, which evaluation.command names")
    roots = [folder / task.source.path, (folder / script).parent, folder.parent / _SHARED]
    files = [folder / "task.toml", *(path for root in roots for path in sorted(root.rglob("*")))]
    return {
        path.relative_to(folder.parent).as_posix(): path
        for path in files
        if path.is_file() and not path.is_symlink() and "__pycache__" not in path.parts
    }


def requirements_of(task: Task) -> tuple[str, ...]:
    """Return what the task's own files of requirements ask for.

    Raises:
        SuiteError: one cannot be read, or asks for what only pip itself understands.
    """
    asked = []
    for name in task.install.requirements:
        path = Path(task.folder, task.source.path, name)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise SuiteError(f"{task.key}: install.requirements: {error}") from error
        for line in lines:
            if text := line.partition("#")[0].strip():
                try:
                    asked.append(str(Requirement(text)))
                except InvalidRequirement as error:
                    raise SuiteError(f"{task.key}: {path} has {text!r}, and has to name a package: {error}") from error
    return tuple(sorted(set(asked)))


def _script(task: Task) -> str:
    command = task.evaluation.command
    if len(command) < 2:  # noqa: PLR2004 - interpreter and script
        raise SuiteError(f"{task.key}: evaluation.command has to name an interpreter and a script, not {command!r}")
    return command[1]


def _mounts(given: EvaluationTask) -> tuple[Mount, ...]:
    scripts = given.engine.scripts(EVALUATION, evaluation_files(given.task))
    return (scripts, given.engine.interpreter(requirements_of(given.task)))


def _run(given: EvaluationTask, mounts: tuple[Mount, ...], *, image: str, python: str) -> Completed:
    """Run the evaluation on what the agent left."""
    with given.probe.sandbox.opened(_spec(given, mounts, image, python)) as container:
        return _evaluated(container, given)


def _control(given: EvaluationTask, mounts: tuple[Mount, ...]) -> None:
    """Run the evaluation of the pinned tree on the base image; it has to yield a report.

    Raises:
        SandboxError: it does not.
    """
    from pytest_researchenv.sandbox.interpreter import OURS  # noqa: PLC0415 - docker only where it is used

    probe = given.probe
    spec = _spec(given, mounts, probe.environment.base_image, OURS)
    with (
        probe.sandbox.opened(spec) as container,
        tree_tar(probe.tree, prefix=probe.environment.workdir, exclude_git=True) as archive,
    ):
        container.put("/", archive)
        ended = _evaluated(container, given)
    try:
        _report_of(ended, given)
    except Unreadable as error:
        raise SandboxError(
            f"the evaluation of {given.task.key} yields no report on the base image either: it {ended.how}; {error}"
        ) from error


def _spec(given: EvaluationTask, mounts: tuple[Mount, ...], image: str, python: str) -> ContainerSpec:
    from pytest_researchenv.sandbox.interpreter import OURS, TRUSTED  # noqa: PLC0415 - docker only where it is used

    task, workdir = given.task, given.probe.environment.workdir
    script = f"{EVALUATION}/{Path(task.folder).name}/{_script(task)}"
    argv = (TRUSTED, "-I", "-S", "-B", script, *task.evaluation.command[2:], given.subtask)
    argv += ("--handed-in", workdir, "--python", python, "--our-python", OURS, "--contained")
    return ContainerSpec(
        image=image,
        argv=argv,
        # With another locale the C library would read files of the image.
        environment={"PATH": SYSTEM_PATH, "HOME": "/root", "LC_ALL": "C", "TZ": "UTC"},
        workdir="/",
        labels=attempt_labels(given.probe),
        mounts=mounts,
        limits=Limits(memory_bytes=int(task.evaluation.memory_gb * 1024**3)),
    )


def _evaluated(container: Container, given: EvaluationTask) -> Completed:
    """Run the evaluation in a container that was made for it."""
    # The loader would read what the agent named there, also that of our own interpreter.
    with files_tar({**blanked(given.probe), "/etc/ld.so.preload": b""}, ("/tmp",)) as archive:  # noqa: S108 - in the container
        container.put("/", archive)
    limit_s = given.task.evaluation.limit_minutes * 60
    return container.run(timeout_s=limit_s, on_output=given.probe.log, stdin=given.secret)


def _report_of(ended: Completed, given: EvaluationTask) -> Evaluated:
    """Read the report.

    Raises:
        Unreadable: there is none.
    """
    if not ended.ok:
        last = ended.output.text().strip().splitlines()[-1:]
        raise Unreadable(f"it {ended.how}{': ' + last[0][:300] if last else ''}")
    return read_report(sealed_report(ended.stdout, given.secret), given.task, given.subtask)


def _forged(audit: Audit | None) -> tuple[ResearchFinding, ...]:
    """What the audit of the environment found for which nothing that it yields counts."""
    every = audit.result.findings if audit else ()
    return tuple(
        ResearchFinding(_SIGNS.get(one.kind, "environment"), f"{one.kind}: {one.field}: {one.observed}")
        for one in every
        if isinstance(one.kind, Sign) and (one.kind.voids or one.kind in _SIGNS)
    )


def found(check: str, what: str, cause: ResearchCause) -> Evaluated:
    """Return an evaluation that found one thing, for which the results do not count."""
    return Evaluated(findings=(ResearchFinding(check, what, cause),))


@cache
def _own_code() -> str:
    folder = resources.files("pytest_researchenv.research")
    names = ("cells.py", "evaluation.py", "metrics.py", "reported.py", "scoring.py", "strictjson.py", "verdict.py")
    return hashlib.sha256(b"\0".join((folder / name).read_bytes() for name in names)).hexdigest()
