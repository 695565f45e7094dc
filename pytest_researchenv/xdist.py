"""pytest-xdist wiring: one session id for all workers, and a repository's tiers kept together."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, final

import pytest

from pytest_researchenv.fixtures import SESSION
from pytest_researchenv.options import chosen_agents


if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler.protocol import Scheduling
    from xdist.workermanage import WorkerController

__all__ = ["XdistHooks", "note_distribution", "session_of_worker", "stop_with_usage_error"]

# Names of what the controller tells its workers, and they tell it.
_SESSION_KEY = "researchenv_session"
_PROBLEM_KEY = "researchenv_usage_error"

#: Tests that a worker must have to begin with the first of them.
_AT_LEAST = 2

#: Whether the user left it open how tests are distributed.
_UNDECIDED = pytest.StashKey[bool]()


@final
class XdistHooks:
    """Registered on the controller, where xdist is installed."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a worker which session it belongs to."""
        node.workerinput[_SESSION_KEY] = node.config.stash[SESSION]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> Scheduling | None:
        """Keep the tiers of one environment on one worker, unless the user chose how tests are distributed.

        Otherwise workers wait for one another's environment instead of building the next.
        """
        if not config.stash.get(_UNDECIDED, False):
            return None
        # Only sessions with workers have xdist loaded.
        from xdist.scheduler import LoadScopeScheduling  # noqa: PLC0415

        prefixes = tuple(f"{agent}-" for agent in chosen_agents(config))

        @cache
        def is_research(file: str) -> bool:
            return any((config.rootpath / file).parent.glob("*/task.toml"))

        class EnvironmentScheduling(LoadScopeScheduling):  # type: ignore[misc] # xdist ships no types
            # xdist's own grouping by mark sets `_nodeid`, which pytest 9.2 no longer reads (tried with xdist 3.8).
            def _split_scope(self, nodeid: str) -> str:
                return environment_of(nodeid, prefixes, is_research=is_research)

            # A worker holds its last test back until it is given another or told to end. A new one, in the place of one
            # that died, would be given a single unit, and wait for ever (tried with xdist 3.8).
            def _reschedule(self, node: WorkerController) -> None:
                super()._reschedule(node)
                while self.workqueue and self._pending_of(self.assigned_work[node]) < _AT_LEAST:
                    self._assign_work_unit(node)
                if not self.workqueue:
                    node.shutdown()

            # xdist would run what was running when a worker died again, and with it pay for an agent again.
            def remove_node(self, node: WorkerController) -> str | None:
                crashed: str | None = super().remove_node(node)
                for unit in self.workqueue.values():
                    if crashed in unit:
                        unit[crashed] = True
                return crashed

        return EnvironmentScheduling(config, log)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Stop the run for what a worker found to be the user's to fix."""
        if problem := getattr(node, "workeroutput", {}).get(_PROBLEM_KEY):
            raise pytest.UsageError(problem)


def environment_of(
    nodeid: str, prefixes: tuple[str, ...], *, is_research: Callable[[str], bool] = lambda _: False
) -> str:
    """Return what stands for a test's environment in its id; the id itself where the test is none of ours.

    Args:
        nodeid: the test's id, such as `suites/quickstart/test_pyramid.py::test_c1_cpu_execution[oracle-kvpress]`.
        prefixes: beginnings of our parameters: agents' names, each with a hyphen.
        is_research: says of a test's file whether it is of a suite of research tasks, all of whose sub-tasks are worked
            at in one environment.
    """
    file, _, test = nodeid.partition("::")
    parameter = test.partition("[")[2].removesuffix("]")
    # The longest: an agent's name may be the beginning of another's.
    prefix = max((one for one in prefixes if parameter.startswith(one)), key=len, default="")
    if not prefix:
        return nodeid
    if is_research(file):
        # Neither a task's name nor a sub-task's has a hyphen in ids.
        task, _, rest = parameter.removeprefix(prefix).partition("-")
        parameter = "-".join((f"{prefix}{task}", *rest.split("-")[1:]))
    return f"{file}[{parameter}]"


def note_distribution(config: pytest.Config) -> None:
    """Remember whether the user chose how tests are distributed. Call it before xdist sets its default."""
    config.stash[_UNDECIDED] = config.getoption("dist", "no") == "no"


def session_of_worker(config: pytest.Config) -> str | None:
    """Return the id of the session that a worker belongs to; None on the controller."""
    told = getattr(config, "workerinput", None)
    return str(told[_SESSION_KEY]) if told else None


def stop_with_usage_error(session: pytest.Session, problem: str) -> None:
    """End the run before its first test, with pytest's exit code for a wrong call.

    Only workers know what was collected, and xdist takes an exception there for a crash: so a worker runs nothing and
    tells the controller.
    """
    output = getattr(session.config, "workeroutput", None)
    if output is None:
        raise pytest.UsageError(problem)
    output[_PROBLEM_KEY] = problem
    session.items.clear()
