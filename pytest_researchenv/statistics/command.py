"""The commands that say in numbers what runs came to: of one, and of two beside one another."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from pytest_researchenv._choice import described, one_of, write_page
from pytest_researchenv._json import add_json, print_json
from pytest_researchenv._place import add_results
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Tier
from pytest_researchenv.report.comparisons import paired_table, paper_table
from pytest_researchenv.report.figures import rate_table, statistics_tables
from pytest_researchenv.report.research_results import research_tables
from pytest_researchenv.report.tables import Format, Table, as_csv, as_latex, as_markdown, as_rich, document
from pytest_researchenv.runs.reading import read_runs
from pytest_researchenv.runs.telling import tell_damage
from pytest_researchenv.statistics.agent import AgentStatistics
from pytest_researchenv.statistics.baseline import PAPER, beside_paper, published
from pytest_researchenv.statistics.paired import compare
from pytest_researchenv.statistics.tries import AgentRun, agent_runs
from pytest_researchenv.suite import find_suite, load_suite


__all__ = ["add_commands"]

_RENDER = {Format.CSV: as_csv, Format.MARKDOWN: as_markdown, Format.LATEX: as_latex}

_SIDES = f"RUN, RUN:AGENT, or {PAPER}:NAME for what was published ({{known}})"


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the commands."""
    stats = commands.add_parser("stats")
    stats.add_argument("of", metavar="RUN", nargs="?", default="default", help="RUN, or RUN:AGENT (default: default)")
    _add_output(stats)
    stats.set_defaults(run=_stats)

    comparing = commands.add_parser("compare")
    known = ", ".join(published().agents)
    comparing.add_argument("first", metavar="A", help=_SIDES.format(known=known))
    comparing.add_argument("second", metavar="B", nargs="?", help="the same; left out: every two agents of A")
    comparing.add_argument(
        "--tier",
        action="append",
        type=one_of(*Tier),
        metavar="TIER",
        help="only this, which the correction is for, too; may be repeated",
    )
    _add_output(comparing)
    comparing.set_defaults(run=_compare)


def _add_output(parser: argparse.ArgumentParser) -> None:
    add_results(parser)
    parser.add_argument(
        "--suite",
        action="append",
        default=[],
        metavar="SUITE",
        help="folder of a suite that does not come with this package",
    )
    parser.add_argument("--table", action="append", default=[], metavar="NAME", help="only this table; may be repeated")
    form = parser.add_mutually_exclusive_group()
    add_json(form)
    form.add_argument("--format", type=Format, choices=list(Format), help="print tables of this kind")
    parser.add_argument(
        "--output", type=Path, metavar="FOLDER", help="write each table to a file of this folder, which is made"
    )


def _stats(arguments: argparse.Namespace) -> int:
    side = _Side.of(arguments.of)
    if side.paper:
        raise ConfigurationError(f"{side} is no run: `researchenv compare RUN {side}` puts a run beside it")
    read = _read((side,), arguments)
    parts = read.parts[side]
    tiers = statistics_tables(map(AgentStatistics.of, parts)) if any(map(_has_tiers, parts)) else ()
    _show((*tiers, *research_tables(parts)), arguments, read.damage)
    return 0


def _has_tiers(part: AgentRun) -> bool:
    """Whether an agent did anything but research."""
    return any(attempt.results.keys() & set(Tier) or not attempt.research for attempt in part.tries)


def _compare(arguments: argparse.Namespace) -> int:
    tiers = tuple(sorted(set(arguments.tier))) if arguments.tier else tuple(Tier)
    sides = tuple(_Side.of(text) for text in (arguments.first, arguments.second) if text)
    read = _read(sides, arguments)
    _show(tuple(_compared(sides, read.parts, tiers)), arguments, read.damage)
    return 0


# --- who is compared --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Side:
    """What stands on one side of a comparison, as it was given.

    Attributes:
        run: name of the run, or `paper`.
        agent: name of the agent; empty for all of the run.
    """

    run: str
    agent: str

    @classmethod
    def of(cls, text: str) -> _Side:
        """Read it."""
        run, colon, agent = text.partition(":")
        if not run or (colon and not agent):
            raise ConfigurationError(f"{text!r} names nothing: give RUN, RUN:AGENT or {PAPER}:NAME")
        return cls(run, agent)

    @property
    def paper(self) -> bool:
        """Whether it is what was published."""
        return self.run == PAPER and bool(self.agent)

    def __str__(self) -> str:
        return f"{self.run}:{self.agent}" if self.agent else self.run


class _Read(NamedTuple):
    """What was read: side → the agents that stand there; and what could not be."""

    parts: Mapping[_Side, tuple[AgentRun, ...]]
    damage: tuple[str, ...]


def _read(sides: Iterable[_Side], arguments: argparse.Namespace) -> _Read:
    """Read the runs, each once."""
    wanted = [side for side in sides if not side.paper]
    names = list(dict.fromkeys(side.run for side in wanted))
    # As they were named: two folders may each hold a run of the same name.
    runs = [replace(run, name=name) for name, run in zip(names, read_runs(arguments.results, names), strict=True)]
    for run in runs:
        tell_damage(run)
    descriptions = described(arguments.suite, {suite for run in runs for suite in run.suites})
    held = {run.name: {part.agent: part for part in agent_runs(run, descriptions)} for run in runs}
    return _Read(
        {side: _chosen_parts(side, held[side.run]) for side in wanted},
        tuple(str(damage) for run in runs for damage in run.damage),
    )


def _chosen_parts(side: _Side, parts: Mapping[str, AgentRun]) -> tuple[AgentRun, ...]:
    if not parts:
        raise ConfigurationError(f"the run {side.run} holds no attempt that can be read")
    if side.agent and side.agent not in parts:
        raise ConfigurationError(f"the run {side.run} holds no agent {side.agent!r}; it holds: {', '.join(parts)}")
    return (parts[side.agent],) if side.agent else tuple(parts.values())


def _compared(
    sides: Sequence[_Side], parts: Mapping[_Side, tuple[AgentRun, ...]], tiers: Sequence[Tier]
) -> Iterator[Table]:
    runs = [side for side in sides if not side.paper]
    papers = [side for side in sides if side.paper]
    if not runs:
        raise ConfigurationError(
            f"{sides[0]} is compared with a run: name one, as in `researchenv compare RUN {sides[0]}`"
        )
    if papers:
        keys = [repository.key for repository in load_suite(find_suite(published().suite)).repositories]
        for part in parts[runs[0]]:
            yield paper_table(beside_paper(part, papers[0].agent, repositories=keys, tiers=tiers))
        return
    pairs = list(_pairs(runs, parts))
    every = {part.label: AgentStatistics.of(part) for pair in pairs for part in pair}
    yield rate_table(every.values(), tiers)
    for first, second in pairs:
        yield paired_table(compare(first, second, tiers))


def _pairs(runs: Sequence[_Side], parts: Mapping[_Side, tuple[AgentRun, ...]]) -> Iterable[tuple[AgentRun, AgentRun]]:
    """Every two agents that stand on different sides, or of the only one; each two once."""
    if len(set(runs)) == 1:
        first, *others = parts[runs[0]]
        if not others:
            raise ConfigurationError(
                f"{first.label} is alone there: name another side, as in `researchenv compare {first.label} RUN:AGENT`"
            )
        return combinations(parts[runs[0]], 2)
    across = product(parts[runs[0]], parts[runs[1]])
    found = {frozenset((one.label, other.label)): (one, other) for one, other in across if one is not other}
    if not found:
        raise ConfigurationError(f"{runs[0]} and {runs[1]} are the same agent of the same run: name another")
    return found.values()


# --- what is shown ----------------------------------------------------------------------------------------


def _show(tables: Sequence[Table], arguments: argparse.Namespace, damage: Sequence[str]) -> None:
    chosen = _chosen(tables, arguments.table)
    if arguments.output:
        written = list(map(str, _write(chosen, arguments.output, arguments.format, as_json=arguments.json)))
        if arguments.json:
            print_json({"written": written, "damaged": list(damage)})
        else:
            print(*(f"written: {path}" for path in written), sep="\n")
    elif arguments.json:
        print_json({"tables": [document(table) for table in chosen], "damaged": list(damage)})
    elif arguments.format:
        print("\n".join(_RENDER[arguments.format](table) for table in chosen), end="")
    else:
        console = Console(highlight=False, markup=False)
        for table in chosen:
            console.print(as_rich(table))
            console.print()


def _chosen(tables: Sequence[Table], names: Sequence[str]) -> Sequence[Table]:
    known = dict.fromkeys(table.key for table in tables)
    for name in names:
        if name not in known:
            raise ConfigurationError(f"there is no table {name!r} to show; there is: {', '.join(known)}")
    return [table for table in tables if not names or table.key in names]


def _write(tables: Sequence[Table], folder: Path, form: Format | None, *, as_json: bool) -> Iterator[Path]:
    """Write each table to a file of its own; the names of several with the same key are numbered."""
    if form is None and not as_json:
        raise ConfigurationError(f"--output {folder} wants --json, or --format with one of {', '.join(Format)}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be made: {error}; name another place") from error
    names: dict[str, int] = {}
    for table in tables:
        names[table.key] = names.get(table.key, 0) + 1
        several = sum(other.key == table.key for other in tables) > 1
        path = folder / f"{table.key}{f'-{names[table.key]}' if several else ''}{form.suffix if form else '.json'}"
        write_page(path, _RENDER[form](table) if form else f"{json.dumps(document(table), indent=2)}\n")
        yield path
