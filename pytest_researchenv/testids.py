"""What can be told from the ids of a suite's tests alone, as where there are workers the controller has nothing else.

Such an id is `suites/quickstart/test_pyramid.py::test_c1_cpu_execution[oracle-kvpress]`, for a second attempt
`…[oracle-kvpress-2]`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable


__all__ = ["agent_in", "environment_of", "shape_of", "trial_of"]

_LATER = re.compile(r"(?P<first>.*)-(?P<trial>[2-9]|[1-9]\d)\]")


def agent_in(test: str, agents: Iterable[str]) -> str:
    """Return the agent whose environment a test judges; empty where the test is none of a suite."""
    parameter = test.partition("::")[2].partition("[")[2]
    return max((agent for agent in agents if parameter.startswith(f"{agent}-")), key=len, default="")


def environment_of(test: str, agents: Iterable[str]) -> str:
    """Return what stands for the environment that a test judges; its id itself where it is none of a suite."""
    if not agent_in(test, agents):
        return test
    file, _, name = test.partition("::")
    return f"{file}[{name.partition('[')[2]}"


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
