"""What agents are called on a page, and in which order they stand: the better ones first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

from pytest_researchenv.model import Tier, Verdict
from pytest_researchenv.report.tables import Table
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["Labels", "ordered"]

#: Tiers of execution, by which agents are ordered.
_EXECUTION = (Tier.C1, Tier.C2, Tier.C3, Tier.C4)


@final
@dataclass(frozen=True, slots=True)
class Labels:
    """Names of agents' parts: the agent's alone, where there is one run.

    Attributes:
        parts: in the order in which they are shown.
        runs: how many runs there are.
    """

    parts: tuple[AgentRun, ...]
    runs: int

    def of(self, part: AgentRun) -> str:
        """The name of a part."""
        return part.agent if self.runs == 1 else part.label

    @property
    def all(self) -> tuple[str, ...]:
        """All names."""
        return tuple(map(self.of, self.parts))

    def on(self, table: Table) -> Table:
        """Return a table with these names in the place of those of the command line."""
        names = {part.label: self.of(part) for part in self.parts}

        def renamed(text: str) -> str:
            for long, short in names.items():
                text = text.replace(long, short)
            return text

        rows = tuple(
            tuple(names.get(value, value) if isinstance(value, str) else value for value in row) for row in table.rows
        )
        return replace(table, title=renamed(table.title), rows=rows, notes=tuple(map(renamed, table.notes)))


def ordered(parts: Sequence[AgentRun]) -> tuple[AgentRun, ...]:
    """Sort by the mean of the success rates in the tiers of execution, the highest first, then by name."""
    return tuple(sorted(parts, key=lambda part: (-_mean_rate(part), part.label)))


def _mean_rate(part: AgentRun) -> float:
    judged = [results for tier in _EXECUTION if (results := part.judged(tier).values())]
    rates = [sum(one.verdict is Verdict.PASSED for one in results) / len(results) for results in judged]
    return sum(rates) / len(rates) if rates else 0.0
