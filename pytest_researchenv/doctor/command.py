"""The command that says what this host has for a run."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import partial
from pathlib import Path

from rich.console import Console
from rich.text import Text

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv.agents.listing import add_profile_options
from pytest_researchenv.doctor.agents import agent_findings
from pytest_researchenv.doctor.devices import device_findings
from pytest_researchenv.doctor.disk import engine_disk, folder_finding
from pytest_researchenv.doctor.engine import LookedAt, engine_findings
from pytest_researchenv.doctor.indexes import carried_finding, index_findings, proxy_findings, registry_findings
from pytest_researchenv.doctor.leftovers import leftover_findings
from pytest_researchenv.doctor.looking import look
from pytest_researchenv.doctor.machine import machine_findings
from pytest_researchenv.doctor.registries import image_findings
from pytest_researchenv.doctor.tools import client_findings, git_findings, pyright_findings
from pytest_researchenv.doctor.values import Asked, Check, Finding, State
from pytest_researchenv.doctor.versions import version_findings
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.probes.lookup import printable


__all__ = ["add_command", "checks"]

_ACCELERATORS = ("auto", "cpu", "cuda")
_GIB = 1024**3
_LONGEST = 1000
_STYLES = {State.OK: "green", State.WARNING: "yellow", State.PROBLEM: "bold red", State.SKIPPED: "dim"}


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    doctor = commands.add_parser("doctor")
    doctor.add_argument("--agent", action="append", metavar="NAME", help="agent that is to work; may be repeated")
    add_profile_options(doctor)
    doctor.add_argument("--accelerator", choices=_ACCELERATORS, help="what C2 to C4 run on (default: auto)")
    doctor.add_argument("--image", help="registry reference of the base image")
    doctor.add_argument("--results", type=Path, metavar="FOLDER", help="default: researchenv-results")
    doctor.add_argument("--cache", type=Path, metavar="FOLDER", help="default: ~/.cache/researchenv")
    add_json(doctor)
    doctor.set_defaults(run=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    asked = _asked(arguments, os.environ)
    console = Console(highlight=False, markup=False, soft_wrap=True)
    found: list[dict[str, object]] = []
    states: Counter[State] = Counter()
    with contextlib.closing(LookedAt()) as engine:
        for looked in look(checks(asked, engine)):
            for finding in looked.findings:
                states[finding.state] += 1
                found.append({**asdict(finding), "seconds": round(looked.seconds, 3)})
                if not arguments.json:
                    _show(console, finding)
    if arguments.json:
        counts = {"problems": states[State.PROBLEM], "warnings": states[State.WARNING]}
        print_json({"ok": not states[State.PROBLEM], **counts, "checks": found})
    else:
        console.print(f"\n{_counted(states[State.PROBLEM], 'problem')}, {_counted(states[State.WARNING], 'warning')}")
    return 1 if states[State.PROBLEM] else 0


def _asked(arguments: argparse.Namespace, environ: Mapping[str, str]) -> Asked:
    """What a run would be: the command line, then the environment, as for pytest."""

    def chosen(name: str, default: str) -> str:
        return str(getattr(arguments, name) or environ.get(f"RESEARCHENV_{name.upper()}") or default)

    accelerator = chosen("accelerator", "auto")
    if accelerator not in _ACCELERATORS:
        raise ConfigurationError(f"RESEARCHENV_ACCELERATOR is {accelerator!r}: give {', '.join(_ACCELERATORS)}")
    prices = chosen("prices", "")
    return Asked(
        results=Path(chosen("results", "researchenv-results")).expanduser(),
        cache=Path(chosen("cache", "~/.cache/researchenv")).expanduser(),
        agents=tuple(dict.fromkeys(arguments.agent or environ.get("RESEARCHENV_AGENT", "").split())),
        agents_files=tuple(arguments.agents_file),
        prices=Path(prices).expanduser() if prices else None,
        accelerator=accelerator,
        image=chosen("image", ""),
        environ=environ,
    )


def checks(asked: Asked, engine: LookedAt) -> Iterator[Check]:
    """Everything that is looked at; the engine before what is asked of it."""
    yield Check("version", version_findings, 10)
    yield Check("container engine", partial(engine_findings, engine), 60)
    yield Check("disk of the engine", partial(engine_disk, engine), 60)
    yield Check("memory", partial(machine_findings, engine), 10)
    yield Check("devices", partial(device_findings, engine, asked.accelerator), 300)
    yield Check("base image", partial(image_findings, engine, asked.image), 90)
    yield Check("left by dead runs", partial(leftover_findings, engine), 60)
    yield Check("docker command", client_findings, 30)
    results = partial(folder_finding, needed=_GIB, wanted=10 * _GIB, option="--researchenv-results")
    yield Check("results folder", partial(results, "results folder", asked.results), 30)
    trees = partial(folder_finding, needed=_GIB, wanted=5 * _GIB, option="--researchenv-cache")
    yield Check("cache folder", partial(trees, "cache folder", asked.cache), 30)
    yield Check("agents", partial(agent_findings, asked), 90)
    yield Check("git", git_findings, 30)
    yield Check("node and pyright", pyright_findings, 60)
    yield Check("proxy", partial(proxy_findings, asked), 30)
    yield Check("package index", index_findings, 120)
    yield Check("uv and npm", partial(registry_findings, asked), 120)
    yield Check("settings for containers", partial(carried_finding, asked), 60)


def _show(console: Console, finding: Finding) -> None:
    line = Text.assemble((f"{finding.state:<8}", _STYLES[finding.state]), f" {finding.name}: ")
    line.append("; ".join(printable(one, _LONGEST) for one in finding.value.splitlines()))
    console.print(line)
    for one in finding.fix.splitlines():
        console.print(f"         {printable(one, _LONGEST)}")


def _counted(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
