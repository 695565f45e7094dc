"""A research task as agents meet it: a tree to work in, of which an attempt is made."""

from __future__ import annotations

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.research.task import Task


__all__ = ["workplace_of"]


def workplace_of(task: Task) -> Repository:
    """Return what agents and the store know a task as: all of its sub-tasks are worked at in one attempt.

    It has no tiers: its verdicts are those of the sub-tasks.

    Raises:
        ConfigurationError: the tree has to be prepared first, which is not done yet.
    """
    if not task.source.path:
        raise ConfigurationError(f"{task.key}: trees of Git repositories cannot be given to agents yet")
    return Repository(
        name=task.name,
        source=PathSource(task.source.path),
        domain=task.area,
        python=task.install.python and f"=={task.install.python}.*",
        notes=task.notes,
        folder=task.folder,
        suite=task.suite,
    )
