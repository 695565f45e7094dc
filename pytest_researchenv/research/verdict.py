"""From what an evaluation measured to what a sub-task came to.

The rule, in one place: a sub-task is *completed* where nothing was found against its results and the score that decides
it is there for exactly the required runs; it has *passed* where that score's mean is, besides, strictly better than the
best baseline's in the measure's direction. Where the evaluation runs the best baseline beside on the same data, it is
compared with that; else with the number that the task states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.model import Verdict
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.research.cells import Cell, Plan, Reading, Run, collect, required_runs
from pytest_researchenv.research.result import (
    BesideBaseline,
    ResearchCause,
    ResearchFinding,
    ResearchResult,
    ScoreResult,
)
from pytest_researchenv.research.scoring import NotComparable, Ratio, improvement, judge, normalised
from pytest_researchenv.research.task import Subtask, Task


__all__ = ["Evaluated", "Measured", "concluded", "required"]

#: How many findings a reason lists.
_LISTED = 3
_LONGEST = 600

#: Of several findings, the first of these says what the sub-task failed for.
_ORDER = (
    ResearchCause.NOTHING_HANDED_IN,
    ResearchCause.VIOLATION,
    ResearchCause.BROKEN_ENVIRONMENT,
    ResearchCause.OUT_OF_MEMORY,
    ResearchCause.TIMEOUT,
    ResearchCause.DISK_FULL,
    ResearchCause.CRASH,
    ResearchCause.INVALID_RESULTS,
)


@dataclass(frozen=True, slots=True)
class Measured:
    """Values of one method.

    Attributes:
        method: its name.
        values: name of a score → where something was measured, and what.
    """

    method: str = ""
    values: Mapping[str, tuple[Reading, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What an evaluation found, whatever kind of evaluation it is.

    Attributes:
        own: what was handed in.
        baseline: the best baseline, where it was run beside on the same data.
        findings: for what the results do not count.
        claimed: name of each score → its mean as it was reported.
        executed: what of that was executed again.
        interpreter: the volume with the interpreter that ran the evaluation and the baselines.
    """

    own: Measured = field(default_factory=Measured)
    baseline: Measured | None = None
    findings: tuple[ResearchFinding, ...] = ()
    claimed: Mapping[str, float] = field(default_factory=dict)
    executed: tuple[str, ...] = ()
    interpreter: str = ""


def required(subtask: Subtask) -> tuple[Run, ...]:
    """Return the runs that each score of a sub-task is the mean of."""
    needed = subtask.required
    return required_runs(seeds=needed.seeds or (None,), folds=needed.folds or (None,), steps=needed.steps)


def concluded(task: Task, name: str, evaluated: Evaluated) -> ResearchResult:
    """Say what a sub-task came to.

    Args:
        task: the task.
        name: id of the sub-task.
        evaluated: what the evaluation found.

    Raises:
        ConfigurationError: a number of the task's is none that its measure can have.
    """
    subtask, findings = task.subtasks[name], evaluated.findings
    scores: dict[str, ScoreResult] = {}
    if not findings:
        scores, findings = _scores(task, name, evaluated)
    if evaluated.claimed:
        # Values that were held down to what came out are not independent, and their spread says nothing.
        count = len(evaluated.executed)
        scores = {
            score: replace(one, count=count, error=None, interval=None, clear=None) for score, one in scores.items()
        }
    result = ResearchResult(
        name,
        Verdict.FAILED,
        method=evaluated.own.method,
        decides=subtask.score,
        claimed=dict(evaluated.claimed),
        executed=evaluated.executed,
        interpreter=evaluated.interpreter,
    )
    if findings:
        return replace(result, cause=_cause(findings), reason=_listed(findings), findings=findings)
    deciding = scores[subtask.score]
    verdict, cause = Verdict.FAILED, ResearchCause.NO_IMPROVEMENT
    if deciding.above:
        verdict, cause = Verdict.PASSED, ResearchCause.NONE
    reason = _compared(subtask.score, deciding)
    return replace(result, verdict=verdict, cause=cause, reason=reason, completed=True, scores=scores)


def _scores(task: Task, name: str, evaluated: Evaluated) -> tuple[dict[str, ScoreResult], tuple[ResearchFinding, ...]]:
    """Every score, or what is wrong with some of them."""
    subtask = task.subtasks[name]
    scores: dict[str, ScoreResult] = {}
    findings: list[ResearchFinding] = []
    for score in subtask.scores:
        readings = evaluated.own.values.get(score, ())
        # Scores that do not decide are for those who read them; where they are, they have to be right.
        if not readings and score != subtask.score:
            continue
        plan = Plan(task.measure(name, score).metric(score), required(subtask))
        cell, problems = collect(score, plan, readings)
        findings += [ResearchFinding(str(one.kind), one.what, ResearchCause.INVALID_RESULTS) for one in problems]
        if cell:
            scores[score] = _score(task, name, score, cell, _beside(evaluated, plan, score))
    return scores, tuple(findings)


def _beside(evaluated: Evaluated, plan: Plan, score: str) -> tuple[str, Cell] | None:
    """The baseline that was run beside.

    Raises:
        InfrastructureError: it was not measured as it has to be, which is nothing that an agent handed in.
    """
    if evaluated.baseline is None:
        return None
    cell, problems = collect(score, plan, evaluated.baseline.values.get(score, ()))
    if cell is None:
        listed = "; ".join(one.what for one in problems[:_LISTED])
        raise InfrastructureError(f"the evaluation did not measure the baseline beside as it should: {listed}")
    return evaluated.baseline.method, cell


def _score(task: Task, name: str, score: str, cell: Cell, beside: tuple[str, Cell] | None) -> ScoreResult:
    stated = task.subtasks[name].scores[score]
    if beside:
        method, other = beside
        baseline = BesideBaseline(method, other.mean, {str(run): value for run, value in other.values.items()})
    else:
        baseline = BesideBaseline(stated.best[0], stated.to_beat)
    judged = judge(cell.metric, cell, beside[1].exact if beside else stated.to_beat)
    summary = cell.summary()
    share = normalised(cell.metric, cell.mean, withheld=stated.withheld, baseline=stated.to_beat)
    gain = improvement(cell.metric, cell.mean, baseline.mean)
    return ScoreResult(
        measure=stated.measure,
        better=cell.metric.direction,
        values={str(run): value for run, value in cell.values.items()},
        mean=summary.mean,
        count=summary.count,
        error=summary.error,
        interval=summary.interval,
        baseline=baseline,
        above=judged.passed,
        clear=judged.clear,
        withheld=stated.withheld,
        share=share.value if isinstance(share, Ratio) else None,
        no_share=share.detail if isinstance(share, NotComparable) else "",
        gain=gain.value if isinstance(gain, Ratio) else None,
    )


def _cause(findings: tuple[ResearchFinding, ...]) -> ResearchCause:
    causes = {one.cause for one in findings}
    return next((cause for cause in _ORDER if cause in causes), findings[0].cause)


def _listed(findings: tuple[ResearchFinding, ...]) -> str:
    cause = _cause(findings)
    # Those first that it failed for.
    every = sorted(findings, key=lambda one: one.cause is not cause)
    more = len(every) - _LISTED
    words = "; ".join(f"{one.check}: {printable(one.what, _LONGEST)}" for one in every[:_LISTED])
    return words + (f"; and {more} more" if more > 0 else "")


def _compared(score: str, found: ScoreResult) -> str:
    error = "" if found.error is None else f" ± {found.error:.2g}"
    words = "is better than" if found.above else "is no better than"
    where = ", run beside on the same data" if found.baseline.beside else ""
    baseline = f"{found.baseline.method}'s {found.baseline.mean:.6g}"
    return f"{score} {found.mean:.6g}{error} {words} the best baseline, {baseline}{where}"
