"""A run, read bit by bit: what has happened since it was looked at last, and how it stands."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import final

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.recording.activity import MAIN
from pytest_researchenv.recording.entry import Outcome
from pytest_researchenv.spending import SPENDING_FILE, spent_in
from pytest_researchenv.store import Store
from pytest_researchenv.watching.attempts import Output, Place, Used
from pytest_researchenv.watching.estimating import remaining_s
from pytest_researchenv.watching.events import Event, Kind
from pytest_researchenv.watching.processes import Life, WatchedProcess
from pytest_researchenv.watching.sessions import Group, WatchedSession
from pytest_researchenv.watching.tailing import last_lines, stamp_of


__all__ = ["Picture", "Row", "SessionLine", "WatchedRun"]

#: Lines of output that are read for a picture.
_LINES = 60


@dataclass(frozen=True, slots=True)
class SessionLine:
    """How a session stands.

    Attributes:
        id: its id.
        began: when it began, in seconds since 1970.
        life: whether it goes on.
        silent_s: how long it has given no sign of life, in seconds.
        elsewhere: whether it runs on another machine.
        exit_status: pytest's exit code; None where it has not ended.
    """

    id: str
    began: float
    life: Life
    silent_s: float
    elsewhere: bool
    exit_status: int | None


@dataclass(frozen=True, slots=True)
class Row:
    """What a worker is doing.

    Attributes:
        worker: its name; empty where there is one process.
        agent: whose environment it is about; empty where it does nothing that takes long.
        repository: which one, without its owner.
        phase: what is being done, in words.
        elapsed_s: for how long, in seconds.
        limit_s: how long that may last; None where nothing limits it.
        used: what the attempt has used of models; None where it is not known.
        silent_s: how long it has given no sign of life, in seconds; 0 where it is known to live.
    """

    worker: str
    agent: str
    repository: str
    phase: str
    elapsed_s: float
    limit_s: float | None
    used: Used | None
    silent_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Picture:
    """How a run stands.

    Attributes:
        run: its name.
        now: when, in seconds since 1970.
        sessions: those that go on; where none does, the newest.
        others: how many more there are.
        agents: names of the agents of `sessions`.
        tests: how many tests were selected in them.
        counts: what those came to that are finished.
        rows: what each worker is doing.
        dead: how many workers have died.
        remaining_s: how long it will take, from what it took so far; None where that cannot be said.
        spent_usd: what the run has spent, attempts at work included; None where nothing that costs money was asked.
        limit_usd: what it may spend.
        output: the newest output, and whose it is.
        lines: its last lines.
    """

    run: str
    now: float
    sessions: tuple[SessionLine, ...] = ()
    others: int = 0
    agents: tuple[str, ...] = ()
    tests: int = 0
    counts: Counter[Outcome] | None = None
    rows: tuple[Row, ...] = ()
    dead: int = 0
    remaining_s: float | None = None
    spent_usd: float | None = None
    limit_usd: float | None = None
    output: tuple[str, Output] | None = None
    lines: tuple[str, ...] = ()


@final
class WatchedRun:
    """A run's folder, which may not be there yet. Nothing in it is changed, locked or held open.

    Args:
        folder: the run's.
        clock: seconds since 1970.
    """

    def __init__(self, folder: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock
        self._store = Store(folder.parent, folder.name)
        self._sessions: dict[str, WatchedSession] = {}
        self._places: dict[tuple[str, str], Place] = {}
        self._spent_stamp: tuple[int, int] | None = None
        self._spent: float | None = None
        self._held: list[Event] = []

    def look(self, *, hold_s: float = 0.0) -> list[Event]:
        """Read what is new; return what has happened, in order.

        Args:
            hold_s: what happened in the last so many seconds is held back, while the run goes on: what came before it
                may be written later.
        """
        now = self._clock()
        for name in sorted(path.name for path in self.folder.glob("manifest-*.json")):
            session = name.removeprefix("manifest-").removesuffix(".json")
            if session not in self._sessions:
                self._sessions[session] = WatchedSession(self.folder, session)
        events = self._held
        for watched in self._sessions.values():
            events += watched.look(now)
        events += self._attempts()
        events += self._cost(now)
        events.sort(key=lambda event: event.at)
        held = hold_s and not self.over
        settled = sum(event.at <= now - hold_s for event in events) if held else len(events)
        self._held = events[settled:]
        return events[:settled]

    @property
    def begun(self) -> bool:
        """Whether a session has begun."""
        return bool(self._sessions)

    @property
    def over(self) -> bool:
        """Whether every session has ended, died, or is given up."""
        now = self._clock()
        return self.begun and all(session.over(now) for session in self._sessions.values())

    @property
    def cut_off(self) -> bool:
        """Whether the newest session did not come to its end."""
        if not self._sessions:
            return False
        newest = self._sessions[max(self._sessions)]
        return newest.life is not Life.ENDED

    def picture(self) -> Picture:
        """How it stands, as it was looked at last."""
        now = self._clock()
        sessions = [self._sessions[name] for name in sorted(self._sessions)]
        shown = [session for session in sessions if not session.over(now)] or sessions[-1:]
        counts: Counter[Outcome] = Counter()
        for session in shown:
            counts += session.counts()
        rows = tuple(self._rows(shown, now))
        remaining = [left for session in shown if (left := remaining_s(session, now)) is not None]
        output = self._newest_output(shown, now)
        return Picture(
            run=self.folder.name,
            now=now,
            sessions=tuple(_session_line(session, now) for session in shown),
            others=len(sessions) - len(shown),
            agents=tuple(dict.fromkeys(agent for session in shown for agent in session.agents)),
            tests=sum(session.tests for session in shown),
            counts=counts,
            rows=rows,
            dead=sum(session.dead_workers for session in shown),
            remaining_s=max(remaining, default=None),
            spent_usd=self._spent_usd(),
            limit_usd=next((session.limit_usd for session in shown if session.limit_usd is not None), None),
            output=output,
            lines=tuple(last_lines(output[1].path, _LINES)) if output else (),
        )

    # --- Attempts and money ---------------------------------------------------------------------------------

    def _attempts(self) -> list[Event]:
        """Look at the folders of environments that are worked on, or were since the last time; at no others."""
        wanted: dict[tuple[str, str], None] = {}
        for session in self._sessions.values():
            wanted |= {(group.agent, group.repository): None for group in sorted(session.touched)}
            session.touched.clear()
            wanted |= {(began.agent, began.repository): None for began in session.running.values() if began.subject}
        events: list[Event] = []
        for agent, repository in wanted:
            place = self._places.setdefault((agent, repository), Place(self._store, agent, repository))
            events += place.look()
        return events

    def _cost(self, now: float) -> Iterable[Event]:
        path = self.folder / SPENDING_FILE
        stamp = stamp_of(path)
        if stamp is None or stamp == self._spent_stamp:
            return
        self._spent_stamp = stamp
        try:
            spent = spent_in(self.folder)
        except InfrastructureError:
            # The sessions themselves stop at it.
            return
        if spent is None or (spent == self._spent) or (self._spent is None and not spent):
            self._spent = spent
            return
        self._spent = spent
        limits = [session.limit_usd for session in self._sessions.values() if not session.over(now)]
        limit = next((one for one in limits if one is not None), None)
        of = f" of ${limit:.2f}" if limit is not None else ""
        facts = {"spent_usd": round(spent, 6), "limit_usd": limit}
        yield Event(stamp[0] / 1e9, Kind.COST, f"${spent:.4f}{of}, attempts that have ended", facts)

    def _spent_usd(self) -> float | None:
        at_work = [
            watched.used.charged_usd
            for place in self._places.values()
            for watched in place.attempts.values()
            if not watched.over and watched.used.requests
        ]
        if self._spent is None and not at_work:
            return None
        return (self._spent or 0.0) + sum(at_work)

    # --- Workers --------------------------------------------------------------------------------------------

    def _rows(self, sessions: list[WatchedSession], now: float) -> Iterable[Row]:
        for session in sessions:
            if session.over(now):
                continue
            for process in session.workers():
                yield self._row(session, process, now)

    def _row(self, session: WatchedSession, process: WatchedProcess, now: float) -> Row:
        worker = "" if process.worker == MAIN else process.worker
        began = session.running.get(worker)
        phase = process.phase
        silent = process.silent_s(now) if process.life(now) is Life.SILENT else 0.0
        used = self._used(Group(began.agent, began.repository, began.trial)) if began else None
        if phase and phase.name:
            return Row(worker, phase.agent, phase.repository, phase.name, now - phase.at, phase.limit_s, used, silent)
        if began:
            # Its phases are not known: none lasts, or they could not be written.
            name = f"judging {began.subject}" if began.subject else "testing"
            return Row(worker, began.agent, _short(began.repository), name, now - began.at, None, used, silent)
        return Row(worker, "", "", "nothing", 0.0, None, None, silent)

    def _used(self, group: Group) -> Used | None:
        place = self._places.get((group.agent, group.repository))
        newest = place.newest(group.trial) if place else None
        return newest.used if newest and newest.used.requests else None

    def _newest_output(self, sessions: list[WatchedSession], now: float) -> tuple[str, Output] | None:
        found: list[tuple[float, str, Output]] = []
        for session in sessions:
            groups = [Group(one.agent, one.repository, one.trial) for one in session.running.values() if one.subject]
            if not groups and session.over(now):
                groups = [group for group, _ in sorted(session.work.items(), key=lambda item: item[1].began)][-1:]
            for group in groups:
                place = self._places.get((group.agent, group.repository))
                newest = place.newest(group.trial) if place else None
                if newest and (output := newest.newest_output()):
                    found.append((output.at, f"{group.agent} {_short(group.repository)}", output))
        if not found:
            return None
        _, whose, output = max(found, key=lambda one: one[0])
        return whose, output


def _session_line(session: WatchedSession, now: float) -> SessionLine:
    main = session.processes.get(MAIN)
    return SessionLine(
        session.id,
        session.began,
        session.life,
        session.silent_s(now),
        main.elsewhere if main else False,
        session.manifest.exit_status if session.manifest else None,
    )


def _short(repository: str) -> str:
    return repository.rpartition("/")[2]
