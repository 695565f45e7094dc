"""The evaluation of our research tasks on what scripts left, with real containers."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from fixtures.agents.research.corpus import scripted
from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.model import Verdict
from pytest_researchenv.research.result import ResearchCause
from pytest_researchenv.research.task import Evaluation, Task


if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.integration.research.conftest import Gym

TASK, SUBTASK = "digits-continual", "steps2"
_HONEST = {agent.name: agent for agent in scripted(TASK) if agent.honest}

#: Results of the best baseline as its runner writes them, so that nothing need be run for them.
_CLAIMED = json.dumps([{"seed": seed, "method": "own", "steps": 2, "Acc": 90.0, "AAA": 90.0} for seed in (0, 1)])


def handed_in(method: str, *, before: str = "") -> str:
    """A script that hands in a method and results that are made up; `before` is done first."""
    return (
        f"{before}\nmkdir -p results\ncat >results/{SUBTASK}.json <<'JSON'\n{_CLAIMED}\nJSON\n"
        f"cat >continual/methods/own.py <<'METHOD'\n{method}\nMETHOD\n"
    )


@pytest.mark.parametrize(
    ("agent", "verdict", "cause", "completed"),
    [
        ("oracle", Verdict.PASSED, ResearchCause.NONE, True),
        ("baseline", Verdict.FAILED, ResearchCause.NO_IMPROVEMENT, True),
        ("noop", Verdict.FAILED, ResearchCause.NOTHING_HANDED_IN, False),
    ],
)
def test_the_honest_agents(gym: Gym, agent: str, verdict: Verdict, cause: ResearchCause, completed: bool) -> None:  # noqa: FBT001 - a parameter
    """The withheld method passes; the best baseline completes, and is no better than itself; nothing is nothing."""
    result = gym.evaluated(TASK, gym.scripted(_HONEST[agent]), SUBTASK)

    assert (result.verdict, result.cause, result.completed) == (verdict, cause, completed), result.reason
    if completed:
        deciding = result.deciding
        assert deciding
        assert deciding.values.keys() == {"seed 0", "seed 1"}
        assert deciding.baseline.method == "lda"
        assert deciding.baseline.values.keys() == deciding.values.keys()
        assert (deciding.mean == deciding.baseline.mean) is (agent == "baseline")


def test_without_a_self_report_nothing_is_run(gym: Gym) -> None:
    """Which interpreter runs the code is the agent's to say; without it, it failed, and did not complete."""
    environment = gym.worked(TASK, ":\n", report=False)

    result = gym.evaluated(TASK, environment, SUBTASK)

    assert (result.verdict, result.cause, result.completed) == (Verdict.FAILED, ResearchCause.NO_REPORT, False)


@pytest.mark.parametrize(
    ("method", "limit", "cause"),
    [
        (
            "block = bytearray(10**9)\nblock[::4096] = b'x' * len(block[::4096])",
            lambda known: replace(known, memory_gb=0.4),
            ResearchCause.OUT_OF_MEMORY,
        ),
        pytest.param(
            "while True: pass",
            lambda known: replace(known, limit_minutes=0.4),
            ResearchCause.TIMEOUT,
            marks=pytest.mark.slow,
        ),
        ("import os\nos._exit(3)", lambda known: known, ResearchCause.CRASH),
    ],
    ids=["memory", "time", "crash"],
)
def test_how_handed_in_code_ends_is_its_own_failure(
    gym: Gym, method: str, limit: Callable[[Evaluation], Evaluation], cause: ResearchCause
) -> None:
    """Out of memory, out of time or a crash of what was handed in: a failure with its cause, and never an error."""

    def altered(task: Task) -> Task:
        return replace(task, evaluation=limit(task.evaluation))

    result = gym.evaluated(TASK, gym.worked(TASK, handed_in(method)), SUBTASK, altered=altered)

    assert (result.verdict, result.cause, result.completed) == (Verdict.FAILED, cause, False), result.reason


def test_an_evaluation_that_fails_on_the_base_image_too_is_an_error(gym: Gym) -> None:
    """Nobody's environment is to blame where the evaluation itself is broken."""
    environment = gym.worked(TASK, ":\n")

    def altered(task: Task) -> Task:
        return replace(task, evaluation=replace(task.evaluation, command=("python3", "evaluation/arrays.py")))

    with pytest.raises(InfrastructureError, match="no report on the base image either"):
        gym.evaluated(TASK, environment, SUBTASK, altered=altered)
