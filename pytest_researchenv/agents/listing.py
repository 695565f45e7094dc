"""The commands about agents: which there are and what each still needs, and whether a trajectory follows its format."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console

from pytest_researchenv.agents.profiles import Profile, load_profiles
from pytest_researchenv.agents.registry import known_agents, module_of, needs_of
from pytest_researchenv.agents.trajectory import problems
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.prices import load_prices, unpriced
from pytest_researchenv.gateway.protocol import Price
from pytest_researchenv.secrets import look_for_secret


__all__ = ["add_commands", "missing"]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the commands."""
    agents = commands.add_parser("agents", help="list the agents, and what each still needs to work")
    agents.add_argument("names", nargs="*", metavar="NAME", help="agents to show (default: all)")
    agents.add_argument(
        "--agents-file", action="append", type=Path, default=[], metavar="FILE", help="TOML file with profiles of yours"
    )
    agents.add_argument("--prices", type=Path, metavar="FILE", help="TOML file with prices of models")
    agents.set_defaults(run=_agents)

    trajectory = commands.add_parser("trajectory", help="check that a trajectory follows its format (ATIF 1.7)")
    trajectory.add_argument("file", type=Path, help="a trajectory.json")
    trajectory.set_defaults(run=_trajectory)


def missing(
    profile: Profile,
    *,
    folders: Sequence[Path],
    environ: Mapping[str, str] = os.environ,
    prices: Mapping[str, Price] | None = None,
) -> list[str]:
    """Say what an agent still needs before it can work, one sentence each; nothing when it is ready.

    Args:
        profile: the agent's profile.
        folders: folders whose `.env` files may hold the key.
        environ: the environment.
        prices: prices of models; None for those that come with this package.
    """
    wanted = []
    module = module_of(profile.kind)
    if module and not find_spec(module):
        wanted.append(f"agents of kind {profile.kind} are not part of this installation: {module} is missing")
    if lacking := profile.lacking(environ):
        wanted.append(lacking)
    service = needs_of(profile, environ).service
    if service is None:
        return wanted
    try:
        found = look_for_secret(service.key, folders=folders, environ=environ)
    except ConfigurationError as error:
        wanted.append(str(error))
    else:
        if found.secret is None:
            wanted.append(f"the key {service.key}, in the environment, a .env file here, or the keyring")
    known = load_prices() if prices is None else prices
    unknown = unpriced(filter(None, service.models), known)
    if profile.max_cost_usd is not None and unknown:
        wanted.append(
            f"cost is limited to ${profile.max_cost_usd:g}, but {', '.join(unknown)} has no known price: give one "
            "with --researchenv-prices, or limit max_tokens in place of max_cost_usd"
        )
    return wanted


def _agents(arguments: argparse.Namespace) -> int:
    profiles = load_profiles(arguments.agents_file)
    if unknown := [name for name in arguments.names if name not in profiles]:
        raise ConfigurationError(f"no agent is called {unknown[0]!r}. Known agents: {', '.join(profiles)}.")
    prices = load_prices(arguments.prices)
    console = Console(markup=False, highlight=False, soft_wrap=True)
    lacking = False
    for name in arguments.names or profiles:
        wanted = missing(profiles[name], folders=[Path.cwd()], prices=prices)
        lacking = lacking or bool(wanted)
        console.print(f"{name}: {known_agents(profiles)[name]}", style="bold")
        console.print(f"    {_facts(profiles[name])}")
        for one in wanted:
            console.print(f"    needs: {one}", style="yellow")
        if not wanted:
            console.print("    ready", style="green")
    # Of all agents, some always lack something; who names one wants to know whether it can work.
    return 1 if lacking and arguments.names else 0


def _facts(profile: Profile) -> str:
    limits = {
        "${:g}": profile.max_cost_usd,
        "{:,} tokens": profile.max_tokens,
        "{:,} requests": profile.max_requests,
        "{:g} s": profile.timeout_s,
        "{:g} s of silence": profile.inactivity_s,
    }
    told = ", ".join(text.format(value) for text, value in limits.items() if value is not None)
    model = profile.model_name() if profile.asks_model else ""
    place = f"model {model} at {profile.base_url() or 'no endpoint yet'}" if model else ""
    parts = [f"kind {profile.kind}", place, f"network {profile.network}"]
    return "; ".join(filter(None, [*parts, f"at most {told}" if told else ""]))


def _trajectory(arguments: argparse.Namespace) -> int:
    console = Console(markup=False, highlight=False, soft_wrap=True)
    try:
        text = arguments.file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{arguments.file} cannot be read: {error}") from error
    if found := problems(text):
        for problem in found:
            console.print(f"{arguments.file}: {problem}")
        return 1
    values = json.loads(text)
    steps = values["steps"]
    calls = sum(len(step.get("tool_calls") or ()) for step in steps)
    agent = values["agent"]
    model = f" with {agent['model_name']}" if agent.get("model_name") else ""
    console.print(
        f"{arguments.file}: {values['schema_version']}, {len(steps)} steps, {calls} calls of tools, by {agent['name']} "
        f"{agent['version']}{model}"
    )
    return 0
