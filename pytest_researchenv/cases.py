"""Which tests there are: one case per agent and repository of a suite, or per agent and sub-task of a research task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pytest

from pytest_researchenv.errors import SuiteError
from pytest_researchenv.model import Examination, Repository, Tier
from pytest_researchenv.options import attempts_option, chosen_agents


if TYPE_CHECKING:
    from pytest_researchenv.research.task import Subtask, Task

__all__ = [
    "CASE",
    "PARAMETERS",
    "RESEARCH_CASE",
    "Case",
    "ResearchCase",
    "case_of",
    "cases_for",
    "distinct_cases",
    "research_case_of",
    "research_cases_for",
    "tiers_of",
]

#: Name of the parameter that carries the case.
CASE = "researchenv_case"
#: Likewise in suites of research tasks.
RESEARCH_CASE = "researchenv_research_case"

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Case:
    """One agent at one repository.

    Attributes:
        agent: name of the agent; None when none was chosen and tests are only listed.
        repository: what it tries.
        trial: which of its attempts.
    """

    agent: str | None
    repository: Repository
    trial: int = 1

    @property
    def id(self) -> str:
        """What stands in the test's id. The first attempt's is the same however many there are."""
        return _joined(self.agent, self.repository.slug, trial=self.trial)

    @property
    def group(self) -> str:
        """What tells it from the cases of all suites."""
        return _joined(self.agent, self.repository.key, trial=self.trial)


@dataclass(frozen=True, slots=True)
class ResearchCase:
    """One agent at one sub-task of a research task.

    Attributes:
        agent: name of the agent; None when none was chosen and tests are only listed.
        task: what it tries; all its sub-tasks in one attempt.
        subtask_id: name of the sub-task.
        trial: which of its attempts.
    """

    agent: str | None
    task: Task
    subtask_id: str
    trial: int = 1

    @property
    def subtask(self) -> Subtask:
        """The sub-task."""
        return self.task.subtasks[self.subtask_id]

    @property
    def id(self) -> str:
        """What stands in the test's id. The first attempt's is the same however many there are."""
        return _joined(self.agent, self.task.slug, self.subtask_id, trial=self.trial)

    @property
    def group(self) -> str:
        """What tells the work at its task from that of all others: its sub-tasks are one environment's."""
        return _joined(self.agent, self.task.key, trial=self.trial)


def cases_for(config: pytest.Config, folder: Path) -> list[Case]:
    """Return the cases of the suite in a folder.

    Raises:
        SuiteError: the suite's files are wrong, or two of its tests would have the same id.
    """
    # Reading suites needs pydantic, which must cost nothing where no suite is collected.
    from pytest_researchenv.suite import load_suite  # noqa: PLC0415

    repositories = load_suite(folder).repositories
    cases = _crossed(config, lambda agent, trial: [Case(agent, repo, trial) for repo in repositories])
    repeated = [name for name, count in Counter(case.id for case in cases).items() if count > 1]
    if repeated:
        raise SuiteError(
            f"{folder}: {repeated[0]} would be both another attempt at one repository and the first at another: "
            "rename a repository, or give a smaller --researchenv-attempts"
        )
    return cases


def research_cases_for(config: pytest.Config, folder: Path) -> list[ResearchCase]:
    """Return the cases of the suite of research tasks in a folder.

    Raises:
        SuiteError: the suite's files are wrong.
    """
    # As above.
    from pytest_researchenv.research.suite import load_research_suite  # noqa: PLC0415

    tasks = load_research_suite(folder).tasks
    return _crossed(
        config,
        lambda agent, trial: [ResearchCase(agent, task, name, trial) for task in tasks for name in task.subtasks],
    )


#: Name of a parameter → what gives the cases of the suite in a folder.
PARAMETERS: dict[str, Callable[[pytest.Config, Path], Sequence[Case | ResearchCase]]] = {
    CASE: cases_for,
    RESEARCH_CASE: research_cases_for,
}


def case_of(item: pytest.Item) -> Case | None:
    """Return the case of a test, or None when the test is none of ours."""
    return _parameter(item, CASE, Case)


def research_case_of(item: pytest.Item) -> ResearchCase | None:
    """Return the case of a test of a sub-task, or None when it is another test."""
    return _parameter(item, RESEARCH_CASE, ResearchCase)


def distinct_cases(items: Iterable[pytest.Item]) -> list[Case]:
    """Return the cases of some tests, each once, in order."""
    return list({case.group: case for item in items if (case := case_of(item))}.values())


def tiers_of(item: pytest.Item) -> list[Tier | Examination]:
    """Return what a test has judged, by the fixtures that it asks for."""
    names = getattr(item, "fixturenames", ())
    return [judged for judged in (*Tier, *Examination) if judged.lower() in names]


def _joined(agent: str | None, *names: str, trial: int) -> str:
    return "-".join((agent or "no-agent", *names, *([] if trial == 1 else [str(trial)])))


def _crossed(config: pytest.Config, make: Callable[[str | None, int], Iterable[_T]]) -> list[_T]:
    """Cases of each agent. The first attempts come first, so that a run that is stopped early has something of all."""
    agents: list[str | None] = [*chosen_agents(config)] or [None]
    trials = range(1, attempts_option(config) + 1)
    return [case for agent in agents for trial in trials for case in make(agent, trial)]


def _parameter(item: pytest.Item, name: str, kind: type[_T]) -> _T | None:
    callspec = getattr(item, "callspec", None)
    case = callspec.params.get(name) if callspec else None
    return case if isinstance(case, kind) else None
