"""Suites of research tasks on disk: read them, and say exactly what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, TypeVar

from pydantic import TypeAdapter

from pytest_researchenv._problems import Problem, all_problems, described, read_value, shown, typed_problems
from pytest_researchenv._sources import STRICT
from pytest_researchenv.errors import SuiteError
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.research._task_problems import suite_problems, task_problems
from pytest_researchenv.research.task import ResearchSuite, Task


if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["load_research_suite", "show_research_suite"]

_T = TypeVar("_T")

#: Of what is told of a doubt.
_LONGEST = 400

_SUITE_FILE = "suite.toml"
_TASK_FILE = "task.toml"

#: Fields of a task that are no keys of its file.
_FOREIGN = ("folder", "suite")


@dataclass(frozen=True, slots=True)
class _Header:
    """What `suite.toml` holds."""

    __pydantic_config__: ClassVar = STRICT

    name: str
    description: str = ""
    canary: str = ""


def load_research_suite(folder: Path) -> ResearchSuite:
    """Read a suite of research tasks.

    Args:
        folder: the folder that holds `suite.toml`; each sub-folder with a `task.toml` is a task.

    Raises:
        SuiteError: something in it is wrong; the message lists every problem of every file.
    """
    folder = folder.resolve()
    problems: list[Problem] = []
    header = _read(_header_adapter(), _Header, folder / _SUITE_FILE, problems)
    tasks: list[Task] = []
    for file in described(folder, _TASK_FILE):
        task = _read(_task_adapter(), Task, file, problems, foreign=_FOREIGN)
        if task is not None:
            tasks.append(replace(task, folder=str(file.parent)))
            problems.extend(task_problems(file, tasks[-1]))
    problems.extend(suite_problems(folder, tasks, canary=header.canary if header else ""))
    if problems or header is None:
        raise SuiteError(all_problems(folder, problems))
    return ResearchSuite(
        name=header.name,
        folder=folder,
        tasks=tuple(replace(task, suite=header.name) for task in sorted(tasks, key=attrgetter("name"))),
        description=header.description,
        canary=header.canary,
    )


def show_research_suite(folder: Path, *, console: Console) -> None:
    """Print what a suite of research tasks holds, what is to be beaten, and what is doubtful about published numbers.

    Args:
        folder: the folder that holds `suite.toml`.
        console: where to print.

    Raises:
        SuiteError: something in it is wrong; a doubt is not.
    """
    # Collecting tests needs this module and no tables.
    from pytest_researchenv.report.research_tables import deciding_table, tasks_table, warnings  # noqa: PLC0415
    from pytest_researchenv.report.tables import as_rich  # noqa: PLC0415 - see above

    suite = load_research_suite(folder)
    for table in (tasks_table(suite), *map(deciding_table, suite.tasks)):
        console.print(as_rich(table))
        console.print()
    for kind, place, why in warnings(suite):
        text = f"warning: {place}: {kind}: {printable(why, _LONGEST)}"
        console.print(text, markup=False, highlight=False, soft_wrap=True)


@cache
def _header_adapter() -> TypeAdapter[_Header]:
    return TypeAdapter(_Header)


@cache
def _task_adapter() -> TypeAdapter[Task]:
    return TypeAdapter(Task)


def _read(
    adapter: TypeAdapter[_T], root: type[_T], file: Path, problems: list[Problem], *, foreign: Iterable[str] = ()
) -> _T | None:
    def without_foreign(raw: dict[str, object]) -> Iterator[tuple[str, str]]:
        for key in foreign:
            if key in raw:
                yield key, f"unknown key (value {shown(raw.pop(key))}); remove it"

    return read_value(
        adapter,
        file,
        problems,
        prepare=without_foreign,
        explain=lambda _, error: typed_problems(file, root, error, foreign=foreign),
    )
