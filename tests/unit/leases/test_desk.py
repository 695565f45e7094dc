"""Rules of leases between real processes: who waits, who is served, and what becomes of those who die."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from pytest_researchenv.errors import LeaseError
from pytest_researchenv.leases import desk as desks
from pytest_researchenv.leases.desk import Desk, Lease, Wanted, holds_nothing
from pytest_researchenv.leases.line import Amount, Line, Ticket
from pytest_researchenv.leases.record import Record
from tests.unit.leases.children import TWO, eventually, holding, kill, removed, running, wanted


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where the line will lie."""
    return tmp_path / "leases" / "host"


def _replaced(_: Line, *, by: Line) -> Line:
    return by


def taken(folder: Path, wished: Wanted) -> tuple[str, ...]:
    """Take something and give it back."""
    with Desk(folder, patience_s=20).lease(wished) as lease:
        return lease.devices


def test_what_is_held_is_had_by_nobody_else(folder: Path) -> None:
    """Until the end of the block; then nothing is left in the line."""
    with holding(folder), Desk(folder).lease(wanted()) as lease:
        assert lease.devices == ("GPU-b",)
        with pytest.raises(LeaseError, match="gave up"):
            _in_thread(folder, patience_s=0.3)
    assert not Desk(folder).line().tickets


def _in_thread(folder: Path, *, patience_s: float) -> None:
    """Ask in another thread, as another worker would."""
    raised: list[BaseException] = []

    def ask() -> None:
        try:
            with Desk(folder, patience_s=patience_s).lease(wanted()):
                pass
        except LeaseError as error:
            raised.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    if raised:
        raise raised[0]


def test_a_wait_says_what_for_and_has_an_end(folder: Path) -> None:
    """Who holds it, whose it is, and how many are before; the error at the end says the same."""
    said: list[str] = []

    with (
        holding(folder, 2, "C4 of run/agent/thing#1"),
        pytest.raises(LeaseError, match=r"gave up after 0 s of waiting for 2 devices.*--researchenv-lease-timeout"),
        Desk(folder, patience_s=0.3).lease(wanted(2), say=said.append),
    ):
        pass

    assert len(said) == 1
    assert re.fullmatch(r"waiting for 2 devices: first in line, held by \w+\'s C4 of run/agent/thing#1 \(2\)", said[0])
    assert not Desk(folder).line().tickets


def test_foreign_words_cannot_reach_the_terminal(folder: Path) -> None:
    """Another account may have written anything into the line."""
    said: list[str] = []

    with (
        holding(folder, 2, "\x1b[2J" + "x" * 500),
        pytest.raises(LeaseError),
        Desk(folder, patience_s=0.2).lease(wanted(), say=said.append),
    ):
        pass

    assert said[0].isprintable()
    assert len(said[0]) < 200


def test_a_holder_that_is_killed_gives_back(folder: Path) -> None:
    """Whoever waits notices."""
    with holding(folder, 2) as process:
        threading.Timer(0.3, kill, (process,)).start()

        assert taken(folder, wanted(2)) == TWO


def test_one_that_waits_and_is_killed_is_waited_for_by_nobody(folder: Path) -> None:
    """Although it was first in line."""
    with holding(folder, 1), running(lambda: taken(folder, wanted(2, "first in line"))) as first:
        eventually(lambda: any(one.purpose == "first in line" for one in Desk(folder).line().waiting))
        threading.Timer(0.3, kill, (first,)).start()

        assert taken(folder, wanted(1)) == ("GPU-b",)


def test_a_holder_that_is_frozen_keeps_its_devices(folder: Path) -> None:
    """It is alive, and what it started may be at work on them."""
    with holding(folder, 2) as process:
        assert process.pid
        os.kill(process.pid, signal.SIGSTOP)
        with pytest.raises(LeaseError, match="gave up"):
            _in_thread(folder, patience_s=1.0)
        os.kill(process.pid, signal.SIGCONT)


def test_a_child_that_is_forked_holds_nothing(folder: Path) -> None:
    """Neither its end nor the end of its block gives back what its parent holds, and it keeps nothing for it."""

    def hold_and_fork() -> None:
        with Desk(folder).lease(wanted(2)):
            if os.fork() == 0:
                time.sleep(5)
                os._exit(0)
            time.sleep(600)

    with Desk(folder).lease(wanted(2)) as lease:
        with running(lease.release) as process:
            process.join()
        assert len(Desk(folder).line().holders) == 2
    with running(hold_and_fork) as parent:
        eventually(lambda: len(Desk(folder).line().holders) == 2)
        kill(parent)
        assert taken(folder, wanted(2)) == TWO


def test_a_recycled_process_id_is_no_holder(folder: Path) -> None:
    """A process is known by its start, too, and by the host's."""
    with holding(folder, 2) as process:
        (ticket,) = Desk(folder).line().tickets
        boot, namespace, pid, start = ticket.process.split("/")
        assert pid == str(process.pid)
        for other in (f"{boot}/{namespace}/{pid}/{int(start) - 1}", f"another-boot/{namespace}/{pid}/{start}"):
            line = Line((replace(ticket, process=other),))
            Record(folder).change(partial(_replaced, by=line))
            assert not Desk(folder).line().tickets


def test_a_process_that_cannot_be_seen_is_believed_as_long_as_it_can_be_at_work(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One in another container of this host: its id means nothing here."""
    with holding(folder, 2):
        (ticket,) = Desk(folder).line().tickets
        boot, _, pid, start = ticket.process.split("/")
        hidden = replace(ticket, process=f"{boot}/1/{pid}/{start}")
        Record(folder).change(lambda _: Line((hidden,)))
        assert len(Desk(folder).line().tickets) == 1

        monkeypatch.setattr(desks, "since_start", lambda: hidden.until + 1)
        assert not Desk(folder).line().tickets


def test_thousands_of_dead_are_taken_out_by_one_look(folder: Path) -> None:
    """However many died in line, whoever comes next is served soon."""
    with holding(folder, 2) as process:
        (ticket,) = Desk(folder).line().tickets
        kill(process)
    dead = tuple(replace(ticket, id=str(number), number=number, served=None, held=()) for number in range(1, 3001))
    Record(folder).change(lambda _: Line((replace(ticket, number=0), *dead), next_number=3001))

    began = time.monotonic()
    assert taken(folder, wanted(2)) == TWO
    assert time.monotonic() - began < 10


def test_the_hosts_clock_does_not_matter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be set back or forth meanwhile: nothing asks it."""
    monkeypatch.setattr(time, "time", lambda: pytest.fail("the clock was asked"))

    assert taken(folder, wanted(2)) == TWO


def test_a_wait_that_is_interrupted_leaves_the_line(folder: Path) -> None:
    """So does one whose caller breaks."""

    def interrupt(_: str) -> None:
        raise KeyboardInterrupt

    with holding(folder, 2), pytest.raises(KeyboardInterrupt), Desk(folder).lease(wanted(), say=interrupt):
        pass

    assert not Desk(folder).line().tickets


def test_what_was_given_back_early_is_given_back_once(folder: Path) -> None:
    """Another may have it by the end of the block."""
    with Desk(folder).lease(wanted(2)) as lease:
        lease.release()
        with holding(folder, 2):
            lease.release()
            assert len(Desk(folder).line().holders) == 2


def test_what_could_not_be_given_back_is_given_back_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A full disk at the end of a block breaks nothing; the next look of this process makes up for it."""

    def full(*_: object) -> None:
        raise LeaseError("no space left on device")

    with monkeypatch.context() as patched, Desk(folder).lease(wanted(2)):
        patched.setattr(Record, "_write", full)

    assert "could not be given back yet: no space left on device" in caplog.text
    assert not Desk(folder).line().tickets


def test_nobody_waits_while_he_holds(folder: Path) -> None:
    """Neither for another lease nor for a lock: two such could wait for each other for ever."""
    with Desk(folder).lease(wanted(1, "C3 of this")):
        with pytest.raises(LeaseError, match="C3 of this holds a lease and would wait for another lease"):
            taken(folder, wanted())
        with pytest.raises(LeaseError, match="would wait for the environment's lock"):
            holds_nothing("the environment's lock")
    holds_nothing("the environment's lock")


@pytest.mark.parametrize(
    ("wished", "message"),
    [
        (Wanted("x", 3, TWO), "x wants 3 devices, and there are 2 it may use"),
        (Wanted("x", 2, ("GPU-a", "GPU-a")), "x wants 2 devices, and there are 1"),
        (Wanted("x", amounts={"slots": Amount(2, 1)}), "x wants 2 of slots, and there are 1"),
    ],
)
def test_what_can_never_be_had_is_refused_at_once(folder: Path, wished: Wanted, message: str) -> None:
    """Nobody waits for it a day long."""
    with pytest.raises(LeaseError, match=message):
        taken(folder, wished)


def test_a_line_that_was_removed_is_joined_anew(folder: Path) -> None:
    """By who waits: somebody cleaned the folder for temporary files."""
    got: list[Lease] = []

    def ask() -> None:
        with Desk(folder, patience_s=20).lease(wanted(2)) as lease:
            got.append(lease)

    with holding(folder, 2):
        thread = threading.Thread(target=ask)
        thread.start()
        eventually(lambda: bool(Desk(folder).line().waiting))
        removed(folder)
        thread.join()

    assert got[0].devices == TWO


# --- devices that others use ------------------------------------------------------------------------------


class Strangers:
    """Who uses devices without a lease, as a test has it."""

    def __init__(self, **using: str) -> None:
        self.using = {f"GPU-{name}": words for name, words in using.items()}
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, devices: tuple[str, ...]) -> Mapping[str, str]:
        """Look."""
        self.asked.append(devices)
        return {uuid: words for uuid, words in self.using.items() if uuid in devices}


def test_a_device_that_a_stranger_uses_is_not_taken(folder: Path) -> None:
    """At the moment of the taking; another one is, and those that are not wanted are not looked at."""
    strangers = Strangers(a="process 7, 4000 MiB in use")

    with Desk(folder, occupied=strangers).lease(wanted()) as lease:
        assert lease.devices == ("GPU-b",)
    assert strangers.asked == [("GPU-a",), ("GPU-b",)]


def test_a_wait_for_a_stranger_says_so(folder: Path) -> None:
    """With what the driver told."""
    strangers = Strangers(a="process 7, 4000 MiB in use")
    said: list[str] = []

    with (
        pytest.raises(LeaseError, match="gave up"),
        Desk(folder, occupied=strangers, patience_s=0.3).lease(wanted(2), say=said.append),
    ):
        pass

    assert said == ["waiting for 2 devices: first in line, used by others: GPU-a (process 7, 4000 MiB in use)"]


def test_a_device_is_taken_once_the_stranger_has_gone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits looks again, and everybody who waits profits."""
    monkeypatch.setattr(desks, "_OCCUPIED_S", 1.0)
    monkeypatch.setattr(desks, "_AGAIN_S", 0.5)
    strangers = Strangers(a="process 7")

    def leave(_: str) -> None:
        strangers.using.clear()

    with Desk(folder, occupied=strangers, patience_s=20).lease(wanted(2), say=leave) as lease:
        assert lease.devices == TWO


def test_a_stranger_who_stays_keeps_nobody_else_back(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who waits for his device looks at it before the time is over, so that the others are not kept for it in vain."""
    monkeypatch.setattr(desks, "_OCCUPIED_S", 10.0)
    monkeypatch.setattr(desks, "_AGAIN_S", 0.3)
    strangers = Strangers(a="process 7")

    with (
        pytest.raises(LeaseError, match="gave up"),
        Desk(folder, occupied=strangers, patience_s=2).lease(wanted(2)),
    ):
        pass

    assert strangers.asked[0] == TWO
    assert len(strangers.asked) > 2
    assert set(strangers.asked[1:]) == {("GPU-a",)}
    with Desk(folder, occupied=strangers).lease(wanted()) as lease:
        assert lease.devices == ("GPU-b",)


def test_a_driver_that_does_not_answer_leaves_nothing_held(folder: Path) -> None:
    """The error is the driver's."""

    def broken(_: tuple[str, ...]) -> Mapping[str, str]:
        raise LeaseError("nvidia-smi exited with code 9")

    with pytest.raises(LeaseError, match="code 9"), Desk(folder, occupied=broken).lease(wanted()):
        pass

    assert not Desk(folder).line().tickets


def test_a_ticket_is_what_is_written(folder: Path) -> None:
    """Nothing is lost on the way through the file."""
    with Desk(folder).lease(Wanted("Zweck „ü“", 1, TWO, {"slots": Amount(1, 4)})):
        (ticket,) = Desk(folder).line().tickets

    assert isinstance(ticket, Ticket)
    assert (ticket.purpose, ticket.devices, ticket.among, ticket.held) == ("Zweck „ü“", 1, TWO, ("GPU-a",))
    assert ticket.amounts == {"slots": Amount(1, 4)}


def test_who_is_taken_out_of_the_line_again_and_again_gives_up(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user of the host can do that; nobody waits for ever, and the error says what happened."""
    change = Record.change

    def emptied(self: Record, wished: Callable[[Line], Line]) -> Line:
        change(self, wished)
        return change(self, partial(_replaced, by=Line()))

    monkeypatch.setattr(Record, "change", emptied)

    with pytest.raises(LeaseError, match=r"gave up after \d+ s of being taken out of the line"):
        taken_soon(folder)


def taken_soon(folder: Path) -> None:
    """Take something, with little patience."""
    with Desk(folder, patience_s=0.5).lease(wanted()):
        pass
