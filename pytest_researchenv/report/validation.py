"""What a suite's probes were shown to do, as a page: made from stored results, and from nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.basis import tier_basis
from pytest_researchenv.errors import SuiteError
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import Cause, Repository, SabotageKind, Tier, TierResult, Verdict
from pytest_researchenv.proving import BARE_TIERS, probed_tiers, sabotage_agent_name
from pytest_researchenv.store import Store
from pytest_researchenv.suite import Suite


__all__ = ["validation_page"]

_NOT_RUN = "not run"
_UNPROBED = {
    Cause.NOT_APPLICABLE: "-",
    Cause.NO_PROBE: "no probe yet",
    Cause.DEFECTIVE_UPSTREAM: "defective upstream",
}

_HEAD = """\
# Validation

What was run, on what, and what came of it. `researchenv prove` runs it, and `researchenv document` writes this page
from the stored results: nothing stands here that was not run with the descriptions, probes and recipes of this version.

- *passed* is a verdict on real devices; *passed, emulated* is one for which the CPU stood in for them, and says nothing
  about CUDA. C0 and C1 need no device.
- The bare environment is that of the agent `noop`, which installs nothing.
- A broken environment is the oracle's with one package removed, or with a version of a framework that does not fit; or
  with an entry point in the pinned tree that does nothing and ends well.
"""


@dataclass(frozen=True, slots=True)
class _Found:
    """What the store holds of one repository."""

    repository: Repository
    store: Store

    def result(self, agent: str, tier: Tier) -> TierResult | None:
        """The newest verdict that still stands: judged as this version would, in an environment it would build."""
        attempt = self.store.latest(agent, self.repository.key) if tier in self.repository.tiers else None
        environment = attempt.environment() if attempt else None
        if attempt is None or environment is None or not self._current(agent, environment.inputs):
            return None
        bases = {
            tier_basis(self.repository, tier, accelerator=accelerator, settings={"c0_max_missing": 0.0})
            for accelerator in Accelerator
        }
        standing = [result for result in attempt.results(tier) if result.basis in bases]
        return standing[-1] if standing else None

    def _current(self, agent: str, inputs: dict[str, str]) -> bool:
        if agent.startswith("sabotage-"):
            oracle = self.store.latest("oracle", self.repository.key)
            environment = oracle.environment() if oracle else None
            return environment is not None and inputs["image"].endswith(environment.image)
        try:
            return all(inputs.get(name) == value for name, value in find_agent(agent).inputs(self.repository).items())
        except SuiteError:  # Its recipe is gone.
            return False

    def verdict(self, agent: str, tier: Tier) -> Verdict | None:
        """The verdict, or None where there is none."""
        result = self.result(agent, tier)
        return result.verdict if result else None

    @property
    def run(self) -> bool:
        """Whether the oracle's environment was judged in a tier that runs the repository's own code."""
        return any(self.verdict("oracle", tier) is Verdict.PASSED for tier in (Tier.C1, Tier.C3, Tier.C4))


def validation_page(suite: Suite, store: Store) -> str:
    """Return the page, in Markdown.

    Args:
        suite: what was proven.
        store: the run that holds the results.
    """
    found = [_Found(repository, store) for repository in suite.repositories]
    proven = [one for one in found if one.run]
    parts = (
        _HEAD,
        _summary(found, proven),
        "## Good environments\n\nThe oracle's, in each tier, with the probe's seconds.\n",
        _table(("repository", *Tier), (_oracle_row(one) for one in found)),
        "## Bare and broken environments\n\nTiers that noticed, of those that had to.\n",
        _table(
            ("repository", "bare", "package removed", "wrong version", "entry point does nothing"),
            (_sabotage_row(one) for one in proven),
        ),
    )
    return "\n".join(parts)


def _summary(found: list[_Found], proven: list[_Found]) -> str:
    results = [result for one in found for tier in Tier if (result := one.result("oracle", tier))]
    passed = [result for result in results if result.verdict is Verdict.PASSED]
    counts = []
    for tier in Tier:
        of_tier = [result for result in passed if result.tier is tier]
        emulated = sum(result.emulated for result in of_tier)
        counts.append(f"{tier} {len(of_tier)}" + (f" ({emulated} emulated)" if emulated else ""))
    days = sorted({datetime.fromisoformat(result.created).date().isoformat() for result in results if result.created})
    when = f", between {days[0]} and {days[-1]}" if days else ""
    return (
        f"{len(proven)} of {len(found)} repositories were run{when}. "
        f"Good environments that passed: {', '.join(counts)}.\n"
    )


def _oracle_row(found: _Found) -> list[str]:
    return [found.repository.slug, *(_oracle_cell(found, tier) for tier in Tier)]


def _oracle_cell(found: _Found, tier: Tier) -> str:
    cause, _ = found.repository.spec(tier).idle
    if cause is not Cause.NONE:
        return _UNPROBED[cause]
    result = found.result("oracle", tier)
    if result is None:
        return _NOT_RUN
    words = f"{result.verdict}, emulated" if result.emulated else str(result.verdict)
    return f"{words}, {result.duration_s:.0f} s" if result.verdict is not Verdict.SKIPPED else words


def _sabotage_row(found: _Found) -> list[str]:
    repository = found.repository
    bare = [tier for tier in probed_tiers(repository) if tier in BARE_TIERS]
    cells = [repository.slug, _noticed(found, "noop", bare)]
    for kind in SabotageKind:
        sabotage = repository.sabotage.get(kind)
        if sabotage is None:
            cells.append("-")
        else:
            cells.append(f"`{sabotage.target}`: {_noticed(found, sabotage_agent_name(kind), sabotage.tiers)}")
    return cells


def _noticed(found: _Found, agent: str, tiers: Iterable[Tier]) -> str:
    words = {Verdict.FAILED: "", Verdict.PASSED: " **missed it**", Verdict.SKIPPED: " skipped", Verdict.ERROR: " error"}
    return ", ".join(
        f"{tier} {_NOT_RUN}" if verdict is None else f"{tier}{words[verdict]}"
        for tier in tiers
        for verdict in (found.verdict(agent, tier),)
    )


def _table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def lines() -> Iterator[str]:
        columns = list(heading)
        yield _line(columns)
        yield _line(["---"] * len(columns))
        yield from map(_line, rows)

    return "\n".join(lines()) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
