"""The command that writes pages about runs."""

from __future__ import annotations

import argparse
import gc
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_researchenv._choice import described
from pytest_researchenv._json import add_json, print_json
from pytest_researchenv._place import add_results
from pytest_researchenv.report.html.writing import write_report
from pytest_researchenv.runs.reading import read_runs
from pytest_researchenv.runs.telling import tell_damage


__all__ = ["add_command"]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    report = commands.add_parser("report")
    report.add_argument("names", metavar="RUN", nargs="*", default=["default"], help="name of a run (default: default)")
    add_results(report)
    report.add_argument("-o", "--output", type=Path, default=Path("report"), metavar="FOLDER", help="default: report")
    report.add_argument(
        "--suite", action="append", default=[], metavar="SUITE", help="folder of a suite that does not come along"
    )
    add_json(report)
    report.set_defaults(run=_report)


def _report(arguments: argparse.Namespace) -> int:
    # What was read is gone when cycles are looked for again.
    with _no_collections():
        written = _written(arguments)
    if arguments.json:
        page, *figures = map(str, written)
        print_json({"page": page, "figures": figures})
    else:
        print(*written, sep="\n")
    return 0


def _written(arguments: argparse.Namespace) -> tuple[Path, ...]:
    runs = read_runs(arguments.results, arguments.names)
    for run in runs:
        tell_damage(run)
    return write_report(
        runs,
        descriptions=described(arguments.suite, {suite for run in runs for suite in run.suites}),
        version=_version(),
        folder=arguments.output,
    )


@contextmanager
def _no_collections() -> Iterator[None]:
    """Look for no cycles meanwhile: there are few, and looking takes a tenth of the time of a large report."""
    looked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if looked:
            gc.enable()


def _version() -> str:
    try:
        return version("pytest-researchenv")
    except PackageNotFoundError:
        return "not installed"
