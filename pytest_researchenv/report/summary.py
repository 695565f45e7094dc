"""The terminal summary: repositories by tiers, and what the rates are out of."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import pytest

from pytest_researchenv.model import Tier, Verdict
from pytest_researchenv.report.properties import PREFIX


if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Row", "Summary", "render"]


@dataclass(frozen=True, slots=True)
class Row:
    """One verdict, with what it is about."""

    agent: str
    slug: str
    tier: Tier
    verdict: Verdict


@final
class Summary:
    """Collects verdicts from the reports, which come from every worker, and prints them on the controller."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, Tier], Row] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the verdict of a finished test."""
        facts = {name.removeprefix(PREFIX): value for name, value in report.user_properties if name.startswith(PREFIX)}
        if "tier" not in facts or (report.when == "setup" and report.passed) or report.when == "teardown":
            return
        verdict = {"setup": Verdict.ERROR, "call": Verdict(str(facts.get("verdict", "error")))}[report.when]
        row = Row(str(facts["agent"]), str(facts["slug"]), Tier(str(facts["tier"])), verdict)
        self._rows[row.agent, row.slug, row.tier] = row

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, when there is anything to tell."""
        if not self._rows:
            return
        terminalreporter.section("researchenv")
        width = terminalreporter._tw.fullwidth  # noqa: SLF001 - pytest has no public way to ask
        terminalreporter.write_line(render(list(self._rows.values()), width=width))


def render(rows: list[Row], *, width: int) -> str:
    """Return the summary as text: one table per agent, then each tier's rate with its denominator.

    A rate is passed over passed and failed: errors and skips never enter it.
    """
    # Only sessions that judged something pay for rich.
    from rich.console import Console  # noqa: PLC0415

    console = Console(width=width, no_color=True, highlight=False, legacy_windows=False)
    with console.capture() as capture:
        for agent in dict.fromkeys(row.agent for row in rows):
            console.print(_table(agent, [row for row in rows if row.agent == agent]))
    return capture.get().rstrip("\n")


def _table(agent: str, rows: list[Row]) -> Table:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    tiers = sorted({row.tier for row in rows})
    verdicts = {(row.slug, row.tier): row.verdict for row in rows}
    table = Table(title=agent, title_justify="left", box=box.SIMPLE_HEAD, show_footer=True, pad_edge=False)
    counts = {tier: Counter(row.verdict for row in rows if row.tier is tier) for tier in tiers}
    table.add_column("repository", footer="passed of judged\nskipped\nerrors", overflow="fold")
    for tier in tiers:
        count = counts[tier]
        judged = count[Verdict.PASSED] + count[Verdict.FAILED]
        footer = f"{count[Verdict.PASSED]} of {judged}\n{count[Verdict.SKIPPED]}\n{count[Verdict.ERROR]}"
        table.add_column(f"{tier} {tier.heading}", footer=footer, overflow="fold")
    for slug in sorted({row.slug for row in rows}):
        table.add_row(slug, *(str(verdicts.get((slug, tier), "-")) for tier in tiers))
    return table
