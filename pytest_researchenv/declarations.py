"""The options as pytest is told of them. Importing it is cheap: every pytest run of an environment with us does.

What they mean is in `options`.
"""

from __future__ import annotations

import os
from typing import Literal

import pytest


__all__ = ["add_options", "are_given", "default_of", "flag_of", "named_agents"]

#: Option → (default, help). Each has an ini twin `researchenv_NAME` and an environment twin `RESEARCHENV_NAME`.
_TEXTS = {
    "results": ("researchenv-results", "folder for environments and results"),
    "image": ("", "registry reference of the base image (default: a Debian base, made on first use)"),
    "accelerator": ("auto", "what C2 to C4 run on: cuda, cpu (emulated), or auto: cuda where a device answers"),
    "gpus": ("all", "devices that may be used: all, a number, or device=0,2 as Docker's --gpus has it"),
    "agent_gpus": ("", "how many of them each agent is given (default: all)"),
    "slots": ("0", "how many agents and probes may be at work at once on the engine's host; auto; 0 for no limit"),
    "leases": ("", "folder in which all users of this host wait for devices (default: /tmp/researchenv-leases)"),
    "lease_timeout": ("86400", "seconds to wait for devices that others use, at most"),
    "agent_timeout": ("", "wall time limit of an agent's attempt, in seconds (default: its profile's, else 3600)"),
    "agent_memory": ("16", "memory of the agent's container, in GiB"),
    "agent_cpus": ("0", "processors of the agent's container, may be a fraction; 0 for all"),
    "prompt": ("", "file with a template that takes the place of the shipped prompt"),
    "research_prompt": ("", "likewise for research tasks"),
    "data": ("", "folder with data sets of research tasks: FOLDER/TASK/DATA"),
    "archive_interval": ("600", "seconds between two archives of the folder of a research run at work; 0 for none"),
    "archive_limit": ("20", "what all archives of an attempt may take, in GiB"),
    "interrupt": ("leave", "what Ctrl-C does to research runs at work: leave (they go on), or stop"),
    "inspector": ("", "agent whose model looks at how results of research came about; its word alone fails nothing"),
    "prices": ("", "TOML file with prices of models, which win over the shipped ones"),
    "network": ("", "what agents may reach: open, allowlist or none (default: as their profiles say)"),
    "retries": ("2", "how often an attempt that the model's provider failed is made again"),
    "retry_delay": ("30", "seconds before the first of them; each further one waits twice as long"),
    "max_cost": ("", "what the run may spend on models, in US dollars (default: no limit)"),
    "c0_max_missing": ("0", "share of imports that may be missing before C0 fails, 0 to 1"),
    "cache": ("~/.cache/researchenv", "folder for pinned source trees"),
    "attempts": ("1", "how often each agent tries each repository, each time in an environment of its own"),
    "disk_floor": ("5", "GiB that are kept free on the engine's disk: a build that would not leave them waits"),
    "keep": ("all", "frozen images that are kept once they were judged: all, failed, none, or the newest N"),
    "package_cache": ("0", "GiB of Python packages that are kept for all agents on the engine's host; 0 for no cache"),
    "junit": ("", "file for JUnit XML that is whole on disk at every moment; of a continued run, with all it holds"),
    "ctrf": ("", "file for CTRF JSON, likewise"),
    "progress_interval": ("60", "seconds between lines about what is being done, where a line cannot be updated"),
}
#: What an ini file may give several of → (pytest's type, help).
_LISTS: dict[str, tuple[Literal["args", "paths"], str]] = {
    "agent": ("args", "agents whose environments are built and judged"),
    "agents": ("paths", "TOML files with profiles of agents"),
    "docker": ("args", "Docker contexts of the container engines to work with"),
    "allow": ("args", "hosts that agents may reach beside the usual ones"),
}


def add_options(parser: pytest.Parser) -> None:
    """Declare the option group."""
    group = parser.getgroup("researchenv", "environments that AI agents build for research code")
    group.addoption(
        "--researchenv-agent",
        action="append",
        metavar="NAME",
        help="agent whose environments are built and judged; may be repeated",
    )
    group.addoption(
        "--researchenv-suite",
        action="append",
        metavar="NAME",
        help="suite to run when no test path is given: a shipped one, or a folder with a suite.toml; may be repeated",
    )
    group.addoption(
        "--researchenv-agents-file",
        action="append",
        metavar="FILE",
        help="TOML file with profiles of agents, which win over the shipped ones; may be repeated",
    )
    group.addoption(
        "--researchenv-allow",
        action="append",
        metavar="HOST",
        help="host that agents may reach beside the usual ones, where the network is an allowlist; may be repeated",
    )
    group.addoption(
        "--researchenv-docker",
        action="append",
        metavar="CONTEXT",
        help="Docker context of a container engine to work with, instead of the usual one; may be repeated",
    )
    group.addoption("--researchenv-run", metavar="NAME", help="continue this run: do only what is missing in it")
    group.addoption(
        "--researchenv-rerun",
        action="append",
        metavar="WHAT",
        help="run only these tests of the run, and judge them again: infra (those that ended in an error), missing "
        "(not judged yet), failed, or a tier, such as tier:C3; may be repeated",
    )
    group.addoption(
        "--researchenv-extend",
        metavar="TIME",
        help="let research of the named run that is over go on, with so much more time: 1h, 90m, 0 for what is left",
    )
    group.addoption(
        "--researchenv-extend-dollars",
        type=float,
        metavar="USD",
        help="with --researchenv-extend, how many US dollars more it may spend (default: none)",
    )
    group.addoption(
        "--researchenv-rebuild", action="store_true", help="make a new attempt even where an environment exists"
    )
    group.addoption(
        "--researchenv-reuse-anyway",
        action="store_true",
        help="judge a stored environment although what shaped it has changed",
    )
    for name, (default, text) in _TEXTS.items():
        shown = "" if "(default:" in text else f" (default: {default or 'none'})"
        group.addoption(flag_of(name), metavar="VALUE", help=text + shown)
        parser.addini(f"researchenv_{name}", text, default=None)
    for name, (kind, text) in _LISTS.items():
        parser.addini(f"researchenv_{name}", text, type=kind, default=[])


def are_given(config: pytest.Config) -> bool:
    """Whether anything of ours was asked for: on the command line, in the environment, or in the ini file."""
    options = vars(config.option).items()
    return (
        any(name.startswith("researchenv_") and value not in (None, False) for name, value in options)
        or any(name.startswith("RESEARCHENV_") for name in os.environ)
        or any(config.getini(f"researchenv_{name}") for name in (*_TEXTS, *_LISTS))
    )


def named_agents(config: pytest.Config) -> list[str]:
    """Return the names given for agents, in order, each once; whether there are such agents is not looked at."""
    names = config.getoption("--researchenv-agent") or os.environ.get("RESEARCHENV_AGENT", "").split()
    return list(dict.fromkeys(names or config.getini("researchenv_agent")))


def default_of(name: str) -> str:
    """Return the text that stands for an option which nobody gave."""
    return _TEXTS[name][0]


def flag_of(name: str) -> str:
    """Return an option as it is written on the command line."""
    return "--researchenv-" + name.replace("_", "-")
