"""What agents reached in research tasks, as tables: each sub-task beside the best baseline, and what it comes to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from pytest_researchenv.model import Verdict
from pytest_researchenv.report.tables import Column, Table, Value
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.research.scoring import (
    NotComparable,
    Ratio,
    TaskScore,
    Why,
    average_at_k,
    best_at_k,
    task_score,
)
from pytest_researchenv.runs.values import AttemptRecord
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["research_tables"]


def _number(value: float) -> str:
    return f"{value:.4g}"


def _text(key: str, heading: str) -> Column:
    return Column(key, heading, numeric=False)


_AGENT, _TASK = _text("agent", "agent"), _text("task", "task")

_RESULTS = (
    _AGENT,
    _TASK,
    Column("attempt", "attempt"),
    _text("subtask", "sub-task"),
    _text("verdict", "verdict"),
    _text("completed", "completed"),
    _text("cause", "cause"),
    _text("score", "score"),
    Column("mean", "mean", _number),
    Column("standard_error", "±", _number),
    _text("baseline", "best baseline"),
    Column("to_beat", "its mean", _number),
    Column("withheld", "withheld", _number),
    Column("share", "of withheld", _number),
    Column("gain", "of baseline", _number),
)

_SUMS = (
    _AGENT,
    _TASK,
    Column("attempts", "attempts"),
    Column("judged", "judged"),
    Column("passed", "passed"),
    Column("completed", "completed"),
    Column("errors", "errors", optional=True),
    Column("best", "best@k", _number),
    Column("average", "avg@k", _number),
)

_JUDGED = "judged: passed and failed sub-tasks of all attempts; errors are none. completed: a valid score, good or bad."
_OVER_K = (
    "best@k, avg@k: over the attempts, of the mean of scores as shares of the withheld method's; what is missing "
    "counts as 0, and what cannot be compared is left out (arXiv 2602.15112, section 2.4)."
)


def research_tables(parts: Iterable[AgentRun]) -> tuple[Table, ...]:
    """Two tables: a line for each sub-task of each attempt, and one for each task; none where nobody did research."""
    found = [part for part in parts if any(attempt.research for attempt in part.tries)]
    if not found:
        return ()
    results = tuple(row for part in found for row in _rows(part))
    sums = tuple(row for part in found for row in _sums(part))
    return (
        Table("research", "research: each sub-task beside the best baseline", _RESULTS, results),
        Table("research-tasks", "research: each task", _SUMS, sums, (_JUDGED, _OVER_K)),
    )


def _rows(part: AgentRun) -> Iterator[tuple[Value, ...]]:
    for attempt in part.tries:
        for subtask, result in attempt.research.items():
            yield (part.label, attempt.key.repository, attempt.key.attempt, subtask, *_values(result))


def _values(result: ResearchResult) -> tuple[Value, ...]:
    known = (str(result.verdict), "yes" if result.completed else "no", str(result.cause))
    found = result.deciding
    if found is None:
        return (*known, result.decides or None, *(None,) * 7)
    baseline = found.baseline
    numbers = (found.mean, found.error, baseline.method, baseline.mean, found.withheld, found.share, found.gain)
    return (*known, result.decides, *numbers)


def _sums(part: AgentRun) -> Iterator[tuple[Value, ...]]:
    for tried in part.repositories:
        attempts = [attempt for attempt in tried.tries if attempt.research]
        if not attempts:
            continue
        every = [result for attempt in attempts for result in attempt.research.values()]
        counts = Counter(result.verdict for result in every)
        judged = counts[Verdict.PASSED] + counts[Verdict.FAILED]
        completed = sum(result.completed for result in every)
        scores = _scores(attempts)
        sums = (best_at_k(scores, len(scores)), average_at_k(scores, len(scores))) if scores else (None, None)
        numbers = (len(attempts), judged, counts[Verdict.PASSED], completed, counts[Verdict.ERROR])
        yield (part.label, attempts[0].key.repository, *numbers, *sums)


def _scores(attempts: Sequence[AttemptRecord]) -> list[float | None]:
    """The task's score in each attempt of which everything has a verdict."""
    comparable = {
        subtask
        for attempt in attempts
        for subtask, result in attempt.research.items()
        if result.deciding is None or result.deciding.share is not None
    }
    found: list[float | None] = []
    for attempt in attempts:
        if any(result.verdict not in (Verdict.PASSED, Verdict.FAILED) for result in attempt.research.values()):
            continue
        score: TaskScore = task_score(
            {subtask: _share(result, subtask in comparable) for subtask, result in attempt.research.items()}
        )
        if score.value is not None:
            found.append(score.value)
    return found


def _share(result: ResearchResult, comparable: bool) -> Ratio | NotComparable:  # noqa: FBT001 - one fact
    found = result.deciding
    if found is not None and found.share is not None:
        return Ratio(found.share)
    if found is not None or not comparable:
        return NotComparable(Why.NO_WITHHELD, result.subtask)
    return Ratio(0.0, missing=True)
