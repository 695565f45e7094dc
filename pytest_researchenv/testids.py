"""What can be told from the ids of a suite's tests alone, as where there are workers the controller has nothing else.

Such an id is `suites/quickstart/test_pyramid.py::test_c1_cpu_execution[oracle-kvpress]`, for a second attempt
`…[oracle-kvpress-2]`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache
from pathlib import Path


__all__ = ["agent_in", "environment_of", "research_in", "shape_of", "trial_of"]

_LATER = re.compile(r"(?P<first>.*)-(?P<trial>[2-9]|[1-9]\d)\]")


def agent_in(test: str, agents: Iterable[str]) -> str:
    """Return the agent whose environment a test judges; empty where the test is none of a suite."""
    parameter = test.partition("::")[2].partition("[")[2]
    return max((agent for agent in agents if parameter.startswith(f"{agent}-")), key=len, default="")


def research_in(root: Path) -> Callable[[str], bool]:
    """Return what says of a test whether its file is of a suite of research tasks.

    Args:
        root: the folder that files of ids are relative to.
    """

    @cache
    def holds_tasks(file: str) -> bool:
        return any((root / file).parent.glob("*/task.toml"))

    return lambda test: holds_tasks(test.partition("::")[0])


def environment_of(test: str, agents: Iterable[str], *, is_research: Callable[[str], bool] = lambda _: False) -> str:
    """Return what stands for the environment that a test judges; its id itself where it is none of a suite.

    Args:
        test: the test's id.
        agents: names of the chosen agents.
        is_research: says of a test whether it judges a sub-task: all of a task's are worked at in one environment.
    """
    agent = agent_in(test, agents)
    if not agent:
        return test
    file, _, name = test.partition("::")
    parameter = name.partition("[")[2].removesuffix("]")
    if is_research(test):
        # Neither a task's name nor a sub-task's has a hyphen in ids.
        task, _, rest = parameter.removeprefix(f"{agent}-").partition("-")
        parameter = "-".join((agent, task, *rest.split("-")[1:]))
    return f"{file}[{parameter}]"


def trial_of(environment: str, environments: Collection[str]) -> int:
    """Return which of several attempts an environment is.

    Args:
        environment: what stands for it.
        environments: the same for all that were collected; the first attempts are among them.
    """
    found = _LATER.fullmatch(environment)
    return int(found["trial"]) if found and f"{found['first']}]" in environments else 1


def shape_of(test: str, agent: str, trial: int) -> str:
    """Return a test's id without whose environment it judges, and without which of several attempts it is."""
    name, _, parameter = test.partition("[")
    suffix = f"-{trial}" if trial > 1 else ""
    return f"{name}[{parameter.removesuffix(']').removeprefix(f'{agent}-').removesuffix(suffix)}]"
