"""Removes frozen images once all selected tests of their environment are through: `--researchenv-keep`.

It runs where all reports come together, since the tests of one environment may be spread over workers.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, final

import pytest

from pytest_researchenv.disk.keep import Keep
from pytest_researchenv.errors import ResearchEnvError
from pytest_researchenv.model import Eviction, Verdict
from pytest_researchenv.recording.activity import activity_files
from pytest_researchenv.recording.entry import Entry, Finishing, Outcome
from pytest_researchenv.report.properties import PREFIX
from pytest_researchenv.testids import environment_of
from pytest_researchenv.watching.processes import Life, WatchedProcess


if TYPE_CHECKING:
    from xdist.workermanage import WorkerController

__all__ = ["Evicting", "others_at_work"]

_log = logging.getLogger(__name__)

_VERDICTS = {
    Outcome.PASSED: Verdict.PASSED,
    Outcome.FAILED: Verdict.FAILED,
    Outcome.ERROR: Verdict.ERROR,
    Outcome.SKIPPED: Verdict.SKIPPED,
}


@dataclass(slots=True)
class _Group:
    """Tests of one environment.

    Attributes:
        verdicts: what those that are through came to, by test.
        judged: agent, repository and number of the attempt that was judged; None while none was.
    """

    verdicts: dict[str, Verdict] = field(default_factory=dict)
    judged: tuple[str, str, int] | None = None


@final
class Evicting:
    """Registered on the controller, where anything is ever removed.

    Args:
        keep: what is kept.
        agents: names of the chosen agents.
        run: the run's folder.
        session: id of this session.
        evict: removes the image of agent, repository and attempt; None where there was none.
        is_research: says of a test whether it judges a sub-task: a task's environment is judged by several.
    """

    def __init__(
        self,
        keep: Keep,
        *,
        agents: Iterable[str],
        run: Path,
        session: str,
        evict: Callable[[str, str, int], Eviction | None],
        is_research: Callable[[str], bool] = lambda _: False,
    ) -> None:
        self._keep = keep
        self._agents = tuple(agents)
        self._is_research = is_research
        self._run = run
        self._session = session
        self._evict = evict
        self._finishing = Finishing()
        self._expected: Counter[str] = Counter()
        self._groups: dict[str, _Group] = {}
        self._kept: list[tuple[str, str, int]] = []
        #: What was removed in this session.
        self.evictions: list[Eviction] = []
        #: Why something stays that should have gone.
        self.refusals: list[str] = []

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Count the tests of each environment."""
        self._expect([item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, node: WorkerController, ids: list[str]) -> None:
        """Count them where only workers know them; all workers have the same."""
        del node
        self._expect(ids)

    def _expect(self, ids: list[str]) -> None:
        if ids and not self._expected:
            self._expected.update(self._group_of(one) for one in ids)

    def _group_of(self, nodeid: str) -> str:
        # xdist's own grouping puts a name behind the id.
        plain, _, _ = nodeid.rpartition("]@")
        return environment_of(f"{plain}]" if plain else nodeid, self._agents, is_research=self._is_research)

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take what a test came to; after the last one of an environment, see whether its image stays."""
        entry = self._finishing.feed(report)
        if entry is None:
            return
        name = self._group_of(entry.test)
        group = self._groups.setdefault(name, _Group())
        group.verdicts[entry.test] = _verdict(entry)
        group.judged = _judged(entry) or group.judged
        if len(group.verdicts) == self._expected[name] and group.judged:
            self._through(group.judged, group.verdicts.values())

    def _through(self, judged: tuple[str, str, int], verdicts: Iterable[Verdict]) -> None:
        if self._keep.keeps(list(verdicts)):
            return
        self._kept.append(judged)
        while len(self._kept) > (self._keep.newest or 0):
            self._remove(*self._kept.pop(0))

    def _remove(self, agent: str, repository: str, number: int) -> None:
        name = f"{agent} at {repository}, attempt {number}"
        if others_at_work(self._run, self._session):
            self.refusals.append(f"{name}: another session of the run is at work")
            return
        try:
            if eviction := self._evict(agent, repository, number):
                self.evictions.append(eviction)
        except ResearchEnvError as error:
            # It takes room and does no harm: no reason to stop a run.
            _log.warning("the frozen image of %s stays: %s", name, error)
            self.refusals.append(f"{name}: {error}")


def others_at_work(run: Path, session: str) -> bool:
    """Whether a process of another session of a run is at work, which may be about to use any environment."""
    own = set(activity_files(run, session))
    for path in run.glob("activity-*.jsonl"):
        if path in own:
            continue
        process = WatchedProcess(path, "")
        process.look()
        if process.opened and process.life(time.time()) is Life.AT_WORK:
            return True
    return False


def _facts(entry: Entry) -> dict[str, str]:
    return {name.removeprefix(PREFIX): value for name, value in entry.properties if name.startswith(PREFIX)}


def _verdict(entry: Entry) -> Verdict:
    return Verdict.ERROR if entry.crashed else _VERDICTS[entry.outcome]


def _judged(entry: Entry) -> tuple[str, str, int] | None:
    facts = _facts(entry)
    if not {"agent", "key", "attempt"} <= facts.keys():
        return None
    return facts["agent"], facts["key"], int(facts["attempt"])
