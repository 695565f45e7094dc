"""How long a session will still take: worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.watching.estimating import remaining_s
from pytest_researchenv.watching.sessions import WatchedSession
from tests.unit.watching.made import NOW, MadeRun


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    """A run of ten environments with three tests each."""
    made = MadeRun(tmp_path / "nightly")
    made.opened()
    made.collected(30)
    return made


def _remaining(made: MadeRun, now: float) -> float | None:
    session = WatchedSession(made.folder, made.session)
    session.look(now)
    return remaining_s(session, now)


def _done(made: MadeRun, repository: str, at: float, worker: str = "") -> float:
    """One environment: 90 s to build and judge it first, 5 s for each other tier; returns when it is done."""
    for tier, took in (("C0", 90.0), ("C1", 5.0), ("integrity", 5.0)):
        made.finished(made.began(repository, tier, at, worker=worker), at=at + took, took_s=took)
        at += took
    return at


def test_nothing_is_said_before_an_environment_is_done_with(made: MadeRun) -> None:
    """The first test of one says nothing about its others."""
    assert _remaining(made, NOW) is None
    at = _done(made, "a", NOW)
    assert _remaining(made, at) is None


def test_each_environment_takes_what_those_before_it_did(made: MadeRun) -> None:
    """Of ten, one is done and one is begun: eight of 100 s are left, and of the second what it has not taken."""
    at = _done(made, "a", NOW)
    made.began("b", "C0", at)

    assert _remaining(made, at + 30) == pytest.approx(8 * 100 + 70)
    # One that takes longer than usual may end at any time.
    assert _remaining(made, at + 1000) == pytest.approx(8 * 100)


def test_workers_share_what_is_left(made: MadeRun) -> None:
    """Two of them take half the time; one that died takes no part, and what it was at is to be done again."""
    for worker in ("gw0", "gw1"):
        made.opened(worker)
        at = _done(made, f"a{worker}", NOW, worker)
        made.began(f"b{worker}", "C0", at, worker=worker)

    assert _remaining(made, at) == pytest.approx((6 * 100 + 2 * 100) / 2)


def test_at_the_end_nothing_is_left(made: MadeRun) -> None:
    """And of a session that is over nothing is said."""
    at = NOW
    for number in range(10):
        at = _done(made, f"r{number}", at)

    assert _remaining(made, at) == pytest.approx(0.0)
    made.end(0)
    assert _remaining(made, at) is None
