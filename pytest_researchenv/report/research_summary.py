"""The terminal summary of research tasks: each sub-task beside the best baseline, and what the benchmark sums up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_researchenv.model import Verdict


if TYPE_CHECKING:
    from rich.table import Table

    from pytest_researchenv.research.scoring import NotComparable, Ratio

__all__ = ["ResearchRow", "render_research", "research_row", "sums"]


@dataclass(frozen=True, slots=True)
class ResearchRow:
    """What a sub-task came to.

    Attributes:
        agent: name of the agent.
        task: `Task.key`.
        subtask: id of the sub-task.
        trial: which of the agent's attempts at the task.
        verdict: what it came to.
        completed: whether there is a valid score.
        name: the score that decides.
        score: its mean; None where there is no valid one.
        error: its standard error; None of a single value.
        baseline: what it was compared with; None likewise.
        method: the baseline's name.
        share: the score as a share of the withheld method's; None where there is none.
        gain: the score as a share of the baseline's; None likewise.
        comparable: whether a score of it can be divided by the withheld method's.
    """

    agent: str
    task: str
    subtask: str
    trial: int
    verdict: Verdict
    completed: bool = False
    name: str = ""
    score: float | None = None
    error: float | None = None
    baseline: float | None = None
    method: str = ""
    share: float | None = None
    gain: float | None = None
    comparable: bool = False

    @property
    def place(self) -> str:
        """The task without its suite, and the attempt where it is not the first."""
        task = self.task.rpartition("/")[2]
        return task if self.trial == 1 else f"{task}-{self.trial}"


def research_row(facts: Mapping[str, str], *, verdict: Verdict) -> ResearchRow:
    """Return what a test's properties say, without our prefix."""

    def number(name: str) -> float | None:
        return float(facts[name]) if name in facts else None

    return ResearchRow(
        agent=facts["agent"],
        task=facts["task"],
        subtask=facts["subtask"],
        trial=int(facts.get("trial", "1")),
        verdict=verdict,
        completed=facts.get("completed") == "true",
        name=facts.get("score_name", ""),
        score=number("score"),
        error=number("score_error"),
        baseline=number("baseline"),
        method=facts.get("baseline_method", ""),
        share=number("share_of_withheld"),
        gain=number("share_of_baseline"),
        comparable=facts.get("comparable") == "true",
    )


def render_research(rows: Sequence[ResearchRow], *, width: int) -> str:
    """Return the summary as text: a table for each agent, and its sums."""
    # Only sessions that judged something pay for rich.
    from rich.console import Console  # noqa: PLC0415

    console = Console(width=width, no_color=True, highlight=False, legacy_windows=False)
    with console.capture() as capture:
        for agent in dict.fromkeys(row.agent for row in rows):
            own = [row for row in rows if row.agent == agent]
            ran = [row for row in own if row.verdict is not Verdict.SKIPPED]
            if ran:
                console.print(_table(agent, ran))
            for line in sums(agent, own):
                console.print(line)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").splitlines())


def sums(agent: str, rows: Sequence[ResearchRow]) -> list[str]:
    """Say what an agent's sub-tasks come to: rates, and the scores of ResearchGym (arXiv 2602.15112, section 2.4).

    Errors and skips enter no rate. A task's score is the mean of the shares of what decides its sub-tasks, a missing
    score being 0; over several attempts, best@k and avg@k are told.
    """
    from pytest_researchenv.research.scoring import average_at_k, best_at_k  # noqa: PLC0415 - as above

    counts = Counter(row.verdict for row in rows)
    judged = counts[Verdict.PASSED] + counts[Verdict.FAILED]
    rest = [f"{counts[verdict]} {word}" for verdict, word in _REST if counts[verdict]]
    completed = sum(row.completed for row in rows)
    lines = []
    if judged:
        line = f"{agent}: {counts[Verdict.PASSED]} of {judged} sub-tasks passed, {completed} of {judged} completed"
        lines.append("; ".join([line, *rest]))
    elif rest:
        lines.append(f"{agent}: no sub-task judged; {'; '.join(rest)}")
    for task in dict.fromkeys(row.task for row in rows):
        scores = _scores([row for row in rows if row.task == task])
        if not scores:
            continue
        name = task.rpartition("/")[2]
        k = len(scores)
        words = "withheld method's score" if k == 1 else f"withheld method's score, best@{k}"
        said = f"{agent}: {name}: {best_at_k(scores, k):.3f} of the {words}"
        lines.append(said if k == 1 else f"{said}, avg@{k} {average_at_k(scores, k):.3f}")
    return lines


_REST = ((Verdict.SKIPPED, "skipped"), (Verdict.ERROR, "errors"))


def _scores(rows: Sequence[ResearchRow]) -> list[float | None]:
    """The task's normalised score of each attempt; none of an attempt of which something has no verdict."""
    from pytest_researchenv.research.scoring import task_score  # noqa: PLC0415 - as above

    found: list[float | None] = []
    for trial in sorted({row.trial for row in rows}):
        own = [row for row in rows if row.trial == trial]
        if all(row.verdict in (Verdict.PASSED, Verdict.FAILED) for row in own):
            score = task_score({row.subtask: _share(row) for row in own})
            if score.value is not None:
                found.append(score.value)
    return found


def _share(row: ResearchRow) -> Ratio | NotComparable:
    from pytest_researchenv.research.scoring import NotComparable, Ratio, Why  # noqa: PLC0415 - as above

    if not row.comparable:
        return NotComparable(Why.NO_WITHHELD, row.subtask)
    return Ratio(row.share, missing=False) if row.share is not None else Ratio(0.0, missing=True)


def _table(agent: str, rows: Sequence[ResearchRow]) -> Table:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=agent, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("task", overflow="fold")
    table.add_column("sub-task", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("completed", no_wrap=True)
    table.add_column("score", justify="right", no_wrap=True)
    table.add_column("baseline", justify="right", overflow="fold")
    table.add_column("of withheld", justify="right", no_wrap=True)
    before = ""
    for row in rows:
        name = row.place if row.place != before else ""
        before = row.place
        table.add_row(name, row.subtask, str(row.verdict), "yes" if row.completed else "no", *_numbers(row))
    return table


def _numbers(row: ResearchRow) -> tuple[str, str, str]:
    if row.score is None or row.baseline is None:
        return "-", "-", "-"
    error = "" if row.error is None else f" ± {row.error:.2g}"
    share = "-" if row.share is None else f"{row.share:.3f}"
    return f"{row.name} {row.score:.4g}{error}", f"{row.method} {row.baseline:.4g}", share
