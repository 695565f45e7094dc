"""Where the pyramid is lost: of those that passed one tier, how many pass the next."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from pytest_researchenv.model import Tier, Verdict
from pytest_researchenv.statistics.rates import Rate
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["Drop", "drop", "drops"]

#: The tiers that build on one another; C5 is about what was said of them.
_PYRAMID = (Tier.C0, Tier.C1, Tier.C2, Tier.C3, Tier.C4)


@dataclass(frozen=True, slots=True)
class Drop:
    """What becomes, in another tier, of the repositories that passed one.

    Attributes:
        lower: the tier that they passed.
        upper: the other tier.
        passed_lower: how many passed the lower tier.
        rate: the conditional success rate P(upper passes | lower passed), over those of them that passed or failed the
            upper tier. The rest have no verdict there: it does not apply, was skipped, or ended in an error.
    """

    lower: Tier
    upper: Tier
    passed_lower: int
    rate: Rate

    @property
    def unjudged(self) -> int:
        """Those that passed the lower tier and have no verdict in the upper one."""
        return self.passed_lower - self.rate.judged


def drop(part: AgentRun, lower: Tier, upper: Tier) -> Drop:
    """Follow the repositories whose first try passed one tier into another, in the same try."""
    passed = {name for name, result in part.judged(lower).items() if result.verdict is Verdict.PASSED}
    both = [result for name, result in part.judged(upper).items() if name in passed]
    succeeded = sum(result.verdict is Verdict.PASSED for result in both)
    return Drop(lower, upper, len(passed), Rate(succeeded, len(both), sum(result.emulated for result in both)))


def drops(part: AgentRun) -> tuple[Drop, ...]:
    """Return what is lost from each tier of the pyramid to the next, C0 to C4."""
    return tuple(drop(part, lower, upper) for lower, upper in pairwise(_PYRAMID))
