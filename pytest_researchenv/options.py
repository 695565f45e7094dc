"""The plugin's options: command line, then environment, then ini file."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest

from pytest_researchenv._place import new_run_name
from pytest_researchenv.agents.profiles import Profile, host_problem, load_profiles
from pytest_researchenv.agents.protocol import Agent
from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.disk.keep import Keep, parse_keep
from pytest_researchenv.durations import parse_duration
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.leases.choice import AUTO, FOLDER, SharingSettings, parse_gpus
from pytest_researchenv.rerun import Rerun, parse_rerun
from pytest_researchenv.sandbox.protocol import Limits
from pytest_researchenv.settings import AgentSettings, Archiving, Extension


__all__ = [
    "accelerator_option",
    "add_options",
    "agent_gpus_option",
    "agent_settings",
    "agents_of",
    "archiving_option",
    "attempts_option",
    "check_options",
    "chosen_agents",
    "chosen_suites",
    "continued_option",
    "data_option",
    "disk_floor_option",
    "extension_option",
    "inspector_option",
    "keep_option",
    "limits_option",
    "path_option",
    "profiles_of",
    "ratio_option",
    "rerun_option",
    "run_option",
    "seconds_option",
    "sharing_option",
    "text_option",
    "timeout_option",
]

#: Every agent that may be chosen, read once.
_PROFILES = pytest.StashKey[Mapping[str, Profile]]()

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
    "junit": ("", "file for JUnit XML that is whole on disk at every moment; of a continued run, with all it holds"),
    "ctrf": ("", "file for CTRF JSON, likewise"),
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
        group.addoption(_flag(name), metavar="VALUE", help=text + shown)
        parser.addini(f"researchenv_{name}", text, default=None)
    parser.addini("researchenv_agent", "agents whose environments are built and judged", type="args", default=[])
    parser.addini("researchenv_agents", "TOML files with profiles of agents", type="paths", default=[])
    parser.addini(
        "researchenv_docker", "Docker contexts of the container engines to work with", type="args", default=[]
    )
    parser.addini("researchenv_allow", "hosts that agents may reach beside the usual ones", type="args", default=[])


def check_options(config: pytest.Config) -> None:
    """Find wrong values before anything is done.

    Raises:
        pytest.UsageError: an option's value is wrong.
    """
    chosen_agents(config)
    run_option(config)
    rerun_option(config)
    attempts_option(config)
    for name in ("junit", "ctrf"):
        if text_option(config, name) and path_option(config, name).is_dir():
            raise pytest.UsageError(f"{_flag(name)} is {text_option(config, name)!r}, a folder: give a file")
    timeout_option(config)
    inspector_option(config)
    agent_settings(config)
    seconds_option(config, "progress_interval")
    accelerator_option(config)
    limits_option(config)
    sharing_option(config)
    agent_gpus_option(config)
    data_option(config)
    extension_option(config)
    archiving_option(config)
    if text_option(config, "interrupt") not in ("leave", "stop"):
        raise pytest.UsageError(f"{_flag('interrupt')} is {text_option(config, 'interrupt')!r}: give leave or stop")
    disk_floor_option(config)
    keep_option(config)
    ratio_option(config, "c0_max_missing")


def chosen_agents(config: pytest.Config) -> list[str]:
    """Return the agents' names in the order given, each once.

    Raises:
        pytest.UsageError: a name is unknown.
    """
    names = config.getoption("--researchenv-agent") or os.environ.get("RESEARCHENV_AGENT", "").split()
    names = list(dict.fromkeys(names or config.getini("researchenv_agent")))
    if not names:
        # Reading profiles needs pydantic, which must cost nothing where no agent is chosen.
        return []
    agents = agents_of(config)
    try:
        for name in names:
            agents(name)
    except ConfigurationError as error:
        raise pytest.UsageError(str(error)) from error
    return names


def agents_of(config: pytest.Config) -> Callable[[str], Agent]:
    """Return what makes an agent of a name, by the shipped profiles and the user's.

    Raises:
        pytest.UsageError: a file of profiles is wrong.
    """
    return partial(find_agent, profiles=profiles_of(config))


def profiles_of(config: pytest.Config) -> Mapping[str, Profile]:
    """Return the shipped profiles and the user's.

    Raises:
        pytest.UsageError: a file of profiles is wrong.
    """
    if _PROFILES not in config.stash:
        given = config.getoption("--researchenv-agents-file")
        files = [config.invocation_params.dir / Path(name).expanduser() for name in given or ()]
        try:
            config.stash[_PROFILES] = load_profiles(files or config.getini("researchenv_agents"))
        except ConfigurationError as error:
            raise pytest.UsageError(str(error)) from error
    return config.stash[_PROFILES]


def agent_settings(config: pytest.Config) -> AgentSettings:
    """Return what agents with a model work with, beside their profiles.

    Raises:
        pytest.UsageError: an option's value is wrong.
    """
    reach = text_option(config, "network")
    if reach and reach not in tuple(Reach):
        raise pytest.UsageError(f"{_flag('network')} is {reach!r}: give {', '.join(Reach)}")
    allow = tuple(config.getoption("--researchenv-allow") or config.getini("researchenv_allow"))
    for host in allow:
        if problem := host_problem(host):
            raise pytest.UsageError(f"--researchenv-allow: {problem}")
    limit = text_option(config, "max_cost")
    wanted = "a positive number of US dollars"
    return AgentSettings(
        prompt=_file_option(config, "prompt"),
        research_prompt=_file_option(config, "research_prompt"),
        prices=_file_option(config, "prices"),
        reach=Reach(reach) if reach else None,
        allow=allow,
        retries=int(_number(config, "retries", "0 or a positive whole number", lambda value: value in range(101))),
        retry_delay_s=_number(config, "retry_delay", "a number of seconds", lambda value: 0 <= value < float("inf")),
        max_cost_usd=_number(config, "max_cost", wanted, lambda value: 0 < value < float("inf")) if limit else None,
        folders=tuple(dict.fromkeys((config.rootpath, config.invocation_params.dir))),
    )


def timeout_option(config: pytest.Config) -> float | None:
    """Return the wall time limit that the user gave for attempts, in seconds; None where the agents' own hold."""
    return seconds_option(config, "agent_timeout") if text_option(config, "agent_timeout") else None


def inspector_option(config: pytest.Config) -> str:
    """Return the agent whose model inspects results of research; empty for none.

    Raises:
        pytest.UsageError: it is unknown, or has no model.
    """
    name = text_option(config, "inspector")
    if not name:
        return ""
    try:
        service = agents_of(config)(name).needs.service
    except ConfigurationError as error:
        raise pytest.UsageError(f"{_flag('inspector')}: {error}") from error
    if service is None:
        raise pytest.UsageError(f"{_flag('inspector')} is {name!r}, which has no model: see `researchenv agents`")
    return name


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
    try:
        return name and new_run_name(name)
    except ConfigurationError as error:
        raise pytest.UsageError(f"--researchenv-run is {error}") from error


def attempts_option(config: pytest.Config) -> int:
    """Return how often each agent tries each repository."""
    most = 99
    allowed = range(1, most + 1)
    return int(_number(config, "attempts", f"a whole number from 1 to {most}", lambda value: value in allowed))


def rerun_option(config: pytest.Config) -> Rerun:
    """Return which tests of the run are run again.

    Raises:
        pytest.UsageError: a word is unknown.
    """
    try:
        return parse_rerun(config.getoption("--researchenv-rerun") or ())
    except ConfigurationError as error:
        raise pytest.UsageError(f"--researchenv-rerun: {error}") from error


def continued_option(config: pytest.Config) -> bool:
    """Whether stored results of the run stand: it was named, or some of it is run again."""
    return bool(run_option(config) or rerun_option(config))


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


def sharing_option(config: pytest.Config) -> SharingSettings:
    """Return which devices may be used, and how they are shared with other runs of the host."""
    try:
        gpus = parse_gpus(text_option(config, "gpus"))
    except ConfigurationError as error:
        raise pytest.UsageError(f"{_flag('gpus')}: {error}") from error
    slots = AUTO
    if text_option(config, "slots") != "auto":
        wanted = "a whole number, 0 for no limit, or auto"
        slots = int(_number(config, "slots", wanted, lambda value: value in range(100_001)))
    return SharingSettings(
        gpus=gpus,
        slots=slots,
        slot_bytes=limits_option(config).memory_bytes,
        folder=path_option(config, "leases") if text_option(config, "leases") else FOLDER,
        patience_s=seconds_option(config, "lease_timeout"),
    )


def data_option(config: pytest.Config) -> Path | None:
    """Return the folder with data sets of research tasks; None where there is none."""
    if not text_option(config, "data"):
        return None
    path = path_option(config, "data")
    if not path.is_dir():
        raise pytest.UsageError(f"{_flag('data')} is {str(path)!r}, which is no folder")
    return path


def extension_option(config: pytest.Config) -> Extension | None:
    """Return what runs that are over go on with; None where they do not go on.

    Raises:
        pytest.UsageError: no run is named, or a value is wrong.
    """
    dollars, text = config.getoption("--researchenv-extend-dollars"), config.getoption("--researchenv-extend")
    if dollars is not None and not 0 <= dollars < float("inf"):
        raise pytest.UsageError(f"{_flag('extend_dollars')} is {dollars}: give a number of US dollars")
    if text is None:
        if dollars is not None:
            raise pytest.UsageError(f"{_flag('extend_dollars')} needs {_flag('extend')}, which may be 0")
        return None
    if not run_option(config):
        raise pytest.UsageError(f"{_flag('extend')} needs --researchenv-run: name the run that is to go on")
    if config.getoption("--researchenv-rebuild"):
        raise pytest.UsageError(f"{_flag('extend')} goes on, and --researchenv-rebuild begins anew: give one of them")
    try:
        return Extension(parse_duration(text), dollars or 0.0)
    except ConfigurationError as error:
        raise pytest.UsageError(f"{_flag('extend')}: {error}") from error


def archiving_option(config: pytest.Config) -> Archiving:
    """Return how the folder of a research run is archived."""
    wanted = "a number of seconds, or 0 for none"
    interval = _number(config, "archive_interval", wanted, lambda value: 0 <= value < float("inf"))
    limit = _number(config, "archive_limit", "a positive number of GiB", lambda value: 0 < value < float("inf"))
    return Archiving(interval, int(limit * 1024**3))


def agent_gpus_option(config: pytest.Config) -> int | None:
    """Return how many devices each agent is given; None for all that the run may use."""
    if text_option(config, "agent_gpus") in ("", "all"):
        return None
    return int(_number(config, "agent_gpus", "a whole number, or all", lambda value: value in range(100_001)))


def disk_floor_option(config: pytest.Config) -> int:
    """Return how many bytes are kept free on the engine's disk."""
    return int(
        _number(config, "disk_floor", "a number of GiB, 0 or more", lambda value: 0 <= value < float("inf")) * 1024**3
    )


def keep_option(config: pytest.Config) -> Keep:
    """Return which frozen images are kept once they were judged."""
    try:
        return parse_keep(text_option(config, "keep"))
    except ConfigurationError as error:
        raise pytest.UsageError(f"{_flag('keep')}: {error}") from error


def ratio_option(config: pytest.Config, name: str) -> float:
    """Return an option's value as a share."""
    return _number(config, name, "a number from 0 to 1", lambda value: 0 <= value <= 1)


def _file_option(config: pytest.Config, name: str) -> Path | None:
    if not text_option(config, name):
        return None
    path = path_option(config, name)
    if not path.is_file():
        raise pytest.UsageError(f"{_flag(name)} is {str(path)!r}, which is no file")
    return path


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
