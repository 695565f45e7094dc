"""What agents have in common whose tool asks a model: how they are described."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from pytest_researchenv.agents._cli import digest_of
from pytest_researchenv.agents.protocol import Needs, Tool
from pytest_researchenv.agents.trajectory import AgentInfo, Step, Trajectory
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api
from pytest_researchenv.model import Repository


__all__ = ["ToolAgent"]


class ToolAgent(ABC):
    """Name, needs and inputs of an agent with a tool and a model.

    Args:
        name: the name users select it by.
        needs: what must be there for it to work; its tool is added, unless one is named.
        version: of the tool; empty for the one that it was tested with.
        arguments: further arguments of the tool.
        environment: further variables.

    Raises:
        ConfigurationError: the profile names no model, or one in a protocol that the tool does not speak.
    """

    #: What the kind is called where environments are told apart.
    kind: ClassVar[str]
    #: The version that it was tested with.
    tested: ClassVar[str]
    #: The one protocol in which the tool asks models; None where it knows several.
    api: ClassVar[Api | None] = None

    __slots__ = ("_arguments", "_environment", "_name", "_needs", "_service", "_version")

    def __init__(
        self,
        *,
        name: str,
        needs: Needs,
        version: str = "",
        arguments: tuple[str, ...] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        if needs.service is None:
            raise ConfigurationError(f"{name} needs a model, and its profile has no model: name one, with its endpoint")
        if self.api not in (None, needs.service.api):
            raise ConfigurationError(
                f"{name} asks its model by {self.api}, and its profile's is served by {needs.service.api}: "
                "take another endpoint, or another kind of agent"
            )
        self._name = name
        self._service = needs.service
        self._version = version or self.tested
        self._needs = replace(needs, tool=needs.tool or self._tool(self._version))
        self._arguments = arguments
        self._environment = dict(environment or {})

    @property
    def name(self) -> str:
        """The name users select it by."""
        return self._name

    @property
    def free(self) -> bool:
        """Its model costs money."""
        return False

    @property
    def needs(self) -> Needs:
        """As it was told, with its tool."""
        return self._needs

    def inputs(self, repository: Repository) -> Mapping[str, str]:
        """Digest of its version, its model, and all that is set of it."""
        return {"agent": f"{self._name} {self.kind} {self._version} {digest_of(self._shape(repository))}"}

    @classmethod
    def _tool(cls, version: str) -> Tool | None:
        """Return what is mounted for it; nothing where its tool is not in the container."""
        del version
        return None

    @abstractmethod
    def _shape(self, repository: Repository) -> Mapping[str, object]:
        """All that shapes its work, beside what it is told."""

    def _told(self, tool: str, steps: tuple[Step, ...]) -> Trajectory | None:
        """Return what was read of a transcript; None where nothing was."""
        return Trajectory(AgentInfo(tool, self._version, self._service.model), steps) if steps else None
