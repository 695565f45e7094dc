"""Two agents at the same repositories: is one better than the other, or was it chance?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pytest_researchenv.model import Tier, TierResult, Verdict
from pytest_researchenv.statistics.rates import Rate
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["Pair", "Paired", "compare", "holm", "mcnemar"]


def mcnemar(only_first: int, only_second: int) -> float:
    """Return the p-value of the exact McNemar test, two-sided.

    Where two agents differ, each was as likely to be the one that passed, if neither is better:
    `min(1, 2 · P(X ≤ min(b, c)))` for X binomial with n = b + c and 1/2. Q. McNemar, Note on the sampling error of the
    difference between correlated proportions or percentages, Psychometrika 12 (1947) 153-157; exact by the binomial
    distribution in the place of χ².

    Args:
        only_first: b, how many only the first passed.
        only_second: c, how many only the second passed.
    """
    both = only_first + only_second
    fewer = sum(math.comb(both, count) for count in range(min(only_first, only_second) + 1))
    return min(1.0, 2 * fewer / (1 << both))


def holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Correct p-values for having been looked at together, so that they hold at once.

    Of m of them, the i-th smallest becomes the largest of `min(1, (m - j + 1) · pⱼ)` for j up to i: S. Holm, A simple
    sequentially rejective multiple test procedure, Scandinavian Journal of Statistics 6 (1979) 65-70.
    """
    corrected = [0.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = highest
    return tuple(corrected)


@dataclass(frozen=True, slots=True)
class Paired:
    """Two agents in one tier, by the first try of each at each repository.

    Attributes:
        tier: what was judged.
        both: repositories that both passed.
        only_first: those that the first passed and the second failed.
        only_second: those that the second passed and the first failed.
        neither: those that both failed.
        unpaired: repositories that one of them passed or failed, and the other did not: left out.
        unlike: repositories that were not judged alike: emulated once, or by other probes or settings. Left out.
        emulated: of the pairs, how many are emulated.
        p: of the exact McNemar test; None without pairs.
        p_holm: the same, corrected for the number of tiers that have pairs.
    """

    tier: Tier
    both: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    neither: tuple[str, ...]
    unpaired: int
    unlike: int
    emulated: int
    p: float | None
    p_holm: float | None = None

    @property
    def pairs(self) -> int:
        """Repositories that both passed or failed."""
        return len(self.both) + len(self.only_first) + len(self.only_second) + len(self.neither)

    @property
    def first(self) -> Rate:
        """The first agent's rate over the pairs."""
        return Rate(len(self.both) + len(self.only_first), self.pairs, self.emulated)

    @property
    def second(self) -> Rate:
        """The second agent's rate over the pairs."""
        return Rate(len(self.both) + len(self.only_second), self.pairs, self.emulated)

    @property
    def difference(self) -> float | None:
        """The first agent's rate less the second's: (b - c) / pairs."""
        return (len(self.only_first) - len(self.only_second)) / self.pairs if self.pairs else None


@dataclass(frozen=True, slots=True)
class Pair:
    """Two agents, compared.

    Attributes:
        first: one agent's part of a run.
        second: the other's.
        tiers: tier by tier.
    """

    first: AgentRun
    second: AgentRun
    tiers: tuple[Paired, ...]


def compare(first: AgentRun, second: AgentRun, tiers: Iterable[Tier] = tuple(Tier)) -> Pair:
    """Compare two agents at the repositories that both have a verdict for.

    Args:
        first: one.
        second: the other.
        tiers: those to look at; the correction is for as many of them as have pairs.
    """
    found = [_paired(first, second, tier) for tier in tiers]
    tested = [one.p for one in found if one.p is not None]
    corrected = iter(holm(tested))
    return Pair(first, second, tuple(one if one.p is None else replace(one, p_holm=next(corrected)) for one in found))


def _paired(first: AgentRun, second: AgentRun, tier: Tier) -> Paired:
    one, other = first.judged(tier), second.judged(tier)
    shared = [name for name in one if name in other]
    pairs = [name for name in shared if _alike(one[name], other[name])]

    def where(*outcomes: bool) -> tuple[str, ...]:
        return tuple(
            name for name in pairs if tuple(found[name].verdict is Verdict.PASSED for found in (one, other)) == outcomes
        )

    only_first, only_second = where(True, False), where(False, True)
    return Paired(
        tier=tier,
        both=where(True, True),
        only_first=only_first,
        only_second=only_second,
        neither=where(False, False),
        unpaired=len(one.keys() ^ other.keys()),
        unlike=len(shared) - len(pairs),
        emulated=sum(one[name].emulated for name in pairs),
        p=mcnemar(len(only_first), len(only_second)) if pairs else None,
    )


def _alike(one: TierResult, other: TierResult) -> bool:
    """Whether two results say the same of two environments: the digests tell other probes, other suites."""
    same_rules = one.basis == other.basis or one.dataset == other.dataset
    return same_rules and one.emulated is other.emulated and one.settings == other.settings
