"""A suite of research tasks as a page: made from the suite's descriptions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pytest_researchenv.report.research_tables import (
    counted,
    data_table,
    runs_table,
    scores_table,
    tasks_table,
    warnings,
)
from pytest_researchenv.report.tables import as_markdown
from pytest_researchenv.research.task import Removal, ResearchSuite, Task


__all__ = ["research_page"]

_HEAD = """\
`researchenv document {name}` writes this page from the suite's descriptions: one `task.toml` for each task, in the
format of `research-format.md`. A sub-task is one test. It passes when the score that decides it is strictly better than
the best baseline. All baselines of all scores, what stands behind their ±, and where each number comes from, are in
`task.toml`.

An agent works at all sub-tasks of a task in one attempt. Tasks whose tree lies beside their `task.toml` are evaluated:
each sub-task in a fresh container from what the agent left, with the best baseline run beside on the same hidden data.
{judged}

    researchenv validate {name}
    pytest --researchenv-suite={name} --collect-only -q
    pytest --researchenv-suite={name} --collect-only -q -k "{chosen}"

`-k` finds tasks and sub-tasks by their names, with `_` in the place of `-`, and sub-tasks also by the names of their
scores.
"""

_RUNS = """\
What is run by the tests of this package, on a CPU: {done}. What is *chosen here* is left open by the published task.
"""


def research_page(suite: ResearchSuite) -> str:
    """Return the page, in Markdown."""
    parts = [
        f"# {suite.name}: {suite.description}\n",
        _HEAD.format(name=suite.name, chosen=" and ".join(_example(suite)), judged=_judged(suite)),
        as_markdown(tasks_table(suite)),
        *(line for task in suite.tasks for line in _task(task)),
        *_counting(suite),
        *_doubts(suite),
        *_runs(suite),
    ]
    return "\n".join(parts)


def _judged(suite: ResearchSuite) -> str:
    own = [f"`{task.name}`" for task in suite.tasks if task.evaluation.reported is None and task.source.path]
    reported = [task for task in suite.tasks if task.evaluation.reported is not None]
    words = [f"Evaluated so are {' and '.join(own)}."] if own else []
    if reported:
        names = ", ".join(f"`{task.name}`" for task in reported)
        words.append(
            f"Results of {names}\nare reported by agents themselves: they are claims, of which runs that are drawn "
            "after the hand-in are executed again\n(`research-format.md`). A test is skipped where its data or devices "
            "are missing, and says what to get and where to put it."
        )
    return "\n".join(words)


def _example(suite: ResearchSuite) -> Iterator[str]:
    """Words by which `-k` selects some of the last task's sub-tasks: the task's, and a measure's that `-k` can take."""
    if suite.tasks:
        task = suite.tasks[-1]
        yield task.slug
        yield from [name for name in task.measures if name.isalnum()][:1]


def _task(task: Task) -> Iterator[str]:
    yield f"## {task.name}\n"
    yield f"{task.goal}\n"
    yield f"Withheld is {task.withheld.method}: {task.withheld.paper}, {task.withheld.address}.\n"
    yield "Measures:\n"
    for name, measure in task.measures.items():
        low, high = measure.range
        unit = f" {measure.unit}" if measure.unit else ""
        yield f"- `{name}`: {_sentence(measure.meaning)} {low:g} to {high:g}{unit}; {measure.better} is better."
    if task.primary:
        yield "\nThe benchmark sums it up by:\n"
    for primary in task.primary:
        parts = " and ".join(f"`{part.score}` of `{part.subtask}`" for part in primary.of)
        mean = "the mean of " if len(primary.of) > 1 else ""
        yield f"- {primary.name}: {mean}{parts}; {primary.method} {primary.baseline:g}, withheld {primary.withheld:g}."
    decided = ", ".join(f"`{name}` by `{subtask.score}`" for name, subtask in task.subtasks.items())
    yield f"\nSub-tasks are decided so: {decided}.\n"
    yield as_markdown(scores_table(task))
    if task.data:
        yield as_markdown(data_table(task))
    yield from _listed("What the published evaluation gets wrong", task.evaluation.flaws)
    yield from _listed("What it takes without a look", task.evaluation.unchecked)
    yield from _listed("What is not to be in the agent's copy", map(_removed, task.removed))
    notes = [f"`{name}`: {note}" for name, subtask in task.subtasks.items() for note in subtask.notes]
    yield from _listed("Notes", [*task.notes, *notes])


def _removed(removal: Removal) -> str:
    parts = f", of which {', '.join(f'`{part}`' for part in removal.parts)}" if removal.parts else ""
    why = f": {removal.why}" if removal.why else ""
    return f"`{removal.path}`{parts} ({removal.holds}){why}"


def _counting(suite: ResearchSuite) -> Iterator[str]:
    """How the number of sub-tasks came about, where somebody had to conclude it."""
    reasons: dict[str, list[str]] = {}
    for task in suite.tasks:
        for subtask in task.subtasks.values():
            if subtask.inferred:
                reasons.setdefault(f"`{task.name}`: {subtask.inferred}", []).append(task.name)
    if not reasons:
        return
    yield "## How sub-tasks are counted\n"
    yield from (f"- {_sentence(reason)}" for reason in reasons)
    yield ""


def _doubts(suite: ResearchSuite) -> Iterator[str]:
    found: dict[str, list[str]] = {}
    for kind, place, why in warnings(suite):
        found.setdefault(kind, []).append(f"`{place}`: {why}")
    if not found:
        return
    yield "## Numbers in doubt\n"
    for kind, places in sorted(found.items()):
        yield f"**{kind}** ({counted(len(places), 'score')}):\n"
        yield from (f"- {_sentence(place)}" for place in places)
        yield ""


def _runs(suite: ResearchSuite) -> Iterator[str]:
    done = [name for task in suite.tasks for name, subtask in task.subtasks.items() if not subtask.not_run_here]
    yield "## What runs here\n"
    yield _RUNS.format(done=", ".join(f"`{name}`" for name in done) if done else "none of them")
    yield as_markdown(runs_table(suite))


def _listed(heading: str, items: Iterable[str]) -> Iterator[str]:
    lines = [f"- {_sentence(item)}" for item in items]
    if lines:
        yield "\n".join([f"{heading}:", "", *lines, ""])


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."
