"""The `researchenv` command."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from pytest_researchenv import calibrating, diagnosing, schemas
from pytest_researchenv.agents import listing
from pytest_researchenv.authoring import add_commands
from pytest_researchenv.errors import ResearchEnvError
from pytest_researchenv.report.html import command as reporting
from pytest_researchenv.resolving.command import add_command
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import reap
from pytest_researchenv.shell import open_shell
from pytest_researchenv.statistics import command as statistics
from pytest_researchenv.verifying import command as verifying
from pytest_researchenv.watching import command as watching


__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; the exit code is 0 for success, 1 for a problem found, 2 for a wrong call."""
    arguments = _parser().parse_args(argv)
    try:
        return int(arguments.run(arguments))
    except ResearchEnvError as error:
        Console(stderr=True, soft_wrap=True, highlight=False, markup=False).print(f"researchenv: {error}")
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="researchenv", description=sys.modules[__name__].__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    add_commands(commands)
    listing.add_commands(commands)
    add_command(commands)
    calibrating.add_command(commands)
    statistics.add_commands(commands)
    reporting.add_command(commands)
    diagnosing.add_command(commands)
    verifying.add_command(commands)
    watching.add_command(commands)
    schemas.add_command(commands)

    clean = commands.add_parser("reap", help="remove what dead runs left in the container engine")
    clean.add_argument(
        "--all", action="store_true", help="also frozen images, base images and tool volumes of this host"
    )
    clean.set_defaults(run=_reap)

    shell = commands.add_parser("shell", help="open a shell in a copy of an environment, in the probe's world")
    shell.add_argument("attempt", type=Path, help="folder of the attempt, as a failure message names it")
    shell.add_argument("command", nargs=argparse.REMAINDER, help="command to run instead of a shell")
    shell.set_defaults(run=_shell)
    return parser


def _reap(arguments: argparse.Namespace) -> int:
    with contextlib.closing(connect()) as client:
        reaped = reap(client, everything=arguments.all, owner=Owner.current("reap"))
    for kind in ("containers", "networks", "volumes", "images"):
        names = getattr(reaped, kind)
        print(f"{kind}: {len(names)} removed" + (f" ({', '.join(names)})" if names else ""))
    for refusal in reaped.refused:
        print(f"refused: {refusal}")
    return 1 if reaped.refused else 0


def _shell(arguments: argparse.Namespace) -> int:
    return open_shell(arguments.attempt, arguments.command)


if __name__ == "__main__":
    sys.exit(main())
