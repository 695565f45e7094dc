"""The evaluation of results that the agent's own code reported: read from outside, and a sample executed again.

The published graders read such files and believe them. Here they are claims: the folder is read as a tar stream, within
limits, by the readers of its format (`research.outputs`); then pieces are drawn that nobody knew before the hand-in,
and the code that was handed in executes each in a fresh container from the snapshot, without a network and without the
reported files, which are emptied from outside. Files of the pinned tree that measure are put back first. What comes out
is read in the same way, and `research.claims` says what the results count for.

What this shows is that the code yields these values again. That it computes them, and does not only print them, is
shown as far as a seed is drawn that nobody knew.
"""

from __future__ import annotations

import hashlib
import io
import json
import secrets
import tarfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import PurePosixPath
from typing import IO, final

from pydantic import TypeAdapter

from pytest_researchenv.probes.evidence import Outputs, decisive_line, read_outputs
from pytest_researchenv.probes.launch import Broken, attempt_labels, attempted, files_tar, filled
from pytest_researchenv.probes.world import Interpreter, probe_environment
from pytest_researchenv.research.cells import Cell, Run
from pytest_researchenv.research.claims import Executed, Piece, compared, counted, drawn
from pytest_researchenv.research.evaluation import ENDED, EvaluationTask, found, interpreter_of
from pytest_researchenv.research.handed_in import laid_out
from pytest_researchenv.research.outputs.formats import plans_of, read_as
from pytest_researchenv.research.outputs.found import Found
from pytest_researchenv.research.problems import OutputError
from pytest_researchenv.research.result import ResearchCause, ResearchFinding
from pytest_researchenv.research.task import Reported, Sample, Task
from pytest_researchenv.research.verdict import Evaluated, Measured
from pytest_researchenv.sandbox.protocol import Completed, ContainerSpec, Limits
from pytest_researchenv.source import tree_tar


__all__ = ["ReportedEvaluation"]

_HOME = "/researchenv/results"


@final
class ReportedEvaluation:
    """Reads what was reported, and executes a sample of it again."""

    def basis(self, task: Task, subtask: str) -> str:
        """Digest of the sub-task's part of `task.toml`, and of the code that reads, executes and compares."""
        asked = (task.subtasks[subtask], task.measures, task.evaluation, task.hardware.gpus)
        text = json.dumps([TypeAdapter(type(one)).dump_python(one, mode="json") for one in asked], sort_keys=True)
        return hashlib.sha256(f"{_own_code()} {text}".encode()).hexdigest()

    def evaluate(self, given: EvaluationTask) -> Evaluated:
        """Read the claims, execute what is drawn, and say what they count for."""
        claimed = _claims(given)
        if isinstance(claimed, Evaluated):
            return claimed
        means = {score: cell.mean for score, cell in claimed.items()}
        interpreter = interpreter_of(given.probe)
        if isinstance(interpreter, Evaluated):
            return replace(interpreter, claimed=means)
        with given.probe.leased(given.task.hardware.gpus) as leased:
            return replace(_executed(replace(given, probe=leased), claimed, interpreter), claimed=means)


def _executed(given: EvaluationTask, claimed: Mapping[str, Cell], interpreter: Interpreter) -> Evaluated:
    """Execute what is drawn, and say what the claims count for."""
    task, subtask = given.task, given.subtask
    reported, sample = _asked(task)
    executed: list[Executed] = []
    for piece in drawn(task, subtask, sample, given.secret):
        came = _execute(given, piece, interpreter)
        if isinstance(came, Evaluated):
            return replace(came, executed=(*(str(one.piece) for one in executed), str(piece)))
        executed.append(came)
    names = tuple(str(one.piece) for one in executed)
    if findings := compared(task, subtask, sample, claimed, executed):
        return Evaluated(findings=findings, executed=names)
    return Evaluated(own=Measured(reported.method, counted(task, subtask, claimed, executed)), executed=names)


def _asked(task: Task) -> tuple[Reported, Sample]:
    reported = task.evaluation.reported
    assert reported is not None  # noqa: S101 - who asks for this evaluation has seen to it
    assert reported.sample is not None  # noqa: S101 - likewise
    return reported, reported.sample


# --- what was reported --------------------------------------------------------------------------------------


def _snapshot_outputs(given: EvaluationTask, folder: str) -> Outputs:
    """Read a folder of the snapshot; nothing runs."""
    spec = ContainerSpec(
        image=given.probe.environment.image, argv=("/bin/sh", "-c", ":"), labels=attempt_labels(given.probe)
    )
    with given.probe.sandbox.opened(spec) as container, container.get(folder) as stream:
        return read_outputs(stream, folder) if stream is not None else Outputs()


def _claims(given: EvaluationTask) -> dict[str, Cell] | Evaluated:
    """The cells that were reported, or all that is wrong with them."""
    reported, _ = _asked(given.task)
    name, folder = given.task.read_as(given.subtask), f"{given.probe.environment.workdir}/{reported.folder}"
    outputs = attempted(given.probe, lambda: _snapshot_outputs(given, folder))
    if isinstance(outputs, Broken):
        return found("environment", outputs.reason, ResearchCause.BROKEN_ENVIRONMENT)
    with laid_out(outputs, folder) as laid:
        every = read_as(reported.format, laid.root, reported.method)
    handed_in = any(subtask == name for subtask, _ in every.readings)
    cause = ResearchCause.INVALID_RESULTS if handed_in else ResearchCause.NOTHING_HANDED_IN
    if laid.problems:
        return _problems("results", laid.problems, ResearchCause.INVALID_RESULTS)
    try:
        cells = every.cells(name, plans_of(reported.format, name))
    except OutputError as error:
        return Evaluated(findings=tuple(ResearchFinding(str(one.kind), one.what, cause) for one in error.problems))
    return {score: Cell(cell.metric, _plain(cell.values)) for score, cell in cells.items()}


def _problems(check: str, problems: Iterable[str], cause: ResearchCause) -> Evaluated:
    return Evaluated(findings=tuple(ResearchFinding(check, one, cause) for one in problems))


def _plain(values: Mapping[Run, float]) -> dict[Run, float]:
    """Without severities, which the name of a score says."""
    return {replace(run, severity=None): value for run, value in values.items()}


# --- executing again ----------------------------------------------------------------------------------------


def _execute(given: EvaluationTask, piece: Piece, interpreter: Interpreter) -> Executed | Evaluated:
    """Execute a piece in a fresh container, and read what came out."""
    reported, sample = _asked(given.task)
    given.probe.log(f"[researchenv] executing {piece} again\n".encode())
    given.say(f"executing {piece} of {given.subtask} again", limit_s=sample.hours * 3600)

    def call() -> tuple[Completed, Outputs]:
        out = f"{_HOME}/{secrets.token_hex(8)}"
        with given.probe.sandbox.opened(_spec(given, piece, interpreter, out)) as container:
            with _emptied(f"{given.probe.environment.workdir}/{reported.folder}") as archive:
                container.put("/", archive)
            measuring = replace(given.probe.tree, files=_measuring(given, sample))
            with tree_tar(measuring, prefix=given.probe.environment.workdir, exclude_git=True) as archive:
                container.put("/", archive)
            with files_tar({}, (out,)) as archive:
                container.put("/", archive)
            completed = container.run(timeout_s=sample.hours * 3600, on_output=given.probe.log)
            with container.get(out) as stream:
                return completed, _moved(read_outputs(stream, out), out)

    came = attempted(given.probe, call)
    if isinstance(came, Broken):
        return found("environment", came.reason, ResearchCause.BROKEN_ENVIRONMENT)
    completed, outputs = came
    if completed.termination in ENDED:
        return found("sample", f"executing {piece} again {completed.how}", ENDED[completed.termination])
    if not completed.ok:
        last = decisive_line(completed.output.text())
        return found("sample", f"executing {piece} again {completed.how}: {last}", ResearchCause.CRASH)
    with laid_out(outputs, _HOME) as laid:
        every = read_as(reported.format, laid.root, reported.method)
    values, problems = _read(given, piece, every)
    if problems := (*laid.problems, *problems):
        return _problems("sample", problems, ResearchCause.INVALID_RESULTS)
    return Executed(piece, values)


def _spec(given: EvaluationTask, piece: Piece, interpreter: Interpreter, out: str) -> ContainerSpec:
    _, sample = _asked(given.task)
    devices = given.probe.hardware.uuids
    run = piece.run
    told = {"seed": run.seed, "fold": run.fold, "steps": run.steps}
    values = {name: "" if value is None else str(value) for name, value in told.items()}
    values |= {"python": interpreter.path, "subtask": given.subtask, "score": piece.score, "out": out}
    return ContainerSpec(
        image=given.probe.environment.image,
        argv=tuple(filled(word, values) for word in sample.command),
        environment=probe_environment(interpreter, hide_devices=not devices),
        workdir=given.probe.environment.workdir,
        labels=attempt_labels(given.probe),
        limits=Limits(memory_bytes=int(sample.memory_gb * 1024**3)),
        mounts=given.probe.assets,
        devices=devices,
    )


def _measuring(given: EvaluationTask, sample: Sample) -> tuple[str, ...]:
    below = tuple(f"{path}/" for path in sample.restored)
    return tuple(name for name in given.probe.tree.files if name in sample.restored or name.startswith(below))


@contextmanager
def _emptied(folder: str) -> Iterator[IO[bytes]]:
    """Make a tar stream that empties a folder: a file takes its place, and then a folder takes the file's."""
    path = str(PurePosixPath(folder)).lstrip("/")
    with files_tar({folder: b""}) as archive, io.BytesIO() as stream:
        with tarfile.open(fileobj=archive) as made, tarfile.open(fileobj=stream, mode="w") as tar:
            for member in made:
                tar.addfile(member)
            entry = tarfile.TarInfo(path)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            tar.addfile(entry)
        stream.seek(0)
        yield stream


def _moved(outputs: Outputs, out: str) -> Outputs:
    """The same files as if the folder had been `_HOME`, so that its random name is no part of theirs."""
    return replace(outputs, files={path.replace(out, _HOME, 1): file for path, file in outputs.files.items()})


def _read(given: EvaluationTask, piece: Piece, every: Found) -> tuple[dict[str, object], tuple[str, ...]]:
    """What came out for a piece: each of its scores, read exactly once and for its run alone."""
    name = given.task.read_as(given.subtask)
    reported, _ = _asked(given.task)
    values: dict[str, object] = {}
    problems: list[str] = []
    for plan in plans_of(reported.format, name):
        score = plan.metric.name
        readings = every.readings.get((name, score), ())
        if piece.score and score != piece.score:
            continue
        fitting = [one for one in readings if replace(one.run, severity=None) == piece.run]
        problems += [f"{piece}: {score} came out for {one.run}, too" for one in readings if one not in fitting]
        if len(fitting) > 1:
            problems.append(f"{piece}: {score} came out {len(fitting)} times")
        if fitting:
            values[score] = fitting[0].value
    if not values:
        problems += [one.what for one in every.unread]
    return values, tuple(problems)


@cache
def _own_code() -> str:
    folder = resources.files("pytest_researchenv.research")
    names = ("cells", "claims", "handed_in", "metrics", "reexecution", "scoring", "strictjson", "verdict")
    readers = [one for one in (folder / "outputs").iterdir() if one.name.endswith(".py")]
    code = [(folder / f"{name}.py").read_bytes() for name in names]
    code += [one.read_bytes() for one in sorted(readers, key=lambda one: one.name)]
    return hashlib.sha256(b"\0".join(code)).hexdigest()
