"""pytest-xdist wiring: one session id for all workers, and tests dealt out by environment."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, final

import pytest

from pytest_researchenv.declarations import named_agents


if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler.protocol import Scheduling
    from xdist.workermanage import WorkerController

__all__ = ["SESSION", "XdistHooks", "note_distribution", "session_of_worker", "stop_with_usage_error"]

#: Id of this pytest session, the same on the controller and every worker.
SESSION = pytest.StashKey[str]()

# Names of what the controller tells its workers, and they tell it.
_SESSION_KEY = "researchenv_session"
_PROBLEM_KEY = "researchenv_usage_error"

#: Whether the user left it open how tests are distributed.
_UNDECIDED = pytest.StashKey[bool]()


@final
class XdistHooks:
    """Registered on the controller, where xdist is installed."""

    def __init__(self) -> None:
        self._properties: dict[tuple[str, ...], tuple[str, ...]] = {}

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Tell a worker which session it belongs to."""
        node.workerinput[_SESSION_KEY] = node.config.stash[SESSION]

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_make_scheduler(self, config: pytest.Config, log: Producer) -> Scheduling | None:
        """Deal tests out by the environments that they judge, unless the user chose how they are distributed.

        Otherwise workers wait for one another's environment instead of building the next. Sessions without an agent are
        none of ours.
        """
        undecided = config.stash.get(_UNDECIDED, False) and config.getoption("dist") == "load"
        if not undecided or not named_agents(config):
            return None
        # Only sessions with workers have xdist loaded.
        from pytest_researchenv.xdist_scheduling import EnvironmentScheduling  # noqa: PLC0415

        return EnvironmentScheduling(config, log)

    @pytest.hookimpl(tryfirst=True)
    def pytest_report_from_serializable(self, config: pytest.Config, data: dict[str, Any]) -> None:
        """Hold each text and each property of all reports once.

        pytest keeps three reports of each test, for its summary, and has all that is in them anew from the worker:
        names of marks, of fixtures and of properties, most of which are the same for all.
        """
        if named_agents(config):
            data |= _shared(data, self._properties)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: WorkerController) -> None:
        """Stop the run for what a worker found to be the user's to fix."""
        if problem := getattr(node, "workeroutput", {}).get(_PROBLEM_KEY):
            raise pytest.UsageError(problem)


def _shared(value: Any, known: dict[tuple[str, ...], tuple[str, ...]]) -> Any:  # noqa: ANN401 - what execnet can send
    """The same value, in which texts, and tuples of texts, that are equal are one object.

    Args:
        value: made of whatever execnet can send.
        known: the tuples until now.
    """
    # What is made of a text by another plugin cannot be interned.
    if type(value) is str:
        return sys.intern(value)
    if isinstance(value, dict):
        return {_shared(name, known): _shared(one, known) for name, one in value.items()}
    if isinstance(value, list):
        return [_shared(one, known) for one in value]
    if isinstance(value, tuple):
        made = tuple(_shared(one, known) for one in value)
        return known.setdefault(made, made) if all(isinstance(one, str) for one in made) else made
    return value


def note_distribution(config: pytest.Config) -> None:
    """Remember whether the user chose how tests are distributed. Call it before xdist sets its default."""
    chosen = config.getoption("dist", "no") != "no" or config.getoption("distload", default=False)
    config.stash[_UNDECIDED] = not chosen
    # xdist starts the workers of `--tx` only where `--dist` is given, too, and forgets them in silence otherwise.
    lonely = config.getoption("tx", default=None) and config.getoption("numprocesses") is None
    # Workers have their controller's command line.
    if lonely and not chosen and not hasattr(config, "workerinput") and named_agents(config):
        config.option.dist = "load"


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
