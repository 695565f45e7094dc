"""A research task as agents meet it: a tree to work in, of which an attempt is made."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import final

from pytest_researchenv.assignment import Assignment, assignment_of
from pytest_researchenv.model import Cut, PathSource, PrunedSource, Repository, Source
from pytest_researchenv.research.assignment import ResearchAssignment
from pytest_researchenv.research.task import Holds, Task, Withheld


__all__ = ["Workplace", "workplace_of"]

#: The end of an address that names a paper wherever it is written: `2501.13198`, with a version or without.
_ARXIV = re.compile(r"(\d{4}\.\d{4,5})(?:v\d+)?/?\Z")


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

    It has no tiers: its verdicts are those of the sub-tasks. The tree of a Git repository is the task's folder without
    what `[[removed]]` names; it is made where it is fetched, and what cannot be taken out stops there.
    """
    return Workplace(
        name=task.name,
        source=_source(task),
        domain=task.area,
        python=task.install.python and f"=={task.install.python}.*",
        notes=task.notes,
        folder=task.folder,
        suite=task.suite,
        task=task,
    )


def _source(task: Task) -> Source:
    if task.source.path:
        return PathSource(task.source.path)
    return PrunedSource(
        git=task.source.git,
        commit=task.source.commit,
        folder=task.source.folder,
        cuts=tuple(Cut(one.path, one.parts, secret=one.holds is Holds.WITHHELD) for one in task.removed),
        words=(task.withheld.method,),
        phrases=_phrases(task.withheld),
    )


def _phrases(withheld: Withheld) -> tuple[str, ...]:
    """The paper's title, whose venue stands behind the last comma, and what its address is known by."""
    title = withheld.paper.rpartition(", ")[0] or withheld.paper
    number = _ARXIV.search(withheld.address)
    return (title, number[1] if number else withheld.address.partition("://")[2].rstrip("/"))
