"""Everything that is said of one agent's part of a run without comparing it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pytest_researchenv.model import Tier
from pytest_researchenv.report.calibration import Calibration
from pytest_researchenv.runs.values import Subject
from pytest_researchenv.statistics.claims import FalseClaims, claims_of, false_claims
from pytest_researchenv.statistics.drops import Drop, drops
from pytest_researchenv.statistics.efficiency import CostPerPass, Spread, cost_per_pass, efficiency
from pytest_researchenv.statistics.imports import ImportRatio, own_ratio, published_ratio
from pytest_researchenv.statistics.judged import AttemptCounts, TierCounts, every_attempt, who_was_judged
from pytest_researchenv.statistics.reliability import Reliability, reliability
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["AgentStatistics"]


@dataclass(frozen=True, slots=True)
class AgentStatistics:
    """An agent's part of a run, in numbers.

    Attributes:
        part: what they are of.
        judged: what was judged → what became of every repository, the success rate with its interval among it.
        attempts: what became of every attempt.
        own_imports: C0 as a ratio, by our rules.
        published_imports: C0 as a ratio, as the paper counts.
        claims: C5 as a count.
        calibration: what claims and doubts came to, of every try.
        drops: of those that passed one tier, how many pass the next.
        reliability: tier → pass@k and pass^k for each k.
        efficiency: time, tokens, money, room.
        cost: what one passed tier costs.
    """

    part: AgentRun
    judged: Mapping[Subject, TierCounts]
    attempts: AttemptCounts
    own_imports: ImportRatio
    published_imports: ImportRatio
    claims: FalseClaims
    calibration: Calibration
    drops: tuple[Drop, ...]
    reliability: Mapping[Tier, tuple[Reliability, ...]]
    efficiency: tuple[Spread, ...]
    cost: tuple[CostPerPass, ...]

    @classmethod
    def of(cls, part: AgentRun) -> AgentStatistics:
        """Work everything out."""
        return cls(
            part=part,
            judged={row.subject: row for row in who_was_judged(part)},
            attempts=every_attempt(part),
            own_imports=own_ratio(part),
            published_imports=published_ratio(part),
            claims=false_claims(part),
            calibration=claims_of(part),
            drops=drops(part),
            reliability={tier: reliability(part, tier) for tier in Tier},
            efficiency=efficiency(part),
            cost=cost_per_pass(part),
        )
