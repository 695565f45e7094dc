"""A research task as agents meet it: a tree to work in, of which an attempt is made."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from pytest_researchenv.assignment import Assignment, assignment_of
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.research.assignment import ResearchAssignment
from pytest_researchenv.research.task import Task


__all__ = ["Workplace", "workplace_of"]


@final
@dataclass(frozen=True, slots=True)
class Workplace(Repository):
    """The tree of a research task.

    Attributes:
        task: the task; what is asked at the tree follows from it (`research.assignment`).
    """

    task: Task = field(kw_only=True)


@assignment_of.register
def _research(repository: Workplace) -> Assignment:
    return ResearchAssignment(repository.task, repository.workdir)


def workplace_of(task: Task) -> Workplace:
    """Return what agents and the store know a task as: all of its sub-tasks are worked at in one attempt.

    It has no tiers: its verdicts are those of the sub-tasks.

    Raises:
        ConfigurationError: the tree has to be prepared first, which is not done yet.
    """
    if not task.source.path:
        raise ConfigurationError(f"{task.key}: trees of Git repositories cannot be given to agents yet")
    return Workplace(
        name=task.name,
        source=PathSource(task.source.path),
        domain=task.area,
        python=task.install.python and f"=={task.install.python}.*",
        notes=task.notes,
        folder=task.folder,
        suite=task.suite,
        task=task,
    )
