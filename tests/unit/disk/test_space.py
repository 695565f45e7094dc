"""Room for builds: who waits, for whom, and what it ends in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from pytest_researchenv.disk.need import Need
from pytest_researchenv.disk.room import EngineDisk, Room
from pytest_researchenv.disk.space import Space
from pytest_researchenv.errors import NoRoomError


GIB = 1024**3
#: What an earlier attempt took.
KNOWN = Need(4 * GIB, "run/agent/suite/thing/attempt-001")
GUESS = Need(4 * GIB)


@dataclass
class Disk:
    """A disk of 100 GiB whose free room a test decides."""

    folder: Path
    free: int
    said: list[str] = field(default_factory=list)

    def space(self, *, evicting: bool = False, grace_s: float = 0.0) -> Space:
        """Room on it, of which 2 GiB are kept free; as one process of a run has it."""

        def look() -> Room:
            return Room(self.free, 100 * GIB)

        disk = EngineDisk("/engine", look, look)
        return Space(disk, self.folder / "line", 2 * GIB, evicting=evicting, grace_s=grace_s, poll_s=0.02)

    def say(self, words: str) -> None:
        """Note what is waited for."""
        self.said.append(words)


@pytest.fixture
def disk(tmp_path: Path) -> Disk:
    """One with 10 GiB free."""
    return Disk(tmp_path, 10 * GIB)


def _await(condition: object, disk: Disk) -> None:
    deadline = time.monotonic() + 20
    while not disk.said and time.monotonic() < deadline:
        time.sleep(0.01)
    assert disk.said, condition


def test_with_room_enough_nobody_waits(disk: Disk) -> None:
    """Two builds fit beside each other and what is kept free."""
    with (
        disk.space().set_aside(KNOWN, "one", say=disk.say),
        disk.space().set_aside(KNOWN, "two", say=disk.say),
    ):
        pass

    assert disk.said == []


def test_a_build_waits_until_another_gives_back(disk: Disk) -> None:
    """What others have set aside counts as used; who waits says so, with the numbers."""
    disk.free = 9 * GIB
    began: list[str] = []

    def second() -> None:
        with disk.space().set_aside(KNOWN, "two", say=disk.say):
            began.append("two")

    with disk.space().set_aside(KNOWN, "one", say=disk.say):
        thread = threading.Thread(target=second)
        thread.start()
        _await("the second waits", disk)
        assert began == []
    thread.join(20)

    assert began == ["two"]
    assert disk.said[0] == (
        "waiting for room on the engine's disk: about 4.0 GiB needed, 9.0 GiB free, 2.0 GiB kept free, "
        "4.0 GiB set aside by 1 others"
    )


def test_a_build_waits_until_somebody_frees_room(disk: Disk) -> None:
    """What was judged may be removed: it is waited for although it needs nothing any more."""
    disk.free = 7 * GIB
    judging = disk.space(evicting=True)
    with judging.set_aside(KNOWN, "one", say=disk.say):
        pass
    disk.free = 3 * GIB
    began: list[str] = []

    def second() -> None:
        with disk.space().set_aside(KNOWN, "two", say=disk.say):
            began.append("two")

    thread = threading.Thread(target=second)
    thread.start()
    _await("the second waits", disk)
    time.sleep(0.2)
    assert began == []
    disk.free = 7 * GIB
    thread.join(20)

    assert began == ["two"]


def test_without_anybody_to_wait_for_it_is_an_error_with_the_numbers(disk: Disk) -> None:
    """Before an agent is paid, since an earlier attempt says that it cannot fit."""
    disk.free = 5 * GIB

    with pytest.raises(NoRoomError) as caught, disk.space().set_aside(KNOWN, "one", say=disk.say):
        pytest.fail("there is no room")

    for part in ("4.0 GiB", KNOWN.like, "5.0 GiB of 100.0 GiB", "/engine", "2.0 GiB are kept", "disk-floor", "reap"):
        assert part in str(caught.value)


def test_a_guess_is_no_reason_not_to_begin(disk: Disk) -> None:
    """Nobody knows what it needs: it begins as long as the floor is there, and not otherwise."""
    disk.free = 3 * GIB
    with disk.space().set_aside(GUESS, "one", say=disk.say):
        pass

    disk.free = 2 * GIB - 1
    with pytest.raises(NoRoomError), disk.space().set_aside(GUESS, "one", say=disk.say):
        pytest.fail("there is less than the floor")


def test_who_died_holds_nothing(disk: Disk) -> None:
    """Kill -9 of one who builds gives back what it had set aside."""
    disk.free = 7 * GIB
    script = (
        "import pathlib, sys, time\n"
        "from tests.unit.disk.test_space import Disk, KNOWN\n"
        f"disk = Disk(pathlib.Path({str(disk.folder)!r}), {disk.free})\n"
        "with disk.space().set_aside(KNOWN, 'one', say=print):\n"
        "    print('held', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[3]
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        threading.Timer(0.5, os.kill, (other.pid, signal.SIGKILL)).start()

        with disk.space().set_aside(KNOWN, "two", say=disk.say):
            assert "set aside by 1 others" in disk.said[0]


def test_who_waits_longest_goes_first(disk: Disk) -> None:
    """A small build does not pass a large one that waits for room: it would wait for ever."""
    disk.free = 9 * GIB
    order: list[str] = []

    def build(name: str, need: Need) -> None:
        with disk.space(grace_s=20).set_aside(need, name, say=disk.say):
            order.append(name)

    large = threading.Thread(target=build, args=("large", Need(6 * GIB, "x")))
    small = threading.Thread(target=build, args=("small", Need(GIB, "x")))
    with disk.space().set_aside(KNOWN, "one", say=disk.say):
        large.start()
        _await("the large one waits", disk)
        small.start()
        time.sleep(0.3)
        assert order == []
    large.join(20)
    small.join(20)

    assert order == ["large", "small"]


def test_where_nothing_is_known_nothing_is_waited_for(tmp_path: Path) -> None:
    """An engine elsewhere whose disk cannot be measured is no reason not to build; no file is made."""
    space = Space(EngineDisk(), tmp_path / "line")

    with space.set_aside(Need(10**18, "x"), "one", say=pytest.fail):
        assert not (tmp_path / "line").exists()


def test_a_line_that_cannot_be_used_stops_no_build(disk: Disk) -> None:
    """Others do not hear of it then, which is less bad than not to build."""
    (disk.folder / "line").write_text("no folder")

    with disk.space().set_aside(KNOWN, "one", say=disk.say):
        pass


def test_a_full_disk_is_told_from_trouble_of_what_runs_there(disk: Disk) -> None:
    """With the numbers and what to do; a disk that cannot be measured tells nothing."""
    disk.free = GIB
    disk.space().disk.require(GIB, "C1")
    EngineDisk().require(GIB, "C1")

    with pytest.raises(NoRoomError, match=r"C1: the engine's disk is full: 1\.0 GiB of 100\.0 GiB free in /engine"):
        disk.space().disk.require(GIB + 1, "C1")
