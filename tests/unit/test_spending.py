"""Money of a run: never more than allowed, whoever works at it."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.spending import Spending


def spending(folder: Path, limit: float | None, *, session: str = "session", whole_run: bool = False) -> Spending:
    """The money of a run in a folder."""
    return Spending(folder, session, limit_usd=limit, whole_run=whole_run)


def spend(money: Spending, wanted: float | None, spent: float) -> float | None:
    """One attempt: what it was allowed."""
    with money.allowance(wanted, say=lambda _: None) as allowance:
        allowance.spent_usd = spent
    return allowance.limit_usd


def test_without_a_limit_each_attempt_has_its_own(tmp_path: Path) -> None:
    """Where the run has no limit, an attempt may spend what its profile says, or anything."""
    money = spending(tmp_path, None)

    assert spend(money, 2.0, 1.5) == 2.0
    assert spend(money, None, 100.0) is None


def test_what_is_left_bounds_the_last_attempt(tmp_path: Path) -> None:
    """An attempt may spend no more than the run has left."""
    money = spending(tmp_path, 5.0)

    assert [spend(money, 3.0, 2.0), spend(money, 3.0, 2.5), spend(money, 3.0, 0.1)] == [3.0, 3.0, pytest.approx(0.5)]


def test_nothing_left_is_an_error(tmp_path: Path) -> None:
    """An attempt for which no money is left does not begin, and says which limit is used up."""
    money = spending(tmp_path, 1.0)
    spend(money, None, 1.0)

    with pytest.raises(InfrastructureError, match=r"\$1\.0000 of the \$1\.0000 that --researchenv-max-cost"):
        spend(money, None, 0.0)


def test_money_that_was_not_spent_is_free_again(tmp_path: Path) -> None:
    """What an attempt held and did not spend is left for others, even when it ended in an exception."""
    money = spending(tmp_path, 1.0)

    def breaks() -> None:
        with money.allowance(None, say=lambda _: None) as allowance:
            allowance.spent_usd = 0.25
            raise ConnectionError

    with pytest.raises(ConnectionError):
        breaks()
    assert spend(money, None, 0.0) == pytest.approx(0.75)


def test_who_finds_everything_held_waits(tmp_path: Path) -> None:
    """While another attempt holds what is left, the next one waits for its end, and says so."""
    held, said, done = threading.Event(), threading.Event(), []

    def second() -> None:
        money = spending(tmp_path, 1.0)
        with money.allowance(None, say=lambda _: said.set()) as allowance:
            done.append(allowance.limit_usd)

    with spending(tmp_path, 1.0).allowance(None, say=lambda _: None) as allowance:
        thread = threading.Thread(target=second)
        thread.start()
        held.set()
        assert said.wait(10)
        assert not done
        allowance.spent_usd = 0.4
    thread.join(10)

    assert done == [pytest.approx(0.6)]


def test_a_named_run_counts_all_its_sessions(tmp_path: Path) -> None:
    """A run that is continued has one purse; sessions of the default run have one each."""
    spend(spending(tmp_path, 1.0, session="yesterday"), None, 0.75)

    assert spend(spending(tmp_path, 1.0, session="today", whole_run=True), None, 0.0) == pytest.approx(0.25)
    assert spend(spending(tmp_path, 1.0, session="today"), None, 0.0) == pytest.approx(1.0)


def test_who_died_may_have_spent_what_he_held(tmp_path: Path) -> None:
    """Money that a dead process held counts as spent: nobody knows better."""
    host = Owner.current("").host
    held(tmp_path, host=host, until=time.time() + 1000)

    assert spend(spending(tmp_path, 1.0), None, 0.0) == pytest.approx(0.1)


def held(folder: Path, *, host: str, until: float) -> None:
    """Write down that a process which is gone from here holds money."""
    entry = {"session": "session", "process": "no-such-boot/1/1/1", "reserved": 0.9, "spent": 0.0}
    (folder / ".spending.json").write_text(json.dumps({"x": {**entry, "host": host, "until": until}}))


def test_another_hosts_attempts_are_at_work_until_their_time_is_over(tmp_path: Path) -> None:
    """A process of another host cannot be seen: its money is held, not spent, until it must have ended."""
    held(tmp_path, host="elsewhere", until=time.time() + 1000)
    assert spend(spending(tmp_path, 1.0), 0.05, 0.0) == 0.05
    # Nothing but the other host's money is left, so that it waits.
    waiting = spending(tmp_path, 0.9).allowance(None, say=_no_more)
    with pytest.raises(TimeoutError), waiting:
        pytest.fail("there was no money")

    held(tmp_path, host="elsewhere", until=time.time() - 1)
    with pytest.raises(InfrastructureError, match="has spent"):
        spend(spending(tmp_path, 0.9), None, 0.0)


def _no_more(_text: str) -> None:
    raise TimeoutError


@pytest.mark.parametrize("content", ["{", "[]", '{"x": {"session": "s"}}', '{"x": 1}'])
def test_a_damaged_purse_is_an_error(tmp_path: Path, content: str) -> None:
    """What was spent must not be forgotten in silence."""
    (tmp_path / ".spending.json").write_text(content)

    with pytest.raises(InfrastructureError, match=r"\.spending\.json.*remove it"):
        spend(spending(tmp_path, 1.0), None, 0.0)
