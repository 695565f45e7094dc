"""What the plugin's options come to: command line, then environment, then ini file."""

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
from pytest_researchenv.declarations import default_of, flag_of, named_agents
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
    "package_cache_option",
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

#: What the names of profiles begin with that do as was published.
AS_PUBLISHED = "paper-"

#: Every agent that may be chosen, read once.
_PROFILES = pytest.StashKey[Mapping[str, Profile]]()


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
            raise pytest.UsageError(f"{flag_of(name)} is {text_option(config, name)!r}, a folder: give a file")
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
        raise pytest.UsageError(f"{flag_of('interrupt')} is {text_option(config, 'interrupt')!r}: give leave or stop")
    disk_floor_option(config)
    keep_option(config)
    package_cache_option(config)
    ratio_option(config, "c0_max_missing")


def chosen_agents(config: pytest.Config) -> list[str]:
    """Return the agents' names in the order given, each once.

    Raises:
        pytest.UsageError: a name is unknown.
    """
    names = named_agents(config)
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
        raise pytest.UsageError(f"{flag_of('network')} is {reach!r}: give {', '.join(Reach)}")
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
        raise pytest.UsageError(f"{flag_of('inspector')}: {error}") from error
    if service is None:
        raise pytest.UsageError(f"{flag_of('inspector')} is {name!r}, which has no model: see `researchenv agents`")
    return name


def chosen_suites(config: pytest.Config) -> list[str]:
    """Return the suites named on the command line."""
    return list(config.getoption("--researchenv-suite") or [])


def text_option(config: pytest.Config, name: str) -> str:
    """Return an option's value: command line, then environment, then ini file, then the default."""
    given = config.getoption(flag_of(name))
    candidates = (given, os.environ.get(f"RESEARCHENV_{name.upper()}"), config.getini(f"researchenv_{name}"))
    return next((str(value) for value in candidates if value), default_of(name))


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
    from_ini = bool(ini) and not (config.getoption(flag_of(name)) or os.environ.get(f"RESEARCHENV_{name.upper()}"))
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
        raise pytest.UsageError(f"{flag_of('accelerator')} is {text!r}: give auto, {' or '.join(Accelerator)}")
    return text


def sharing_option(config: pytest.Config) -> SharingSettings:
    """Return which devices may be used, and how they are shared with other runs of the host."""
    try:
        gpus = parse_gpus(text_option(config, "gpus"))
    except ConfigurationError as error:
        raise pytest.UsageError(f"{flag_of('gpus')}: {error}") from error
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
        raise pytest.UsageError(f"{flag_of('data')} is {str(path)!r}, which is no folder")
    return path


def extension_option(config: pytest.Config) -> Extension | None:
    """Return what runs that are over go on with; None where they do not go on.

    Raises:
        pytest.UsageError: no run is named, or a value is wrong.
    """
    dollars, text = config.getoption("--researchenv-extend-dollars"), config.getoption("--researchenv-extend")
    if dollars is not None and not 0 <= dollars < float("inf"):
        raise pytest.UsageError(f"{flag_of('extend_dollars')} is {dollars}: give a number of US dollars")
    if text is None:
        if dollars is not None:
            raise pytest.UsageError(f"{flag_of('extend_dollars')} needs {flag_of('extend')}, which may be 0")
        return None
    if not run_option(config):
        raise pytest.UsageError(f"{flag_of('extend')} needs --researchenv-run: name the run that is to go on")
    if config.getoption("--researchenv-rebuild"):
        raise pytest.UsageError(f"{flag_of('extend')} goes on, and --researchenv-rebuild begins anew: give one of them")
    try:
        return Extension(parse_duration(text), dollars or 0.0)
    except ConfigurationError as error:
        raise pytest.UsageError(f"{flag_of('extend')}: {error}") from error


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


def package_cache_option(config: pytest.Config) -> int:
    """Return how many bytes of packages are kept for all agents; 0 for no cache.

    Raises:
        pytest.UsageError: the value is wrong, or an agent is to do as it was published.
    """
    wanted = "a number of GiB, or 0 for no cache"
    size = _number(config, "package_cache", wanted, lambda value: 0 <= value < float("inf"))
    published = [name for name in named_agents(config) if name.startswith(AS_PUBLISHED)]
    if size and published:
        raise pytest.UsageError(
            f"{flag_of('package_cache')} is not for {', '.join(published)}: agents had none when the figures were "
            "published, and an hour holds more with one. Leave it out, or run other agents apart"
        )
    return int(size * 1024**3)


def keep_option(config: pytest.Config) -> Keep:
    """Return which frozen images are kept once they were judged."""
    try:
        return parse_keep(text_option(config, "keep"))
    except ConfigurationError as error:
        raise pytest.UsageError(f"{flag_of('keep')}: {error}") from error


def ratio_option(config: pytest.Config, name: str) -> float:
    """Return an option's value as a share."""
    return _number(config, name, "a number from 0 to 1", lambda value: 0 <= value <= 1)


def _file_option(config: pytest.Config, name: str) -> Path | None:
    if not text_option(config, name):
        return None
    path = path_option(config, name)
    if not path.is_file():
        raise pytest.UsageError(f"{flag_of(name)} is {str(path)!r}, which is no file")
    return path


def _number(config: pytest.Config, name: str, wanted: str, allowed: Callable[[float], bool]) -> float:
    text = text_option(config, name)
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not allowed(value):
        raise pytest.UsageError(f"{flag_of(name)} (or its ini or environment twin) is {text!r}: give {wanted}")
    return value
