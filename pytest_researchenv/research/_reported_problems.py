"""What can be wrong with how a task's reported results are read and executed again."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_researchenv._problems import nearest
from pytest_researchenv.research.claims import pieces_of
from pytest_researchenv.research.outputs.formats import plans_of
from pytest_researchenv.research.task import Reported, Sample, Task, Unit


__all__ = ["reported_problems"]


def reported_problems(task: Task) -> Iterator[tuple[str, str]]:
    """Say what is wrong, each with its key; nothing where results are measured another way."""
    reported = task.evaluation.reported
    if reported is None:
        return
    for key, text in _problems(task, reported):
        yield f"evaluation.reported{key}", text


def _problems(task: Task, reported: Reported) -> Iterator[tuple[str, str]]:
    form = str(reported.format)
    for name, subtask in task.subtasks.items():
        read = {plan.metric.name for plan in plans_of(reported.format, task.read_as(name))}
        measured = {score for score, one in subtask.scores.items() if not one.mean_of}
        if not read:
            yield (
                ".format",
                f"{form!r} knows no sub-task {task.read_as(name)!r}: correct acronym or name",
            )
        elif read != measured:
            yield (
                ".format",
                f"{form!r} has {sorted(read)} of {name}, and its scores are {sorted(measured)}",
            )
    if reported.sample is not None:
        yield from ((f".sample{key}", text) for key, text in _sample(task, reported.sample))


def _sample(task: Task, sample: Sample) -> Iterator[tuple[str, str]]:
    wanted = {one.measure for subtask in task.subtasks.values() for one in subtask.scores.values() if not one.mean_of}
    if missing := sorted(wanted - sample.tolerance.keys()):
        yield ".tolerance", f"says nothing of {missing}: how much better may a reported value be than what comes out?"
    for measure in sample.tolerance:
        if measure not in task.measures:
            yield ".tolerance", f"no measure is called {measure!r}{nearest(measure, task.measures)}"
    yield from _command(task, sample)
    for name, subtask in task.subtasks.items():
        if sample.fresh_seed and not subtask.required.seeds:
            yield ".fresh_seed", f"{name} has no seeds"
        if sample.count > (most := len(pieces_of(task, name, sample))):
            yield ".count", f"{sample.count} is more than {name} has, {most}"


def _command(task: Task, sample: Sample) -> Iterator[tuple[str, str]]:
    if len(task.subtasks) > 1 and "subtask" not in sample.named:
        yield ".command", "must have {subtask}: the task has several"
    if sample.unit is Unit.SCORE and "score" not in sample.named:
        yield ".command", "must have {score}, which is what one call executes"
    for name, subtask in task.subtasks.items():
        for axis in ("seed", "fold"):
            if getattr(subtask.required, f"{axis}s") and sample.unit is Unit.RUN and axis not in sample.named:
                yield ".command", f"must have {{{axis}}}: {name} has several"
