"""The readers of published outputs want exactly the runs, and take exactly the values, that the descriptions name."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from pytest_researchenv.research.cells import Plan, required_runs
from pytest_researchenv.research.outputs import continual, explanation, replay, retrieval, tokenization
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Task
from pytest_researchenv.suite import find_suite


READERS: Mapping[str, Mapping[str, tuple[Plan, ...]]] = {
    "continual-learning": continual.PLANS,
    "cross-modal-retrieval": retrieval.PLANS,
    "improving-replay-buffers": replay.PLANS,
    "materials-tokenization": tokenization.PLANS,
    "time-series-explanation": explanation.PLANS,
}
TASKS = [task for task in load_research_suite(find_suite("researchgym")).tasks if task.source.git]


def described(task: Task, name: str) -> dict[str, Plan]:
    """What the description wants of a sub-task, as a reader has it; means are made of the rest."""
    subtask = task.subtasks[name]
    required = subtask.required
    return {
        score_name: Plan(
            task.measure(name, score_name).metric(score_name),
            required_runs(
                seeds=required.seeds or (None,),
                folds=required.folds or (None,),
                severity=required.severities.get(score_name.partition(":")[2]),
                steps=required.steps,
            ),
        )
        for score_name, score in subtask.scores.items()
        if not score.mean_of
    }


@pytest.mark.parametrize("task", TASKS, ids=[task.name for task in TASKS])
def test_a_reader_wants_what_the_description_says(task: Task) -> None:
    """Each sub-task, each score, its direction and range, and each run: nothing more on either side."""
    read = {name: {plan.metric.name: plan for plan in plans} for name, plans in READERS[task.name].items()}

    assert read == {task.read_as(name): described(task, name) for name in task.subtasks}
