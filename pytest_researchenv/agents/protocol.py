"""The seam to an agent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Container


__all__ = ["REPORT_PATH", "Agent", "AgentTask", "Telemetry"]

#: Where the agent must leave its self-report.
REPORT_PATH = "/researchenv/report.json"


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What an agent is asked to do.

    Attributes:
        repository: the repository whose environment is to be built; it lies at `repository.workdir`.
        container: a started idle container.
        environment: variables that the agent's processes need (package index, proxy, CA); they must not be frozen.
        timeout_s: wall time limit in seconds.
        transcript: called with all that the agent prints.
    """

    repository: Repository
    container: Container
    environment: Mapping[str, str]
    timeout_s: float
    transcript: Callable[[bytes], object]


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What an agent used.

    Attributes:
        ended: how its work ended, in words.
        numbers: name → number (`wall_s`, `tokens_in`, `cost_usd`, …).
    """

    ended: str
    numbers: Mapping[str, float]


class Agent(Protocol):
    """Builds an environment in a container. It never decides a verdict."""

    @property
    def name(self) -> str:
        """The name users select it by."""

    @property
    def free(self) -> bool:
        """Whether its work costs no money, so that a lost environment may be built again unasked."""

    def inputs(self, repository: Repository) -> Mapping[str, str]:
        """What of the agent shapes an environment: name → digest or value."""

    def work(self, task: AgentTask) -> Telemetry:
        """Work until done, or until the deadline.

        Raises:
            InfrastructureError: something outside the agent broke.
        """
