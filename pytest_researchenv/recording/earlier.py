"""What earlier sessions of a run have finished: from their journals, and from the store where those were cut short."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from pytest_researchenv.errors import StoreError
from pytest_researchenv.harness import Judged
from pytest_researchenv.model import TierResult, Verdict, judged_named
from pytest_researchenv.recording.entry import Entry, Outcome, excerpt_of
from pytest_researchenv.recording.journal import Began, Finished, Journal, journals_in
from pytest_researchenv.report.message import failure_message
from pytest_researchenv.report.properties import PREFIX, judged_properties
from pytest_researchenv.store import Attempt, Store


__all__ = ["Earlier", "earlier_sessions", "newest_log"]

_log = logging.getLogger(__name__)

_OUTCOMES = {
    Verdict.PASSED: Outcome.PASSED,
    Verdict.FAILED: Outcome.FAILED,
    Verdict.SKIPPED: Outcome.SKIPPED,
    Verdict.ERROR: Outcome.ERROR,
}


@dataclass(frozen=True, slots=True)
class Earlier:
    """What one session finished.

    Attributes:
        session: its id.
        entries: its tests in the order in which they finished, without those that a later session finished again.
    """

    session: str
    entries: tuple[Entry, ...]


def earlier_sessions(store: Store, *, but: str) -> list[Earlier]:
    """Return the other sessions of a run that finished anything, oldest first.

    Args:
        store: the run's.
        but: id of the session that is left out.

    Raises:
        StoreError: a journal cannot be read.
    """
    newest: dict[str, tuple[str, Entry]] = {}
    for journal in journals_in(store.folder):
        if journal.session != but:
            for entry in _finished(journal, store):
                # At the end: what was finished again stands where it was finished last.
                newest.pop(entry.test, None)
                newest[entry.test] = (journal.session, entry)
    sessions = dict.fromkeys(sorted(session for session, _ in newest.values()))
    return [
        Earlier(session, tuple(entry for other, entry in newest.values() if other == session)) for session in sessions
    ]


def newest_log(began: Began, session: str, store: Store) -> str:
    """Return the end of the log of what a session did last for a test that came to no verdict.

    Raises:
        StoreError: a record cannot be read.
    """
    for attempt in _attempts(began, store):
        if results := _of_session(attempt, began, session):
            return excerpt_of(attempt.folder / results[-1].log)
        if attempt.session == session:
            return excerpt_of(attempt.transcript)
    return ""


def _finished(journal: Journal, store: Store) -> Iterator[Entry]:
    """The tests that a session finished, those included whose process died before it could say so."""
    began: dict[str, Began] = {}
    finished: dict[str, Entry] = {}
    for line in journal.lines():
        if isinstance(line, Began):
            began[line.test] = line
            finished.pop(line.test, None)
        elif isinstance(line, Finished):
            finished[line.entry.test] = line.entry
    for test in dict.fromkeys((*finished, *began)):
        entry = finished.get(test)
        start = began.get(test)
        cut_short = entry is None or entry.crashed
        stored = _stored(start, journal.session, store) if start and start.subject and cut_short else None
        if found := stored or entry:
            yield found


def _stored(began: Began, session: str, store: Store) -> Entry | None:
    """What the store knows of a test whose process died: the verdict was kept first."""
    try:
        for attempt in _attempts(began, store):
            if results := _of_session(attempt, began, session):
                return _entry(began, attempt, results[-1])
    except StoreError:
        # The test itself says so when it is run again.
        _log.warning("what is stored of %s is damaged, and not reported", began.test)
    return None


def _attempts(began: Began, store: Store) -> list[Attempt]:
    """The attempts that a test may have judged, the newest first."""
    attempts = store.attempts(began.agent, began.repository)
    return [attempt for attempt in reversed(attempts) if attempt.start.trial == began.trial]


def _of_session(attempt: Attempt, began: Began, session: str) -> list[TierResult]:
    return [result for result in attempt.judged(judged_named(began.subject)) if result.session == session]


def _entry(began: Began, attempt: Attempt, result: TierResult) -> Entry:
    judged = Judged(result, attempt.environment(), attempt.folder)
    outcome = _OUTCOMES[result.verdict]
    about = [("agent", began.agent), ("key", began.repository), ("tier", began.subject), ("trial", str(began.trial))]
    properties = [(PREFIX + name, value) for name, value in about] + judged_properties(judged)
    return Entry(
        test=began.test,
        outcome=outcome,
        started=datetime.fromisoformat(result.created).timestamp() - result.duration_s,
        duration_s=result.duration_s,
        message="" if outcome is Outcome.PASSED else result.reason,
        details=failure_message(judged) if outcome in (Outcome.FAILED, Outcome.ERROR) else "",
        properties=tuple((name, str(value)) for name, value in properties),
        log=excerpt_of(attempt.folder / result.log),
        worker=began.worker,
    )
