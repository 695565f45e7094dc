"""How an agent went about a research task: figures with their formulas, from its trajectory and the results.

Nothing here decides a verdict. What commands and outputs tell is what agents and programs wrote: a figure says what was
seen, and an agent that hides its work in scripts is seen to do less.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.research.metrics import Direction
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.research.worked import Phase, Worked


__all__ = ["Behaviour", "Job", "OverClaim", "Point", "Share", "analysed", "jobs_of", "over_claims", "points_of"]

#: How many of a kind are kept.
_KEPT = 200

#: Of a line in which a number is looked for.
_LONGEST_LINE = 2000

_NUMBER = r"(?<![\w.])([-+]?\d{1,9}(?:\.\d{1,12})?)(?![\w]|\.\d)"


@dataclass(frozen=True, slots=True)
class Point:
    """A value of a deciding score that a command printed: after how many seconds, which score, and the value."""

    at: float
    score: str
    value: float


@dataclass(frozen=True, slots=True)
class Job:
    """A command that was started in the background.

    Attributes:
        at: after how many seconds.
        command: what was started, in one line.
        checked: whether a later command looked at it: named a file that it writes, waited, or listed processes.
    """

    at: float
    command: str
    checked: bool


@dataclass(frozen=True, slots=True)
class Share:
    """A phase's share of the time, of the tokens, and of the steps, each from 0 to 1; 0 of nothing."""

    phase: Phase
    time: float
    tokens: float
    steps: float


class ClaimKind(StrEnum):
    """In what way a final report says more than was found."""

    HIGHER = "better than was found"
    NOTHING = "nothing valid was found"


@dataclass(frozen=True, slots=True)
class OverClaim:
    """A number of the final report that the evaluation does not bear out.

    Attributes:
        subtask: of which sub-task.
        score: of which score.
        claimed: the number.
        evaluated: what the evaluation found; None where it found nothing valid.
        kind: in what way it says too much.
        quote: the line.
    """

    subtask: str
    score: str
    claimed: float
    evaluated: float | None
    kind: ClaimKind
    quote: str


@dataclass(frozen=True, slots=True)
class Behaviour:
    """All figures of one attempt; times in seconds from the beginning of the work.

    Attributes:
        work_s: from the first step's time to the end of the last one, `Σ took`.
        first_result_s: `min at` of the points: when a value of a deciding score was printed first; None where none was.
        last_improvement_s: `at` of the last point that is better than all points of its score before it; the first
            point counts as one. None where there is no point.
        idle_s: `Σ took` of steps whose commands do nothing but wait (`sleep`, `wait`, `watch`).
        jobs: commands that were started in the background; those that nobody looked at again are `unchecked`.
        repeated: how often a command that runs something was run again, word for word, while no step in between changed
            a file: `Σ (times - 1)` over runs of equal commands that no change divides. Seeds are words.
        shares: of each phase, in the order of `Phase`; each column has the sum 1, or 0 of nothing.
        points: what was printed of deciding scores.
        over_claims: numbers of the final report that the evaluation does not bear out.
        used_time: `work_s` over the hours that the attempt had; None where it had no limit.
        steps: number of the agent's steps.
    """

    work_s: float
    first_result_s: float | None
    last_improvement_s: float | None
    idle_s: float
    jobs: tuple[Job, ...]
    repeated: int
    shares: tuple[Share, ...]
    points: tuple[Point, ...]
    over_claims: tuple[OverClaim, ...]
    used_time: float | None
    steps: int

    @property
    def unchecked(self) -> tuple[Job, ...]:
        """Jobs that nobody looked at again."""
        return tuple(job for job in self.jobs if not job.checked)


def analysed(
    steps: Sequence[Worked], results: Mapping[str, ResearchResult], *, limit_s: float | None = None
) -> Behaviour:
    """Say how an agent went about its work.

    Args:
        steps: what it did.
        results: sub-task → what the evaluation found; its scores' names are what is looked for in outputs.
        limit_s: how long it might work; None where that is not known.
    """
    points = tuple(points_of(steps, results))
    work_s = sum(step.took for step in steps)
    report = next((step.message for step in reversed(steps) if step.message.strip()), "")
    return Behaviour(
        work_s=work_s,
        first_result_s=min((point.at for point in points), default=None),
        last_improvement_s=_last_improvement(points, results),
        idle_s=sum(step.took for step in steps if step.phase is Phase.WAITING),
        jobs=tuple(islice(jobs_of(steps), _KEPT)),
        repeated=_repeated(steps),
        shares=tuple(_shares(steps)),
        points=points[:_KEPT],
        over_claims=tuple(islice(over_claims(report, results), _KEPT)),
        used_time=work_s / limit_s if limit_s else None,
        steps=len(steps),
    )


# --- results ------------------------------------------------------------------------------------------------


def points_of(steps: Iterable[Worked], results: Mapping[str, ResearchResult]) -> Iterator[Point]:
    """Values of deciding scores in outputs: `Acc: 91.2`, `'Acc': 91.2`, `Acc = 91.2 %`, the last of each step counting.

    A value belongs to the end of its step: what a command prints is seen when it has ended.
    """
    patterns = {name: _pattern(name) for name in sorted({one.decides for one in results.values() if one.decides})}
    for step in steps:
        for name, pattern in patterns.items():
            found = [pattern.search(line) for line in step.output.splitlines() if len(line) <= _LONGEST_LINE]
            values = [float(one[1]) for one in found if one]
            if values:
                yield Point(step.at + step.took, name, values[-1])


def _pattern(name: str) -> re.Pattern[str]:
    between = r"[\"'*`|\s]{0,8}"
    return re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-]){between}(?:[:=|]|is\b|of\b)?{between}{_NUMBER}")


def _last_improvement(points: Sequence[Point], results: Mapping[str, ResearchResult]) -> float | None:
    best: dict[str, float] = {}
    latest: float | None = None
    for point in points:
        before = best.get(point.score)
        if before is None or _better(point.value, before, _direction(point.score, results)):
            best[point.score] = point.value
            latest = point.at
    return latest


def _direction(score: str, results: Mapping[str, ResearchResult]) -> Direction:
    known = (one.scores[score].better for one in results.values() if score in one.scores)
    return next(known, Direction.HIGHER)


def _better(value: float, other: float, direction: Direction) -> bool:
    return value > other if direction is Direction.HIGHER else value < other


# --- commands -----------------------------------------------------------------------------------------------

#: A single `&` at the end of a command, neither `&&` nor a redirection.
_BACKGROUND = re.compile(r"(?<![&<>\d])&(?![&>\d])\s*(?:$|[\n;)]|disown|echo|\w)")
_DETACHED = re.compile(r"^\s*(?:nohup|setsid|screen\s+-\w*d|tmux\s+new(?:-session)?\b.*-d|tmux\s+.*\bsend-keys)\b")
_TARGET = re.compile(r"(?:>{1,2}|&>{1,2}|-o(?:utput(?:[-_]?(?:dir|file))?)?[=\s])\s*([^\s;&|>'\"]{3,200})")
_LOOKS = re.compile(
    r"^\s*(?:(?:wait|jobs|ps|pgrep|fg|nvidia-smi|top|htop)\b|tmux\s+(?:attach|capture-pane)|screen\s+-r)", re.MULTILINE
)


def jobs_of(steps: Sequence[Worked]) -> Iterator[Job]:
    """Commands in the background, and whether one of a later step looked at them.

    A later step looks at a job when a command of it names a file that the job writes to (a redirection, `-o`), or
    waits, or lists processes.
    """
    for index, step in enumerate(steps):
        for command in step.commands:
            started = [line for line in command.splitlines() if _BACKGROUND.search(line) or _DETACHED.search(line)]
            for line in started:
                files = {name for name in _TARGET.findall(line) if name not in ("/dev/null", "&1")}
                later = [one for after in steps[index + 1 :] for one in after.commands]
                checked = any(_LOOKS.search(one) or any(_names(one, name) for name in files) for one in later)
                yield Job(step.at, printable(line.strip(), 300), checked)


def _names(command: str, file: str) -> bool:
    """Whether a command names a file: by its path, or by its name."""
    return file in command or file.rpartition("/")[2] in re.split(r"[\s'\"/=]", command)


def _repeated(steps: Iterable[Worked]) -> int:
    repeated = 0
    seen: Counter[str] = Counter()
    for step in steps:
        if step.wrote:
            seen.clear()
        if step.phase is not Phase.RUNNING:
            continue
        for command in step.commands:
            words = " ".join(command.split())
            repeated += seen[words] > 0
            seen[words] += 1
    return repeated


def _shares(steps: Sequence[Worked]) -> Iterator[Share]:
    time, tokens = sum(step.took for step in steps), sum(step.tokens for step in steps)
    for phase in Phase:
        own = [step for step in steps if step.phase is phase]
        yield Share(
            phase,
            sum(step.took for step in own) / time if time else 0.0,
            sum(step.tokens for step in own) / tokens if tokens else 0.0,
            len(own) / len(steps) if steps else 0.0,
        )


# --- the final report ---------------------------------------------------------------------------------------


def over_claims(report: str, results: Mapping[str, ResearchResult]) -> Iterator[OverClaim]:
    """Numbers of a final report beside what the evaluation found.

    A line that names a sub-task (as it is called, with `_`, `-` or blanks), or any line where there is only one, and
    has a score's name with a number, claims that number. It says too much where the evaluation found nothing valid, or
    where it is better than the mean that was found by more than twice its standard error, and by more than half of the
    number's last digit: what was rounded is no lie.
    """
    for line in report.splitlines():
        if len(line) > _LONGEST_LINE:
            continue
        for subtask, result in results.items():
            if len(results) > 1 and not _mentions(line, subtask):
                continue
            for score in (*result.scores, *([] if result.scores else [result.decides])):
                if score and (found := _pattern(score).search(line)):
                    yield from _compared(subtask, score, found[1], result, line)


def _compared(subtask: str, score: str, number: str, result: ResearchResult, line: str) -> Iterator[OverClaim]:
    claimed, quote = float(number), printable(line.strip(), 300)
    evaluated = result.scores.get(score)
    if evaluated is None:
        yield OverClaim(subtask, score, claimed, None, ClaimKind.NOTHING, quote)
        return
    rounded = 0.5 * 10.0 ** -len(number.partition(".")[2])
    allowed = max(rounded, 2 * (evaluated.error or 0.0)) * (1 + 1e-9)
    if _better(claimed, evaluated.mean, evaluated.better) and abs(claimed - evaluated.mean) > allowed:
        yield OverClaim(subtask, score, claimed, evaluated.mean, ClaimKind.HIGHER, quote)


def _mentions(line: str, subtask: str) -> bool:
    words = r"[-_\s]?".join(map(re.escape, subtask.split("_")))
    return re.search(rf"(?<![a-z0-9]){words}(?![a-z0-9])", line, re.IGNORECASE) is not None
