"""pytest-xdist wiring: one session id for all workers, and a repository's tiers kept together."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import pytest

from pytest_researchenv.fixtures import SESSION


if TYPE_CHECKING:
    from xdist.workermanage import WorkerController  # type: ignore[import-untyped] # xdist ships no types

__all__ = ["WORKER_KEY", "XdistHooks", "default_to_groups", "stop_with_usage_error"]

#: Name of the session's id among what the controller tells its workers.
WORKER_KEY = "researchenv_session"
_PROBLEM_KEY = "researchenv_usage_error"


@final
class XdistHooks:
    """Registered on the controller, where xdist is installed."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a worker which session it belongs to."""
        node.workerinput[WORKER_KEY] = node.config.stash[SESSION]

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Stop the run for what a worker found to be the user's to fix."""
        if problem := getattr(node, "workeroutput", {}).get(_PROBLEM_KEY):
            raise pytest.UsageError(problem)


def default_to_groups(config: pytest.Config) -> None:
    """Keep the tiers of one environment on one worker, unless the user chose how tests are distributed.

    Otherwise workers wait for one another's environment instead of building the next.
    """
    if config.getoption("dist", "no") == "load":
        config.option.dist = "loadgroup"


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
