"""How long a session will still take, from what its environments took so far."""

from __future__ import annotations

from pytest_researchenv.recording.activity import MAIN
from pytest_researchenv.watching.sessions import WatchedSession, Work


__all__ = ["remaining_s"]


#: Nothing takes longer, in seconds: ten years.
_LONGEST_S = 3.2e8


def remaining_s(session: WatchedSession, now: float) -> float | None:
    """Return the seconds until it ends; None before one environment is done with, or where the tests are not known.

    An environment's first test builds it, and takes far longer than its others: so environments are counted, and tests
    only to tell how many of them are left. Workers share what is left evenly.
    """
    if not session.tests or session.over(now):
        return None
    current = _current(session)
    done = [work for group, work in session.work.items() if group not in current and work.tests]
    tests = sum(work.tests for work in done)
    if not tests:
        return None
    each = sum(work.seconds for work in done) / len(done)
    per = tests / len(done)
    waiting = max(0.0, (session.tests - tests) / per - len(current))
    left = waiting * each + sum(max(0.0, each - (now - work.began)) for work in current.values())
    workers = max(1, len(session.workers()))
    return min(left / min(workers, max(1.0, waiting + len(current))), _LONGEST_S)


def _current(session: WatchedSession) -> dict[object, Work]:
    """The environment that each worker is at that lives."""
    living = {"" if process.worker == MAIN else process.worker for process in session.workers()}
    newest: dict[str, tuple[object, Work]] = {}
    for group, work in session.work.items():
        # Later ones stand behind earlier ones.
        if work.worker in living:
            newest[work.worker] = (group, work)
    return dict(newest.values())
