"""C5 as a count: how many claims of the self-reports were false."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from pytest_researchenv.model import FindingKind, Tier, TierResult
from pytest_researchenv.report.calibration import Calibration
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["FalseClaims", "claims_of", "false_claims"]


@dataclass(frozen=True, slots=True)
class FalseClaims:
    """False claims in the first try at each repository.

    Attributes:
        by_kind: category → how many, as `docs/c5.md` counts.
        reports: repositories whose C5 passed or failed.
        published: how many most of the published validators would have counted, where that is known.
        unknown: repositories of which it is not.
    """

    by_kind: Mapping[FindingKind, int]
    reports: int
    published: int
    unknown: int

    @property
    def total(self) -> int:
        """How many in all."""
        return sum(self.by_kind.values())


def false_claims(part: AgentRun) -> FalseClaims:
    """Count an agent's false claims. A missing report makes none, and fails C5 all the same."""
    results = part.judged(Tier.C5).values()
    kinds = Counter(finding.kind for result in results for finding in result.findings)
    published = [count for result in results if (count := _published(result)) is not None]
    return FalseClaims(
        {kind: kinds[kind] for kind in FindingKind}, len(results), sum(published), len(results) - len(published)
    )


def claims_of(part: AgentRun) -> Calibration:
    """What became of an agent's claims and doubts, by the newest C5 of every try."""
    return Calibration.of(part.agent, (attempt.results.get(Tier.C5) for attempt in part.tries))


def _published(result: TierResult) -> int | None:
    """The figure of `probes.published_claims`, all categories together."""
    counts = [result.evidence.get(f"published_{kind}") for kind in FindingKind]
    return sum(count for count in counts if isinstance(count, int)) if None not in counts else None
