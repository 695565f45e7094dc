"""The command that shows how well agents know what they built."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console

from pytest_researchenv.model import Tier
from pytest_researchenv.report.calibration import Calibration, calibration_table
from pytest_researchenv.runs.reading import read_run
from pytest_researchenv.runs.telling import tell_damage
from pytest_researchenv.runs.values import Run


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


def calibrations(run: Run) -> list[Calibration]:
    """Add up the newest C5 of each attempt, agent by agent."""
    return [Calibration.of(agent, (attempt.results.get(Tier.C5) for attempt in run.of(agent))) for agent in run.agents]


def _calibration(arguments: argparse.Namespace) -> int:
    run = read_run(arguments.results / arguments.name)
    tell_damage(run)
    found = calibrations(run)
    console = Console(highlight=False, markup=False)
    if arguments.json:
        document = [calibration.document() for calibration in found]
        console.print(json.dumps(document, indent=2), soft_wrap=True)
        return 0
    for calibration in found:
        console.print(calibration_table(calibration))
    console.print(_LEGEND, soft_wrap=True)
    return 0
