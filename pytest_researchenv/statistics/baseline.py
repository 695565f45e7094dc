"""What was published of other agents, and when a run may stand beside it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

from pytest_researchenv._sources import STRICT
from pytest_researchenv._tables import shipped_table
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Tier
from pytest_researchenv.statistics.claims import false_claims
from pytest_researchenv.statistics.imports import published_ratio
from pytest_researchenv.statistics.judged import tier_counts
from pytest_researchenv.statistics.rates import Rate, difference_interval
from pytest_researchenv.statistics.tries import AgentRun


__all__ = [
    "PAPER",
    "Baseline",
    "BesidePaper",
    "Caveat",
    "FigureBeside",
    "Published",
    "beside_paper",
    "published",
    "refusals",
]

#: What stands before the name of a published agent on the command line.
PAPER = "paper"

#: How many repositories a message names.
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Published:
    """What was published of one agent.

    Attributes:
        model: its model.
        import_ratio: C0: missing imports over all, as published.
        passed: tier → how many repositories passed.
        false_claims: C5: hallucinations, by the published validators.
        missing_imports: C0: missing imports; None where only the ratio was published.
    """

    __pydantic_config__: ClassVar = STRICT

    model: str
    import_ratio: float
    passed: dict[Tier, int]
    false_claims: int
    missing_imports: int | None = None


@dataclass(frozen=True, slots=True)
class Caveat:
    """Whether a published figure can be compared with ours.

    Attributes:
        comparable: in a word or two.
        why: what stands between them, in one line.
    """

    __pydantic_config__: ClassVar = STRICT

    comparable: str
    why: str


@dataclass(frozen=True, slots=True)
class Baseline:
    """What was published of a benchmark.

    Attributes:
        source: where.
        suite: name of our suite with its repositories.
        repositories: how many those are.
        setting: what it was measured on.
        denominators: tier → repositories to which it applies; of C0, imports.
        caveats: tier → whether the figure can be compared with ours.
        agents: name → what was published of it.
    """

    __pydantic_config__: ClassVar = STRICT

    source: str
    suite: str
    repositories: int
    setting: str
    denominators: dict[Tier, int]
    caveats: dict[Tier, Caveat]
    agents: dict[str, Published]

    def agent(self, name: str) -> Published:
        """Return what was published of an agent.

        Raises:
            ConfigurationError: nothing was.
        """
        if name not in self.agents:
            known = ", ".join(f"{PAPER}:{one}" for one in self.agents)
            raise ConfigurationError(f"nothing was published of {PAPER}:{name}; known: {known}")
        return self.agents[name]

    def rate(self, name: str, tier: Tier) -> Rate | None:
        """The published success rate; None in C0 and C5, which are no success rates there."""
        passed = self.agent(name).passed.get(tier)
        return None if passed is None else Rate(passed, self.denominators[tier])


@cache
def published() -> Baseline:
    """Return what ResearchEnvBench published (arXiv 2603.06739)."""
    return shipped_table(Baseline, __package__, "baselines.toml")


# --- a run beside it --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FigureBeside:
    """One figure of ours beside the published one.

    Attributes:
        tier: whose.
        ours: the figure; None where there is none. Of C0 the ratio of missing imports, of C5 false claims, as most
            published validators would count them; otherwise the success rate.
        theirs: the published figure.
        caveat: whether they can be compared.
        our_rate: successes that ours is made of; None in C0 and C5.
        their_rate: likewise.
        lacking: why no difference is told; empty where one is.
    """

    tier: Tier
    ours: float | int | None
    theirs: float | int
    caveat: Caveat
    our_rate: Rate | None = None
    their_rate: Rate | None = None
    lacking: str = ""

    @property
    def difference(self) -> float | int | None:
        """Ours less theirs; None where `lacking` says why."""
        return None if self.lacking or self.ours is None else self.ours - self.theirs

    @property
    def interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the difference of two rates."""
        if self.lacking or self.our_rate is None or self.their_rate is None:
            return None
        return difference_interval(self.our_rate, self.their_rate)


@dataclass(frozen=True, slots=True)
class BesidePaper:
    """An agent's part of a run beside what was published of one.

    Attributes:
        part: ours.
        name: theirs.
        figures: tier by tier.
    """

    part: AgentRun
    name: str
    figures: tuple[FigureBeside, ...]


def beside_paper(
    part: AgentRun, name: str, *, repositories: Collection[str], tiers: Iterable[Tier] = tuple(Tier)
) -> BesidePaper:
    """Put an agent's part of a run beside what was published of one.

    Args:
        part: ours.
        name: theirs.
        repositories: keys of the repositories that the published figures are of.
        tiers: those to look at.

    Raises:
        ConfigurationError: nothing was published of that name, or the run cannot stand beside it; the message says why.
    """
    baseline, chosen = published(), tuple(tiers)
    baseline.agent(name)
    if reasons := list(refusals(part, repositories=repositories, tiers=chosen)):
        raise ConfigurationError(
            f"{part.label} cannot be compared with {PAPER}:{name} ({baseline.source}): {'; '.join(reasons)}"
        )
    return BesidePaper(part, name, tuple(_beside(part, name, baseline, tier) for tier in chosen))


def refusals(part: AgentRun, *, repositories: Collection[str], tiers: Iterable[Tier]) -> Iterator[str]:
    """Say why a run cannot stand beside the published figures; nothing where it can.

    Args:
        part: ours.
        repositories: keys of the repositories that the published figures are of.
        tiers: those that are looked at.
    """
    chosen = tuple(tiers)
    others = [one.repository for one in part.repositories if one.repository not in repositories]
    if others:
        named = ", ".join(others[:_NAMED]) + (", …" if len(others) > _NAMED else "")
        yield f"it holds {len(others)} repositories that are none of the paper's ({named})"
    judged = {name for tier in chosen for name in part.judged(tier) if name in repositories}
    if len(judged) < len(repositories):
        yield f"{len(judged)} of the paper's {len(repositories)} repositories were judged"
    emulated = {tier: count for tier in chosen if (count := sum(one.emulated for one in part.judged(tier).values()))}
    if emulated:
        counted = ", ".join(f"{tier} {count}" for tier, count in emulated.items())
        yield (
            f"verdicts were emulated on the CPU ({counted}), and say nothing about CUDA: judge again with "
            "--researchenv-accelerator=cuda, or compare other tiers with --tier"
        )


def _beside(part: AgentRun, name: str, baseline: Baseline, tier: Tier) -> FigureBeside:
    theirs, caveat = baseline.agent(name), baseline.caveats[tier]
    if tier is Tier.C0:
        ratio = published_ratio(part)
        expected = baseline.denominators[tier]
        lacking = "" if ratio.total == expected else f"{ratio.total} of {expected} imports were counted"
        return FigureBeside(tier, ratio.ratio, theirs.import_ratio, caveat, lacking=lacking)
    if tier is Tier.C5:
        claims = false_claims(part)
        known = claims.reports - claims.unknown
        lacking = "" if known == baseline.repositories else f"known of {known} of {baseline.repositories} reports"
        return FigureBeside(tier, claims.published, theirs.false_claims, caveat, lacking=lacking)
    row = tier_counts(part, tier)
    their_rate = Rate(theirs.passed[tier], baseline.denominators[tier])
    lacking = "" if row.run == their_rate.judged else f"{row.run} of {their_rate.judged} were judged"
    return FigureBeside(
        tier,
        row.rate.share,
        their_rate.passed / their_rate.judged,
        caveat,
        our_rate=row.rate,
        their_rate=their_rate,
        lacking=lacking,
    )
