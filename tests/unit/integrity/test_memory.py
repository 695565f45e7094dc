"""What was read of a base image in one process is known in others. No Docker."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import pytest

from pytest_researchenv.integrity import _imagefile as imagefile
from pytest_researchenv.integrity._files import Bounds, Files
from pytest_researchenv.integrity._listing import Listing
from pytest_researchenv.integrity._memory import Memory
from pytest_researchenv.integrity.protocol import Entry
from pytest_researchenv.sandbox.fake import FakeSandbox, Folder, Link
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec


IMAGE = f"sha256:{'5a' * 32}"
NODES: dict[str, bytes | Link | Folder] = {
    "/researchenv": Folder(),
    "/data/file": b"content",
    "/data/link": Link("file"),
    "/data/bad\udcff": b"odd",
    "/data/a.pth": b"wanted",
    "/data/deep/er/file": b"deep",
    "/empty": Folder(),
}
LOOKED_AT = ("/data/file", "/data/link", "/data/bad\udcff", "/nowhere", "/data", "/empty", "/data/deep/er")


def unasked() -> NoReturn:
    """A container that nobody may ask for."""
    pytest.fail("the engine was asked for a file")


def answers(container: Callable[[], Container], memory: Memory) -> list[object]:
    """What is at some paths, and below two folders."""
    files = Files(container, Bounds(pytest.fail), memory=memory)
    looks: list[Entry | None] = [read(path) for path in LOOKED_AT for read in (files.entry, files.itself, files.look)]
    trees = [list(files.listing(top, lambda path: path.endswith("file")) or ()) for top in ("/data", "/empty")]
    return [*looks, *trees, files.listing("/nowhere", str.isascii)]


@pytest.fixture
def read(tmp_path: Path) -> list[object]:
    """What a first process reads of an image and writes down."""
    sandbox = FakeSandbox()
    with sandbox.opened(ContainerSpec(sandbox.add_image("a", NODES), argv=("/bin/true",))) as container:
        memory = Memory(IMAGE, tmp_path)
        found = answers(lambda: container, memory)
    memory.write()
    return found


def test_another_process_asks_the_engine_for_nothing(read: list[object], tmp_path: Path) -> None:
    """Files, links, folders, names that are no UTF-8, content, and that there is nothing."""
    assert answers(unasked, Memory(IMAGE, tmp_path)) == read
    assert sum(isinstance(one, Entry) for one in read) == 3 * (len(LOOKED_AT) - 1)


def test_another_image_is_another(read: list[object], tmp_path: Path) -> None:
    """What is known by its name alone may be another image tomorrow: nothing is kept of that."""
    assert read
    assert "/data/file" not in Memory(f"sha256:{'5b' * 32}", tmp_path)

    for image in ("debian:12", "", "sha256:5a", f"{IMAGE}\n"):
        memory = Memory(image, tmp_path / "named")
        memory.keep_listing("/", Listing())
        memory.write()
    assert not (tmp_path / "named").exists()


@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda _: b"", id="empty"),
        pytest.param(lambda raw: raw[:-1], id="cut off"),
        pytest.param(lambda raw: raw.replace(b"content", b"contend"), id="another letter"),
        pytest.param(lambda raw: raw * 2, id="twice"),
    ],
)
def test_a_damaged_file_is_none(read: list[object], tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """A byte less or another one, and everything is read again."""
    assert read
    (place,) = (tmp_path / "base-images").iterdir()
    raw = place.read_bytes()
    assert damage(raw) != raw
    place.write_bytes(damage(raw))

    memory = Memory(IMAGE, tmp_path)

    assert "/data/file" not in memory
    assert memory.listing("/data") is None


def test_a_file_that_another_process_removes_meanwhile_is_none(
    read: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that knows more takes its place."""
    assert read
    monkeypatch.setattr(imagefile, "_is_whole", lambda place: place.unlink() is None)

    assert "/data/file" not in Memory(IMAGE, tmp_path)


def test_a_file_that_cannot_be_read_any_more_is_none(read: list[object], tmp_path: Path) -> None:
    """As on a share that is gone: everything is read again."""
    assert read
    memory = Memory(IMAGE, tmp_path)
    assert memory._file
    assert memory._file._kept
    memory._file._kept.close()

    assert memory.listing("/data") is None
    assert "/data" not in memory.tops()
    memory.keep_listing("/data", Listing())
    memory.write()
    assert memory.listing("/data") is not None


def test_of_two_that_write_at_once_one_file_is_left(
    read: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though each looks for others only when both have written."""
    assert read
    forget = imagefile._forget
    monkeypatch.setattr(imagefile, "_forget", lambda _: None)
    for name in ("/a", "/b"):
        memory = Memory(IMAGE, tmp_path)
        memory.keep_listing(name, Listing())
        memory.write()

    for _ in range(2):
        forget(tmp_path / "base-images")

    assert len(list((tmp_path / "base-images").iterdir())) == 1
    assert "/b" in Memory(IMAGE, tmp_path).tops()


def test_what_a_killed_process_left_is_removed(read: list[object], tmp_path: Path) -> None:
    """Once nobody can be writing there any more."""
    assert read
    old, new = tmp_path / "base-images/tmpold", tmp_path / "base-images/tmpnew"
    for folder in (old, new):
        folder.mkdir()
        (folder / "part").touch()
    os.utime(old, (1, 1))

    imagefile._forget(tmp_path / "base-images")

    assert not old.exists()
    assert new.exists()


def test_what_was_read_in_part_is_remembered_by_nobody(tmp_path: Path) -> None:
    """Where a bound was reached, the next reader comes to it, too, and says so."""
    sandbox, memory = FakeSandbox(), Memory(IMAGE, tmp_path)
    problems: list[list[str]] = []
    with sandbox.opened(ContainerSpec(sandbox.add_image("a", NODES), argv=("/bin/true",))) as container:
        for _ in range(2):
            problems.append([])
            files = Files(lambda: container, Bounds(problems[-1].append, most_entries=2), memory=memory)
            for _ in range(2):
                assert len(list(files.listing("/data", str.isascii) or ())) == 2
            memory.write()

    assert [len(told) for told in problems] == [1, 1]
    assert Memory(IMAGE, tmp_path).listing("/data") is None


def test_what_is_learned_later_is_added(read: list[object], tmp_path: Path) -> None:
    """One file for each image, which has what all processes read; a few paths are not worth another one."""
    assert read
    (place,) = (tmp_path / "base-images").iterdir()
    few, many = Memory(IMAGE, tmp_path), Memory(IMAGE, tmp_path)
    few.keep("/few", None)
    few.write()
    assert list((tmp_path / "base-images").iterdir()) == [place]

    for number in range(60):
        many.keep(f"/many/{number}", None)
    many.write()

    (other,) = (tmp_path / "base-images").iterdir()
    assert other != place
    later = Memory(IMAGE, tmp_path)
    assert "/many/59" in later
    assert answers(unasked, later) == read


def test_images_that_nobody_takes_any_more_are_forgotten(
    read: list[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that were not taken for the longest time go first."""
    assert read
    monkeypatch.setattr(imagefile, "_MOST_IMAGES", 2)
    (place,) = (tmp_path / "base-images").iterdir()
    os.utime(place, (1, 1))
    for digit in "123":
        memory = Memory(f"sha256:{digit * 64}", tmp_path)
        memory.keep_listing("/", Listing())
        memory.write()

    left = sorted(path.name[:2] for path in (tmp_path / "base-images").iterdir())

    assert left == ["22", "33"]


def test_where_nothing_can_be_kept_everything_is_read(tmp_path: Path) -> None:
    """A folder that cannot be made, as where the disk is full, is no trouble."""
    (tmp_path / "file").touch()
    memory = Memory(IMAGE, tmp_path / "file")
    memory.keep_listing("/data", Listing())

    memory.write()

    assert memory.listing("/data") is not None
