"""JUnit XML and CTRF JSON that are whole on disk at every moment of a session."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import final

from pytest_researchenv.errors import StoreError
from pytest_researchenv.recording.ctrf import ctrf_report, ctrf_test
from pytest_researchenv.recording.entry import Entry, Outcome
from pytest_researchenv.recording.junit import Suite, render_case, render_suites
from pytest_researchenv.recording.pace import Paced
from pytest_researchenv.store import write_whole


__all__ = ["Reports"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Kept:
    """A finished test as the files have it."""

    outcome: Outcome
    started: float
    seconds: float
    xml: str
    json: str


@dataclass(frozen=True, slots=True)
class _Kind:
    """A file that is kept up to date."""

    title: str
    path: Path
    render: Callable[[], bytes]


@final
class Reports:
    """Keeps the files up to date.

    Args:
        run: name of the run; empty where there is none.
        session: id of this session.
        junit: where the JUnit XML goes; None for nowhere.
        ctrf: where the CTRF JSON goes; likewise.
    """

    def __init__(self, run: str, session: str, *, junit: Path | None, ctrf: Path | None) -> None:
        self._run = run
        self._session = session
        self._started = time.time()
        # Sessions in their order, this one last. A test stands in the session that finished it last.
        self._kept: dict[str, dict[str, _Kept]] = {session: {}}
        wanted = (("JUnit XML", junit, self._junit), ("CTRF JSON", ctrf, self._ctrf))
        self._kinds = [_Kind(title, path, render) for title, path, render in wanted if path]
        self._paced = Paced(self._write)
        self._problem = ""

    @property
    def lines(self) -> list[str]:
        """What people should know in the end: where the files are, or why they are not up to date."""
        if self._problem:
            return [f"the reports are not up to date: {self._problem}"]
        return [f"{kind.title} in {kind.path}" for kind in self._kinds]

    def start(self, earlier: Iterable[tuple[str, Iterable[Entry]]] = ()) -> None:
        """Write what is known before the first test.

        Args:
            earlier: the run's other sessions, oldest first, with what they finished.

        Raises:
            StoreError: a file cannot be written.
        """
        own = self._kept.pop(self._session)
        for session, entries in earlier:
            self._kept[session] = {entry.test: _kept(entry, session) for entry in entries}
        self._kept[self._session] = own
        for kind in self._kinds:
            _make_room(kind.path)
        self._paced.write()
        if self._problem:
            raise StoreError(self._problem)

    def add(self, entry: Entry) -> None:
        """Take a finished test."""
        for kept in self._kept.values():
            kept.pop(entry.test, None)
        self._kept[self._session][entry.test] = _kept(entry, self._session)
        self._paced.changed(self._count)

    def finish(self) -> None:
        """Write what is known in the end."""
        self._paced.write()

    @property
    def _count(self) -> int:
        return sum(map(len, self._kept.values()))

    def _write(self) -> int:
        results = self._count
        try:
            for kind in self._kinds:
                write_whole(kind.path, kind.render())
        except StoreError as error:
            # A full disk must not end the session: the store and the journal say so, too.
            _log.exception("a report could not be written")
            self._problem = str(error)
        else:
            self._problem = ""
        return results

    def _junit(self) -> bytes:
        return render_suites(
            [self._suite(name) for name, kept in list(self._kept.items()) if kept or self._is_own(name)]
        )

    def _suite(self, session: str) -> Suite:
        kept = list(self._kept[session].values())
        about = {"run": self._run, "session": session, "earlier": str(not self._is_own(session)).lower()}
        return Suite(
            name=" ".join(filter(None, ("researchenv", self._run, session))),
            started=self._started if self._is_own(session) else min(one.started for one in kept),
            properties={**about, "version": version("pytest-researchenv")},
            cases=[one.xml for one in kept],
            counts=Counter(one.outcome for one in kept),
            seconds=sum(one.seconds for one in kept),
        )

    def _ctrf(self) -> bytes:
        kept = [one for of_session in list(self._kept.values()) for one in list(of_session.values())]
        return ctrf_report(
            [one.json for one in kept],
            counts=Counter(one.outcome for one in kept),
            started=min((one.started for one in kept), default=self._started),
            ended=max((one.started + one.seconds for one in kept), default=self._started),
            extra={"run": self._run, "session": self._session},
        )

    def _is_own(self, session: str) -> bool:
        return session == self._session


def _make_room(path: Path) -> None:
    """Make a file's folder, and remove what processes left that were killed while they wrote it."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        for torn in path.parent.glob(f".{path.name}.{'[0-9a-f]' * 32}"):
            torn.unlink(missing_ok=True)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}") from error


def _kept(entry: Entry, session: str) -> _Kept:
    return _Kept(entry.outcome, entry.started, entry.duration_s, render_case(entry), ctrf_test(entry, session=session))
