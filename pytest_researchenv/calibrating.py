"""The command that shows how well agents know what they built."""

from __future__ import annotations

import argparse

from rich.console import Console

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv._place import add_results, run_folder
from pytest_researchenv.report.calibration import Calibration, calibration_table
from pytest_researchenv.runs.reading import read_run
from pytest_researchenv.runs.telling import tell_damage
from pytest_researchenv.runs.values import Run
from pytest_researchenv.statistics.claims import claims_of
from pytest_researchenv.statistics.tries import agent_runs


__all__ = ["add_command", "calibrations"]

_LEGEND = (
    "claimed: said to be there, and checked. doubted: null, false or 0, where it was seen. "
    "The interval is Wilson's. docs/c5.md has the words."
)


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    calibration = commands.add_parser("calibration")
    add_results(calibration)
    calibration.add_argument("--run", dest="name", default="default", metavar="NAME", help="run (default: default)")
    add_json(calibration)
    calibration.set_defaults(run=_calibration)


def calibrations(run: Run) -> list[Calibration]:
    """Add up the newest C5 of each try, agent by agent."""
    return [claims_of(part) for part in agent_runs(run)]


def _calibration(arguments: argparse.Namespace) -> int:
    run = read_run(run_folder(arguments.results, arguments.name))
    tell_damage(run)
    found = calibrations(run)
    if arguments.json:
        print_json([calibration.document() for calibration in found])
        return 0
    console = Console(highlight=False, markup=False)
    for calibration in found:
        console.print(calibration_table(calibration))
    console.print(_LEGEND, soft_wrap=True)
    return 0
