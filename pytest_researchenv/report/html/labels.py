"""What agents are called on a page, and in which order they stand: the better ones first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from pytest_researchenv.model import Tier
from pytest_researchenv.report.tables import Table
from pytest_researchenv.statistics.agent import AgentStatistics
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["Labels", "ordered"]

#: Tiers of execution, by which agents are ordered.
_EXECUTION = (Tier.C1, Tier.C2, Tier.C3, Tier.C4)


@final
@dataclass(frozen=True, slots=True)
class Labels:
    """Agents with their names: the agent's alone, where there is one run.

    Attributes:
        agents: in the order in which they are shown.
        runs: how many runs there are.
    """

    agents: tuple[AgentStatistics, ...]
    runs: int

    def of(self, part: AgentRun) -> str:
        """The name of an agent's part."""
        return part.agent if self.runs == 1 else part.label

    @property
    def named(self) -> dict[str, AgentStatistics]:
        """All of them by name."""
        return {self.of(one.part): one for one in self.agents}

    @property
    def parts(self) -> tuple[AgentRun, ...]:
        """What the numbers are of."""
        return tuple(one.part for one in self.agents)

    def on(self, table: Table) -> Table:
        """Return a table of pairs with these names in the place of those of the command line."""

        def renamed(text: str) -> str:
            for part in self.parts:
                text = text.replace(part.label, self.of(part))
            return text

        return replace(table, title=renamed(table.title), notes=tuple(map(renamed, table.notes)))


def ordered(agents: Sequence[AgentStatistics]) -> tuple[AgentStatistics, ...]:
    """Sort by the mean of the success rates in the tiers of execution, the highest first, then by name."""
    return tuple(sorted(agents, key=lambda one: (-_mean_rate(one), one.part.label)))


def _mean_rate(agent: AgentStatistics) -> float:
    rates = [share for tier in _EXECUTION if (share := agent.judged[tier].rate.share) is not None]
    return sum(rates) / len(rates) if rates else 0.0
