"""The command that removes what dead runs left."""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import asdict
from typing import TYPE_CHECKING

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv.doctor.values import gib
from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox._stream import engine_call
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import Reaped, cached_bytes, reap


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["add_command"]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    clean = commands.add_parser("reap")
    clean.add_argument(
        "--all",
        action="store_true",
        help="also frozen images, base images, tool volumes and unused package caches of this host",
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
        if not arguments.json:
            # What is removed is told, however long the engine takes to measure the rest.
            _show(reaped)
        cached, problem = _measured(client, owner)
    if arguments.json:
        print_json({**asdict(reaped), "cached_bytes": cached})
    elif problem:
        print(f"package caches: {problem}")
    elif cached:
        print(f"package caches: {gib(cached)} kept (--packages removes what nobody uses)")
    return 1 if reaped.refused else 0


def _measured(client: DockerClient, owner: Owner) -> tuple[int | None, str]:
    """What package caches keep; or None, and why that is not known."""
    try:
        with engine_call("measure package caches"):
            return cached_bytes(client, owner=owner), ""
    except SandboxError as error:
        return None, str(error)


def _show(reaped: Reaped) -> None:
    for kind in ("containers", "networks", "volumes", "images"):
        names = getattr(reaped, kind)
        print(f"{kind}: {len(names)} removed" + (f" ({', '.join(names)})" if names else ""))
    for refusal in reaped.refused:
        print(f"refused: {refusal}")
