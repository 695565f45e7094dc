"""The report of an evaluation that runs in a container: read from outside, in bounds, and believed only with its seal.

The evaluation writes one line: a digest that needs the secret of this evaluation, a space, and the report as JSON.
Whatever else runs in that container may write to the same place, and does not know the secret.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from functools import cache
from typing import ClassVar

from pydantic import TypeAdapter, ValidationError

from pytest_researchenv._records import what_is_wrong
from pytest_researchenv._sources import STRICT
from pytest_researchenv.research.cells import Reading, Run
from pytest_researchenv.research.result import ResearchCause, ResearchFinding
from pytest_researchenv.research.strictjson import read_strict
from pytest_researchenv.research.task import Task
from pytest_researchenv.research.verdict import Evaluated, Measured
from pytest_researchenv.sandbox.protocol import Captured


__all__ = ["Unreadable", "read_report", "sealed_report"]

#: Bytes of a report that are read.
_LARGEST = 1024 * 1024

#: Name of a check → what the sub-task fails for. Every other one says that rules were violated.
_CAUSES = {
    "results-missing": ResearchCause.NOTHING_HANDED_IN,
    "code-missing": ResearchCause.NOTHING_HANDED_IN,
    "results-invalid": ResearchCause.INVALID_RESULTS,
    "results-seeds": ResearchCause.INVALID_RESULTS,
    "predictions": ResearchCause.INVALID_RESULTS,
    "constant": ResearchCause.INVALID_RESULTS,
    "state-size": ResearchCause.INVALID_RESULTS,
    "crash": ResearchCause.CRASH,
    "memory-limit": ResearchCause.OUT_OF_MEMORY,
    "deadline": ResearchCause.TIMEOUT,
    "environment": ResearchCause.BROKEN_ENVIRONMENT,
}


class Unreadable(Exception):  # noqa: N818 - it says what the report is.
    """There is no report that can be believed."""


@dataclass(frozen=True, slots=True)
class _Column:
    __pydantic_config__: ClassVar = STRICT

    mean: float
    standard_error: float
    seeds: dict[str, float]


@dataclass(frozen=True, slots=True)
class _Beside:
    __pydantic_config__: ClassVar = STRICT

    method: str
    scores: dict[str, _Column]


@dataclass(frozen=True, slots=True)
class _Difference:
    __pydantic_config__: ClassVar = STRICT

    mean: float
    standard_error: float


@dataclass(frozen=True, slots=True)
class _Found:
    __pydantic_config__: ClassVar = STRICT

    check: str
    what: str


@dataclass(frozen=True, slots=True)
class _Report:
    """As `suites/researchgym/_shared/judging/flow.py` writes it; `docs/research-format.md` describes it."""

    __pydantic_config__: ClassVar = STRICT

    subtask: str
    method: str
    completed: bool
    passed: bool
    primary: str
    scores: dict[str, _Column]
    public: dict[str, _Column]
    baseline: _Beside
    difference: _Difference | None
    unprivileged: bool
    seconds: float
    findings: tuple[_Found, ...] = field(default=())


def sealed_report(printed: Captured, secret: bytes) -> str:
    """Return the report of which a process printed exactly one that is sealed.

    Args:
        printed: what it printed.
        secret: what it was given.

    Raises:
        Unreadable: there is none, or it is too long.
    """
    if printed.total > _LARGEST:
        raise Unreadable(
            f"{printed.total} bytes were printed in the place of a report, and at most {_LARGEST} are read"
        )
    found = []
    for line in printed.text().splitlines():
        digest, _, text = line.partition(" ")
        own = hmac.new(secret, b"report " + text.encode(), hashlib.sha256).hexdigest()
        if hmac.compare_digest(own.encode(), digest.encode()):
            found.append(text)
    if len(found) != 1:
        raise Unreadable(f"{len(found)} reports of the evaluation were printed, and not one")
    return found[0]


def read_report(text: str, task: Task, subtask: str) -> Evaluated:
    """Read a report.

    Args:
        text: the report, as JSON.
        task: what was evaluated.
        subtask: which of its sub-tasks.

    Raises:
        Unreadable: it is none of this sub-task.
    """
    try:
        # Strict JSON first: pydantic takes NaN, and of a name that is there twice the last.
        read_strict(text)
        report = _adapter().validate_json(text, strict=True)
    except ValidationError as error:
        raise Unreadable(f"the evaluation's report is not as described: {what_is_wrong(error)}") from error
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the evaluation's report is no JSON: {str(error)[:200]}") from error
    if report.subtask != subtask:
        raise Unreadable(f"the evaluation's report is of {report.subtask[:80]!r}, not of {subtask!r}")
    findings = tuple(
        ResearchFinding(one.check, one.what, _CAUSES.get(one.check, ResearchCause.VIOLATION)) for one in report.findings
    )
    own = _measured(task, subtask, report.method, report.scores)
    return Evaluated(own, _measured(task, subtask, report.baseline.method, report.baseline.scores), findings)


def _measured(task: Task, subtask: str, method: str, columns: dict[str, _Column]) -> Measured:
    scores = task.subtasks[subtask].scores
    values = {name: _readings(columns[score.measure]) for name, score in scores.items() if score.measure in columns}
    return Measured(method, values)


def _readings(column: _Column) -> tuple[Reading, ...]:
    return tuple(Reading(Run(seed=_seed(name)), value) for name, value in column.seeds.items())


def _seed(name: str) -> int:
    if not (name.isascii() and name.isdecimal() and str(int(name)) == name):
        raise Unreadable(f"the evaluation's report has a seed that is none: {name[:40]!r}")
    return int(name)


@cache
def _adapter() -> TypeAdapter[_Report]:
    return TypeAdapter(_Report)
