"""The published figures beside ours, where they may stand there."""

from __future__ import annotations

from collections.abc import Mapping

from pytest_researchenv.model import Repository, Tier
from pytest_researchenv.report.comparisons import paper_table
from pytest_researchenv.report.html import charts
from pytest_researchenv.report.html.labels import Labels
from pytest_researchenv.report.html.view import Grid, GridCell, Section
from pytest_researchenv.report.html.words import percent
from pytest_researchenv.report.tables import Table
from pytest_researchenv.statistics.baseline import Baseline, FigureBeside, beside_paper, published, refusals
from pytest_researchenv.statistics.rates import Rate


__all__ = ["paper"]

_HEADINGS = {Tier.C0: "C0 missing imports", Tier.C5: "C5 false claims"}


def paper(labels: Labels, descriptions: Mapping[str, Repository]) -> Section | None:
    """Return the part about what was published; None where no repository of the paper was tried.

    Args:
        labels: the agents.
        descriptions: key → what is known of a repository; of the paper's suite either all or none are there.
    """
    baseline = published()
    keys = frozenset(key for key, repository in descriptions.items() if repository.suite == baseline.suite)
    tried = {one.repository for part in labels.parts for one in part.repositories}
    if not tried & keys:
        return None
    rows = [(f"paper: {name}", _published(baseline, name)) for name in baseline.agents]
    lead: list[str] = []
    folded: list[tuple[str, tuple[Table, ...]]] = []
    for part in labels.parts:
        if reasons := list(refusals(part, repositories=keys, tiers=tuple(Tier))):
            lead.append(f"{labels.of(part)} cannot stand beside them: {'; '.join(reasons)}.")
            continue
        beside = [beside_paper(part, name, repositories=keys) for name in baseline.agents]
        rows.append((labels.of(part), tuple(map(_ours, beside[0].figures))))
        tables = tuple(labels.on(paper_table(one)) for one in beside)
        folded.append((f"{labels.of(part)} and each of them", tables))
    grid = Grid(
        f"Published figures ({baseline.source})",
        ("agent", *(_HEADINGS.get(tier, f"{tier} {tier.heading}") for tier in Tier)),
        tuple(rows),
        f"Measured on {baseline.setting}. Other probes judged there: a difference is not one between agents. "
        "docs/comparability.md says which figures can be compared.",
    )
    return Section("paper", "Beside the published figures", tuple(lead), grid=grid, folded=tuple(folded))


def _published(baseline: Baseline, name: str) -> tuple[GridCell, ...]:
    theirs = baseline.agent(name)
    rates = {tier: rate for tier in Tier if (rate := baseline.rate(name, tier))}
    cells = {tier: _rate(rate) for tier, rate in rates.items()}
    cells[Tier.C0] = GridCell(f"{100 * theirs.import_ratio:.1f} %", small=(f"of {baseline.denominators[Tier.C0]}",))
    cells[Tier.C5] = GridCell(str(theirs.false_claims))
    return tuple(cells[tier] for tier in Tier)


def _ours(figure: FigureBeside) -> GridCell:
    lacking = (figure.lacking,) if figure.lacking else ()
    if figure.our_rate:
        return _rate(figure.our_rate, *lacking)
    if figure.ours is None:
        return GridCell("–", small=lacking)  # noqa: RUF001 - a dash
    return GridCell(f"{100 * figure.ours:.1f} %" if figure.tier is Tier.C0 else str(figure.ours), small=lacking)


def _rate(rate: Rate, *more: str) -> GridCell:
    interval = rate.interval
    if rate.share is None or interval is None:
        return GridCell("–", small=more)  # noqa: RUF001 - a dash
    bar = charts.interval_bar(rate.share, *interval)
    return GridCell(percent(rate.share), bar, (f"{rate.passed} of {rate.judged}", *more))
