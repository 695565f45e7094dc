"""The record of a session: what it was, without what is nobody's business."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.manifest import EngineFacts, Manifest
from pytest_researchenv.provenance import seal_of
from pytest_researchenv.recording.entry import Entry, Outcome
from pytest_researchenv.recording.journal import Collected, Finished, Journal
from pytest_researchenv.recording.manifest import begun, ended, git_state, save_manifest, without_secrets


def manifest(folder: Path) -> Manifest:
    """A session that has begun."""
    return begun(session="s1", run="r", command=["pytest"], agents=["oracle"], distributions=["pytest"], folder=folder)


@pytest.mark.parametrize(
    ("argument", "kept"),
    [
        (["--api-key=abc"], ["--api-key=[redacted]"]),
        (["--api-key", "abc", "x"], ["--api-key", "[redacted]", "x"]),
        (["--token", "--verbose"], ["--token", "--verbose"]),
        (["-o", "my_password=abc"], ["-o", "my_password=[redacted]"]),
        (["--researchenv-max-cost=5", "-k", "C1"], ["--researchenv-max-cost=5", "-k", "C1"]),
        (["-k", "known"], ["-k", "[redacted K]"]),
    ],
)
def test_a_command_line_is_kept_without_secrets(argument: list[str], kept: list[str]) -> None:
    """What is known to be one, and what is called so."""
    assert without_secrets(argument, lambda text: text.replace("known", "[redacted K]")) == kept


def test_a_session_that_ends_says_what_came_of_it(tmp_path: Path) -> None:
    """From its journal: suites, tests, outcomes, each test once, and what the container engine is."""
    journal = Journal(tmp_path, "s1")
    journal.append(Collected(3, {"mine": "digest"}))
    facts = EngineFacts("Docker 20", "sha256:0", "cpu", (), "", "", "")
    journal.append(facts)
    for outcome in (Outcome.ERROR, Outcome.PASSED):
        journal.append(Finished(Entry("test_1", outcome, 1.0, 2.0)))

    done = ended(manifest(tmp_path), journal, exit_status=0)

    assert (done.tests, done.suites, done.outcomes) == (3, {"mine": "digest"}, {"passed": 1})
    assert (done.engines, done.exit_status) == ((facts,), 0)
    assert done.ended >= done.started


def test_a_record_is_sealed_and_stands_beside_those_of_other_sessions(tmp_path: Path) -> None:
    """Each session has a file of its own."""
    first, second = (replace(manifest(tmp_path), session=name) for name in ("s1", "s2"))

    paths = [save_manifest(tmp_path / "run", one) for one in (first, second)]

    assert [path.name for path in paths] == ["manifest-s1.json", "manifest-s2.json"]
    record = json.loads(paths[0].read_text())
    assert record["seal"] == seal_of(record)
    assert record["schema"] == 1
    assert record["host"]["id"]


def test_the_state_of_the_repository_is_kept(tmp_path: Path) -> None:
    """The commit, and how much differs from it; nothing where there is no repository."""
    assert git_state(tmp_path) is None

    def git(*arguments: str) -> str:
        identity = ["-c", "user.name=x", "-c", "user.email=x@x.example"]
        command = ["git", *identity, "-C", str(tmp_path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "--quiet")
    (tmp_path / "a").write_text("1")
    git("add", "a")
    git("commit", "--quiet", "-m", "x")
    (tmp_path / "a").write_text("2")
    (tmp_path / "b").write_text("new")

    state = git_state(tmp_path)
    assert state
    assert (state.commit, state.changed) == (git("rev-parse", "HEAD"), 2)
