"""What agents with a model are told that are to do research: the problem, its rules, and nothing that is withheld."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pytest_researchenv.agents.rendering import in_words, render, report_values
from pytest_researchenv.assignment import Earlier, Situation
from pytest_researchenv.research.task import DataSet, Fetch, Required, Subtask, Task


__all__ = ["render_research_prompt"]

_SHIPPED = "research.md.j2"

_SECONDS_PER_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class _Told:
    """One sub-task, in words."""

    name: str
    setting: str
    score: str
    meaning: str
    unit: str
    better: str
    to_beat: str
    best: str
    required: tuple[str, ...]
    data: str


def render_research_prompt(task: Task, workdir: str, situation: Situation) -> str:
    """Say what an agent is to find out.

    A template is of Jinja, in its sandbox. It knows `area`, `goal`, `workdir`, `subtasks` (each with `name`, `setting`,
    `score`, `meaning`, `unit`, `better`, `to_beat`, `best`, `required` and `data`), `reads`, `minutes` that an
    evaluation takes, `install` and `data` (lines each), `time_limit` in words, `timeout_s`, `dollars`, `search_until`,
    `reach`, `watched` (whether all of http is open), `devices`, `accelerator`, `stage` (from 1) and `earlier` (what was
    before); and of the self-report what every template knows: `report_path`, `fields`, `example`, `scratch`.

    Args:
        task: the task.
        workdir: where its tree lies.
        situation: under which conditions the agent works.

    Raises:
        ConfigurationError: the template cannot be read or rendered, or does not say where the self-report belongs.
    """
    minutes = task.evaluation.minutes
    values: Mapping[str, object] = {
        **report_values(),
        "area": task.area,
        "goal": task.goal,
        "workdir": workdir,
        "subtasks": [_told(task, name, subtask) for name, subtask in task.subtasks.items()],
        "reads": task.evaluation.reads,
        "minutes": in_words(minutes * _SECONDS_PER_MINUTE) if minutes else "",
        "install": list(_install(task)),
        "data": list(_data(task, situation)),
        "search_until": task.blocked.search_until,
        "reach": str(situation.reach),
        "watched": "*" in situation.needs.allow,
        "devices": situation.devices,
        "accelerator": situation.accelerator,
        "timeout_s": situation.timeout_s,
        "time_limit": in_words(situation.timeout_s),
        "dollars": f"{situation.max_cost_usd:.2f}" if situation.max_cost_usd is not None else "",
        "stage": situation.earlier.stages + 1 if situation.earlier else 1,
        "earlier": _earlier(situation.earlier) if situation.earlier else "",
    }
    return render(_SHIPPED, values, template=situation.template("research"), option="--researchenv-research-prompt")


def _told(task: Task, name: str, subtask: Subtask) -> _Told:
    score, measure = subtask.deciding, task.measure(name, subtask.score)
    spread = score.spreads.get(score.best[0])
    return _Told(
        name=name,
        setting=_sentence(subtask.setting),
        score=subtask.score,
        meaning=measure.meaning,
        unit=measure.unit,
        better=str(measure.better),
        to_beat=f"{score.to_beat:g}" + (f" ± {spread:g}" if spread is not None else ""),
        best=" and ".join(score.best),
        required=tuple(_required(subtask.required)),
        data=", ".join(subtask.data),
    )


def _required(required: Required) -> Iterator[str]:
    if required.seeds:
        yield f"Seeds: {_list(required.seeds)}."
    if required.folds:
        yield f"Folds: {_list(required.folds)}."
    if required.severities:
        yield f"Corruptions, each at its severity: {_list(f'{name} {at}' for name, at in required.severities.items())}."
    if required.steps is not None:
        yield f"Measured after {required.steps} steps of the environment."


def _list(items: Iterable[object]) -> str:
    return ", ".join(map(str, items))


def _install(task: Task) -> Iterator[str]:
    install = task.install
    if install.python:
        yield f"The code was written for Python {install.python}."
    if install.requirements:
        yield f"What it needs is in {_list(f'`{file}`' for file in install.requirements)}."
    if install.script:
        yield f"What these do not install, `{install.script}` does."


def _data(task: Task, situation: Situation) -> Iterator[str]:
    mounted = {one.name: one.path for one in situation.data}
    for name, data in task.data.items():
        yield f"Data, {name}: {_whereabouts(data, mounted.get(name, ''))}."


def _whereabouts(data: DataSet, mounted: str) -> str:
    if mounted:
        return f"in `{mounted}`, read-only"
    match data.fetch:
        case Fetch.BUNDLED:
            return f"in `{data.path}` of the code"
        case Fetch.GENERATED:
            return "made by the code"
        case Fetch.PACKAGE:
            return "comes with a package, or is fetched by it"
        case Fetch.DOWNLOAD | Fetch.MANUAL:
            return "not here; sub-tasks that need it are not evaluated"


def _earlier(earlier: Earlier) -> str:
    many = f"{earlier.stages} stages" if earlier.stages > 1 else "one stage"
    before = f"Before it came {many}, of {in_words(round(earlier.seconds))} of wall time."
    if earlier.restored:
        return (
            f"{before} The last ended by a fault that was not yours: the folder of the code was restored from a copy, "
            "which may be some minutes old, and all else has to be installed again."
        )
    return f"{before} Everything is as it was left then, but no process of then runs any more."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]
