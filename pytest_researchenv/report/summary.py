"""The terminal summary: repositories by tiers, and what the rates are out of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import pytest

from pytest_researchenv.disk.room import gib
from pytest_researchenv.model import Examination, Tier, Verdict, judged_named
from pytest_researchenv.report.calibration import calibration_line
from pytest_researchenv.report.properties import PREFIX
from pytest_researchenv.report.research_summary import ResearchRow, render_research, research_row


if TYPE_CHECKING:
    from rich.table import Table

    from pytest_researchenv.disk.evicting import Evicting

__all__ = ["Row", "Summary", "render", "used"]

#: Mark of a verdict for which the CPU stood in for accelerators.
_EMULATED = "*"


@dataclass(frozen=True, slots=True)
class Row:
    """One verdict, with what it is about.

    Attributes:
        agent: name of the agent.
        repository: `Repository.key`, with the attempt's number behind it where it is not the first.
        tier: what was judged.
        verdict: what it came to.
        emulated: whether the CPU stood in for accelerators.
    """

    agent: str
    repository: str
    tier: Tier | Examination
    verdict: Verdict
    emulated: bool = False

    @property
    def words(self) -> str:
        """The verdict as the table shows it."""
        return f"{self.verdict}{_EMULATED}" if self.emulated else str(self.verdict)


@final
class Summary:
    """Collects verdicts from the reports, which come from every worker, and prints them on the controller.

    Args:
        spent: asks what the session has spent on models, in US dollars.
        disk: asks how much room the engine's disk has, in words; empty where that is not known here.
    """

    def __init__(self, *, spent: Callable[[], float] = lambda: 0.0, disk: Callable[[], str] = lambda: "") -> None:
        self._spent = spent
        self._disk = disk
        #: What has removed frozen images in this session, if anything does.
        self.evicting: Evicting | None = None
        self._added: dict[tuple[str, str], float] = {}
        self._rows: dict[tuple[str, str, Tier | Examination], Row] = {}
        self._notes: dict[str, None] = {}
        self._stopped: Counter[str] = Counter()
        self._used: dict[tuple[str, str], Mapping[str, str]] = {}
        self._claims: dict[tuple[str, str], Mapping[str, str]] = {}
        self._research: dict[tuple[str, str, str, str], ResearchRow] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take the verdict of a finished test."""
        facts = {
            name.removeprefix(PREFIX): str(value) for name, value in report.user_properties if name.startswith(PREFIX)
        }
        if (report.when == "setup" and report.passed) or report.when == "teardown":
            return
        verdict = Verdict(facts.get("verdict", "error")) if report.when == "call" else Verdict.ERROR
        if "subtask" in facts:
            self._take_research(facts, verdict)
        if "tier" not in facts:
            return
        tier = judged_named(facts["tier"])
        # Named as in the test's id: of several attempts each has a line of its own.
        trial = facts.get("trial", "1")
        repository = facts["key"] if trial == "1" else f"{facts['key']}-{trial}"
        row = Row(facts["agent"], repository, tier, verdict, facts.get("emulated") == "true")
        self._rows[row.agent, row.repository, row.tier] = row
        self._notes |= dict.fromkeys(facts.get("notes", "").splitlines())
        self._stopped.update(facts.get("stopped", "").splitlines())
        if row.tier is Tier.C5:
            self._claims[row.agent, row.repository] = facts
        if "attempt" in facts:
            self._added[row.agent, row.repository] = float(facts.get("agent_added_image_bytes", 0))
        if "agent_requests" in facts:
            self._used[row.agent, row.repository] = facts

    def _take_research(self, facts: Mapping[str, str], verdict: Verdict) -> None:
        row = research_row(facts, verdict=verdict)
        self._research[row.agent, row.task, facts.get("trial", "1"), row.subtask] = row
        self._notes |= dict.fromkeys(facts.get("notes", "").splitlines())
        self._stopped.update(facts.get("stopped", "").splitlines())
        if "agent_requests" in facts:
            self._used[row.agent, f"{row.task} {row.trial}"] = facts

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print the table, when there is anything to tell."""
        if not (self._rows or self._research):
            return
        terminalreporter.section("researchenv")
        width = terminalreporter._tw.fullwidth  # noqa: SLF001 - pytest has no public way to ask
        if self._rows:
            terminalreporter.write_line(render(list(self._rows.values()), width=width))
        if self._research:
            terminalreporter.write_line(render_research(list(self._research.values()), width=width))
        for line in (*self._used_lines(), *self._disk_lines(), *self._stopped_lines()):
            terminalreporter.write_line(line)
        for note in self._notes:
            terminalreporter.write_line(f"note: {note}")

    def _used_lines(self) -> Iterator[str]:
        for agent in dict.fromkeys(agent for agent, _ in self._used):
            yield used(agent, [facts for (other, _), facts in self._used.items() if other == agent])
        for agent in dict.fromkeys(agent for agent, _ in self._claims):
            of_agent = [facts for (other, _), facts in self._claims.items() if other == agent]
            if line := calibration_line(agent, of_agent):
                yield line
        if (self._used or self._stopped) and (spent := self._spent()):
            yield f"spent in this session, attempts that ended in errors included: ${spent:.4f}"

    def _stopped_lines(self) -> Iterator[str]:
        for reason, tests in self._stopped.items():
            errors = "test is an error" if tests == 1 else "tests are errors"
            yield f"stopped: {reason} ({tests} {errors} for it)"

    def _disk_lines(self) -> list[str]:
        if not self._added:
            return []
        many = "environment adds" if len(self._added) == 1 else "environments add"
        line = f"disk: {len(self._added)} {many} {gib(sum(self._added.values()))} to the base image"
        if self.evicting and (evictions := self.evicting.evictions):
            freed = gib(sum(one.freed_bytes for one in evictions))
            line += f"; {len(evictions)} removed (--researchenv-keep={evictions[0].policy}), {freed} freed"
        if free := self._disk():
            line += f"; {free}"
        refusals = self.evicting.refusals if self.evicting else []
        return [line, *(f"not removed: {refusal}" for refusal in refusals)]


def used(agent: str, environments: Sequence[Mapping[str, str]]) -> str:
    """Return a line about what an agent used for some environments, from their properties."""

    def total(name: str) -> float:
        return sum(float(facts.get(f"agent_{name}", 0)) for facts in environments)

    unknown = sum("agent_cost_usd" not in facts for facts in environments)
    cost = f"${total('cost_usd'):.4f}" if unknown < len(environments) else "cost unknown"
    if 0 < unknown < len(environments):
        cost += f" and the unknown cost of {unknown}"
    count = f"{len(environments)} environment{'' if len(environments) == 1 else 's'}"
    return (
        f"{agent}: {count}: {total('requests'):,.0f} requests, {total('tokens_in'):,.0f} tokens in "
        f"({total('tokens_cached'):,.0f} cached), {total('tokens_out'):,.0f} out, {cost}"
    )


def render(rows: list[Row], *, width: int) -> str:
    """Return the summary as text: one table per agent, each tier's rate with its denominator, and a legend.

    A rate is passed over passed and failed: errors and skips never enter it.
    """
    # Only sessions that judged something pay for rich.
    from rich.console import Console  # noqa: PLC0415

    console = Console(width=width, no_color=True, highlight=False, legacy_windows=False)
    several = len({row.repository.rpartition("/")[0] for row in rows}) > 1
    with console.capture() as capture:
        for agent in dict.fromkeys(row.agent for row in rows):
            console.print(_table(agent, [row for row in rows if row.agent == agent], suites=several))
        console.print(", ".join(f"{tier} {tier.heading}" for tier in sorted({row.tier for row in rows})))
        if any(row.emulated for row in rows):
            console.print(f"{_EMULATED} emulated on the CPU: says nothing about CUDA")
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").splitlines())


def _table(agent: str, rows: list[Row], *, suites: bool) -> Table:
    from rich import box  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    cells = {(row.repository, row.tier): row.words for row in rows}
    table = Table(
        title=agent, title_justify="left", box=box.SIMPLE_HEAD, show_footer=True, pad_edge=False, padding=(0, 1, 0, 0)
    )
    table.add_column("repository", footer="passed of judged\nskipped\nerrors", overflow="fold")
    tiers = sorted({row.tier for row in rows})
    for tier in tiers:
        count = Counter(row.verdict for row in rows if row.tier is tier)
        judged = count[Verdict.PASSED] + count[Verdict.FAILED]
        footer = f"{count[Verdict.PASSED]} of {judged}\n{count[Verdict.SKIPPED]}\n{count[Verdict.ERROR]}"
        table.add_column(str(tier), footer=footer, no_wrap=True)
    for repository in sorted({row.repository for row in rows}):
        name = repository if suites else repository.rpartition("/")[2]
        table.add_row(name, *(cells.get((repository, tier), "-") for tier in tiers))
    return table
