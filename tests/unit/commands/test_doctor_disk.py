"""The command `doctor`: folders and the room of disks."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from pytest_researchenv.doctor.disk import Room, folder_finding, room_finding, room_of
from pytest_researchenv.doctor.values import State
from tests.refusals import refuse_listing


GIB = 1024**3
ENOUGH = partial(folder_finding, "results folder", needed=GIB, wanted=2 * GIB, option="--researchenv-results")


@pytest.mark.parametrize(
    ("room", "state"),
    [
        (Room(5 * GIB, 10 * GIB), State.OK),
        (Room(2 * GIB, 10 * GIB), State.OK),
        (Room(2 * GIB - 1, 10 * GIB), State.WARNING),
        (Room(GIB - 1, 10 * GIB), State.PROBLEM),
        (Room(0, 0), State.PROBLEM),
        (Room(5 * GIB, 10 * GIB, files=9_999), State.PROBLEM),
        (Room(5 * GIB, 10 * GIB, files=10_000), State.OK),
    ],
)
def test_too_little_room_is_told(room: Room, state: State) -> None:
    """Of bytes, and of files; with what to do unless there is enough."""
    found = room_finding("x", "in /x", room, needed=GIB, wanted=2 * GIB, fix="make room")
    assert found.state is state
    assert found.fix == ("" if state is State.OK else "make room")


def test_a_folder_is_tried_and_nothing_is_left_in_it(tmp_path: Path) -> None:
    """One that is not there yet is looked at where it would be made, and is not made."""
    (present,) = ENOUGH(tmp_path)
    (missing,) = ENOUGH(tmp_path / "a" / "b")

    assert list(tmp_path.iterdir()) == []
    assert f"in {tmp_path / 'a' / 'b'}, which will be made" in missing.value
    assert "which will be made" not in present.value


def test_a_file_or_a_dangling_link_in_its_place_is_a_problem(tmp_path: Path) -> None:
    """Also above it."""
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "link"):
        (found,) = ENOUGH(path)
        assert (found.state, "is no folder" in found.value) == (State.PROBLEM, True), found


def test_a_folder_that_cannot_be_listed_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report could not be read from there."""
    refuse_listing(monkeypatch, tmp_path)
    (found,) = ENOUGH(tmp_path)
    assert (found.state, found.value) == (State.PROBLEM, f"{tmp_path} cannot be used: Permission denied")
    assert "--researchenv-results" in found.fix


@pytest.mark.parametrize("number", [28, 30, 13], ids=["no space", "read-only", "permission"])
def test_a_folder_that_cannot_be_written_is_a_problem(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever its mode says: it is tried."""

    def refused(**_: object) -> object:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "TemporaryFile", refused)
    (found,) = ENOUGH(tmp_path)
    assert (found.state, found.value) == (State.PROBLEM, f"{tmp_path} cannot be used: {os.strerror(number)}")


def test_a_disk_without_room_is_a_problem(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the file system tells."""
    told = os.statvfs(tmp_path)
    full = SimpleNamespace(
        f_files=told.f_files, f_favail=told.f_favail, f_bavail=3, f_frsize=4096, f_blocks=told.f_blocks
    )
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    (found,) = ENOUGH(tmp_path)
    assert found.state is State.PROBLEM
    assert found.value.startswith("0.0 GiB of ")


def test_room_is_what_the_file_system_says(tmp_path: Path) -> None:
    """In bytes that we may write."""
    room = room_of(tmp_path)
    assert 0 < room.free <= room.total
    with pytest.raises(OSError, match="No such file"):
        room_of(tmp_path / "none")
