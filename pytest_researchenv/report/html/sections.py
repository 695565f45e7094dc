"""The parts of a run's page, each the answer to one question."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from pytest_researchenv.model import Examination, Tier
from pytest_researchenv.report.comparisons import paired_table
from pytest_researchenv.report.figures import (
    attempt_table,
    calibration_rows,
    claims_table,
    cost_table,
    drop_table,
    efficiency_table,
    import_table,
    judged_table,
    rate_table,
    reliability_table,
)
from pytest_researchenv.report.html import charts
from pytest_researchenv.report.html.drawing import Drawing
from pytest_researchenv.report.html.labels import Labels
from pytest_researchenv.report.html.matrix_view import Matrix
from pytest_researchenv.report.html.view import Figure, Grid, GridCell, Section
from pytest_researchenv.report.html.words import percent
from pytest_researchenv.report.showing import figure, p_value
from pytest_researchenv.report.tables import Column, Table, Value, text_column
from pytest_researchenv.statistics.agent import AgentStatistics
from pytest_researchenv.statistics.efficiency import QUANTITIES, Quantity
from pytest_researchenv.statistics.paired import Pair, Paired, compare
from pytest_researchenv.statistics.rates import Rate


__all__ = ["SIGNIFICANT", "all_pairs", "belief", "better", "failing", "folded", "rates_of", "repositories", "taken"]

#: Corrected p-values below are told as more than chance.
SIGNIFICANT = 0.05

#: What is drawn of what environments took, and what is written below.
_DRAWN = ("setup time", "tokens", "cost", "added image size")

_CLAIMS = {
    "held": "claimed, and it is so",
    "false": "claimed, and it is not so",
    "under": "doubted, and it would have held",
    "doubt": "doubted, and rightly",
    "unknown": "could not be checked",
}


def rates_of(agent: AgentStatistics) -> dict[Tier, Rate]:
    """Return the success rate of each tier."""
    return {tier: agent.judged[tier].rate for tier in Tier}


def all_pairs(labels: Labels) -> tuple[Pair, ...]:
    """Compare every two agents."""
    return tuple(compare(first, second) for first, second in combinations(labels.parts, 2))


# --- who is better ----------------------------------------------------------------------------------------


def better(labels: Labels, pairs: Sequence[Pair]) -> Section:
    """Who is better, by how much, and how sure that is."""
    rates = {name: rates_of(agent) for name, agent in labels.named.items()}
    figures = (_rate_figure(rates),) if len(rates) > 1 else ()
    tables = (rate_table(labels.agents), import_table(labels.agents), reliability_table(labels.agents))
    every_pair = (("Every pair in full", tuple(labels.on(paired_table(pair)) for pair in pairs)),) if pairs else ()
    return Section(
        "better",
        "Who is better" if len(rates) > 1 else "How good it is",
        grid=_rate_grid(rates),
        figures=figures,
        grids=(_pair_grid(labels, pairs),) if pairs else (),
        folded=(*folded(*tables), *every_pair),
    )


def folded(*tables: Table) -> tuple[tuple[str, tuple[Table, ...]], ...]:
    """Return tables to be opened on demand, each by its title; those without rows are left out."""
    return tuple((table.title, (table,)) for table in tables if table.rows)


def _rate_grid(rates: dict[str, dict[Tier, Rate]]) -> Grid:
    rows = tuple((name, tuple(map(_rate_cell, of_tiers.values()))) for name, of_tiers in rates.items())
    columns = ("agent", *map(_passing, Tier))
    note = (
        "Each repository counts once, by its first try; errors and skips are in no rate. The bar is Wilson's 95 % "
        "interval. Agents are ordered by the mean of C1 to C4."
    )
    return Grid("Success rates by tier", columns, rows, note)


def _passing(tier: Tier) -> str:
    """What it means to pass a tier, in words."""
    return f"{tier} {'no false claim' if tier is Tier.C5 else tier.heading}"


def _rate_cell(rate: Rate) -> GridCell:
    interval = rate.interval
    if rate.share is None or interval is None:
        return GridCell("–", small=("not judged",))  # noqa: RUF001 - a dash
    low, high = interval
    emulated = ("emulated",) if rate.emulated else ()
    return GridCell(
        percent(rate.share),
        charts.interval_bar(rate.share, low, high),
        (f"{rate.passed} of {rate.judged}", f"{100 * low:.0f} to {100 * high:.0f} %", *emulated),
    )


def _rate_figure(rates: dict[str, dict[Tier, Rate]]) -> Figure:
    panels = []
    for tier in Tier:
        rows = [_interval(name, of_tiers[tier]) for name, of_tiers in rates.items()]
        said = "; ".join(f"{row.name} {row.text or 'not judged'}" for row in rows)
        panels.append((_passing(tier), charts.intervals(rows, f"Success rates in {tier}: {said}")))
    caption = "The dot is the share of repositories that passed, the band its 95 % interval."
    return Figure("rates", "Success rates side by side", tuple(panels), caption)


def _interval(name: str, rate: Rate) -> charts.Interval:
    low, high = rate.interval or (0.0, 1.0)
    text = "" if rate.share is None else f"{rate.passed} of {rate.judged}, {100 * low:.0f} to {100 * high:.0f} %"
    return charts.Interval(name, rate.share, low, high, text)


def _pair_grid(labels: Labels, pairs: Sequence[Pair]) -> Grid:
    rows = tuple(
        (f"{labels.of(pair.first)} against {labels.of(pair.second)}", tuple(map(_pair_cell, pair.tiers)))
        for pair in pairs
    )
    note = (
        "Points by which the success rate of the first is above that of the second, at the repositories that both were "
        "judged at, and p of the exact McNemar test, corrected by Holm for the tiers of a pair. ● marks p < 0.05: "
        "chance alone would seldom make such a difference. Nothing is corrected for the number of pairs: of many, some "
        "differ by chance."
    )
    return Grid("Every two agents at the same repositories", ("agents", *map(str, Tier)), rows, note)


def _pair_cell(one: Paired) -> GridCell:
    if one.difference is None or one.p_holm is None:
        return GridCell("–", strong=False)  # noqa: RUF001 - a dash
    p = p_value(one.p_holm)
    sure = one.p_holm < SIGNIFICANT
    points = f"{100 * one.difference:+.0f}".replace("-", "−")  # noqa: RUF001 - a minus
    return GridCell(
        f"{points}{' ●' if sure else ''}", small=(f"p {p}" if p.startswith("<") else f"p = {p}",), strong=sure
    )


# --- where it fails ---------------------------------------------------------------------------------------


def failing(labels: Labels, matrix: Matrix) -> Section:
    """Where the pyramid is lost, and for which causes."""
    figures = (_fall_figure(labels), _cause_figure(labels, matrix))
    return Section("failing", "Where it fails", figures=figures, folded=folded(drop_table(labels.agents)))


def _fall_figure(labels: Labels) -> Figure:
    panels = []
    for name, agent in labels.named.items():
        rates = rates_of(agent)
        steps = [_interval(str(tier), rates[tier]) for tier in Tier if tier is not Tier.C5]
        links = [f"→ {percent(one.rate.share)}" if one.rate.share is not None else "" for one in agent.drops]
        said = "; ".join(f"{step.name}: {step.text or 'not judged'}" for step in steps)
        panels.append((name, charts.falls(steps, links, f"{name}, {said}")))
    caption = "Columns: success rate of each tier. Arrows: of those that passed a tier, how many pass the next."
    return Figure("falls", "From tier to tier", tuple(panels), caption)


def _cause_figure(labels: Labels, matrix: Matrix) -> Figure:
    panels = []
    for place, name in enumerate(labels.named):
        count = Counter(
            one.cause
            for row in matrix.rows
            for cell in row.cells[place]
            for one in cell.counted
            if one.cause and one.verdict == "failed"
        )
        rows = [charts.Bar(cause, number, str(number)) for cause, number in count.most_common(9)]
        if rest := sum(count.values()) - sum(int(row.amount) for row in rows):
            rows.append(charts.Bar("other causes", rest, str(rest), "doubt"))
        said = "; ".join(f"{row.name}: {row.text}" for row in rows) or "none"
        panels.append((name, charts.bars(rows, f"Causes of failures of {name}: {said}")))
    return Figure("causes", "Why tiers failed", tuple(panels), "Failed verdicts of all tries, by cause.")


def repositories(matrix: Matrix) -> Section:
    """Every repository, every agent, every tier."""
    return Section("repositories", "Every repository", matrix=matrix)


# --- can it be believed -----------------------------------------------------------------------------------


def belief(labels: Labels) -> Section:
    """Whether agents tell the truth, whether environments are what they seem, and who was judged at all."""
    tables = (judged_table(labels.agents), claims_table(labels.agents), _sign_table(labels))
    return Section(
        "belief",
        "Can it be believed",
        figures=(_claim_figure(labels),),
        tables=tuple(table for table in tables if table.rows),
        folded=folded(attempt_table(labels.agents), calibration_rows(labels.agents)),
    )


def _claim_figure(labels: Labels) -> Figure:
    rows, shares = [], []
    for name, agent in labels.named.items():
        tally = agent.calibration.tally
        amounts = {
            "held": tally.held,
            "false": tally.false,
            "under": tally.would_hold,
            "doubt": tally.doubted - tally.would_hold,
            "unknown": tally.inconclusive,
        }
        rows.append((name, amounts))
        low, high = tally.interval or (0.0, 1.0)
        held = "" if tally.precision is None else f"{tally.held} of {tally.claimed}"
        shares.append(charts.Interval(name, tally.precision, low, high, held))
    said = "; ".join(
        f"{name}: " + ", ".join(f"{number} {_CLAIMS[kind]}" for kind, number in amounts.items() if number)
        for name, amounts in rows
    )
    known = "; ".join(f"{row.name}: {row.text or 'nothing claimed'}" for row in shares)
    panels = (
        ("Claims and doubts", charts.stacks(rows, f"Claims: {said}")),
        ("Share of what was claimed that holds", charts.intervals(shares, f"Claims that hold: {known}")),
    )
    caption = "C5: every claim of the self-reports, by what was observed."
    return Figure("claims", "What agents said, and what is so", panels, caption, _CLAIMS)


def _sign_table(labels: Labels) -> Table:
    found: dict[str, Counter[str]] = {}
    audited = dict.fromkeys(labels.named, 0)
    for name, agent in labels.named.items():
        for attempt in agent.part.tries:
            if result := attempt.results.get(Examination.INTEGRITY):
                audited[name] += 1
                for kind in {str(finding.kind) for finding in result.findings}:
                    found.setdefault(kind, Counter())[name] += 1
    columns = (text_column("sign", "sign"), *(Column(name, name) for name in audited))
    rows: list[tuple[Value, ...]] = [
        (kind, *(count[name] for name in audited)) for kind, count in sorted(found.items())
    ]
    if any(audited.values()):
        rows.append(("environments audited", *audited.values()))
    return Table("signs", "Integrity: environments with signs of tampering", columns, tuple(rows))


# --- what it took -----------------------------------------------------------------------------------------


def taken(labels: Labels) -> Section:
    """Time, tokens, money and room."""
    panels = tuple(_spread_panel(labels, quantity) for quantity in QUANTITIES if quantity.name in _DRAWN)
    caption = "One dot for each environment; the box is the middle half, the stroke the median."
    drawn = Figure("spreads", "Time, tokens, money, room", panels, caption)
    tables = (cost_table(labels.agents), efficiency_table(labels.agents))
    return Section("taken", "What it took", figures=(drawn,), folded=folded(*tables))


def _spread_panel(labels: Labels, quantity: Quantity) -> tuple[str, Drawing]:
    rows = [_spread(name, agent, quantity) for name, agent in labels.named.items()]
    unit = f", {quantity.unit}" if quantity.unit else ""
    said = "; ".join(f"{row.name}: {row.text or 'not recorded'}" for row in rows)
    return f"{quantity.name}{unit}", charts.spreads(rows, f"{quantity.name}{unit}: {said}")


def _spread(name: str, agent: AgentStatistics, quantity: Quantity) -> charts.Spread:
    values = [quantity.of(one.environment) for one in agent.part.tries if one.environment]
    known = [value for value in values if value is not None]
    (found,) = (one for one in agent.efficiency if one.name == quantity.name)
    if found.lower is None or found.median is None or found.upper is None:
        return charts.Spread(name)
    text = f"median {figure(found.median)} {quantity.unit}, quartiles {figure(found.lower)} and {figure(found.upper)}"
    return charts.Spread(name, known, found.lower, found.median, found.upper, text)
