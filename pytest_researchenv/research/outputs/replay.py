"""Replay buffers: JSON records of the return that an agent reached, one for each environment and seed.

A record says its environment, whether from states or pixels, its seed, after how many steps, and the return:
`{"environment": "cheetah-run-v0", "category": "dmc_pixel", "seed": 0, "env_steps": 100000,
"metrics": {"average_return": 512.3}}`. A file holds one, a list, or a list below `records`. The published format knows
no steps; a return without them could be of any training, so that it does not count here. Published: ResearchGym (arXiv
2602.15112), task improving-replay-buffers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from pytest_researchenv.research.cells import Plan, Run, required_runs
from pytest_researchenv.research.metrics import Metric
from pytest_researchenv.research.outputs.files import UnreadableError
from pytest_researchenv.research.outputs.found import Finder, Found


__all__ = ["PLANS", "RETURN", "read_records"]

#: The name of the only metric.
RETURN = "Average return"

_STATE, _PIXEL, _GYM = "state", "pixel", "gym"

#: Environment and kind → sub-task.
_SUBTASKS = {
    ("quadrupedwalk", _STATE): "irb-quadruped-walk",
    ("cheetahrun", _STATE): "irb-cheetah-run",
    ("reacherhard", _STATE): "irb-reacher-hard",
    ("fingerturnhard", _STATE): "irb-finger-turn-hard",
    ("walkerwalk", _PIXEL): "irb-pixel-walker-walk",
    ("cheetahrun", _PIXEL): "irb-pixel-cheetah-run",
    ("walker2d", _GYM): "irb-walker2d",
    ("halfcheetah", _GYM): "irb-halfcheetah",
    ("hopper", _GYM): "irb-hopper",
}

# An episode of the DeepMind suite has 1000 steps with a reward of at most 1 each; Gym's have no such bound.
_METRICS = {
    _STATE: Metric(RETURN, least=0, most=1000),
    _PIXEL: Metric(RETURN, least=0, most=1000),
    _GYM: Metric(RETURN),
}

#: Which seeds is not published, only how many.
_SEEDS = {_STATE: range(5), _PIXEL: range(5), _GYM: range(3)}
_STEPS = 100_000
_MORE_STEPS = {"irb-finger-turn-hard": 300_000}

PLANS: Mapping[str, tuple[Plan, ...]] = {
    name: (Plan(_METRICS[kind], required_runs(seeds=_SEEDS[kind], steps=_MORE_STEPS.get(name, _STEPS))),)
    for (_, kind), name in _SUBTASKS.items()
}

_KINDS = {
    "dmcstate": _STATE,
    "state": _STATE,
    "states": _STATE,
    "dmcpixel": _PIXEL,
    "pixel": _PIXEL,
    "pixels": _PIXEL,
    "gym": _GYM,
    "mujoco": _GYM,
}
_ENVIRONMENT = ("environment", "env", "env_name")
_KIND = ("category", "suite", "domain")
_STEP_COUNT = ("env_steps", "environment_steps", "steps")

#: What the published grader writes beside the records.
_SUMMARY = "grading_summary.json"


def read_records(root: Path) -> Found:
    """Read all records below a folder."""
    finder = Finder(root)
    for path, name in finder.files(".json"):
        if path.name == _SUMMARY:
            continue
        try:
            records = list(_records(finder.json(path)))
        except UnreadableError as error:
            finder.skip(name, error)
            continue
        for number, record in enumerate(records, 1):
            where = f"{name}, record {number}"
            try:
                subtask, run, value = _read(record)
            except UnreadableError as error:
                finder.skip(where, error)
            else:
                finder.add(subtask, RETURN, run, value, where)
    return finder.found()


def _records(document: object) -> Iterator[Mapping[str, object]]:
    if isinstance(document, dict):
        below = document.get("records")
        yield from _records(below) if isinstance(below, list) else [document]
    elif isinstance(document, list):
        for one in document:
            if not isinstance(one, dict):
                raise UnreadableError("holds a list of what are no records")
            yield one
    else:
        raise UnreadableError("holds no record")


def _read(record: Mapping[str, object]) -> tuple[str, Run, object]:
    metrics = record.get("metrics")
    if not isinstance(metrics, dict) or "average_return" not in metrics:
        raise UnreadableError("has no metrics with an average_return")
    environment = _first(record, _ENVIRONMENT)
    subtask = _subtask(environment, _first(record, _KIND))
    return subtask, Run(seed=_count(record, ("seed",)), steps=_count(record, _STEP_COUNT)), metrics["average_return"]


def _subtask(environment: object, kind: object) -> str:
    if not isinstance(environment, str):
        raise UnreadableError("names no environment")
    name = re.sub(r"(?:[-_ ]?v[0-9]+)$", "", environment.strip().lower())
    said = {_KINDS[word] for word in re.split(r"[-_ ]", name) if word in _KINDS}
    token = re.sub(r"[^a-z0-9]", "", re.sub(r"(?<![a-z])(?:states?|pixels?|dmc)(?![a-z])", "", name))
    if kind is not None:
        known = _KINDS.get(re.sub(r"[^a-z]", "", kind.lower())) if isinstance(kind, str) else None
        if known is None:
            raise UnreadableError(f"is of an unknown category: {kind!r:.60}; known: dmc_state, dmc_pixel, gym")
        said.add(known)
    fitting = [_SUBTASKS[key] for key in _SUBTASKS if key[0] == token and (not said or said == {key[1]})]
    if not fitting:
        raise UnreadableError(f"is of no environment of the task: {environment!r:.60}, {', '.join(sorted(said))}")
    # Never by default the one or the other: the published grader merged Cheetah-Run from pixels into that from states.
    if len(fitting) > 1:
        raise UnreadableError(f"does not say whether {environment!r:.60} is from states or pixels: give its category")
    return fitting[0]


def _first(record: Mapping[str, object], keys: tuple[str, ...]) -> object:
    return next((record[key] for key in keys if key in record), None)


def _count(record: Mapping[str, object], keys: tuple[str, ...]) -> int | None:
    value = _first(record, keys)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise UnreadableError(f"its {keys[0]} is no count: {value!r:.60}")
    return value
