"""The command that removes what dead runs left."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import asdict

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import Reaped, reap


__all__ = ["add_command"]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    clean = commands.add_parser("reap")
    clean.add_argument(
        "--all", action="store_true", help="also frozen images, base images and tool volumes of this host"
    )
    add_json(clean)
    clean.set_defaults(run=_reap)


def _reap(arguments: argparse.Namespace) -> int:
    with contextlib.closing(connect()) as client:
        reaped = reap(client, everything=arguments.all, owner=Owner.current("reap"))
    if arguments.json:
        print_json(asdict(reaped))
    else:
        _show(reaped)
    return 1 if reaped.refused else 0


def _show(reaped: Reaped) -> None:
    for kind in ("containers", "networks", "volumes", "images"):
        names = getattr(reaped, kind)
        print(f"{kind}: {len(names)} removed" + (f" ({', '.join(names)})" if names else ""))
    for refusal in reaped.refused:
        print(f"refused: {refusal}")
