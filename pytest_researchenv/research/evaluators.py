"""Which evaluation a task has."""

from __future__ import annotations

from pytest_researchenv.research.evaluation import ContainedEvaluation, Evaluator
from pytest_researchenv.research.task import Task


__all__ = ["evaluator_of"]


def evaluator_of(task: Task) -> Evaluator | None:
    """Return what evaluates a task; None where nothing here can.

    A task whose tree lies beside its `task.toml` brings its own evaluation. Of a published tree, the grader is read and
    not trusted.
    """
    return ContainedEvaluation() if task.source.path else None
