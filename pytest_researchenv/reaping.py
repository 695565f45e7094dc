"""The command that removes what dead runs left."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import asdict

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv.doctor.values import gib
from pytest_researchenv.sandbox._stream import engine_call
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import Reaped, cached_bytes, reap


__all__ = ["add_command"]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    clean = commands.add_parser("reap")
    clean.add_argument(
        "--all", action="store_true", help="also frozen images, base images and tool volumes of this host"
    )
    clean.add_argument(
        "--packages", action="store_true", help="also what package caches of this host hold that nobody uses"
    )
    add_json(clean)
    clean.set_defaults(run=_reap)


def _reap(arguments: argparse.Namespace) -> int:
    with contextlib.closing(connect()) as client:
        owner = Owner.current("reap")
        reaped = reap(client, everything=arguments.all, owner=owner, packages=arguments.packages)
        with engine_call("measure package caches"):
            cached = cached_bytes(client, owner=owner)
    if arguments.json:
        print_json({**asdict(reaped), "cached_bytes": cached})
    else:
        _show(reaped)
        if cached:
            print(f"package caches: {gib(cached)} kept (--packages removes what nobody uses)")
    return 1 if reaped.refused else 0


def _show(reaped: Reaped) -> None:
    for kind in ("containers", "networks", "volumes", "images"):
        names = getattr(reaped, kind)
        print(f"{kind}: {len(names)} removed" + (f" ({', '.join(names)})" if names else ""))
    for refusal in reaped.refused:
        print(f"refused: {refusal}")
