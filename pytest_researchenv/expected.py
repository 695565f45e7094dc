"""How long an environment's tests will take, from what the journals of a results folder tell of earlier ones."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean
from typing import final

from pytest_researchenv.errors import StoreError
from pytest_researchenv.recording.entry import Entry
from pytest_researchenv.recording.journal import Finished, Journal, journals_in
from pytest_researchenv.report.properties import PREFIX
from pytest_researchenv.store import Store
from pytest_researchenv.testids import shape_of


__all__ = ["Durations"]

_log = logging.getLogger(__name__)

#: Newest journals that are read: the rest is of runs that nobody continues, and of machines as they were then.
_JOURNALS = 20


@dataclass(frozen=True, slots=True)
class _Took:
    """What is known of one test.

    Attributes:
        probe_s: what the test itself took, in seconds.
        build_s: what its environment took to build.
        agent: who built it.
        repository: `Repository.key`.
        trial: which of the attempts that were asked for.
    """

    probe_s: float
    build_s: float
    agent: str
    repository: str
    trial: int


@final
@dataclass(slots=True)
class Durations:
    """What tests took in earlier sessions.

    Args:
        results: the results folder; all its runs count.
    """

    results: Path
    _tests: dict[str, _Took] = field(init=False, default_factory=dict)
    _shapes: dict[str, dict[str, _Took]] = field(init=False, default_factory=lambda: defaultdict(dict))

    def __post_init__(self) -> None:
        for journal in _newest(self.results):
            try:
                for line in journal.lines():
                    if isinstance(line, Finished):
                        self._learn(line.entry)
            except StoreError:
                # An order is no reason to stop.
                _log.warning("%s cannot be read: it tells nothing of how long tests take", journal.path)

    def _learn(self, entry: Entry) -> None:
        told = {name.removeprefix(PREFIX): value for name, value in entry.properties if name.startswith(PREFIX)}
        agent = told.get("agent", "")
        if entry.crashed or not agent:
            return
        took = _Took(
            probe_s=_number(told.get("probe_s"), entry.duration_s),
            build_s=_number(told.get("agent_wall_s"), 0.0),
            agent=agent,
            repository=told.get("key", ""),
            trial=int(_number(told.get("trial"), 1)),
        )
        self._tests[entry.test] = took
        self._shapes[shape_of(entry.test, agent, took.trial)][entry.test] = took

    def expected(
        self, tests: Sequence[str], *, agent: str, trial: int, store: Store, rebuild: bool = False
    ) -> float | None:
        """Return the seconds that an environment's tests will take together; None where nothing is known of them.

        Where nothing is known of this agent at this repository, others' environments for it tell.

        Args:
            tests: their ids.
            agent: whose environment it is.
            trial: which of the attempts that were asked for.
            store: the run's.
            rebuild: whether it is built even where it is there.
        """
        known = [took for test in tests if (took := self._of(test, agent, trial))]
        if not known:
            return None
        builds = rebuild or not _is_there(store, agent, known[0].repository, trial)
        return sum(took.probe_s for took in known) + (max(took.build_s for took in known) if builds else 0.0)

    def _of(self, test: str, agent: str, trial: int) -> _Took | None:
        if test in self._tests:
            return self._tests[test]
        others = self._shapes.get(shape_of(test, agent, trial), {}).values()
        if not others:
            return None
        first = next(iter(others))
        return _Took(
            mean(other.probe_s for other in others),
            mean(other.build_s for other in others),
            agent,
            first.repository,
            trial,
        )


def _newest(results: Path) -> Iterable[Journal]:
    """The newest journals of all runs, oldest first: names of sessions begin with their time."""
    found = [journal for run in results.glob("*/") for journal in journals_in(run)]
    return sorted(found, key=lambda journal: journal.session)[-_JOURNALS:]


def _is_there(store: Store, agent: str, repository: str, trial: int) -> bool:
    attempts = store.attempts(agent, repository)
    return any(attempt.finished and attempt.start.trial == trial for attempt in attempts)


def _number(text: str | None, default: float) -> float:
    try:
        return float(text) if text is not None else default
    except ValueError:
        return default
