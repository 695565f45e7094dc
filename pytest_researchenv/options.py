"""The plugin's options: command line, then environment, then ini file."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.sandbox.protocol import Limits


__all__ = [
    "accelerator_option",
    "add_options",
    "check_options",
    "chosen_agents",
    "chosen_suites",
    "limits_option",
    "path_option",
    "ratio_option",
    "run_option",
    "seconds_option",
    "text_option",
]

#: Option → (default, help). Each has an ini twin `researchenv_NAME` and an environment twin `RESEARCHENV_NAME`.
_TEXTS = {
    "results": ("researchenv-results", "folder for environments and results"),
    "image": ("", "registry reference of the base image (default: a Debian base, made on first use)"),
    "accelerator": ("auto", "what C2 to C4 run on: cuda, cpu (emulated), or auto: cuda where a device answers"),
    "agent_timeout": ("3600", "wall time limit of an agent's attempt, in seconds"),
    "agent_memory": ("16", "memory of the agent's container, in GiB"),
    "agent_cpus": ("0", "processors of the agent's container, may be a fraction; 0 for all"),
    "c0_max_missing": ("0", "share of imports that may be missing before C0 fails, 0 to 1"),
    "cache": ("~/.cache/researchenv", "folder for pinned source trees"),
    "progress_interval": ("60", "seconds between lines about what is being done, where a line cannot be updated"),
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
    group.addoption("--researchenv-run", metavar="NAME", help="continue this run: do only what is missing in it")
    group.addoption(
        "--researchenv-rebuild", action="store_true", help="make a new attempt even where an environment exists"
    )
    group.addoption(
        "--researchenv-reuse-anyway",
        action="store_true",
        help="judge a stored environment although what shaped it has changed",
    )
    for name, (default, text) in _TEXTS.items():
        group.addoption(_flag(name), metavar="VALUE", help=f"{text} (default: {default or 'none'})")
        parser.addini(f"researchenv_{name}", text, default=None)
    parser.addini("researchenv_agent", "agents whose environments are built and judged", type="args", default=[])


def check_options(config: pytest.Config) -> None:
    """Find wrong values before anything is done.

    Raises:
        pytest.UsageError: an option's value is wrong.
    """
    chosen_agents(config)
    run_option(config)
    seconds_option(config, "agent_timeout")
    seconds_option(config, "progress_interval")
    accelerator_option(config)
    limits_option(config)
    ratio_option(config, "c0_max_missing")


def chosen_agents(config: pytest.Config) -> list[str]:
    """Return the agents' names in the order given, each once.

    Raises:
        pytest.UsageError: a name is unknown.
    """
    names = config.getoption("--researchenv-agent") or os.environ.get("RESEARCHENV_AGENT", "").split()
    names = list(dict.fromkeys(names or config.getini("researchenv_agent")))
    try:
        for name in names:
            find_agent(name)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from error
    return names


def chosen_suites(config: pytest.Config) -> list[str]:
    """Return the suites named on the command line."""
    return list(config.getoption("--researchenv-suite") or [])


def text_option(config: pytest.Config, name: str) -> str:
    """Return an option's value: command line, then environment, then ini file, then the default."""
    given = config.getoption(_flag(name))
    candidates = (given, os.environ.get(f"RESEARCHENV_{name.upper()}"), config.getini(f"researchenv_{name}"))
    return next((str(value) for value in candidates if value), _TEXTS[name][0])


def run_option(config: pytest.Config) -> str:
    """Return the name of the run to continue, or an empty string for the default run.

    Raises:
        pytest.UsageError: the name cannot be a folder's and an image tag's.
    """
    name = config.getoption("--researchenv-run") or ""
    if name and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", name):
        raise pytest.UsageError(
            f"--researchenv-run is {name!r}: give 1 to 64 letters, digits, '.', '_' and '-', beginning with no sign"
        )
    return name


def path_option(config: pytest.Config, name: str) -> Path:
    """Return an option's value as an absolute path.

    Relative ones count from where pytest was started; in an ini file, from the folder of that file.
    """
    text = text_option(config, name)
    ini = config.getini(f"researchenv_{name}")
    from_ini = bool(ini) and not (config.getoption(_flag(name)) or os.environ.get(f"RESEARCHENV_{name.upper()}"))
    start = config.inipath.parent if from_ini and config.inipath else config.invocation_params.dir
    return start / Path(text).expanduser()


def seconds_option(config: pytest.Config, name: str) -> float:
    """Return an option's value as a positive number of seconds."""
    return _number(config, name, "a positive number of seconds", lambda value: 0 < value < float("inf"))


def limits_option(config: pytest.Config) -> Limits:
    """Return the resources of the agent's container."""
    memory = _number(config, "agent_memory", "a positive number of GiB", lambda value: 0 < value < float("inf"))
    cpus = _number(config, "agent_cpus", "a number, or 0 for all", lambda value: 0 <= value < float("inf"))
    return Limits(memory_bytes=int(memory * 1024**3), cpus=cpus or None)


def accelerator_option(config: pytest.Config) -> str:
    """Return what C2 to C4 are to run on: `auto`, `cuda` or `cpu`."""
    text = text_option(config, "accelerator")
    if text not in ("auto", *Accelerator):
        raise pytest.UsageError(f"{_flag('accelerator')} is {text!r}: give auto, {' or '.join(Accelerator)}")
    return text


def ratio_option(config: pytest.Config, name: str) -> float:
    """Return an option's value as a share."""
    return _number(config, name, "a number from 0 to 1", lambda value: 0 <= value <= 1)


def _flag(name: str) -> str:
    return "--researchenv-" + name.replace("_", "-")


def _number(config: pytest.Config, name: str, wanted: str, allowed: Callable[[float], bool]) -> float:
    text = text_option(config, name)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not allowed(value):
        raise pytest.UsageError(f"{_flag(name)} (or its ini or environment twin) is {text!r}: give {wanted}")
    return value
