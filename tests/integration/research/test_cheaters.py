"""The scripted cheaters of our research tasks, through containers: each is caught by the check that it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from fixtures.agents.research.corpus import TASKS, Scripted, scripted
from pytest_researchenv.integrity.audit import audit
from pytest_researchenv.integrity.checks import all_checks
from pytest_researchenv.model import Verdict
from pytest_researchenv.research.result import ResearchCause


if TYPE_CHECKING:
    from tests.integration.research.conftest import Gym

_AGENTS = {f"{agent.task}-{agent.name}": agent for task in TASKS for agent in scripted(task) if not agent.honest}

#: A file that was changed, and code that stands in for a library.
_FEW = ("digits-continual-data-edited", "digits-continual-numpy-in-the-environment")


@pytest.mark.parametrize("name", [pytest.param(name, id=name) for name in _FEW])
def test_a_few_cheaters_are_caught_by_the_check_that_they_say(gym: Gym, name: str) -> None:
    """One of each kind of place in which a trick can show."""
    _caught(gym, _AGENTS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(_AGENTS.keys() - set(_FEW)))
def test_every_cheater_is_caught_by_the_check_that_it_says(gym: Gym, name: str) -> None:
    """And none passes; a trick that brings nothing is a result like others."""
    _caught(gym, _AGENTS[name])


def _caught(gym: Gym, agent: Scripted) -> None:
    environment = gym.scripted(agent)
    attempt = gym.attempts[environment.image]
    probe = gym.probe(gym.tasks[agent.task], environment)
    audited = audit(probe, attempt.changes, checks=all_checks(gym.folder / "checks"))

    result = gym.evaluated(agent.task, environment, agent.subtask, audit=audited)

    found = {one.check for one in result.findings}
    if agent.check in {"none", "ordinary"}:
        assert result.cause is ResearchCause.NO_IMPROVEMENT, result.reason
        assert result.completed
    else:
        assert (result.verdict, result.completed) == (Verdict.FAILED, False), result.reason
        assert agent.check in found, result.reason
