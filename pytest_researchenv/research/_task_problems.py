"""What can be wrong with research tasks beyond what types say, one sentence each."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from pytest_researchenv._problems import (
    Problem,
    canary_problems,
    confusable,
    contained_in_agent,
    described,
    nearest,
    stray_problems,
)
from pytest_researchenv.research._reported_problems import reported_problems
from pytest_researchenv.research.metrics import Direction, Metric
from pytest_researchenv.research.task import DoubtKind, Measure, PrimaryScore, Required, Score, Subtask, Task


__all__ = ["suite_problems", "task_problems"]

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_ID = re.compile(r"[a-z0-9]+(_[a-z0-9]+)*")

#: Published means are rounded to two or three digits.
_ROUNDED = 0.006

_AXES = ("seeds", "folds", "severities", "steps")


def suite_problems(folder: Path, tasks: Sequence[Task], *, canary: str = "") -> Iterator[Problem]:
    """Say what is wrong with a suite as a whole.

    Args:
        folder: the suite's folder.
        tasks: those of its tasks that could be read.
        canary: what each of its files must hold; empty for nothing.
    """
    answers = (*folder.rglob("*.py"), *folder.rglob("*.sh"), *folder.glob("*/task.toml"))
    # What agents are given must hold none: it would stand in all that they leave.
    given = [Path(task.folder, task.source.path).resolve() for task in tasks if task.source.path]
    yield from canary_problems((file for file in answers if not set(given) & set(file.parents)), canary)
    yield from stray_problems(folder, "task.toml", "task", signs=("*.t*ml",))
    for file in described(folder, "repo.toml"):
        yield Problem(file.parent, "", "has a repo.toml: a suite holds research tasks or repositories, and not both")
    named: dict[str, Task] = {}
    for task in tasks:
        first = named.setdefault(task.slug, task)
        if first is not task:
            text = f"{task.name!r} has the same name as {first.name!r} ({first.folder}): ids are made of it"
            yield Problem(Path(task.folder, "task.toml"), "name", text)


def task_problems(file: Path, task: Task) -> Iterator[Problem]:
    """Say what is wrong with a task.

    Args:
        file: its `task.toml`.
        task: what was read from it.
    """
    for key, text in _task(task):
        yield Problem(file, key, text)


def _task(task: Task) -> Iterator[tuple[str, str]]:
    if not _NAME.fullmatch(task.name):
        yield "name", f"{task.name!r} must be small letters and digits, with single '-' between"
    yield from (("name", text) for text in _mistakable(task.slug))
    # The first of the month stands for a month that is all that is known.
    if task.blocked.search_until >= task.withheld.public_since:
        text = f"{task.blocked.search_until} is not before {task.withheld.public_since}, from when on the withheld "
        yield "blocked.search_until", text + "paper could be found: give an earlier day"
    if task.removed and task.source.path:
        text = f"nothing is taken out of a folder on this machine ({task.source.path}): leave it out of the folder, or "
        yield "removed", text + "give git and commit"
    for name, measure in task.measures.items():
        if not measure.range[0] < measure.range[1]:
            text = f"{list(measure.range)} is no range: give the smallest value, then the largest"
            yield f"measures.{name}.range", text
    if not task.subtasks:
        yield "subtasks", "missing: without a table [subtasks.NAME] … nothing is measured"
    for name, subtask in task.subtasks.items():
        for key, text in (*_id(name, task), *_subtask(subtask, task)):
            yield f"subtasks.{name}.{key}" if key else f"subtasks.{name}", text
    yield from reported_problems(task)
    for index, primary in enumerate(task.primary):
        yield from ((f"primary[{index}].{key}", text) for key, text in _primary(primary, task))


def _mistakable(name: str) -> Iterator[str]:
    yield from (text for text in (confusable(name), contained_in_agent(name)) if text)


def _id(name: str, task: Task) -> Iterator[tuple[str, str]]:
    if not _ID.fullmatch(name):
        yield "", f"{name!r} must be small letters and digits, with single '_' between"
    yield from (("", text) for text in _mistakable(name))
    if longer := next((other for other in task.subtasks if name in other and name != other), ""):
        yield "", f"{name!r} is a part of {longer!r}: `-k {name}` would select both; choose another name"


def _subtask(subtask: Subtask, task: Task) -> Iterator[tuple[str, str]]:
    for name in subtask.data:
        if name not in task.data:
            yield "data", f"no data set is called {name!r}{nearest(name, task.data)}: describe it in [data.{name}]"
    if subtask.score not in subtask.scores:
        yield "score", f"no score is called {subtask.score!r}{nearest(subtask.score, subtask.scores)}"
    yield from _required(subtask.required)
    for name, score in subtask.scores.items():
        key = f'scores."{name}"'
        yield from ((key, text) for text in _mistakable(name))
        for shown in (name, *score.baselines):
            if not (shown and shown.isprintable()):
                yield key, f"{shown!r} must be a name that can be shown: give letters, digits and signs"
        yield from ((f"{key}.{part}", text) for part, text in (*_score(score, task), *_mean(name, subtask)))


def _mean(name: str, subtask: Subtask) -> Iterator[tuple[str, str]]:
    score = subtask.scores[name]
    for part in score.mean_of:
        if part not in subtask.scores:
            yield "mean_of", f"no score is called {part!r}{nearest(part, subtask.scores)}"
        elif part == name or subtask.scores[part].mean_of:
            yield "mean_of", f"{part!r} is a mean itself: name what is measured"
        elif subtask.scores[part].measure != score.measure:
            yield "mean_of", f"{part!r} is measured by {subtask.scores[part].measure!r}, and this by {score.measure!r}"


def _required(required: Required) -> Iterator[tuple[str, str]]:
    for axis in ("seeds", "folds"):
        numbers: tuple[int, ...] = getattr(required, axis)
        if len(set(numbers)) != len(numbers):
            yield f"required.{axis}", f"{list(numbers)} has one twice: a run counts once"
    if required.steps is not None and required.steps < 1:
        yield "required.steps", f"must be positive, not {required.steps}"
    for axis in required.chosen_here:
        if axis not in _AXES:
            yield "required.chosen_here", f"{axis!r} is none of them{nearest(axis, _AXES)}"
        elif not getattr(required, axis):
            yield "required.chosen_here", f"{axis!r} is named, but there are no {axis}"


def _score(score: Score, task: Task) -> Iterator[tuple[str, str]]:
    measure = task.measures.get(score.measure)
    if measure is None:
        yield "measure", f"no measure is called {score.measure!r}{nearest(score.measure, task.measures)}"
    for key, origin in (("baselines_from", score.baselines_from), ("withheld_from", score.withheld_from)):
        if origin and origin not in task.origins:
            yield key, f"no origin is called {origin!r}{nearest(origin, task.origins)}"
    if score.spreads and not (score.baselines_from in task.origins and task.origins[score.baselines_from].spreads):
        yield "spreads", f"of which kind they are is not said: add spreads to [origins.{score.baselines_from}]"
    if (score.withheld is None) is bool(score.withheld_from):
        yield "withheld_from", "must say where the withheld score comes from, and only where there is one"
    for method in sorted({*score.best, *score.spreads, *(name for doubt in score.doubts for name in doubt.methods)}):
        if method not in score.baselines:
            yield "baselines", f"no baseline is called {method!r}{nearest(method, score.baselines)}"
    if not score.baselines:
        yield "baselines", "missing: what is there to beat?"
    elif measure is not None:
        yield from _values(score, measure)


def _values(score: Score, measure: Measure) -> Iterator[tuple[str, str]]:
    every: list[tuple[str, float | None]] = [(f"baselines.{name}", value) for name, value in score.baselines.items()]
    every += [(f"validation.baselines.{name}", value) for name, value in score.validation.baselines.items()]
    every += [("withheld", score.withheld), ("validation.withheld", score.validation.withheld)]
    metric = measure.metric(score.measure)
    for key, value in every:
        if value is not None and (wrong := metric.wrong(value)):
            yield key, f"{wrong}, the range of {score.measure!r}"
    top = _best(metric, score.baselines.values())
    best = {name for name, value in score.baselines.items() if value == top}
    if set(score.best) != best:
        yield "best", f"{list(score.best)} is not {sorted(best)}, which reached {top}"
    yield from _doubts(score, metric, top)


def _best(metric: Metric, values: Iterable[float]) -> float:
    return max(values) if metric.direction is Direction.HIGHER else min(values)


def _doubts(score: Score, metric: Metric, top: float) -> Iterator[tuple[str, str]]:
    """What the numbers themselves say must be said, and nothing else."""
    # Equal is not above; of what is no number its range is told.
    numbers = not metric.wrong(score.withheld) and not metric.wrong(top)
    not_above = numbers and score.withheld is not None and not metric.better(score.withheld, top)
    for kind, true in ((DoubtKind.WITHHELD_MISSING, score.withheld is None), (DoubtKind.WITHHELD_NOT_ABOVE, not_above)):
        said = score.doubted(kind) is not None
        if true and not said:
            yield "doubts", f"missing: the numbers say {str(kind)!r} (withheld {score.withheld}, best baseline {top})"
        if said and not true:
            text = f"{str(kind)!r} does not hold (withheld {score.withheld}, best baseline {top}): remove it"
            yield "doubts", text


def _primary(primary: PrimaryScore, task: Task) -> Iterator[tuple[str, str]]:
    found: list[Score] = []
    for index, part in enumerate(primary.of):
        scores = task.subtasks[part.subtask].scores if part.subtask in task.subtasks else {}
        if part.score in scores:
            found.append(scores[part.score])
        elif not scores:
            yield (
                f"of[{index}].subtask",
                f"no sub-task is called {part.subtask!r}{nearest(part.subtask, task.subtasks)}",
            )
        else:
            yield f"of[{index}].score", f"no score is called {part.score!r}{nearest(part.score, scores)}"
    if not found or len(found) < len(primary.of):
        return
    for key, published, values in (
        ("baseline", primary.baseline, [score.baselines.get(primary.method) for score in found]),
        ("withheld", primary.withheld, [score.withheld for score in found]),
    ):
        known = [value for value in values if value is not None]
        if len(known) < len(values):
            yield key, f"{published} is the mean of numbers that are not all there: {values}"
        elif abs(sum(known) / len(known) - published) > _ROUNDED:
            yield key, f"{published} is not the mean of {known}"
