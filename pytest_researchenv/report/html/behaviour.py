"""How an agent went about a research task, for the page of its environment: figures, a time line, and what was said."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence

from pytest_researchenv.report.html.drawing import Drawing
from pytest_researchenv.report.html.environment_view import BehaviourPart, InspectionPart, SubtaskRow
from pytest_researchenv.report.html.text import cut
from pytest_researchenv.report.html.words import amount, duration, percent, plural
from pytest_researchenv.report.html.work import MOST_BYTES
from pytest_researchenv.research.behaviour import Behaviour, Job, OverClaim, analysed
from pytest_researchenv.research.inspection import Inspection
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.research.worked import Phase, Worked, worked_steps
from pytest_researchenv.runs.values import AttemptRecord


__all__ = ["behaviour_part", "timeline"]

#: Size of the time line, in units of a drawing.
_WIDTH, _HEIGHT, _BAND = 720.0, 64.0, 24.0

#: More stretches than this are drawn as one with its neighbours.
_MOST = 400

_SHOWN = 40
_WORDS = 400


def behaviour_part(attempt: AttemptRecord) -> BehaviourPart | None:
    """Return what is shown of a research task's attempt; None of any other."""
    if not attempt.research:
        return None
    environment = attempt.environment
    wall_s = environment.telemetry.get("wall_s") if environment else None
    limit = environment.inputs.get("agent_timeout_s", "") if environment else ""
    limit_s = float(limit) if re.fullmatch(r"\d{1,9}(\.\d{1,6})?", limit) else None
    steps = worked_steps(_trajectory(attempt), wall_s=wall_s)
    found = analysed(steps, attempt.research, limit_s=limit_s)
    drawn = timeline(steps, found) if found.work_s else None
    return BehaviourPart(
        facts=tuple(_facts(found, limit_s)) if steps else (),
        timeline=drawn.svg if drawn else "",
        ends=("0", duration(found.work_s)) if drawn else ("", ""),
        phases=tuple(
            (str(share.phase), percent(share.time), percent(share.tokens), percent(share.steps))
            for share in found.shares
            if share.steps
        ),
        points=tuple((duration(one.at), one.score, f"{one.value:g}") for one in found.points[-_SHOWN:]),
        unchecked=tuple(_job(one) for one in found.unchecked[:_SHOWN]),
        over_claims=tuple(_claim(one) for one in found.over_claims[:_SHOWN]),
        subtasks=tuple(_subtask(one) for one in attempt.research.values()),
        inspections=tuple(_inspection(name, one) for name, one in attempt.inspections.items()),
    )


def _trajectory(attempt: AttemptRecord) -> object:
    path = attempt.folder / "trajectory.json"
    try:
        return json.loads(path.read_bytes()) if path.stat().st_size <= MOST_BYTES else None
    # Also what is no JSON, or too deep; the page says elsewhere what is wrong with it.
    except (OSError, ValueError, RecursionError):
        return None


def _facts(found: Behaviour, limit_s: float | None) -> Iterator[tuple[str, str]]:
    used = "" if limit_s is None or found.used_time is None else f", {percent(found.used_time)} of {duration(limit_s)}"
    yield "time worked", f"{duration(found.work_s)}{used}"
    yield "steps", amount(found.steps)
    yield "first result of a deciding score", _after(found.first_result_s)
    yield "last improvement", _after(found.last_improvement_s)
    yield "waiting", f"{duration(found.idle_s)}, {percent(found.idle_s / found.work_s if found.work_s else 0)}"
    yield "jobs in the background", f"{len(found.jobs)}, of which {len(found.unchecked)} nobody looked at again"
    yield "runs repeated without a change", plural(found.repeated, "run")
    yield "claims beyond what was found", amount(len(found.over_claims))


def _after(seconds: float | None) -> str:
    return "none was seen" if seconds is None else f"after {duration(seconds)}"


def _job(job: Job) -> tuple[str, str]:
    return duration(job.at), cut(job.command, _WORDS)


def _claim(claim: OverClaim) -> tuple[str, str, str, str]:
    evaluated = "nothing valid" if claim.evaluated is None else f"{claim.evaluated:.6g}"
    return f"{claim.subtask}, {claim.score}", f"{claim.claimed:g}", evaluated, cut(claim.quote, _WORDS)


def _subtask(result: ResearchResult) -> SubtaskRow:
    found = result.deciding
    return SubtaskRow(
        name=result.subtask,
        verdict=str(result.verdict),
        completed="yes" if result.completed else "no",
        score=f"{result.decides} {found.mean:.6g}" if found else "",
        baseline=f"{found.baseline.method} {found.baseline.mean:.6g}" if found else "",
        claimed=f"{result.claimed[result.decides]:.6g}" if result.decides in result.claimed else "",
        words=cut(result.reason, _WORDS),
    )


def _inspection(name: str, found: Inspection) -> InspectionPart:
    return InspectionPart(
        subtask=name,
        verdict=str(found.verdict),
        model=found.model,
        words=cut(found.problem or found.summary, _WORDS),
        violations=tuple(
            (str(one.category), cut(one.what, _WORDS), tuple(f"{q.piece}: {cut(q.text, _WORDS)}" for q in one.quotes))
            for one in found.violations
        ),
        voided=tuple(cut(one, _WORDS) for one in found.voided),
    )


# --- the time line ------------------------------------------------------------------------------------------


def timeline(steps: Sequence[Worked], found: Behaviour) -> Drawing:
    """Draw what an agent was doing from left to right: a band by phase, results above it, lost jobs below.

    Each mark has its words; the same is in the tables beside it.
    """
    drawing = Drawing(_WIDTH, _HEIGHT, _described(found))
    begin = steps[0].at
    scale = _WIDTH / found.work_s
    top = (_HEIGHT - _BAND) / 2
    for phase, start, end in _stretches(steps):
        words = f"{phase}: {duration(start - begin)} to {duration(end - begin)}"
        drawing.rect((start - begin) * scale, top, (end - start) * scale, _BAND, f"phase {phase}", title=words)
    for point in found.points:
        words = f"{point.score} {point.value:g} after {duration(point.at)}"
        drawing.dot(min(_WIDTH - 4, max(4, point.at * scale)), top - 9, 4, "accent", title=words)
    for job in found.unchecked:
        words = f"nobody looked at it again: {cut(job.command, 80)}"
        drawing.rect(min(_WIDTH - 6, job.at * scale), top + _BAND + 6, 6, 10, "false", title=words)
    return drawing


def _stretches(steps: Sequence[Worked]) -> Iterator[tuple[Phase, float, float]]:
    """Neighbours of one phase as one stretch; of very many steps, so many that each can be seen."""
    shortest = sum(step.took for step in steps) / _MOST
    current: tuple[Phase, float, float] | None = None
    for step in steps:
        end = step.at + step.took
        if current is None:
            current = (step.phase, step.at, end)
        elif step.phase is current[0] or (len(steps) > _MOST and end - current[1] < shortest):
            current = (current[0], current[1], end)
        else:
            yield current
            current = (step.phase, step.at, end)
    if current is not None:
        yield current


def _described(found: Behaviour) -> str:
    parts: Iterable[str] = (f"{share.phase} {percent(share.time)}" for share in found.shares if share.time)
    return f"Time line of {duration(found.work_s)}: {', '.join(parts)}; first result {_after(found.first_result_s)}"
