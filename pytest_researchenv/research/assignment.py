"""Research as a kind of work: what agents are told, what they may use, and what they may not reach."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import final

from pytest_researchenv.agents.protocol import Needs
from pytest_researchenv.assignment import Situation
from pytest_researchenv.gateway.protocol import Blocking, Reach
from pytest_researchenv.research.data import folders_of
from pytest_researchenv.research.prompt import render_research_prompt
from pytest_researchenv.research.task import Task


__all__ = ["ANYWHERE", "ResearchAssignment"]

#: As an allowed host: every name in the public internet, by http and https.
ANYWHERE = "*"

_SECONDS_PER_HOUR = 3600.0


@final
@dataclass(frozen=True, slots=True)
class ResearchAssignment:
    """One attempt at all sub-tasks of a research task.

    Attributes:
        task: the task.
        workdir: where its tree lies.
        detached: the work may take a day, and outlives the session.
    """

    task: Task
    workdir: str
    detached: bool = True

    @property
    def blocking(self) -> Blocking:
        """Where the withheld method can be read of."""
        blocked = self.task.blocked
        return Blocking(blocked.urls, blocked.patterns, blocked.search_until)

    def needs(self, needs: Needs) -> Needs:
        """Hours and dollars of the task, where the agent's own limits are not lower; and every request through a proxy.

        Where an agent's network is open, nothing would see what it asks for: it gets a proxy that lets it reach every
        host by http and https. Scripts are left as they are, but for the hours.
        """
        budget = self.task.budget
        seconds = budget.hours * _SECONDS_PER_HOUR
        limited = replace(needs, timeout_s=min(seconds, needs.timeout_s or seconds))
        if needs.service is not None:
            own = needs.budget.max_cost_usd
            least = budget.dollars if own is None else min(own, budget.dollars)
            limited = replace(limited, budget=replace(needs.budget, max_cost_usd=least))
        if needs.prompted and needs.reach is Reach.OPEN:
            limited = replace(limited, reach=Reach.ALLOWLIST, allow=(*needs.allow, ANYWHERE))
        return limited

    def prompt(self, situation: Situation) -> str:
        """The problem, and its rules."""
        return render_research_prompt(self.task, self.workdir, situation)

    def data(self, folder: Path | None) -> Mapping[str, Path]:
        """What the user has of the task's data sets."""
        return folders_of(self.task, folder)
