"""Two beside one another, as tables: two agents, or a run and what was published."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from pytest_researchenv.model import Tier
from pytest_researchenv.report.showing import difference, interval, p_value, percent, points, share_or_count
from pytest_researchenv.report.tables import Column, Table, text_column
from pytest_researchenv.statistics.baseline import PAPER, BesidePaper, published
from pytest_researchenv.statistics.paired import Pair


__all__ = ["paired_table", "paper_table"]

#: What the figures of the paper are that are no success rates.
_KINDS = {Tier.C0: "missing imports", Tier.C5: "false claims"}


def paired_table(pair: Pair) -> Table:
    """Two agents at the same repositories."""
    columns = (
        text_column("tier", "tier"),
        Column("pairs", "pairs"),
        Column("first", "first", percent),
        Column("second", "second", percent),
        Column("difference", "points", points),
        Column("only_first", "only\n1st"),
        Column("only_second", "only\n2nd"),
        Column("p", "p", p_value),
        Column("p_holm", "Holm", p_value),
        Column("unpaired", "one\nonly", optional=True),
        Column("unlike", "unlike", optional=True),
        Column("emulated", "emu-\nlated", optional=True),
    )
    rows = tuple(
        (
            str(one.tier),
            one.pairs,
            one.first.share,
            one.second.share,
            one.difference,
            len(one.only_first),
            len(one.only_second),
            one.p,
            one.p_holm,
            one.unpaired,
            one.unlike,
            one.emulated,
        )
        for one in pair.tiers
    )
    names = (pair.first.label, pair.second.label)
    notes = (
        f"first: {names[0]}; second: {names[1]}. Repositories that both passed or failed, by the first try of each.",
        "p: exact McNemar test, two-sided. Holm: corrected for having looked at all tiers of this table.",
        *_left_out(pair),
    )
    return Table("compare", f"{names[0]} and {names[1]}", columns, rows, notes)


def _left_out(pair: Pair) -> Iterator[str]:
    if any(one.unpaired for one in pair.tiers):
        yield "one only: only one of the two has a verdict there. Left out."
    if any(one.unlike for one in pair.tiers):
        yield "unlike: emulated for one of the two alone, or judged by other probes or settings. Left out."


def paper_table(found: BesidePaper) -> Table:
    """A run beside what was published."""
    baseline, theirs = published(), published().agent(found.name)
    columns = (
        text_column("tier", "tier"),
        text_column("figure", "figure"),
        Column("ours", "ours", share_or_count),
        Column("paper", "paper", share_or_count),
        Column("difference", "difference", difference),
        Column("interval", "95 %", partial(interval, sign="+")),
        text_column("comparable", "comparable?"),
        text_column("lacking", "no difference, since", optional=True),
    )
    rows = tuple(
        (
            str(one.tier),
            _KINDS.get(one.tier, "success rate"),
            one.ours,
            one.theirs,
            one.difference,
            one.interval,
            one.caveat.comparable,
            one.lacking or None,
        )
        for one in found.figures
    )
    notes = (
        f"paper: {found.name} with {theirs.model} ({baseline.source}), measured on {baseline.setting}.",
        "Other probes judged there: a difference is not one between agents.",
        *(f"{one.tier}: {one.caveat.why}." for one in found.figures),
        "Only totals were published, so no paired test is possible; the interval of a difference is Newcombe's.",
    )
    return Table("compare", f"{found.part.label} and {PAPER}:{found.name}", columns, rows, notes)
