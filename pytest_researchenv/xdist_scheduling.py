"""Deals tests out to workers of pytest-xdist, environment by environment. Imported where xdist is in use only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn, final

import pytest
from xdist.report import report_collection_diff
from xdist.workermanage import WorkerController, parse_tx_spec_config

from pytest_researchenv.expected import Durations
from pytest_researchenv.options import chosen_agents, path_option, run_option
from pytest_researchenv.scheduling import Dispatch, in_order
from pytest_researchenv.store import Store
from pytest_researchenv.testids import agent_in, environment_of, research_in, trial_of


if TYPE_CHECKING:
    from xdist.remote import Producer

__all__ = ["EnvironmentScheduling"]


@final
class EnvironmentScheduling:
    """A scheduler as xdist wants one (`xdist.scheduler.protocol.Scheduling`).

    Args:
        config: pytest's.
        log: xdist's.
    """

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        self.config = config
        self.log = log.environmentsched
        self.numnodes = len(parse_tx_spec_config(config))
        self.collection: list[str] | None = None
        self._collections: dict[WorkerController, list[str]] = {}
        self._ready: dict[WorkerController, None] = {}
        self._dispatch: Dispatch[WorkerController] | None = None

    @property
    def nodes(self) -> list[WorkerController]:
        """The workers that are at work."""
        return list(self._ready)

    @property
    def collection_is_completed(self) -> bool:
        """Whether as many workers have collected as there were to be: then, and ever after."""
        return self.collection is not None or len(self._collections) >= self.numnodes

    @property
    def tests_finished(self) -> bool:
        """Whether nothing is left but what workers are at; with one test, a worker waits to be told to end."""
        if self._dispatch is None:
            return self.collection is not None
        return not self._dispatch.waiting and all(len(tests) <= 1 for tests in self._dispatch.pending.values())

    @property
    def has_pending(self) -> bool:
        """Whether anything is left."""
        return self._dispatch is not None and (self._dispatch.waiting or any(self._dispatch.pending.values()))

    def add_node(self, node: WorkerController) -> None:
        """Take note of a worker that has started."""
        self._ready[node] = None

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        """Take note of what a worker has collected."""
        if self.collection is not None and list(collection) != self.collection:
            # A worker in the place of one that died: it can do nothing for this session.
            self._differ(node, report_collection_diff(self.collection, collection, "the others", node.gateway.id))
            node.shutdown()
            return
        self._collections[node] = list(collection)
        if self._dispatch:
            self._dispatch.join(node)

    def schedule(self) -> None:
        """Begin, or go on with one worker more."""
        if self._dispatch:
            self._dispatch.deal()
            return
        (first, collection), *others = self._collections.items()
        for node, collected in others:
            if diff := report_collection_diff(collection, collected, first.gateway.id, node.gateway.id):
                self._differ(node, diff)
                self.collection = []
        if self.collection is not None:
            return
        self.collection = collection
        if collection:
            self._dispatch = Dispatch(
                self._groups(collection),
                send=lambda node, tests: node.send_runtest_some(tests),
                end=lambda node: node.shutdown(),
                # Workers on other hosts have engines of their own, and an environment is in one engine.
                spread=all(node.gateway.spec.popen and not node.gateway.spec.python for node in self._collections),
            )
            for node in self._collections:
                self._dispatch.join(node)
            self._dispatch.deal()

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        """Take note of a finished test."""
        del duration
        if self._dispatch:
            self._dispatch.done(node, item_index)

    def mark_test_pending(self, item: str) -> None:
        """Have a test done once more whose worker died, as pytest-rerunfailures wants."""
        if self._dispatch and self.collection:
            self._dispatch.again(self.collection.index(item))

    def remove_pending_tests_from_node(self, node: WorkerController, indices: Sequence[int]) -> NoReturn:
        """Tests are never taken back from workers."""
        raise NotImplementedError

    def remove_node(self, node: WorkerController) -> str | None:
        """Take note of a worker that has ended; return the test that it died at.

        Raises:
            KeyError: it had not started.
        """
        del self._ready[node]
        self._collections.pop(node, None)
        if self._dispatch is None or self.collection is None or node not in self._dispatch.pending:
            return None
        crashed = self._dispatch.leave(node)
        return None if crashed is None else self.collection[crashed]

    def _differ(self, node: WorkerController, difference: str | None) -> None:
        report = pytest.CollectReport(nodeid=node.gateway.id, outcome="failed", longrepr=difference, result=[])
        self.config.hook.pytest_collectreport(report=report)

    def _groups(self, collection: Sequence[str]) -> list[list[int]]:
        agents = chosen_agents(self.config)
        is_research = research_in(self.config.rootpath)
        groups: dict[str, list[int]] = {}
        for number, test in enumerate(collection):
            groups.setdefault(environment_of(test, agents, is_research=is_research), []).append(number)
        trials = {name: trial_of(name, groups) for name in groups}
        durations = Durations(path_option(self.config, "results"))
        store = Store(durations.results, run_option(self.config) or "default")
        expected: dict[str, float] = {}
        for name, numbers in groups.items():
            tests = [collection[number] for number in numbers]
            seconds = durations.expected(
                tests,
                agent=agent_in(tests[0], agents),
                trial=trials[name],
                store=store,
                rebuild=self.config.getoption("--researchenv-rebuild"),
            )
            if seconds is not None:
                expected[name] = seconds
        return [groups[name] for name in in_order(groups, trials=trials, expected=expected)]
