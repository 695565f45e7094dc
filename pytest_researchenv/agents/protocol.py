"""The seam to an agent."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pytest_researchenv.agents.trajectory import Trajectory
from pytest_researchenv.gateway.protocol import Budget, GatewayAddress, ModelService, Reach
from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Container


__all__ = ["REPORT_PATH", "SCRATCH", "TOOL_TARGET", "Agent", "AgentTask", "Needs", "Telemetry", "Tool"]

#: Where the agent must leave its self-report.
REPORT_PATH = "/researchenv/report.json"

#: Where an agent's tool is mounted, read-only, in the agent's container.
TOOL_TARGET = "/researchenv/agent"

#: A folder in memory in the agent's container that is never frozen: for the tool's own state and configuration.
SCRATCH = "/researchenv/scratch"


class Tool(Protocol):
    """A program for agents' containers, put into a read-only volume once."""

    @property
    def key(self) -> str:
        """Name, version and digest of its content, as a volume's name can hold it: `claude-code-2.1.332-1a2b3c4d`."""

    def fill(self, archive: tarfile.TarFile, *, architecture: str) -> None:
        """Add its files, for an engine of this architecture (`amd64`), with names relative to `TOOL_TARGET`.

        Raises:
            ImageError: it could not be had.
        """


@dataclass(frozen=True, slots=True)
class Needs:
    """What must be there for an agent to work.

    Attributes:
        service: the model that it asks; None for agents without one.
        budget: what one attempt may use.
        reach: what its container may reach beside the model.
        allow: hosts that it may reach beside the usual ones, with `Reach.ALLOWLIST`.
        timeout_s: wall time limit in seconds; None: the session's.
        inactivity_s: how long it may print nothing and ask its model nothing, in seconds; None for no limit.
        tool: what is mounted at `TOOL_TARGET` in its container.
        on_host: whether its tool runs on the host of pytest, and only its commands in the container.
        prompted: whether it is told in words what to do.
    """

    service: ModelService | None = None
    budget: Budget = field(default_factory=Budget)
    reach: Reach = Reach.OPEN
    allow: tuple[str, ...] = ()
    timeout_s: float | None = None
    inactivity_s: float | None = None
    tool: Tool | None = None
    on_host: bool = False
    prompted: bool = True

    @property
    def gateway(self) -> bool:
        """Whether something has to stand between it and the outside."""
        return self.service is not None or self.reach is Reach.ALLOWLIST


@dataclass(frozen=True, slots=True)
class AgentTask:
    """What an agent is asked to do.

    Attributes:
        repository: the repository whose environment is to be built; it lies at `repository.workdir`.
        container: a started idle container.
        environment: variables that the agent's processes need (package index, proxy, CA); they must not be frozen.
        timeout_s: wall time limit in seconds.
        transcript: called with all that the agent prints.
        prompt: what a model is told.
        model: how its tool reaches the model; None for agents without one.
        stop: asked about once a second; once it is true the agent must end its work at once.
    """

    repository: Repository
    container: Container
    environment: Mapping[str, str]
    timeout_s: float
    transcript: Callable[[bytes], object]
    prompt: str = ""
    model: GatewayAddress | None = None
    stop: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What an agent used.

    Attributes:
        ended: how its work ended, in words.
        numbers: name → number (`wall_s`, `turns`, …). Tokens and cost are counted by the gateway, alike for all.
        ok: whether its tool says, or its exit code does, that it ended of its own accord and without an error.
    """

    ended: str
    numbers: Mapping[str, float]
    ok: bool = True


class Agent(Protocol):
    """Builds an environment in a container. It never decides a verdict."""

    @property
    def name(self) -> str:
        """The name users select it by."""

    @property
    def free(self) -> bool:
        """Whether its work costs no money, so that a lost environment may be built again unasked."""

    @property
    def needs(self) -> Needs:
        """What must be there for it to work."""

    def inputs(self, repository: Repository) -> Mapping[str, str]:
        """What of the agent shapes an environment: name → digest or value."""

    def work(self, task: AgentTask) -> Telemetry:
        """Work until done, or until the deadline.

        Raises:
            InfrastructureError: something outside the agent broke.
        """

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """Read what the tool printed; None where it prints nothing that can be told apart, as shell scripts do.

        The transcript may be cut in its middle, and an agent may have written into it: what cannot be read is left out.
        """
