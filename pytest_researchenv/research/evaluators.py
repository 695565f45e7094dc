"""Which evaluation a task has."""

from __future__ import annotations

from pytest_researchenv.research.evaluation import ContainedEvaluation, Evaluator
from pytest_researchenv.research.reexecution import ReportedEvaluation
from pytest_researchenv.research.task import Task


__all__ = ["evaluator_of"]


def evaluator_of(task: Task) -> Evaluator | None:
    """Return what evaluates a task; None where nothing here can.

    A task whose results are reported by the agent's own code is evaluated by executing a sample of them again; with no
    sample, nothing that is reported counts. Any other whose tree lies beside its `task.toml` brings its own evaluation.
    """
    reported = task.evaluation.reported
    if reported is not None:
        return ReportedEvaluation() if reported.sample is not None else None
    return ContainedEvaluation() if task.source.path else None
