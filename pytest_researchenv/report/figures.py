"""Statistics as tables: each value once, for every form."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from pytest_researchenv.model import Cause, FindingKind, Tier
from pytest_researchenv.report.showing import figure, interval, percent, usd
from pytest_researchenv.report.tables import Column, Table, Value, text_column
from pytest_researchenv.runs.values import SUBJECTS, Subject
from pytest_researchenv.statistics.agent import AgentStatistics
from pytest_researchenv.statistics.imports import ImportRatio
from pytest_researchenv.statistics.judged import ErrorKind, TierCounts
from pytest_researchenv.statistics.tries import AgentRun


__all__ = [
    "attempt_table",
    "calibration_rows",
    "claims_table",
    "cost_table",
    "drop_table",
    "efficiency_table",
    "import_table",
    "judged_table",
    "rate_table",
    "reliability_table",
    "statistics_tables",
]

_FIRST_TRY = "Each repository counts once, by its first try. Errors and skips are in no rate."
_EVERY_TRY = "Every try counts, whatever came of it. What is unknown is in no figure."


_AGENT = text_column("agent", "agent")
_TIER = text_column("tier", "tier")
_RATE = (
    Column("passed", "passed"),
    Column("judged", "judged"),
    Column("share", "rate", percent),
    Column("interval", "95 %", interval),
)


def _named(agents: Iterable[AgentStatistics]) -> list[tuple[str, AgentStatistics]]:
    """Each part with the agent's name, and that of the run where there are several."""
    every = list(agents)
    several = len({one.part.run for one in every}) > 1
    return [(one.part.label if several else one.part.agent, one) for one in every]


# --- one agent after the other ----------------------------------------------------------------------------


def statistics_tables(agents: Iterable[AgentStatistics]) -> tuple[Table, ...]:
    """Return everything that is said of agents without comparing them."""
    every = tuple(agents)
    tables = (
        judged_table(every),
        attempt_table(every),
        rate_table(every),
        import_table(every),
        claims_table(every),
        calibration_rows(every),
        drop_table(every),
        reliability_table(every),
        efficiency_table(every),
        cost_table(every),
    )
    return tuple(table for table in tables if table.rows)


def judged_table(agents: Iterable[AgentStatistics]) -> Table:
    """Who was judged."""
    columns = (
        _AGENT,
        _TIER,
        Column("repositories", "repos"),
        Column("applicable", "applies"),
        Column("run", "judged"),
        Column("passed", "passed"),
        Column("failed", "failed"),
        text_column("skipped", "skipped", optional=True),
        Column("defective_upstream", "defec-\ntive", optional=True),
        text_column("errors", "errors", optional=True),
        Column("unjudged", "not\nasked", optional=True),
        Column("emulated", "emu-\nlated", optional=True),
    )
    rows = [
        (name, *_judged_row(row))
        for name, agent in _named(agents)
        for row in agent.judged.values()
        if _asked(agent.part, row.subject)
    ]
    return Table("judged", "Who was judged", columns, tuple(rows), (_FIRST_TRY,))


def attempt_table(agents: Iterable[AgentStatistics]) -> Table:
    """What became of every attempt."""
    columns = (
        _AGENT,
        Column("repositories", "repos"),
        Column("attempts", "attempts"),
        Column("tries", "tries"),
        Column("broken", "errors", numeric=False, optional=True),
        Column("superseded", "superseded", optional=True),
    )
    rows = tuple(
        (name, one.repositories, one.attempts, one.tries, _counts(one.broken) or None, one.superseded)
        for name, agent in _named(agents)
        for one in (agent.attempts,)
    )
    notes = ("A try left an environment, shaped by the same inputs as the newest.",)
    return Table("attempts", "Attempts", columns, rows, notes)


def _asked(part: AgentRun, subject: Subject) -> bool:
    """Whether anybody asked: the audit is no tier, and not of every session."""
    return isinstance(subject, Tier) or any(subject in attempt.times for attempt in part.tries)


def _judged_row(row: TierCounts) -> tuple[Value, ...]:
    return (
        str(row.subject),
        row.repositories,
        row.applicable,
        row.run,
        row.passed,
        row.failed,
        _counts(row.skipped) or None,
        row.defective_upstream,
        _counts(row.errors) or None,
        row.unjudged,
        row.emulated,
    )


def _counts(found: Mapping[Cause, int] | Mapping[ErrorKind, int]) -> str:
    return ", ".join(f"{count} {why}" for why, count in found.items())


def rate_table(agents: Iterable[AgentStatistics], subjects: Collection[Subject] = SUBJECTS) -> Table:
    """Success rates with Wilson's interval."""
    rows = []
    for name, agent in _named(agents):
        for row in agent.judged.values():
            if row.run and row.subject in subjects:
                rate = row.rate
                rows.append(
                    (
                        name,
                        str(row.subject),
                        rate.passed,
                        rate.judged,
                        rate.share,
                        rate.interval,
                        rate.emulated,
                    )
                )
    emulated = ("What was emulated on the CPU says nothing about CUDA.",) if any(row[-1] for row in rows) else ()
    columns = (_AGENT, _TIER, *_RATE, Column("emulated", "emu-\nlated", optional=True))
    notes = (_FIRST_TRY, "The interval is Wilson's.", *emulated)
    return Table("rates", "Success rates", columns, tuple(rows), notes)


def import_table(agents: Iterable[AgentStatistics]) -> Table:
    """C0 as a ratio: ours, and as the paper counts."""
    columns = (
        _AGENT,
        text_column("figure", "figure"),
        Column("missing", "missing"),
        Column("total", "imports"),
        Column("ratio", "ratio", percent),
        Column("interval", "95 %", interval),
        Column("repositories", "repos"),
        Column("uncounted", "not\ncounted", optional=True),
    )
    rows = [
        (name, kind, *_import_row(ratio))
        for name, agent in _named(agents)
        for kind, ratio in (("ours", agent.own_imports), ("as published", agent.published_imports))
        if ratio.counts or ratio.uncounted
    ]
    notes = ("Missing imports over all imports, by the first try at each repository; less is better.",)
    return Table("imports", "C0: missing imports", columns, tuple(rows), notes)


def _import_row(ratio: ImportRatio) -> tuple[Value, ...]:
    counted, uncounted = len(ratio.counts), len(ratio.uncounted)
    figures = (ratio.missing, ratio.total, ratio.ratio, ratio.interval()) if counted else (None,) * 4
    return (*figures, counted, uncounted)


def drop_table(agents: Iterable[AgentStatistics]) -> Table:
    """What is lost from tier to tier."""
    columns = (
        _AGENT,
        text_column("lower", "passed"),
        Column("passed_lower", "repos"),
        text_column("upper", "then"),
        *_RATE,
        Column("unjudged", "without\nverdict", optional=True),
        Column("emulated", "emu-\nlated", optional=True),
    )
    rows = [
        (
            name,
            str(one.lower),
            one.passed_lower,
            str(one.upper),
            one.rate.passed,
            one.rate.judged,
            one.rate.share,
            one.rate.interval,
            one.unjudged,
            one.rate.emulated,
        )
        for name, agent in _named(agents)
        for one in agent.drops
        if one.passed_lower
    ]
    return Table("drops", "Of those that passed one tier, how many pass the next", columns, tuple(rows), (_FIRST_TRY,))


def reliability_table(agents: Iterable[AgentStatistics]) -> Table:
    """What several tries say; empty where no repository was tried twice."""
    columns = (
        _AGENT,
        _TIER,
        Column("k", "k"),
        Column("pass_at_k", "pass@k", percent),
        Column("pass_all_k", "pass^k", percent),
        Column("repositories", "repos"),
        Column("left_out", "fewer\ntries", optional=True),
    )
    rows = [
        (name, str(tier), one.k, one.at_least_one, one.all_of_them, one.repositories, one.left_out)
        for name, agent in _named(agents)
        if agent.part.several
        for tier in Tier
        for one in agent.reliability[tier]
    ]
    notes = ("Of k tries at least one passes (pass@k), all pass (pass^k); the mean over repositories with k tries.",)
    return Table("reliability", "Several tries", columns, tuple(rows), notes)


def claims_table(agents: Iterable[AgentStatistics]) -> Table:
    """C5 as a count: false claims, ours and as most published validators would count them."""
    columns = (
        _AGENT,
        Column("reports", "reports"),
        *(Column(str(kind), str(kind)) for kind in FindingKind),
        Column("total", "false"),
        Column("published", "as\npublished"),
        Column("unknown", "of these\nunknown", optional=True),
    )
    rows: list[tuple[Value, ...]] = []
    for name, agent in _named(agents):
        if (claims := agent.claims).reports:
            of_kinds = (claims.by_kind[kind] for kind in FindingKind)
            rows.append((name, claims.reports, *of_kinds, claims.total, claims.published, claims.unknown))
    return Table("claims", "C5: false claims", columns, tuple(rows), (_FIRST_TRY,))


def calibration_rows(agents: Iterable[AgentStatistics]) -> Table:
    """How well agents know what they built: of what was claimed, how much held; of what was doubted, how much would."""
    columns = (
        _AGENT,
        text_column("claims", "claims"),
        Column("claimed", "claimed"),
        Column("held", "held"),
        Column("precision", "share", percent),
        Column("interval", "95 %", interval),
        Column("doubted", "doubted"),
        Column("would_hold", "would\nhold"),
        Column("inconclusive", "inconclusive"),
    )
    rows = [
        (
            name,
            claims,
            tally.claimed,
            tally.held,
            tally.precision,
            tally.interval,
            tally.doubted,
            tally.would_hold,
            tally.inconclusive,
        )
        for name, agent in _named(agents)
        for claims, tally in agent.calibration.rows().items()
        if tally.claimed + tally.doubted + tally.inconclusive
    ]
    return Table("calibration", "C5: what claims and doubts came to", columns, tuple(rows), (_EVERY_TRY,))


def efficiency_table(agents: Iterable[AgentStatistics]) -> Table:
    """What environments cost."""
    columns = (
        _AGENT,
        text_column("quantity", "quantity"),
        text_column("unit", "unit"),
        Column("known", "known"),
        Column("unknown", "unknown", optional=True),
        Column("median", "median", figure),
        Column("lower", "quartile 1", figure),
        Column("upper", "quartile 3", figure),
        Column("total", "sum", figure),
    )
    rows = [
        (
            name,
            one.name,
            one.unit or None,
            one.known,
            one.unknown,
            one.median,
            one.lower,
            one.upper,
            one.total,
        )
        for name, agent in _named(agents)
        for one in agent.efficiency
        if one.known
    ]
    return Table("efficiency", "What environments took", columns, tuple(rows), (_EVERY_TRY,))


def cost_table(agents: Iterable[AgentStatistics]) -> Table:
    """What one pass of each tier costs; empty where no cost is known."""
    columns = (
        _AGENT,
        _TIER,
        Column("usd", "for one pass", usd),
        Column("spent_usd", "spent", usd),
        Column("passed", "passed"),
        Column("tries", "tries"),
        Column("unknown", "cost\nunknown", optional=True),
    )
    rows = [
        (name, str(one.tier), one.usd, one.spent_usd, one.passed, one.tries, one.unknown)
        for name, agent in _named(agents)
        for one in agent.cost
        if one.tries
    ]
    notes = ("All that tries of known cost spent, over those of them that passed.",)
    return Table("cost", "US dollars for one passed tier", columns, tuple(rows), notes)
