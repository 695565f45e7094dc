"""A suite of research tasks as tables: what it holds, what others reached, and what of it can be doubted."""

from __future__ import annotations

from collections.abc import Iterator

from pytest_researchenv.report.tables import Column, Table, Value, document, text_column
from pytest_researchenv.research.metrics import Direction
from pytest_researchenv.research.task import (
    Confidence,
    Doubt,
    DoubtKind,
    ResearchSuite,
    Score,
    Subtask,
    Task,
)


__all__ = [
    "counted",
    "data_table",
    "deciding_table",
    "research_document",
    "runs_table",
    "scores_table",
    "tasks_table",
    "warnings",
]

_NOT_ABOVE = "no better"
_NOTE = (
    "restated: read in notes or in another implementation of third parties. no better: than the best baseline. "
    "Nothing is divided by such a score, nor by one that is not known."
)


def _number(value: float) -> str:
    return f"{value:.10g}"


_TASK = text_column("task", "task")
_SUBTASK = text_column("subtask", "sub-task")


def tasks_table(suite: ResearchSuite) -> Table:
    """A line for each task: what it holds."""
    rows: list[tuple[Value, ...]] = []
    for task in suite.tasks:
        scores = [score for subtask in task.subtasks.values() for score in subtask.scores.values()]
        not_above = sum(score.doubted(DoubtKind.WITHHELD_NOT_ABOVE) is not None for score in scores)
        blocked = len(task.blocked.urls) + len(task.blocked.patterns)
        missing = sum(score.withheld is None for score in scores)
        rows.append((task.name, len(task.subtasks), len(scores), missing, not_above, blocked))
    total = sum(len(task.subtasks) for task in suite.tasks)
    return Table(
        "tasks",
        f"{suite.name}: {suite.description}" if suite.description else suite.name,
        (
            _TASK,
            Column("subtasks", "sub-tasks"),
            Column("scores", "scores"),
            Column("missing", "unknown", optional=True),
            Column("not_above", "no better", optional=True),
            Column("blocked", "blocked"),
        ),
        tuple(rows),
        (
            f"{counted(len(suite.tasks), 'task')}, {counted(total, 'sub-task')}",
            "unknown, no better: scores of which the withheld method's is not known, or no better than a baseline's",
        ),
    )


def deciding_table(task: Task) -> Table:
    """A line for each sub-task: the score that decides it, what is to be beaten, and what was withheld."""
    rows = [_row(task, name, subtask, subtask.score) for name, subtask in task.subtasks.items()]
    return _scores(task, f"{task.name}: what decides", rows)


def scores_table(task: Task) -> Table:
    """A line for each score of each sub-task."""
    rows = [_row(task, name, sub, score) for name, sub in task.subtasks.items() for score in sub.scores]
    return _scores(task, f"{task.name}: every score", rows)


def data_table(task: Task) -> Table:
    """A line for each data set: how it is had, and under which terms."""
    columns = (
        text_column("data", "data set"),
        text_column("fetch", "had"),
        text_column("source", "from"),
        Column("bytes", "bytes", "{:,}".format),
        text_column("size", "size"),
        text_column("licence", "licence"),
    )
    rows = tuple(
        (name, str(data.fetch), data.source, data.size_bytes, data.size or None, data.licence or "not stated")
        for name, data in task.data.items()
    )
    return Table("data", f"{task.name}: data", columns, rows)


def runs_table(suite: ResearchSuite) -> Table:
    """A line for each sub-task: which runs its scores are the mean of, whether it was run here, and why not."""
    columns = (
        _TASK,
        _SUBTASK,
        text_column("runs", "mean over"),
        text_column("here", "run here"),
        text_column("why", "since it"),
    )
    rows = tuple(
        (task.name, name, _runs(subtask), "no" if subtask.not_run_here else "yes", subtask.not_run_here or None)
        for task in suite.tasks
        for name, subtask in task.subtasks.items()
    )
    return Table("runs", "What was run here", columns, rows)


def research_document(suite: ResearchSuite) -> dict[str, object]:
    """What a suite holds, as JSON has it: each task with its sub-tasks, and what is doubtful."""
    return {
        "name": suite.name,
        "description": suite.description,
        "subtasks": sum(len(task.subtasks) for task in suite.tasks),
        "tasks": [
            {"name": task.name, "subtasks": len(task.subtasks), "scores": document(scores_table(task))["rows"]}
            for task in suite.tasks
        ],
        "doubts": [{"kind": kind, "place": place, "why": why} for kind, place, why in warnings(suite)],
    }


def warnings(suite: ResearchSuite) -> Iterator[tuple[str, str, str]]:
    """Say what is doubtful: the kind of doubt, where, and why."""
    for task in suite.tasks:
        for name, subtask in task.subtasks.items():
            for score_name, score in subtask.scores.items():
                for doubt in score.doubts:
                    yield str(doubt.kind), f"{task.name}: {name}: {score_name}", _why(task, score, doubt)


def counted(count: int, word: str) -> str:
    """Return a number of things in words: `1 task`, `5 tasks`."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def _scores(task: Task, title: str, rows: list[tuple[Value, ...]]) -> Table:
    columns = (
        _SUBTASK,
        text_column("score", "score"),
        text_column("better", "better"),
        text_column("best", "best baseline"),
        Column("to_beat", "to beat", _number),
        Column("withheld", "withheld", _number),
        text_column("standing", "which is"),
    )
    noted = any(row[-1] for row in rows)
    return Table(f"scores-{task.name}", title, columns, tuple(rows), (_NOTE,) if noted else ())


def _row(task: Task, name: str, subtask: Subtask, score_name: str) -> tuple[Value, ...]:
    score = subtask.scores[score_name]
    better, best = str(task.measures[score.measure].better), ", ".join(score.best)
    return (name, score_name, better, best, score.to_beat, score.withheld, _standing(task, score) or None)


def _standing(task: Task, score: Score) -> str:
    if score.withheld is None:
        return "not known"
    confidence = task.origins[score.withheld_from].confidence
    words = [] if confidence is Confidence.PUBLISHED else [str(confidence)]
    return ", ".join(words if score.comparable else [*words, _NOT_ABOVE])


def _runs(subtask: Subtask) -> str:
    required = subtask.required
    parts = [
        f"{axis} {', '.join(map(str, numbers))}"
        for axis, numbers in (("seeds", required.seeds), ("folds", required.folds))
        if numbers
    ]
    if required.severities:
        levels = sorted(set(required.severities.values()))
        parts.append(f"{counted(len(required.severities), 'corruption')} at severity {' or '.join(map(str, levels))}")
    if required.steps:
        parts.append(f"after {required.steps:,} steps")
    chosen = f" ({' and '.join(required.chosen_here)} chosen here)" if required.chosen_here else ""
    return "; ".join(parts) + chosen


def _why(task: Task, score: Score, doubt: Doubt) -> str:
    if doubt.kind is not DoubtKind.WITHHELD_NOT_ABOVE or score.withheld is None:
        return doubt.why
    sign = "<=" if task.measures[score.measure].better is Direction.HIGHER else ">="
    best = f"best baseline {_number(score.to_beat)} ({', '.join(score.best)})"
    return f"withheld {_number(score.withheld)} {sign} {best}"
