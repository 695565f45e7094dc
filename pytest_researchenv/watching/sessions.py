"""A session of a run, read while it goes on: its record, its journal, its processes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, final

from pytest_researchenv.diagnosis.words import Category
from pytest_researchenv.errors import StoreError
from pytest_researchenv.manifest import Manifest
from pytest_researchenv.model import Cause
from pytest_researchenv.recording.activity import MAIN, Working, activity_files
from pytest_researchenv.recording.entry import Entry, Outcome
from pytest_researchenv.recording.journal import Began, Collected, Finished, Journal, read_line
from pytest_researchenv.recording.manifest import load_manifest
from pytest_researchenv.report.properties import PREFIX
from pytest_researchenv.watching.events import Event, Kind
from pytest_researchenv.watching.processes import GIVEN_UP_S, Life, Signs, WatchedProcess
from pytest_researchenv.watching.tailing import NewLines, stamp_of


__all__ = ["Group", "WatchedSession", "Work"]


#: What a diagnosis says that says nothing.
_UNKNOWN = str(Category.UNKNOWN)


class Group(NamedTuple):
    """Whose environment a test is about."""

    agent: str
    repository: str
    trial: int


@dataclass(slots=True)
class Work:
    """Tests of one environment, in one session.

    Attributes:
        began: when the first of them did, in seconds since 1970.
        worker: who runs them.
        seconds: how long those took that are finished.
        tests: how many are.
    """

    began: float
    worker: str
    seconds: float = 0.0
    tests: int = 0


@final
class WatchedSession:
    """What a session was and is.

    Args:
        folder: the run's.
        session: the session's id.
    """

    def __init__(self, folder: Path, session: str) -> None:
        self.id = session
        self._folder = folder
        self._path = folder / f"manifest-{session}.json"
        self._stamp: tuple[int, int] | None = None
        self._journal = Journal(folder, session).path
        self._lines = NewLines(self._journal)
        self._signs = (Signs(self._path), Signs(self._journal))
        self._told: set[object] = set()
        self._lives: dict[str, Life] = {}
        #: Whether it goes on, as far as that can be told from here.
        self.life = Life.AT_WORK
        #: Its record; None where it cannot be read.
        self.manifest: Manifest | None = None
        #: How many tests were selected.
        self.tests = 0
        #: What tests came to.
        self.outcomes: dict[str, Outcome] = {}
        #: Worker → the test that it runs.
        self.running: dict[str, Began] = {}
        #: Environments that were worked on.
        self.work: dict[Group, Work] = {}
        #: Those that tests began or ended for since this was asked last.
        self.touched: set[Group] = set()
        #: Name → process.
        self.processes: dict[str, WatchedProcess] = {}

    def look(self, now: float) -> list[Event]:
        """Read what is new; return what has happened."""
        if Kind.SESSION_ENDED in self._told:
            return []
        # Asked before its record is read: one whose process was gone by then is final.
        events = list(self._phases())
        self._lives = {name: process.life(now) for name, process in self.processes.items()}
        for signs in self._signs:
            signs.look()
        events += [*self._record(), *self._happened()]
        self.life = self._life(now)
        return [*events, *self._deaths(), *self._end(now)]

    # --- Whether it goes on ---------------------------------------------------------------------------------

    def _life(self, now: float) -> Life:
        if self.manifest and self.manifest.ended:
            return Life.ENDED
        main = self.processes.get(MAIN)
        if main is None:
            return Life.SILENT if self.silent_s(now) > GIVEN_UP_S else Life.AT_WORK
        # What says that it has done its work may still write its record.
        return Life.AT_WORK if self._lives[MAIN] is Life.ENDED and not main.gone(now) else self._lives[MAIN]

    def over(self, now: float) -> bool:
        """Whether nothing more is to be waited for."""
        silent = self.life is Life.SILENT and self.silent_s(now) > GIVEN_UP_S
        return silent or self.life in {Life.ENDED, Life.DIED}

    def silent_s(self, now: float) -> float:
        """How long it has given no sign of life, in seconds."""
        main = self.processes.get(MAIN)
        return main.silent_s(now) if main else min(signs.age_s(now) for signs in self._signs)

    @property
    def began(self) -> float:
        """When it began, in seconds since 1970; 0 where that is not known."""
        return _seconds(self.manifest.started) if self.manifest else 0.0

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of its agents."""
        return self.manifest.agents if self.manifest else ()

    @property
    def limit_usd(self) -> float | None:
        """What the run may spend in it."""
        limits = [process.opened.max_cost_usd for process in self.processes.values() if process.opened]
        return next((limit for limit in limits if limit is not None), None)

    def workers(self) -> list[WatchedProcess]:
        """The processes that run tests and live, or may."""
        named = [process for name, process in sorted(self.processes.items(), key=_by_number) if name != MAIN]
        living = {name for name, life in self._lives.items() if life in {Life.AT_WORK, Life.SILENT}}
        return [process for process in named or self.processes.values() if process.worker in living]

    @property
    def dead_workers(self) -> int:
        """How many workers have died."""
        return sum(life is Life.DIED for name, life in self._lives.items() if name != MAIN)

    def counts(self) -> Counter[Outcome]:
        """How many tests came to what."""
        return Counter(self.outcomes.values())

    # --- What has happened ----------------------------------------------------------------------------------

    def _once(self, token: object) -> bool:
        """Whether this is to be told: the first time."""
        if token in self._told:
            return False
        self._told.add(token)
        return True

    def _record(self) -> Iterator[Event]:
        stamp = stamp_of(self._path)
        if stamp != self._stamp:
            self._stamp = stamp
            with suppress(StoreError):
                self.manifest = load_manifest(self._path.parent, self.id)
        if self.manifest and self._once(Kind.SESSION_BEGAN):
            agents = ", ".join(self.manifest.agents)
            facts = {"session": self.id, "agents": list(self.manifest.agents), "command": list(self.manifest.command)}
            yield Event(self.began, Kind.SESSION_BEGAN, f"{self.id}, agents: {agents}", facts)

    def _happened(self) -> Iterator[Event]:
        for line in self._lines.read():
            said = read_line(line)
            if isinstance(said, Collected):
                self.tests = max(self.tests, said.tests)
                at = self.began or time.time()
                facts = {"session": self.id, "tests": said.tests}
                yield Event(at, Kind.COLLECTED, f"{said.tests} tests of {', '.join(said.suites) or 'no suite'}", facts)
            elif isinstance(said, Began):
                self._begins(said)
            elif isinstance(said, Finished):
                yield _verdict(said.entry, self._finishes(said.entry))

    def _begins(self, began: Began) -> None:
        self.running[began.worker] = began
        if began.subject:
            group = Group(began.agent, began.repository, began.trial)
            self.work.setdefault(group, Work(began.at, began.worker))
            self.touched.add(group)

    def _finishes(self, entry: Entry) -> Began | None:
        self.outcomes[entry.test] = entry.outcome
        found = None
        for worker, began in list(self.running.items()):
            if began.test == entry.test:
                found = self.running.pop(worker)
                group = Group(began.agent, began.repository, began.trial)
                if work := self.work.get(group):
                    work.seconds += entry.duration_s
                    work.tests += 1
                    self.touched.add(group)
        return found

    def _phases(self) -> Iterator[Event]:
        for path in activity_files(self._folder, self.id):
            worker = path.stem.rpartition("-")[2]
            if worker not in self.processes:
                self.processes[worker] = WatchedProcess(path, worker)
        for process in self.processes.values():
            yield from (self._phase(process, phase) for phase in process.look() if phase.name)

    def _phase(self, process: WatchedProcess, phase: Working) -> Event:
        who = "" if process.worker == MAIN else f"{process.worker} "
        limit = f", at most {phase.limit_s:g} s" if phase.limit_s is not None else ""
        facts = {
            "session": self.id,
            "worker": process.worker,
            "agent": phase.agent,
            "repository": phase.repository,
            "phase": phase.name,
            "limit_s": phase.limit_s,
        }
        return Event(phase.at, Kind.PHASE, f"{who}{phase.agent} {phase.repository}: {phase.name}{limit}", facts)

    def _deaths(self) -> Iterator[Event]:
        for name, process in self.processes.items():
            if name != MAIN and self._lives[name] is Life.DIED and self._once(("died", name)):
                facts = {"session": self.id, "worker": name}
                yield Event(process.last_sign, Kind.WORKER_DIED, f"{name} of {self.id}", facts)

    def _end(self, now: float) -> Iterator[Event]:
        facts: dict[str, object] = {"session": self.id}
        if self.life is Life.ENDED and self._once(Kind.SESSION_ENDED):
            yield self._ended()
        elif self.life is Life.DIED and self._once(Kind.SESSION_DIED):
            yield Event(self.processes[MAIN].last_sign, Kind.SESSION_DIED, f"{self.id}: its process is gone", facts)
        elif self.life is Life.SILENT and self._once(Kind.SESSION_SILENT):
            silent = self.silent_s(now)
            words = f"{self.id}: no sign of life for {silent:.0f} s; it runs elsewhere, or was cut off"
            yield Event(now, Kind.SESSION_SILENT, words, facts | {"silent_s": round(silent)})
        elif self.life is Life.AT_WORK and Kind.SESSION_SILENT in self._told:
            self._told.discard(Kind.SESSION_SILENT)
            yield Event(now, Kind.SESSION_HEARD, self.id, facts)

    def _ended(self) -> Event:
        if not self.manifest or not self.manifest.ended:
            last, facts = self.processes[MAIN].last_sign, {"session": self.id, "exit_status": None}
            return Event(last, Kind.SESSION_ENDED, f"{self.id}: its record has no end", facts)
        status, outcomes = self.manifest.exit_status, self.manifest.outcomes
        counts = ", ".join(f"{number} {outcome}" for outcome, number in outcomes.items()) or "nothing was run"
        told = {"session": self.id, "exit_status": status, "outcomes": dict(outcomes)}
        return Event(self._ended_at(), Kind.SESSION_ENDED, f"{self.id}, exit status {status}: {counts}", told)

    def _ended_at(self) -> float:
        """After all that it did: its own record says the second alone."""
        ended = _seconds(self.manifest.ended) if self.manifest else 0.0
        written = self._stamp[0] / 1e9 if self._stamp else 0.0
        return written if 0 <= written - ended <= 2 else ended  # noqa: PLR2004 - as little as a record's writing takes


def _verdict(entry: Entry, began: Began | None) -> Event:
    facts: dict[str, str] = {}
    if began and began.subject:
        # All that is known of a test whose process died.
        facts |= {"agent": began.agent, "key": began.repository, "tier": began.subject, "trial": str(began.trial)}
    facts |= {name.removeprefix(PREFIX): value for name, value in entry.properties if name.startswith(PREFIX)}
    told: dict[str, object] = {
        "test": entry.test,
        "verdict": str(entry.outcome),
        **{name: facts[name] for name in ("agent", "key", "tier", "trial", "cause", "diagnosis") if name in facts},
        "reason": facts.get("reason") or entry.message,
        "duration_s": round(entry.duration_s, 3),
    }
    return Event(entry.started + entry.duration_s, Kind.VERDICT, _verdict_words(entry, facts), told)


def _verdict_words(entry: Entry, facts: Mapping[str, str]) -> str:
    about = entry.test
    if all(name in facts for name in ("agent", "key", "tier")):
        trial = facts.get("trial", "1")
        about = f"{facts['agent']} {facts['key']}{f'-{trial}' if trial != '1' else ''} {facts['tier']}"
    words = f"{about} {entry.outcome}"
    if entry.outcome is Outcome.PASSED:
        return words
    causes = [facts.get(name, "") for name in ("diagnosis", "cause")]
    cause = next((one for one in causes if one not in ("", _UNKNOWN, str(Cause.NONE))), "")
    why = [part for part in (cause, facts.get("reason") or entry.message) if part]
    return ": ".join([words, *dict.fromkeys(why)])


def _by_number(item: tuple[str, WatchedProcess]) -> tuple[int, str]:
    return len(item[0]), item[0]


def _seconds(iso: str) -> float:
    try:
        return datetime.fromisoformat(iso).timestamp()
    except ValueError:
        return 0.0
