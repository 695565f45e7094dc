"""C0 as a ratio: missing imports over all imports, which is what ResearchEnvBench reports (arXiv 2603.06739)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pytest_researchenv.model import Tier, TierResult
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["Count", "ImportRatio", "own_ratio", "published_ratio"]

#: How C0 records the published figure (`probes.published.Published.ratio`).
_RATIO = re.compile(r"(\d+)/(\d+)")

_RESAMPLES = 9999


class Count(NamedTuple):
    """Imports of one repository."""

    missing: int
    total: int


@dataclass(frozen=True, slots=True)
class ImportRatio:
    """Missing imports over all imports.

    Attributes:
        counts: repository → its imports, where they were counted.
        uncounted: repositories of which C0 passed or failed without a count: no usable interpreter was reported, say.
    """

    counts: Mapping[str, Count]
    uncounted: tuple[str, ...] = ()

    @property
    def missing(self) -> int:
        """Missing imports of all repositories."""
        return sum(count.missing for count in self.counts.values())

    @property
    def total(self) -> int:
        """Imports of all repositories."""
        return sum(count.total for count in self.counts.values())

    @property
    def ratio(self) -> float | None:
        """The sum of the missing over the sum of all, as published: large repositories weigh more. Less is better."""
        return self.missing / self.total if self.total else None

    def interval(self) -> tuple[float, float] | None:
        """The 95 % percentile bootstrap interval over repositories; None for fewer than two.

        Imports of one repository are missing together, so that they are no independent trials, and Wilson's interval
        would be too narrow: whole repositories are drawn again, with replacement (B. Efron, R. J. Tibshirani, An
        Introduction to the Bootstrap, 1993, chapter 13). The random numbers are the same each time.
        """
        if len(self.counts) < 2 or not self.total:  # noqa: PLR2004 - nothing to draw from
            return None
        # Only who asks pays for numpy.
        import numpy as np  # noqa: PLC0415

        counts = np.array(list(self.counts.values()), dtype=float)
        drawn = np.random.default_rng(0).integers(len(counts), size=(_RESAMPLES, len(counts)))
        missing, total = counts[drawn].sum(axis=1).T
        low, high = np.percentile(missing / np.maximum(total, 1.0), (2.5, 97.5))
        return float(low), float(high)


def published_ratio(part: AgentRun) -> ImportRatio:
    """Return the figure of the paper: what its script would have counted, of the first try at each repository."""
    return _ratio(part, _published)


def own_ratio(part: AgentRun) -> ImportRatio:
    """Return our figure: every file counts, and what no environment can satisfy does not."""
    return _ratio(part, _own)


def _ratio(part: AgentRun, count: Callable[[TierResult], Count | None]) -> ImportRatio:
    found = {repository: count(result) for repository, result in part.judged(Tier.C0).items()}
    counted = {repository: one for repository, one in found.items() if one}
    return ImportRatio(counted, tuple(repository for repository in found if repository not in counted))


def _published(result: TierResult) -> Count | None:
    found = _RATIO.fullmatch(str(result.evidence.get("published_ratio", "")))
    return Count(int(found[1]), int(found[2])) if found else None


def _own(result: TierResult) -> Count | None:
    missing, total = result.evidence.get("missing"), result.evidence.get("total")
    return Count(len(missing), total) if isinstance(missing, list) and isinstance(total, int) else None
