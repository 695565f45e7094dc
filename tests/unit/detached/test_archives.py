"""Archives of a folder at work: only what is new, within a bound, never torn in silence, and restored as it was."""

from __future__ import annotations

import contextlib
import itertools
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pytest

from pytest_researchenv.archiving.index import Entry, Kind, archive_path, newest_index, save_index
from pytest_researchenv.archiving.keeping import archived
from pytest_researchenv.archiving.restoring import restore_to, restored_tar
from pytest_researchenv.archiving.taking import CancelledError
from pytest_researchenv.errors import ConfigurationError, SandboxError, StoreError
from pytest_researchenv.sandbox._fakefiles import Link
from pytest_researchenv.sandbox.fake import FakeContainer
from pytest_researchenv.settings import Archiving
from tests.unit.archives import ROOT, at_work, take


def members(folder: Path, number: int) -> list[str]:
    """Names in one archive."""
    with tarfile.open(archive_path(folder, number)) as archive:
        return archive.getnames()


def restored(folder: Path, target: Path) -> dict[str, bytes]:
    """What is restored."""
    restore_to(folder, target)
    return {path.relative_to(target).as_posix(): path.read_bytes() for path in target.rglob("*") if path.is_file()}


def test_an_archive_holds_what_is_new_and_its_index_all(tmp_path: Path) -> None:
    """A file that is as it was is not read again; one that changed, came or went is told from it."""
    container = at_work({"a": b"1", "deep/b": b"2", "c": b"3"})
    take(container, tmp_path)
    container.files.write(f"{ROOT}/a", b"other")
    container.files.write(f"{ROOT}/deep/d", b"new")
    container.files.remove(f"{ROOT}/c")

    index = take(container, tmp_path)

    assert (members(tmp_path, 1), members(tmp_path, 2)) == (["a", "c", "deep/b"], ["deep/d", "a"])
    assert {path for path, entry in index.entries.items() if entry.kind is Kind.FILE} == {"a", "deep/b", "deep/d"}
    assert restored(tmp_path, tmp_path / "out") == {"a": b"other", "deep/b": b"2", "deep/d": b"new"}


def test_what_has_no_room_is_left_out_and_named(tmp_path: Path) -> None:
    """The bound is that of all archives of the attempt; small files get in before large ones."""
    container = at_work({"large": bytes(50_000), "small": b"s"})

    index = take(container, tmp_path, most_bytes=20_000)

    assert list(index.left_out) == ["large"]
    assert "50000 bytes" in index.left_out["large"]
    assert restored(tmp_path, tmp_path / "out") == {"small": b"s"}
    container.files.write(f"{ROOT}/more", bytes(12_000))
    assert "more" in take(container, tmp_path, most_bytes=20_000).left_out


class _Restless:
    """A container in which one file is written to while it is read, a few times."""

    def __init__(self, container: FakeContainer, times: int) -> None:
        self._container = container
        self._versions = itertools.count()
        self._times = times

    def __getattr__(self, name: str) -> object:
        return getattr(self._container, name)

    @contextlib.contextmanager
    def get(self, path: str) -> Iterator[IO[bytes] | None]:
        """Read, and be written to."""
        with self._container.get(path) as stream:
            yield stream
        if path.endswith("log") and (version := next(self._versions)) < self._times:
            self._container.files.write(path, b"version %d" % version)


@pytest.mark.parametrize(("times", "torn"), [(0, ()), (1, ()), (2, ()), (9, ("log",))])
def test_a_file_that_is_written_to_is_read_again_or_marked(tmp_path: Path, times: int, torn: tuple[str, ...]) -> None:
    """What was read is of one moment, or the index says that it may not be, and the next archive reads it again."""
    container = at_work({"log": b"version 9", "other": b"o"})
    restless = _Restless(container, times)

    index = take(restless, tmp_path)  # type: ignore[arg-type]

    assert index.torn == torn
    if not torn:
        assert restored(tmp_path, tmp_path / "out")["log"] == container.files.read(f"{ROOT}/log")
    again = take(container, tmp_path)
    assert again.torn == ()
    assert ("log" in members(tmp_path, 2)) == bool(torn)


def test_an_archive_that_is_not_needed_any_more_leaves_nothing(tmp_path: Path) -> None:
    """At the end of the work it is given up at once, and the archive before it stands."""
    container = at_work({"a": b"1"})
    take(container, tmp_path)
    container.files.write(f"{ROOT}/b", b"2")

    with pytest.raises(CancelledError):
        take(container, tmp_path, wanted=lambda: False)

    index = newest_index(tmp_path)
    assert index
    assert index.number == 1
    assert not archive_path(tmp_path, 2).exists()


def test_a_kill_while_an_archive_is_written_leaves_the_one_before(tmp_path: Path) -> None:
    """An archive counts once its index is there; a torn one is written over by the next."""
    container = at_work({"a": b"1"})
    take(container, tmp_path)
    archive_path(tmp_path, 2).write_bytes(b"half of a t")

    assert restored(tmp_path, tmp_path / "out") == {"a": b"1"}
    container.files.write(f"{ROOT}/b", b"2")
    assert take(container, tmp_path).number == 2
    assert restored(tmp_path, tmp_path / "more") == {"a": b"1", "b": b"2"}


def test_a_damaged_archive_is_told(tmp_path: Path) -> None:
    """Nothing is restored that is not what was put there."""
    take(at_work({"a": b"1234567890"}), tmp_path)
    place = archive_path(tmp_path, 1)
    place.write_bytes(place.read_bytes().replace(b"1234567890", b"1234567891"))

    with pytest.raises(StoreError, match="a is not what was put there"):
        restore_to(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_what_an_agent_made_cannot_leave_the_folder(tmp_path: Path) -> None:
    """On this host, links that lead outside are left out, and a target that exists is not written to."""
    container = at_work({"a": b"1"})
    container.files.place(f"{ROOT}/inside", Link("a"))
    container.files.place(f"{ROOT}/outside", Link("/etc/passwd"))
    container.files.place(f"{ROOT}/up", Link("../../../etc/passwd"))
    take(container, tmp_path)

    restore_to(tmp_path, tmp_path / "out")

    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["a", "inside"]
    assert (tmp_path / "out/inside").read_bytes() == b"1"
    with pytest.raises(ConfigurationError, match="exists"):
        restore_to(tmp_path, tmp_path / "out")
    with pytest.raises(ConfigurationError, match="holds no archive"):
        restore_to(tmp_path / "out", tmp_path / "other")


def test_a_name_that_leads_up_is_not_followed(tmp_path: Path) -> None:
    """An index that somebody else wrote is no way out, either."""
    index = take(at_work({"a": b"1"}), tmp_path)
    entries = {**index.entries, "../../evil": Entry(Kind.FOLDER)}
    save_index(
        tmp_path, type(index)(**{**{name: getattr(index, name) for name in index.__slots__}, "entries": entries})
    )

    restore_to(tmp_path, tmp_path / "deep/er/out")

    assert not list(tmp_path.rglob("evil"))


def test_the_stream_names_every_folder_from_the_first_on(tmp_path: Path) -> None:
    """As a container takes it, so that no link is followed."""
    take(at_work({"deep/a": b"1"}), tmp_path)

    _, stream = restored_tar(tmp_path)

    with stream, tarfile.open(fileobj=stream) as archive:
        names = archive.getnames()
    assert names == ["workspace", "workspace/task", "workspace/task/deep", "workspace/task/deep/a"]


def test_archives_are_taken_at_intervals_and_trouble_harms_nothing(tmp_path: Path) -> None:
    """Where the engine fails once, the next archive is taken; none is where none is wanted."""
    container = at_work({"a": b"1"})
    fails = iter([True, False])

    class Failing(_Restless):
        @contextlib.contextmanager
        def changes(self) -> Iterator[object]:
            if next(fails, False):
                raise SandboxError("the engine hiccups")
            with container.changes() as changes:
                yield changes

    failing = Failing(container, 0)
    with archived(failing, ROOT, tmp_path, Archiving(0.02)):  # type: ignore[arg-type]
        deadline = time.monotonic() + 20
        while newest_index(tmp_path) is None:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    with archived(container, ROOT, tmp_path / "none", Archiving(0.0)):
        time.sleep(0.1)
    assert not (tmp_path / "none").exists()


def test_an_empty_file_is_kept(tmp_path: Path) -> None:
    """It is a file like any other."""
    take(at_work({"__init__.py": b""}), tmp_path)

    assert restored(tmp_path, tmp_path / "out") == {"__init__.py": b""}
