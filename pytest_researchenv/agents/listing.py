"""The commands about agents: which there are and what each still needs, and whether a trajectory follows its format."""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rich.console import Console

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv.agents.profiles import Profile, load_profiles
from pytest_researchenv.agents.registry import known_agents, module_of, needs_of
from pytest_researchenv.agents.trajectory import problems
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.prices import load_prices, unpriced
from pytest_researchenv.gateway.protocol import Price
from pytest_researchenv.secrets import look_for_secret


__all__ = ["add_commands", "add_profile_options", "missing"]


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the commands."""
    agents = commands.add_parser("agents")
    agents.add_argument("names", nargs="*", metavar="NAME", help="agents to show (default: all)")
    add_profile_options(agents)
    add_json(agents)
    agents.set_defaults(run=_agents)

    trajectory = commands.add_parser("trajectory")
    trajectory.add_argument("file", type=Path, metavar="FILE", help="a trajectory.json")
    add_json(trajectory)
    trajectory.set_defaults(run=_trajectory)


def add_profile_options(parser: argparse.ArgumentParser) -> None:
    """Declare where profiles and prices come from beside the shipped ones."""
    parser.add_argument(
        "--agents-file", action="append", type=Path, default=[], metavar="FILE", help="TOML file with profiles of yours"
    )
    parser.add_argument("--prices", type=Path, metavar="FILE", help="TOML file with prices of models")


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
    known = known_agents(profiles)
    chosen = {
        name: missing(profiles[name], folders=[Path.cwd()], prices=prices) for name in arguments.names or profiles
    }
    if arguments.json:
        print_json([_document(name, known[name], profiles[name], needs) for name, needs in chosen.items()])
    else:
        console = Console(markup=False, highlight=False, soft_wrap=True)
        for name, needs in chosen.items():
            console.print(f"{name}: {known[name]}", style="bold")
            console.print(f"    {_facts(profiles[name])}")
            for one in needs:
                console.print(f"    needs: {one}", style="yellow")
            if not needs:
                console.print("    ready", style="green")
    # Of all agents, some always lack something; who names one wants to know whether it can work.
    return 1 if arguments.names and any(chosen.values()) else 0


#: What limits an agent → how that is written.
_LIMITS = {
    "max_cost_usd": "${:g}",
    "max_tokens": "{:,} tokens",
    "max_requests": "{:,} requests",
    "timeout_s": "{:g} s",
    "inactivity_s": "{:g} s of silence",
}


def _document(name: str, description: str, profile: Profile, needs: list[str]) -> dict[str, object]:
    return {
        "agent": name,
        "description": description,
        "kind": profile.kind,
        "model": profile.model_name() if profile.asks_model else None,
        "endpoint": (profile.base_url() or None) if profile.asks_model else None,
        "network": str(profile.network),
        "limits": {limit: getattr(profile, limit) for limit in _LIMITS},
        "needs": needs,
        "ready": not needs,
    }


def _facts(profile: Profile) -> str:
    limits = ((text, getattr(profile, limit)) for limit, text in _LIMITS.items())
    told = ", ".join(text.format(value) for text, value in limits if value is not None)
    model = profile.model_name() if profile.asks_model else ""
    place = f"model {model} at {profile.base_url() or 'no endpoint yet'}" if model else ""
    parts = [f"kind {profile.kind}", place, f"network {profile.network}"]
    return "; ".join(filter(None, [*parts, f"at most {told}" if told else ""]))


def _trajectory(arguments: argparse.Namespace) -> int:
    try:
        text = arguments.file.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"{arguments.file} cannot be read: {error}") from error
    found = problems(text)
    facts = {} if found else _trajectory_facts(json.loads(text))
    if arguments.json:
        print_json({"file": str(arguments.file), "valid": not found, "problems": found, **facts})
        return 1 if found else 0
    console = Console(markup=False, highlight=False, soft_wrap=True)
    for problem in found:
        console.print(f"{arguments.file}: {problem}")
    if not found:
        model = f" with {facts['model']}" if facts["model"] else ""
        console.print(
            f"{arguments.file}: {facts['schema']}, {facts['steps']} steps, {facts['tool_calls']} calls of tools, by "
            f"{facts['agent']} {facts['version']}{model}"
        )
    return 1 if found else 0


def _trajectory_facts(values: Mapping[str, Any]) -> dict[str, object]:
    steps, agent = values["steps"], values["agent"]
    return {
        "schema": values["schema_version"],
        "steps": len(steps),
        "tool_calls": sum(len(step.get("tool_calls") or ()) for step in steps),
        "agent": agent["name"],
        "version": agent["version"],
        "model": agent.get("model_name") or None,
    }
