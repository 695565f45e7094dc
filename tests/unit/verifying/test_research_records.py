"""Records of research tasks that somebody changed."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.model import Environment
from pytest_researchenv.provenance import digest_of, seal_of
from pytest_researchenv.store import Attempt, Store, research_stem
from pytest_researchenv.verifying.records import read_records
from tests.unit.research.test_verdict import came
from tests.unit.sharing.machines import BASE, IMAGE


@pytest.fixture
def attempt(tmp_path: Path) -> Attempt:
    """One whose sub-task passed."""
    made = Store(tmp_path, "default").begin("oracle", "mine/digits", "session")
    made.save_report(b"{}")
    made.save_environment(
        Environment(made.key, IMAGE, BASE, "/workspace/x", None, "no report", (), {}, {}, "exited", "")
    )
    log = made.next_log(research_stem("steps2"))
    log.write_bytes(b"evaluated\n")
    result = replace(came(dict.fromkeys(range(5), 97.0)), log=log.name, snapshot=IMAGE, base_image=BASE)
    made.save_research(log, replace(result, log_digest=digest_of(log)))
    return made


def problems(attempt: Attempt) -> str:
    """What of its sub-task's record is not as it was written."""
    return "\n".join(one for one in read_records(attempt.folder, attempt.key).altered if "research" in one)


def test_what_was_written_is_intact(attempt: Attempt) -> None:
    """And its seal is one of the run's."""
    assert problems(attempt) == ""
    assert "research-steps2-001.json" in read_records(attempt.folder, attempt.key).seals


@pytest.mark.parametrize("sealed", [False, True], ids=["edited", "sealed-again"])
@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("verdict", "failed", "its scores and findings say otherwise"),
        ("completed", False, "its scores say otherwise"),
        ("subtask", "steps5", "it says that steps5 was judged"),
        ("snapshot", "sha256:2", "it judged another image"),
        ("log", "other.log", "it names 'other.log'"),
    ],
)
def test_an_edited_record_is_told(attempt: Attempt, key: str, value: object, says: str, *, sealed: bool) -> None:
    """By its seal, and where that was made again, by what contradicts it."""
    path = attempt.folder / "research-steps2-001.json"
    record = json.loads(path.read_text()) | {key: value}
    path.write_text(json.dumps(record | ({"seal": seal_of(record)} if sealed else {})))

    assert says in problems(attempt)
    assert ("it was edited" in problems(attempt)) is not sealed


def test_a_log_that_was_changed_is_told(attempt: Attempt) -> None:
    """The record holds its digest."""
    (attempt.folder / "research-steps2-001.log").write_bytes(b"other\n")

    assert "is not the log that was written" in problems(attempt)
