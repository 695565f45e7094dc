"""The command that shows how well agents know what they built."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from pytest_researchenv.model import Tier, TierResult
from pytest_researchenv.report.calibration import Calibration, calibration_table
from pytest_researchenv.store import Attempt
from pytest_researchenv.verifying.attempts import Chosen, attempts_of


__all__ = ["add_command", "calibrations"]

_LEGEND = (
    "claimed: said to be there, and checked. doubted: null, false or 0, where it was seen. "
    "The interval is Wilson's. docs/c5.md has the words."
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    calibration = commands.add_parser(
        "calibration", help="show, for each agent of a run, how many of its claims held, and how many of its doubts"
    )
    calibration.add_argument("--results", type=Path, default=Path("researchenv-results"), metavar="FOLDER")
    calibration.add_argument("--run", dest="name", default="default", metavar="NAME", help="run (default: default)")
    calibration.add_argument("--json", action="store_true", help="print JSON")
    calibration.set_defaults(run=_calibration)


def calibrations(attempts: Iterable[Attempt]) -> list[Calibration]:
    """Add up the newest C5 of each attempt, agent by agent.

    Raises:
        StoreError: a record cannot be read.
    """
    by_agent: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        by_agent.setdefault(attempt.key.agent, []).append(attempt)
    return [Calibration.of(agent, map(_newest, of_agent)) for agent, of_agent in by_agent.items()]


def _newest(attempt: Attempt) -> TierResult | None:
    results = attempt.results(Tier.C5)
    return results[-1] if results else None


def _calibration(arguments: argparse.Namespace) -> int:
    found = calibrations(attempts_of(arguments.results, arguments.name, Chosen()))
    console = Console(highlight=False, markup=False)
    if arguments.json:
        document = [calibration.document() for calibration in found]
        console.print(json.dumps(document, indent=2), soft_wrap=True)
        return 0
    for calibration in found:
        console.print(calibration_table(calibration))
    console.print(_LEGEND, soft_wrap=True)
    return 0
