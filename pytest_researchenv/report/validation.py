"""What a suite's probes were shown to do, as a page: made from stored results, and from nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime

from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.basis import tier_basis
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import (
    Cause,
    Environment,
    GitSource,
    PathSource,
    PypiSource,
    Repository,
    SabotageKind,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.proving import (
    BARE_TIERS,
    ENDED_WELL,
    noticed,
    probed_tiers,
    sabotage_agent,
    sabotage_agent_name,
)
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
from the stored results: nothing stands here that was not run with the descriptions, probe scripts and recipes of this
version. (The harness's own part, such as C0, C2 and C5, may have been changed since.)

- *passed* is a verdict on real devices; *passed, emulated* is one for which the CPU stood in for them, and says nothing
  about CUDA. C0 and C1 need no device.
- † stands where a folder was judged and not the pinned commit itself: a copy of its tree without large files, which the
  mirror that could be reached lacked.
- ‡ stands where another revision was judged, where the pinned one could not be had. It shows what the recipe and the
  probes do; it is no verdict on the pinned commit, and is counted apart.
- The bare environment is that of the agent `noop`, which installs nothing.
- A broken environment is the oracle's with one package removed, or with a version of a framework that does not fit; or
  with an entry point in the pinned tree that does nothing and ends well.
"""

_BROKEN = """\
## Bare and broken environments

Tiers that noticed, of those that had to. A failure shows nothing where the good environment does not pass that tier
either, where there is no self-report, and where time or memory ran out.
"""


@dataclass(frozen=True, slots=True)
class _Found:
    """What the store holds of one repository."""

    repository: Repository
    store: Store

    def result(self, agent: str, tier: Tier) -> TierResult | None:
        """The newest verdict that still stands: judged as this version would, in an environment it would build."""
        attempt = self.store.latest(agent, self.repository.key) if tier in self.repository.tiers else None
        if attempt is None or self._environment(agent) is None:
            return None
        bases = {
            tier_basis(self.repository, tier, accelerator=accelerator, settings={"c0_max_missing": 0.0})
            for accelerator in Accelerator
        }
        standing = [result for result in attempt.results(tier) if result.basis in bases]
        return standing[-1] if standing else None

    def _environment(self, agent: str) -> Environment | None:
        """The newest environment, unless another source, recipe, sabotage or good environment shaped it."""
        attempt = self.store.latest(agent, self.repository.key)
        environment = attempt.environment() if attempt else None
        if environment is None:
            return None
        kind = next((kind for kind in self.repository.sabotage if agent == sabotage_agent_name(kind)), None)
        try:
            stands = self._broken(kind, environment) if kind else self._shaped(agent, environment)
        except ConfigurationError:  # Its recipe is gone, or the good environment has no report.
            return None
        return environment if stands else None

    def _shaped(self, agent: str, environment: Environment) -> bool:
        wanted = dict(find_agent(agent).inputs(self.repository))
        source = environment.inputs.get("source", "")
        known = source == str(self.repository.source) or _is_folder(environment) or _is_revision(source)
        return wanted.items() <= environment.inputs.items() and known

    @property
    def copied(self) -> bool:
        """Whether the oracle's environment was built from a folder and not from the pinned source itself."""
        environment = self._environment("oracle")
        return (
            environment is not None and not isinstance(self.repository.source, PathSource) and _is_folder(environment)
        )

    @property
    def elsewhere(self) -> bool:
        """Whether the oracle's environment was built from another revision than the pinned one."""
        environment = self._environment("oracle")
        source = environment.inputs.get("source", "") if environment else ""
        return source != str(self.repository.source) and _is_revision(source)

    @property
    def name(self) -> str:
        """The repository's name in tables."""
        mark = " †" if self.copied else " ‡" if self.elsewhere else ""
        return f"{self.repository.slug}{mark}"

    def _broken(self, kind: SabotageKind, environment: Environment) -> bool:
        oracle = self._environment("oracle")
        if oracle is None or environment.ended != ENDED_WELL:
            return False
        wanted = sabotage_agent(kind, self.repository.sabotage[kind], oracle).inputs(self.repository)
        return environment.inputs["image"].endswith(oracle.image) and wanted.items() <= environment.inputs.items()

    def verdict(self, agent: str, tier: Tier) -> Verdict | None:
        """The verdict, or None where there is none."""
        result = self.result(agent, tier)
        return result.verdict if result else None

    @property
    def run(self) -> bool:
        """Whether the oracle's environment was judged in a tier that runs the repository's own code."""
        return any(self.verdict("oracle", tier) is Verdict.PASSED for tier in (Tier.C1, Tier.C3, Tier.C4))


def _is_folder(environment: Environment) -> bool:
    """Whether an environment was built from a folder: its source is told by the digest of its tree."""
    return bool(re.fullmatch(r"[0-9a-f]{40}(\+.*)?", environment.inputs.get("source", "")))


def _is_revision(source: str) -> bool:
    """Whether an environment was built from a commit or a release, by what its inputs say of it."""
    return source.startswith((f"{GitSource.__name__}(", f"{PypiSource.__name__}("))


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
        _BROKEN,
        _table(
            ("repository", "bare", "package removed", "wrong version", "entry point does nothing"),
            (_sabotage_row(one) for one in proven),
        ),
    )
    return "\n".join(parts)


def _summary(found: list[_Found], proven: list[_Found]) -> str:
    total = len(found)
    apart = sum(one.elsewhere for one in proven)
    found = [one for one in found if not one.elsewhere]
    proven = [one for one in proven if not one.elsewhere]
    results = [result for one in found for tier in Tier if (result := one.result("oracle", tier))]
    passed = [result for result in results if result.verdict is Verdict.PASSED]
    counts = []
    for tier in Tier:
        of_tier = [result for result in passed if result.tier is tier]
        emulated = sum(result.emulated for result in of_tier)
        counts.append(f"{tier} {len(of_tier)}" + (f" ({emulated} emulated)" if emulated else ""))
    days = sorted({datetime.fromisoformat(result.created).date().isoformat() for result in results if result.created})
    when = "" if not days else f" on {days[0]}" if len(days) == 1 else f" between {days[0]} and {days[-1]}"
    copied = sum(one.copied for one in proven)
    copies = f", {copied} of them from copies (†)" if copied else ""
    alone = sum(any(one.result("oracle", tier) for tier in Tier) for one in found if not one.run)
    partly = f" {alone} more were judged in C0, C2 or C5 alone." if alone else ""
    others = f" {apart} more were run at another revision (‡) and are not counted." if apart else ""
    return (
        f"{len(proven)} of {total} repositories were run{when}{copies}. "
        f"Good environments that passed: {', '.join(counts)}.{partly}{others}\n"
    )


def _oracle_row(found: _Found) -> list[str]:
    return [found.name, *(_oracle_cell(found, tier) for tier in Tier)]


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
    cells = [found.name, _noticed(found, "noop", bare)]
    for kind in SabotageKind:
        sabotage = repository.sabotage.get(kind)
        if sabotage is None:
            cells.append("-")
        else:
            cells.append(f"`{sabotage.target}`: {_noticed(found, sabotage_agent_name(kind), sabotage.tiers)}")
    return cells


def _noticed(found: _Found, agent: str, tiers: Iterable[Tier]) -> str:
    return ", ".join(f"{tier} {_notice(found, agent, tier)}".rstrip() for tier in tiers)


def _notice(found: _Found, agent: str, tier: Tier) -> str:
    """What a tier that had to notice did; empty where it noticed."""
    result = found.result(agent, tier)
    if result is None:
        return _NOT_RUN
    if result.verdict is Verdict.FAILED:
        shows = noticed(result) and found.verdict("oracle", tier) is Verdict.PASSED
        return "" if shows else "failed, which shows nothing"
    return "**missed it**" if result.verdict is Verdict.PASSED else str(result.verdict)


def _table(heading: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    def lines() -> Iterator[str]:
        columns = list(heading)
        yield _line(columns)
        yield _line(["---"] * len(columns))
        yield from map(_line, rows)

    return "\n".join(lines()) + "\n"


def _line(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
