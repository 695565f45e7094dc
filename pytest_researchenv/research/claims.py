"""What reported values count for, once some of them were executed again.

A reported number alone proves nothing, so that none counts for more than what was executed shows:

- a run that was executed counts for the worse of what was reported and what came out;
- a run that was not counts for no more than the worst executed run of the same score; where each score is measured
  once, and another one was executed, for no more than the best baseline reached in it, so that claims alone never beat
  it;
- where a run with a seed was executed that nobody knew before, no run counts for more than that one.

A reported value that is better than what came out, by more than the task tolerates, is a violation: all results were
made up, or cannot be had again.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pytest_researchenv.research.cells import Cell, Reading, Run
from pytest_researchenv.research.metrics import Metric, exact_mean
from pytest_researchenv.research.result import ResearchCause, ResearchFinding
from pytest_researchenv.research.task import Sample, Task, Unit
from pytest_researchenv.research.verdict import required


__all__ = ["Executed", "Piece", "compared", "counted", "drawn", "pieces_of"]

#: Seeds that nobody chooses by himself, and that all readers take: of nine digits at most.
_FRESH_SEEDS = range(1_000_000, 10**9)


@dataclass(frozen=True, slots=True)
class Piece:
    """What one call executes again.

    Attributes:
        run: the run.
        score: the score; empty for all of the run.
        fresh: whether it is none of the required runs: its seed was drawn.
    """

    run: Run
    score: str = ""
    fresh: bool = False

    def __str__(self) -> str:
        named = ", ".join(part for part in (self.score, str(self.run) if self.run != Run() else "") if part)
        return f"{named or 'the run'} (drawn)" if self.fresh else named or "the run"


@dataclass(frozen=True, slots=True)
class Executed:
    """What came of a piece: name of a score → its value, of any type, as it was read."""

    piece: Piece
    values: Mapping[str, object]


def pieces_of(task: Task, subtask: str, sample: Sample) -> tuple[Piece, ...]:
    """Return everything of a sub-task that could be executed, one call each."""
    runs = required(task.subtasks[subtask])
    if sample.unit is Unit.RUN:
        return tuple(Piece(run) for run in runs)
    return tuple(Piece(run, score) for score in _measured(task, subtask) for run in runs)


def drawn(task: Task, subtask: str, sample: Sample, secret: bytes) -> tuple[Piece, ...]:
    """Draw what is executed, from a secret that is made after the hand-in; the same secret draws the same."""
    # Nothing here needs to be unpredictable beyond the secret itself.
    generator = random.Random(hashlib.sha256(secret + subtask.encode()).digest())  # noqa: S311 - see above
    pieces = pieces_of(task, subtask, sample)
    chosen = generator.sample(pieces, min(sample.count, len(pieces)))
    if sample.fresh_seed:
        chosen.append(Piece(replace(chosen[0].run, seed=generator.choice(_FRESH_SEEDS)), fresh=True))
    return tuple(chosen)


def compared(
    task: Task, subtask: str, sample: Sample, claimed: Mapping[str, Cell], executed: Sequence[Executed]
) -> tuple[ResearchFinding, ...]:
    """Say what of the executed pieces is missing, is no value, or is worse than what was reported."""
    findings: list[ResearchFinding] = []
    for one in executed:
        for score in (one.piece.score,) if one.piece.score else _measured(task, subtask):
            metric = _metric(task, subtask, score)
            if score not in one.values:
                findings.append(_invalid(f"{one.piece}: no {score} came out"))
            elif wrong := metric.wrong(one.values[score]):
                findings.append(_invalid(f"{one.piece}: {score}: {wrong}"))
            elif not one.piece.fresh:
                reported, value = claimed[score].values[one.piece.run], _value(one, score)
                most = sample.tolerance[task.subtasks[subtask].scores[score].measure]
                if metric.better(reported, value) and abs(reported - value) > most:
                    what = f"{one.piece}: {score} was reported as {reported:g}, and {value:g} comes out when it is "
                    findings.append(ResearchFinding("reported", f"{what}executed again", ResearchCause.VIOLATION))
    return tuple(findings)


def counted(
    task: Task, subtask: str, claimed: Mapping[str, Cell], executed: Sequence[Executed]
) -> dict[str, tuple[Reading, ...]]:
    """Return what each score counts for in each required run, means of scores included.

    Args:
        task: the task.
        subtask: id of the sub-task.
        claimed: score → what was reported.
        executed: what was executed; nothing of it is missing or wrong.
    """
    runs = required(task.subtasks[subtask])
    values = {score: _counted(task, subtask, score, claimed[score], executed) for score in _measured(task, subtask)}
    for name, score in task.subtasks[subtask].scores.items():
        if score.mean_of:
            parts = [values[part] for part in score.mean_of]
            values[name] = {run: float(exact_mean(tuple(part[run] for part in parts))) for run in runs}
    return {score: tuple(Reading(run, value) for run, value in found.items()) for score, found in values.items()}


def _counted(task: Task, subtask: str, score: str, claimed: Cell, executed: Sequence[Executed]) -> dict[Run, float]:
    metric = _metric(task, subtask, score)
    own = {one.piece.run: _value(one, score) for one in executed if not one.piece.fresh and score in one.values}
    fresh = [_value(one, score) for one in executed if one.piece.fresh]
    others = list(own.values()) or [_reached_by_best(task, subtask, score)]
    return {
        run: _worst(metric, [value, *([own[run]] if run in own else others), *fresh])
        for run, value in claimed.values.items()
    }


def _value(one: Executed, score: str) -> float:
    value = one.values[score]
    assert isinstance(value, int | float)  # noqa: S101 - `compared` has seen to it
    return float(value)


def _reached_by_best(task: Task, subtask: str, score: str) -> float:
    """What the baseline that is to be beaten reached in one of the scores."""
    found = task.subtasks[subtask].scores[score]
    return found.baselines.get(task.subtasks[subtask].deciding.best[0], found.to_beat)


def _worst(metric: Metric, values: Sequence[float]) -> float:
    return reduce(lambda one, other: other if metric.better(one, other) else one, values)


def _measured(task: Task, subtask: str) -> tuple[str, ...]:
    """The scores that are measured; the others are means of them."""
    return tuple(name for name, score in task.subtasks[subtask].scores.items() if not score.mean_of)


def _metric(task: Task, subtask: str, score: str) -> Metric:
    return task.measure(subtask, score).metric(score)


def _invalid(what: str) -> ResearchFinding:
    return ResearchFinding("sample", what, ResearchCause.INVALID_RESULTS)
