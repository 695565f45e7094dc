"""Rules of the line's file: whole, for all users of the host, and never replaced where it cannot be understood."""

from __future__ import annotations

import os
import resource
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from pytest_researchenv.errors import LeaseError
from pytest_researchenv.leases import record
from pytest_researchenv.leases.desk import Desk
from pytest_researchenv.leases.line import Line
from pytest_researchenv.leases.record import Record
from tests.unit.leases.children import OTHER, ended_as, holding, removed, running, wanted


needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")


@pytest.fixture
def folder() -> Iterator[Path]:
    """Where the line will lie; every user gets there, as nobody but its owner gets to pytest's own folders."""
    with TemporaryDirectory(prefix="leases-") as name:
        above = Path(name)
        above.chmod(0o755)
        yield above / "leases" / "host"


def states(folder: Path) -> list[str]:
    """The states in a folder."""
    return sorted(path.name for path in folder.glob("line-*.json"))


def test_the_folder_is_everybodys_whatever_the_umask(folder: Path) -> None:
    """Everybody may add files, and nobody may replace another's; the lock may be opened by all."""
    before = os.umask(0o077)
    try:
        with Desk(folder).lease(wanted()):
            modes = {
                path.name: stat.S_IMODE(path.stat().st_mode) for path in (folder.parent, folder, *folder.iterdir())
            }
    finally:
        os.umask(before)

    assert modes == {"leases": 0o1777, "host": 0o1777, "lock": 0o666, "line-000000000001.json": 0o644}


def test_one_state_is_left(folder: Path) -> None:
    """Older ones are removed."""
    for _ in range(3):
        with Desk(folder).lease(wanted()):
            pass

    assert states(folder) == ["line-000000000006.json"]
    assert sorted(path.name for path in folder.iterdir()) == ["line-000000000006.json", "lock"]


@needs_root
def test_another_user_waits_in_the_same_line(folder: Path) -> None:
    """His lease counts, and so does ours; what cannot be removed of the other's does not matter."""

    def take_the_other() -> None:
        with Desk(folder).lease(wanted()) as lease:
            assert lease.devices == ("GPU-b",)
        assert [one.user for one in Desk(folder).line().tickets] == ["root"]

    with Desk(folder).lease(wanted()) as lease:
        assert lease.devices == ("GPU-a",)
        assert ended_as(OTHER, take_the_other) == 0

    assert not Desk(folder).line().tickets
    assert ended_as(OTHER, take_again(folder)) == 0


def take_again(folder: Path) -> Callable[[], None]:
    """What takes everything."""

    def take() -> None:
        with Desk(folder).lease(wanted(2)):
            pass

    return take


@needs_root
def test_a_folder_that_another_user_made_serves_root(folder: Path) -> None:
    """Whoever comes first makes it."""
    folder.parent.mkdir()
    folder.parent.chmod(0o1777)

    assert ended_as(OTHER, take_again(folder)) == 0

    with Desk(folder).lease(wanted(2)) as lease:
        assert len(lease.devices) == 2
    assert folder.stat().st_uid == OTHER


@needs_root
def test_a_folder_that_cannot_be_written_names_its_owner(folder: Path) -> None:
    """And what to do."""
    folder.mkdir(parents=True)
    folder.chmod(0o755)

    def told() -> None:
        with (
            pytest.raises(LeaseError, match=r"belongs to root: let them run `chmod 1777"),
            Desk(folder).lease(wanted()),
        ):
            pass

    assert ended_as(OTHER, told) == 0


DAMAGED = {
    "empty": b"",
    "no JSON": b"{",
    "cut off": b'{"version": 1, "line": {"tickets": [{"id": "a", "num',
    "no line": b'{"version": 1}',
    "a list": b"[]",
    "deep": b"[" * 100_000,
    "surrogates and control characters": b'{"version": 1, "line": {"\\ud800\x1b[2J": 1}}',
    "not UTF-8": b"\xff\xfe",
    "an unknown key": b'{"version": 1, "line": {"tickets": [], "occupied": {}, "next_number": 1, "more": 1}}',
    "a word for a number": b'{"version": 1, "line": {"tickets": [], "occupied": {}, "next_number": "1"}}',
    "another version": b'{"version": 2, "line": {"tickets": []}}',
}


@pytest.mark.parametrize("name", DAMAGED)
def test_what_cannot_be_understood_stays_as_it_is(folder: Path, name: str) -> None:
    """The error names the file, its owner and what to do, and prints nothing that a terminal would obey."""
    with Desk(folder).lease(wanted()):
        pass
    path = folder / "line-000000000007.json"
    path.write_bytes(DAMAGED[name])

    with (
        pytest.raises(LeaseError, match=rf"{path}, which belongs to .*--researchenv-leases") as caught,
        Desk(folder).lease(wanted()),
    ):
        pass

    assert str(caught.value).isprintable()
    assert path.read_bytes() == DAMAGED[name]
    assert len(states(folder)) == 2


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _link(path: Path) -> None:
    (own,) = path.parent.glob("line-*.json")
    (path.parent.parent / "elsewhere").write_bytes(own.read_bytes())
    path.symlink_to(path.parent.parent / "elsewhere")


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(record._MOST_BYTES + 1)


@pytest.mark.parametrize("make", [_fifo, _link, _huge, Path.mkdir])
def test_what_is_no_file_of_ours_is_refused_at_once(folder: Path, make: Callable[[Path], None]) -> None:
    """A FIFO that nobody writes, a link, a sparse file without end, a folder."""
    with Desk(folder).lease(wanted()):
        pass
    make(folder / "line-000000000009.json")

    with pytest.raises(LeaseError, match="leases"):
        Desk(folder).line()


def test_a_full_disk_loses_nothing(folder: Path) -> None:
    """What cannot be written is as it was, and leaves nothing behind: here, files may not grow any more."""

    def fails() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))
        with (
            pytest.raises(LeaseError, match=r"cannot write the line in .*; it is as it was"),
            Desk(folder).lease(wanted()),
        ):
            pass

    with Desk(folder).lease(wanted()):
        before = Desk(folder).line()
        with running(fails) as process:
            process.join(30)
            assert process.exitcode == 0

        assert Desk(folder).line() == before
    assert sorted(path.name for path in folder.iterdir()) == [*states(folder), "lock"]


def test_a_lock_that_is_kept_is_told_with_its_holder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is frozen while it has the lock stops everybody, which is said after a while."""
    monkeypatch.setattr(record, "_PATIENCE_S", 0.2)

    def told() -> None:
        with pytest.raises(LeaseError, match=rf"somebody keeps the lock .*process {os.getppid()} has it"):
            Desk(folder).line()

    def keep(line: Line) -> Line:
        with running(told) as process:
            process.join(30)
            assert process.exitcode == 0
        return line

    Record(folder).change(keep)


def test_a_folder_that_was_removed_is_made_again(folder: Path) -> None:
    """What was held is forgotten then; states of the old one are not taken for the new one's."""
    desk = Desk(folder)
    with desk.lease(wanted(2)):
        removed(folder)

        assert not desk.line().tickets
    with holding(folder, 2):
        assert len(desk.line().holders) == 2


def test_a_recycled_number_is_another_state(folder: Path) -> None:
    """A folder that was removed and made again counts from one: what was read of the old one is not believed."""
    old = Desk(folder)
    with old.lease(wanted(2)):
        assert len(old.line().tickets) == 1
        removed(folder)
        with holding(folder, 1, "the new one"):
            assert [one.purpose for one in old.line().tickets] == ["the new one"]


def test_reading_waits_for_nobody(folder: Path) -> None:
    """While another has the lock, the line can be read."""

    def look(line: Line) -> Line:
        with running(lambda: sys.exit(len(Record(folder).read().tickets))) as process:
            process.join(30)
            assert process.exitcode == len(line.tickets)
        return line

    with Desk(folder).lease(wanted()):
        Record(folder).change(look)


def test_a_state_that_nothing_can_follow_is_no_end_of_waiting(folder: Path) -> None:
    """Another user of the host may leave one: whoever wrote the next would never see it, and wait for ever."""
    desk = Desk(folder)
    with desk.lease(wanted()):
        pass
    written = folder / states(folder)[0]
    written.rename(folder / "line-999999999999.json")

    with pytest.raises(LeaseError, match="the last state"), Desk(folder).lease(wanted()):
        pass

    assert states(folder) == ["line-999999999999.json"]


@pytest.mark.parametrize("name", ["line-٠٠٠٠٠٠٠٠٠٠٠٩.json", "line-1000000000000.json", "line-999.json"])
def test_what_is_not_named_like_a_state_is_none(folder: Path, name: str) -> None:
    """Digits of other scripts are digits, too, and names of other lengths would not be in order."""
    for _ in range(2):
        with Desk(folder).lease(wanted()):
            (folder / name).write_text("{}")
