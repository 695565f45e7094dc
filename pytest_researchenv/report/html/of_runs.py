"""The page of what was run, from what was read of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import fsum

from pytest_researchenv.model import Examination, Repository, Tier, Verdict
from pytest_researchenv.report.calibration import Tally
from pytest_researchenv.report.html import sections
from pytest_researchenv.report.html.badge import badge
from pytest_researchenv.report.html.labels import Labels, ordered
from pytest_researchenv.report.html.made import made
from pytest_researchenv.report.html.matrix_of import matrix_of
from pytest_researchenv.report.html.paper import paper
from pytest_researchenv.report.html.places import Places
from pytest_researchenv.report.html.reasons import Reasons
from pytest_researchenv.report.html.view import Headline, RunPage
from pytest_researchenv.report.html.view import Tier as TierHead
from pytest_researchenv.report.html.words import duration, percent, plural
from pytest_researchenv.runs.values import AttemptRecord, Run
from pytest_researchenv.statistics.agent import AgentStatistics
from pytest_researchenv.statistics.paired import Pair
from pytest_researchenv.statistics.tries import JUDGED, AgentRun, agent_runs


__all__ = ["run_page"]

#: How many pairs of agents a sentence names.
_NAMED = 3


def run_page(
    runs: Sequence[Run],
    *,
    descriptions: Mapping[str, Repository],
    version: str,
    reasons: Reasons,
) -> RunPage:
    """Return the page of one run, or of several side by side.

    Args:
        runs: what was read; each with at least one attempt.
        descriptions: key → what is known of a repository.
        version: of this package.
        reasons: why tiers did not pass.
    """
    agents = ordered([AgentStatistics.of(part) for run in runs for part in agent_runs(run, descriptions)])
    labels = Labels(agents, len(runs))
    matrix = matrix_of(labels.parts, descriptions=descriptions, places=Places(len(runs) > 1), reasons=reasons)
    pairs = sections.all_pairs(labels)
    last = paper(labels, descriptions), made(runs)
    return RunPage(
        title=("Run " if len(runs) == 1 else "Runs ") + ", ".join(run.name for run in runs),
        facts=tuple(_facts(runs)),
        warnings=tuple(_warnings(runs)),
        headlines=tuple(_headlines(runs, labels)),
        answers=tuple(_answers(labels, pairs)),
        agents=tuple(labels.named),
        tiers=tuple(TierHead(str(tier), tier.heading) for tier in Tier),
        sections=(
            sections.better(labels, pairs),
            sections.failing(labels, matrix),
            sections.repositories(matrix),
            sections.belief(labels),
            sections.taken(labels),
            *filter(None, last),
        ),
        version=version,
        badges=tuple((name, badge(name, sections.rates_of(agent))) for name, agent in labels.named.items()),
    )


def _attempts(runs: Sequence[Run]) -> list[AttemptRecord]:
    return [attempt for run in runs for attempt in run.attempts]


def _facts(runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    attempts = _attempts(runs)
    results = [result for attempt in attempts for result in attempt.results.values()]
    times = sorted(
        {one.created for one in results if one.created}
        | {one.environment.created for one in attempts if one.environment and one.environment.created}
    )
    yield "suites", ", ".join(sorted({suite for run in runs for suite in run.suites}))
    if times:
        first, last = times[0][:10], times[-1][:10]
        yield "when", first if first == last else f"{first} to {last}"
    if accelerators := sorted({result.accelerator for result in results if result.accelerator}):
        yield "probed on", ", ".join(accelerators)
    if harnesses := sorted({result.harness[:18] for result in results if result.harness}):
        yield "judged by", ", ".join(harnesses)


def _warnings(runs: Sequence[Run]) -> Iterator[str]:
    results = [
        result
        for attempt in _attempts(runs)
        for subject, result in attempt.results.items()
        if subject in {Tier.C2, Tier.C3, Tier.C4} and result.verdict in JUDGED
    ]
    if emulated := sum(result.emulated for result in results):
        yield (
            f"{emulated} of {plural(len(results), 'verdict')} in C2 to C4 were emulated on the CPU: they say nothing "
            "about CUDA, and are never compared with published figures."
        )
    damage = [one for run in runs for one in run.damage]
    if damage:
        yield f"{plural(len(damage), 'record')} cannot be read, and nothing of them is here: {damage[0]}"


def _headlines(runs: Sequence[Run], labels: Labels) -> Iterator[Headline]:
    attempts = _attempts(runs)
    environments = [one.environment for one in attempts if one.environment]
    repositories = {attempt.key.repository for attempt in attempts}
    yield Headline("repositories", f"{len(repositories)}", f"{plural(len(labels.parts), 'agent')}")
    yield Headline("environments", f"{len(environments)}", f"of {plural(len(attempts), 'attempt')}")
    verdicts = [result.verdict for one in attempts for subject, result in one.results.items() if subject in set(Tier)]
    judged = sum(verdict in JUDGED for verdict in verdicts)
    others = f"{plural(verdicts.count(Verdict.ERROR), 'error')}, {verdicts.count(Verdict.SKIPPED)} skipped"
    yield Headline("verdicts", f"{judged:,}", others)
    if seconds := [one.telemetry["wall_s"] for one in environments if "wall_s" in one.telemetry]:
        yield Headline("agents' time", duration(fsum(seconds)), f"mean {duration(fsum(seconds) / len(seconds))}")
    costs = [one.telemetry["cost_usd"] for one in environments if "cost_usd" in one.telemetry]
    spent = [run.spent_usd for run in runs if run.spent_usd is not None]
    if costs or spent:
        unknown = len(environments) - len(costs)
        usd = fsum(spent) if spent else fsum(costs)
        yield Headline(
            "spent on models", f"${usd:,.2f}", f"{plural(unknown, 'environment')} of unknown cost" if unknown else ""
        )


# --- what it comes to -------------------------------------------------------------------------------------


def _answers(labels: Labels, pairs: Sequence[Pair]) -> Iterator[str]:
    tier = _telling(labels.parts)
    if tier is None:
        return
    yield _best(labels, tier)
    if pairs:
        yield _differences(labels, pairs, tier)
    if fall := _steepest(labels.agents):
        yield fall
    yield from _truth(labels)


def _telling(parts: Sequence[AgentRun]) -> Tier | None:
    """The highest tier in which most of what was tried has a verdict: there agents differ most."""
    for tier in (Tier.C3, Tier.C2, Tier.C1, Tier.C0, Tier.C4):
        if any(2 * len(part.judged(tier)) >= len(part.repositories) for part in parts):
            return tier
    return None


def _best(labels: Labels, tier: Tier) -> str:
    rates = {name: rate for name, agent in labels.named.items() if (rate := agent.judged[tier].rate).judged}
    first, *others = sorted(rates, key=lambda name: -(rates[name].share or 0))
    rate = rates[first]
    low, high = rate.interval or (0.0, 1.0)
    sure = f"95 % interval {100 * low:.0f} to {100 * high:.0f} %"
    how = f"{rate.passed} of {rate.judged} repositories ({percent(rate.share or 0)}, {sure})"
    emulated = ", emulated" if rate.emulated else ""
    if not others:
        return f"In {tier}, {tier.heading}{emulated}, {first} passes {how}."
    second = rates[others[0]].share or 0
    then = f"{others[0]} does as well" if second == rate.share else f"{others[0]} follows with {percent(second)}"
    return f"In {tier}, {tier.heading}{emulated}, {first} passes most: {how}. {then}."


def _differences(labels: Labels, pairs: Sequence[Pair], tier: Tier) -> str:
    found = [(pair, one) for pair in pairs for one in pair.tiers if one.tier is tier and one.p_holm is not None]
    sure = sorted(
        ((pair, one) for pair, one in found if (one.p_holm or 0) < sections.SIGNIFICANT),
        key=lambda both: both[1].p_holm or 0,
    )
    if not sure:
        least = min((one.p_holm or 0 for _, one in found), default=None)
        close = f" The smallest corrected p is {least:.2g}." if least is not None else ""
        return f"No difference between two agents in {tier} is more than chance would make.{close}"
    named = []
    for pair, one in sure[:_NAMED]:
        above = (one.difference or 0) > 0
        first, second = (pair.first, pair.second) if above else (pair.second, pair.first)
        named.append(f"{labels.of(first)} above {labels.of(second)} by {abs(100 * (one.difference or 0)):.0f} points")
    more = f" and {len(sure) - _NAMED} more" if len(sure) > _NAMED else ""
    return (
        f"Of {plural(len(found), 'pair')} of agents, {len(sure)} differ in {tier} by more than chance (p < "
        f"{sections.SIGNIFICANT}, corrected for the tiers of each pair): {', '.join(named)}{more}."
    )


def _steepest(agents: Sequence[AgentStatistics]) -> str:
    found: dict[tuple[Tier, Tier], list[int]] = {}
    for agent in agents:
        for one in agent.drops:
            total = found.setdefault((one.lower, one.upper), [0, 0])
            total[0] += one.rate.passed
            total[1] += one.rate.judged
    shares = {step: passed / judged for step, (passed, judged) in found.items() if judged}
    if not shares:
        return ""
    lower, upper = min(shares, key=lambda step: shares[step])
    if shares[lower, upper] == 1:
        return "No environment that passed a tier failed the next one."
    passed, judged = found[lower, upper]
    together = "all agents together, " if len(agents) > 1 else ""
    return (
        f"Most is lost from {lower} to {upper}: {together}of {judged} environments that passed {lower}, {passed} "
        f"({percent(shares[lower, upper])}) pass {upper}."
    )


def _truth(labels: Labels) -> Iterator[str]:
    tallies = {name: agent.calibration.tally for name, agent in labels.named.items()}
    total = sum(tallies.values(), Tally())
    if total.claimed:
        worst = max(tallies, key=lambda name: 1 - (tallies[name].precision or 1))
        share = tallies[worst].false / max(1, tallies[worst].claimed)
        most = f"; {worst} most, with {percent(share)}" if len(tallies) > 1 and share else ""
        false = f"{total.false} ({percent(total.false / total.claimed)}) are false{most}"
        yield f"Of {plural(total.claimed, 'claim')} that could be checked, {false}."
    audits = [
        result for part in labels.parts for one in part.tries if (result := one.results.get(Examination.INTEGRITY))
    ]
    if marked := sum(bool(result.findings) for result in audits):
        yield f"{marked} of {plural(len(audits), 'environment')} show signs of tampering."
