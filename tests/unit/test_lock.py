"""The dataset lock: no file of a suite changes unnoticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.lock import LOCK, dataset_digest, dataset_of, lock_problems, write_lock
from pytest_researchenv.model import PathSource, Repository


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite of one repository."""
    folder = tmp_path / "suite"
    for name in ("suite.toml", "one/repo.toml", "one/oracle.sh", "one/probes/c1.py", "_shared/kit.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)
    return folder


def test_a_locked_suite_has_no_problems(suite: Path) -> None:
    """The lock itself, bytecode and hidden files are no part of what is locked."""
    digest = write_lock(suite)
    (suite / "_shared/__pycache__").mkdir()
    (suite / "_shared/__pycache__/kit.pyc").write_bytes(b"")
    (suite / ".DS_Store").write_bytes(b"")

    assert lock_problems(suite) == []
    assert dataset_digest(suite) == digest


@pytest.mark.parametrize("name", ["one/repo.toml", "one/oracle.sh", "one/probes/c1.py", "_shared/kit.py"])
def test_each_change_is_named(suite: Path, name: str) -> None:
    """A description, a recipe, a probe, what probes share: whichever changes, the lock says so."""
    digest = write_lock(suite)
    (suite / name).write_text("changed")

    assert lock_problems(suite) == [f"{name} has changed since the suite was locked"]
    assert dataset_digest(suite) != digest


def test_files_that_come_and_go_are_named(suite: Path) -> None:
    """Adding a file is a change, and so is taking one away."""
    write_lock(suite)
    (suite / "one/oracle.sh").unlink()
    (suite / "one/new.py").write_text("")

    assert lock_problems(suite) == ["one/new.py is not locked", "one/oracle.sh is locked, and gone"]


def test_what_lies_behind_links_is_locked(suite: Path, tmp_path: Path) -> None:
    """A linked folder is read like any other, so it is no hole; and links may go in circles."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "repo.toml").write_text("")
    (suite / "two").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "elsewhere" / "again").symlink_to(suite)
    write_lock(suite)

    (tmp_path / "elsewhere" / "repo.toml").write_text("changed")

    assert lock_problems(suite) == ["two/repo.toml has changed since the suite was locked"]


def test_a_digest_that_is_not_of_its_files_is_no_lock(suite: Path) -> None:
    """Whoever quotes the lock's digest quotes that of the files."""
    digest = write_lock(suite)
    (suite / LOCK).write_text((suite / LOCK).read_text().replace(digest, "0" * 64))

    with pytest.raises(ConfigurationError, match="is not that of its files: `researchenv lock"):
        lock_problems(suite)


@pytest.mark.parametrize("text", [None, "", "[]", '{"files": 3}', '{"digest": "", "files": {"a": []}}'])
def test_a_lock_that_cannot_be_read_is_an_error(suite: Path, text: str | None) -> None:
    """A suite without a lock, or with a damaged one, is not taken for locked."""
    if text is not None:
        (suite / LOCK).write_text(text)

    with pytest.raises(ConfigurationError, match="researchenv lock"):
        lock_problems(suite)


def test_a_repository_of_no_suite_has_no_dataset(suite: Path, tmp_path: Path) -> None:
    """Only a folder with a suite.toml is a suite."""
    source = PathSource("tree")

    assert dataset_of(Repository("one", source, folder=str(suite / "one"))) == dataset_digest(suite)
    assert not dataset_of(Repository("one", source, folder=str(tmp_path / "elsewhere")))
