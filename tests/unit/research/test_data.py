"""Data that the user has, and what is said of those that are missing."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.datafolders import content_key, data_target, files_below, listing_key
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.research.data import folders_of, missing_data
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Task
from pytest_researchenv.suite import find_suite


TASKS = {task.name: task for task in load_research_suite(find_suite("researchgym")).tasks}


def with_digest(task: Task, name: str, content: bytes) -> Task:
    """The task, whose data set is known by its digest."""
    data = replace(task.data[name], sha256=hashlib.sha256(content).hexdigest())
    return replace(task, data={**task.data, name: data})


@pytest.mark.parametrize("task", TASKS.values(), ids=lambda task: task.name)
def test_what_is_missing_is_named_with_where_it_belongs(task: Task, tmp_path: Path) -> None:
    """Each sub-task that needs data of the user's says what to fetch and where to put it; then nothing is missing."""
    for name, subtask in task.subtasks.items():
        own = [one for one in subtask.data if task.data[one].fetch in {"download", "manual"}]
        told = missing_data(task, name, None)
        assert bool(told) == bool(own)
        for one in own:
            assert task.data[one].source in told
            assert "--researchenv-data=FOLDER" in told
        for one in subtask.data:
            place = tmp_path / task.name / data_target(one).removeprefix("/data/")
            place.mkdir(parents=True, exist_ok=True)
        assert missing_data(task, name, tmp_path) == ""


def test_only_what_the_user_has_to_have_is_mounted(tmp_path: Path) -> None:
    """What lies in the tree, is made or comes with a package is not looked for."""
    task = TASKS["digits-continual"]
    (tmp_path / task.name / "digits").mkdir(parents=True)
    assert folders_of(task, tmp_path) == {}
    task = TASKS["cross-modal-retrieval"]
    (tmp_path / task.name / "COCO_Flickr30K_Nocaps").mkdir(parents=True)
    found = folders_of(task, tmp_path)
    assert found == {"COCO, Flickr30K, Nocaps": tmp_path / task.name / "COCO_Flickr30K_Nocaps"}
    assert data_target("COCO, Flickr30K, Nocaps") == "/data/COCO_Flickr30K_Nocaps"


def test_data_of_another_digest_are_refused(tmp_path: Path) -> None:
    """Where the task gives a digest, a file that has it must be there."""
    task = with_digest(TASKS["continual-learning"], "ImageNet-R", b"the archive")
    place = tmp_path / task.name / "ImageNet-R"
    place.mkdir(parents=True)
    (place / "imagenet-r.tar").write_bytes(b"another")
    with pytest.raises(ConfigurationError, match="no file there has the SHA-256"):
        folders_of(task, tmp_path)
    (place / "other.tar").write_bytes(b"the archive")
    assert list(folders_of(task, tmp_path)) == ["ImageNet-R"]


def test_links_may_lead_to_files_and_not_to_folders(tmp_path: Path) -> None:
    """A link to a folder could lead in a circle, or anywhere."""
    place = tmp_path / "data"
    place.mkdir()
    (tmp_path / "file").write_text("x")
    (place / "a").symlink_to(tmp_path / "file")
    assert [(file.name, file.size) for file in files_below(place)] == [("a", 1)]
    (place / "b").symlink_to(tmp_path)
    with pytest.raises(ConfigurationError, match="link to a folder"):
        list(files_below(place))
    (place / "b").unlink()
    (place / "c").symlink_to(tmp_path / "nothing")
    with pytest.raises(ConfigurationError, match="cannot be read"):
        list(files_below(place))


def test_what_changes_is_put_into_a_new_volume_and_what_is_copied_is_the_same_data(tmp_path: Path) -> None:
    """A volume's name changes with every write; what an environment was shaped by, with names and sizes alone."""
    (tmp_path / "a").write_text("one")
    content, listing = content_key(tmp_path), listing_key(tmp_path)
    (tmp_path / "a").write_text("two")
    assert content_key(tmp_path) == content
    assert listing_key(tmp_path) != listing
    (tmp_path / "b").write_text("")
    assert content_key(tmp_path) != content
