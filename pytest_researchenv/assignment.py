"""What an agent is asked to do at a repository, and within which limits: the kind of work, as the harness sees it.

One seam: whoever describes another kind of work registers with `assignment_of` what it comes to.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import singledispatch
from pathlib import Path
from typing import Protocol, final

from pytest_researchenv.agents.prompt import render_prompt
from pytest_researchenv.agents.protocol import Needs
from pytest_researchenv.gateway.protocol import Blocking, Reach
from pytest_researchenv.model import Repository


__all__ = ["Assignment", "Earlier", "MountedData", "Situation", "assignment_of"]


@dataclass(frozen=True, slots=True)
class Earlier:
    """What was done before, where work goes on.

    Attributes:
        stages: how many stages there were.
        seconds: how long they took together.
        restored: whether the folder was restored from an archive, since what looked after the last stage died; else
            everything is as it was left.
    """

    stages: int
    seconds: float
    restored: bool = False


@dataclass(frozen=True, slots=True)
class MountedData:
    """Data that an agent's container has.

    Attributes:
        name: the data set's.
        path: where it lies there, read-only.
    """

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Situation:
    """Under which conditions an agent works.

    Attributes:
        needs: the agent's, within the limits of the assignment.
        devices: how many accelerators it has.
        accelerator: what they are; empty where it is not known.
        timeout_s: wall time limit in seconds.
        max_cost_usd: what it may spend, in US dollars; None for no limit, or no model.
        data: what is mounted.
        earlier: what was done before; None where it begins.
        templates: kind of work → file of the user's, in place of the shipped template.
    """

    needs: Needs
    devices: int
    timeout_s: float
    accelerator: str = ""
    max_cost_usd: float | None = None
    data: tuple[MountedData, ...] = ()
    earlier: Earlier | None = None
    templates: Mapping[str, Path] | None = None

    @property
    def reach(self) -> Reach:
        """What its container can reach."""
        return self.needs.reach

    def template(self, kind: str) -> Path | None:
        """Return the user's template for a kind of work; None for the shipped one."""
        return (self.templates or {}).get(kind)


class Assignment(Protocol):
    """A kind of work at one repository."""

    @property
    def detached(self) -> bool:
        """Whether the work is done by a process of its own, which outlives the session."""

    @property
    def blocking(self) -> Blocking | None:
        """What may not be reached, on whatever host; None for nothing."""

    def needs(self, needs: Needs) -> Needs:
        """Return what an agent needs, within this work's own limits."""

    def prompt(self, situation: Situation) -> str:
        """Return what an agent is told.

        Raises:
            ConfigurationError: the template cannot be read or rendered.
        """

    def data(self, folder: Path | None) -> Mapping[str, Path]:
        """Return the data sets that are mounted: name → where they are on this host.

        Args:
            folder: the user's folder of data; None where there is none.

        Raises:
            ConfigurationError: what lies there is not what it should be.
        """


@final
@dataclass(frozen=True, slots=True)
class _Building:
    """An environment is to be built."""

    repository: Repository
    detached: bool = False
    blocking: Blocking | None = None

    def needs(self, needs: Needs) -> Needs:
        """Everything as the profile and the options say."""
        return needs

    def prompt(self, situation: Situation) -> str:
        """What is to be built."""
        return render_prompt(
            self.repository,
            template=situation.template("build"),
            reach=situation.reach,
            devices=situation.devices,
            accelerator=situation.accelerator,
            timeout_s=situation.timeout_s,
        )

    def data(self, folder: Path | None) -> Mapping[str, Path]:
        """None."""
        del folder
        return {}


@singledispatch
def assignment_of(repository: Repository) -> Assignment:
    """Return what is to be done at a repository: an environment is to be built, unless it is of another kind."""
    return _Building(repository)
