"""Does what ResearchGym published follow from what it published? Tables 3 to 6, recomputed from their own rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from pytest_researchenv.research.paper import Figures, Paper, PrimaryMetric, Scaffold, TaskFigures
from pytest_researchenv.research.printed import Span, counts_of_runs, deviation, mean, others_of_three, span_of


__all__ = ["Check", "checks"]

#: Columns of tables 4 and 5 that are only averaged.
_PLAIN = {
    "attempts": ("table 4", "attempts"),
    "minutes": ("table 4", "minutes to the first valid score"),
    "dollars": ("table 4", "dollars"),
    "tokens": ("table 4", "tokens in, millions"),
    "tools": ("table 5", "calls of tools that succeeded, percent"),
}
_KINDS = {True: "sample", False: "population"}


@dataclass(frozen=True, slots=True)
class Check:
    """A published figure, and what follows from others.

    Attributes:
        where: table or section.
        what: the figure.
        computed: what follows, in words where it is no number.
        published: what was printed.
        holds: whether both can be true, whatever was rounded.
        note: what else is to be said.
    """

    where: str
    what: str
    computed: str
    published: str
    holds: bool
    note: str = ""


def checks(paper: Paper) -> list[Check]:
    """All figures that others decide, in the order of the tables."""
    return [
        *(one for name, task in paper.tasks.items() for one in _primary(name, task, paper.runs)),
        *(one for name, task in paper.tasks.items() for one in _scores(name, task)),
        *_averages(paper),
        *(one for name, task in paper.tasks.items() for one in _completion(name, task, paper.runs)),
        *_improvement(paper),
        *(one for name, scaffold in paper.scaffolds.items() for one in _scaffold(name, scaffold, paper)),
        *_one_number(paper),
        *(
            _check(
                "section 5.1",
                one.what,
                mean(span_of(a).over(span_of(b)) for a, b in one.shares),
                one.published,
                one.note,
            )
            for one in paper.told
        ),
        *(
            Check(one.where, one.what, str(total), one.published, str(total) == one.published, one.note)
            for one in paper.sums
            for total in (sum(map(int, one.parts)),)
        ),
    ]


def _check(where: str, what: str, computed: Span, published: str, note: str = "") -> Check:
    digits, target = len(published.partition(".")[2]), span_of(published)
    holds = computed.meets(target)
    if not holds:
        off = float(target.middle / computed.middle) - 1
        note = f"{note}; {off:+.1%}" if note else f"{off:+.1%}"
    return Check(where, what, f"{float(computed.middle):.{digits}f}", published, holds, note)


# --- table 3 ------------------------------------------------------------------------------------------------


def _primary(name: str, task: TaskFigures, runs: int) -> Iterator[Check]:
    for metric, one in task.metrics.items():
        what = f"{name} {metric}"
        yield from _three_runs(what, one.figures, missing=runs - task.completed)
        yield _strongest(what, one)
        withheld = mean(map(span_of, one.withheld_parts))
        yield _check("table 3", f"{what}: withheld", withheld, one.figures.withheld)


def _three_runs(what: str, figures: Figures, *, missing: int) -> Iterator[Check]:
    digits = len(figures.best.partition(".")[2])
    fitting: list[str] = []
    zeros: set[int] = set()
    for sample, kind in _KINDS.items():
        if (others := _others(figures, sample=sample)) is not None:
            fitting.append(f"{others[0]:.{digits}f} and {others[1]:.{digits}f} ({kind})")
            zeros.add(sum(one < 10**-digits for one in others))
    published = f"{figures.mean} ± {figures.deviation}, best {figures.best}"
    yield Check("table 3", f"{what}: the other two runs", " or ".join(fitting) or "none", published, bool(fitting))
    if missing and fitting:
        told = " or ".join(map(str, sorted(zeros)))
        yield Check(
            "table 3", f"{what}: runs of 0, those without a score in table 4", told, str(missing), missing in zeros
        )


def _others(figures: Figures, *, sample: bool) -> tuple[float, float] | None:
    return others_of_three(span_of(figures.mean), span_of(figures.deviation), span_of(figures.best), sample=sample)


def _strongest(what: str, metric: PrimaryMetric) -> Check:
    means = {method: mean(map(span_of, parts)) for method, parts in metric.parts.items()}
    best = max(means, key=lambda method: means[method].middle)
    cells = [max(column, key=float) for column in zip(*metric.parts.values(), strict=True)]
    apart = mean(map(span_of, cells))
    notes = [f"mixes {metric.mixed}"] if metric.mixed else []
    if apart.middle != means[best].middle:
        notes.append(f"the best of each cell would be {float(apart.middle):g}")
    return _check("table 3", f"{what}: baseline ({best})", means[best], metric.figures.baseline, "; ".join(notes))


# --- tables 4 and 5 -----------------------------------------------------------------------------------------


def _scores(name: str, task: TaskFigures) -> Iterator[Check]:
    figures = [one.figures for one in task.metrics.values()]
    for what, published, chosen in (
        ("mean share of the withheld score", task.score.mean, [one.mean for one in figures]),
        ("best share of the withheld score", task.score.best, [one.best for one in figures]),
    ):
        shares = [span_of(score).over(span_of(one.withheld)) for score, one in zip(chosen, figures, strict=True)]
        yield _check("table 4", f"{name}: {what}", mean(shares), published)
    if len(figures) == 1:
        share = span_of(figures[0].deviation).over(span_of(figures[0].withheld))
        yield _check("table 4", f"{name}: deviation of the mean share", share, task.score.deviation)
    same = task.score.deviation == task.score.deviation_again
    what = f"{name}: deviation of the mean share, as table 5 has it"
    note = "" if same else f"the runs of table 3 would have {' or '.join(_deviations(figures))}"
    yield Check("table 4", what, task.score.deviation_again, task.score.deviation, same, note)


def _deviations(figures: list[Figures]) -> Iterator[str]:
    """The deviation of the mean share, if runs have the same order in every metric."""
    withheld = [Fraction(one.withheld) for one in figures]
    for sample, kind in _KINDS.items():
        others = [_others(one, sample=sample) for one in figures]
        known = [one for one in others if one is not None]
        if len(known) == len(figures):
            runs = zip(
                *((*map(Fraction, pair), Fraction(one.best)) for pair, one in zip(known, figures, strict=True)),
                strict=True,
            )
            shares = [
                sum((a / b for a, b in zip(run, withheld, strict=True)), Fraction()) / len(figures) for run in runs
            ]
            yield f"{deviation(shares, sample=sample):.2f} ({kind})"


def _averages(paper: Paper) -> Iterator[Check]:
    tasks, averages = list(paper.tasks.values()), paper.averages
    for where, what, every, published in (
        ("table 4", "mean share", [one.score.mean for one in tasks], averages.score),
        ("table 4", "best share", [one.score.best for one in tasks], averages.best),
        ("table 5", "completion", [one.completion.mean for one in tasks], averages.completion),
    ):
        yield _check(where, f"all tasks: {what}", mean(map(span_of, every)), published.mean)
        yield _spread(where, f"all tasks: {what}, deviation", every, published.deviation)
    done = Fraction(100 * sum(one.completed for one in tasks), paper.runs * len(tasks))
    yield _check("table 4", "all tasks: runs with a primary score", Span(done, done), averages.completed_percent)
    for column, (where, what) in _PLAIN.items():
        spans = [span_of(getattr(one.resources, column)) for one in tasks]
        yield _check(where, f"all tasks: {what}", mean(spans), getattr(averages.resources, column))


def _spread(where: str, what: str, every: Iterable[str], published: str) -> Check:
    values = [Fraction(text) for text in every]
    target = span_of(published)
    # The values' own rounding moves a deviation by less than half a unit of their last digit.
    slack = max(float(span_of(text).high - Fraction(text)) for text in every)
    told: list[str] = []
    fitting: list[str] = []
    for sample, kind in _KINDS.items():
        value = deviation(values, sample=sample)
        told.append(f"{value:.{len(published.partition('.')[2])}f} ({kind})")
        if float(target.low) - slack <= value <= float(target.high) + slack:
            fitting.append(told[-1])
    return Check(where, what, " or ".join(fitting or told), published, bool(fitting))


def _completion(name: str, task: TaskFigures, runs: int) -> Iterator[Check]:
    average, spread = span_of(task.completion.mean), span_of(task.completion.deviation)
    found = counts_of_runs(average, spread, task.subtasks, runs)
    told = dict.fromkeys(f"{counts} ({kind})" if float(task.completion.deviation) else counts for counts, kind in found)
    published = f"{task.completion.mean} ± {task.completion.deviation}"
    of = " or ".join(map(str, task.subtasks))
    yield Check(
        "table 5",
        f"{name}: sub-tasks that {runs} runs completed, of {of}",
        " or ".join(told) or "none",
        published,
        bool(told),
    )


def _improvement(paper: Paper) -> Iterator[Check]:
    one = paper.improvement
    share = Fraction(100 * one.runs, one.of)
    yield _check("abstract", "runs that beat the strongest baseline, percent", Span(share, share), one.percent)
    figures = [metric.figures for metric in paper.tasks[one.task].metrics.values()]
    gain = mean(span_of(each.best).over(span_of(each.baseline)) for each in figures)
    percent = Span(100 * (gain.low - 1), 100 * (gain.high - 1))
    worse = [
        name
        for name, each in paper.tasks[one.task].metrics.items()
        if float(each.figures.best) < float(each.figures.baseline)
    ]
    note = f"{', '.join(worse)} alone is below its baseline" if worse else ""
    yield _check(
        "abstract", "gain of the best run over the strongest baseline, percent", percent, one.gain_percent, note
    )


# --- table 6 ------------------------------------------------------------------------------------------------


def _scaffold(name: str, scaffold: Scaffold, paper: Paper) -> Iterator[Check]:
    shares = [span_of(share) for share, _ in scaffold.tasks.values()]
    yield _check("table 6", f"{name}: mean share, missing as 0", mean(shares), scaffold.average[0])
    completed = [span_of(percent) for _, percent in scaffold.tasks.values()]
    yield _check("table 6", f"{name}: mean completion", mean(completed), scaffold.average[1])
    for task, (_, percent) in scaffold.tasks.items():
        fitting = [f"{done}/{of}" for of in paper.tasks[task].subtasks for done in _whole(percent, of)]
        of = " or ".join(map(str, paper.tasks[task].subtasks))
        what = f"{name}, {task}: completed, of {of} sub-tasks"
        yield Check(
            "table 6",
            what,
            " or ".join(fitting) or _nearest(percent, paper.tasks[task].subtasks),
            f"{percent} %",
            bool(fitting),
        )


def _one_number(paper: Paper) -> Iterator[Check]:
    """Where it is not known how many sub-tasks a task has: is there a number that all of table 6 fits?"""
    for task, figures in paper.tasks.items():
        if len(figures.subtasks) > 1:
            percents = [scaffold.tasks[task][1] for scaffold in paper.scaffolds.values()]
            fits = {of: [one for one in percents if _whole(one, of)] for of in figures.subtasks}
            told = "; ".join(f"{of} fits {', '.join(one) or 'none'}" for of, one in fits.items())
            holds = any(len(one) == len(percents) for one in fits.values())
            yield Check("table 6", f"{task}: one number of sub-tasks for all", told, ", ".join(percents), holds)


def _whole(percent: str, of: int) -> list[int]:
    """How many of so many sub-tasks are that percentage."""
    target = span_of(percent)
    return [done for done in range(of + 1) if target.low <= Fraction(100 * done, of) <= target.high]


def _nearest(percent: str, subtasks: Iterable[int]) -> str:
    """The nearest percentages that whole sub-tasks make."""
    near: list[str] = []
    for of in subtasks:
        below = math.floor(float(percent) * of / 100)
        near += [f"{done}/{of} is {100 * done / of:.1f}" for done in (below, below + 1)]
    return ", ".join(near)
