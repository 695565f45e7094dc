"""What a process tells those who watch the run: little, at once, and never at the cost of the run itself."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from pytest_researchenv.progress import Phase
from pytest_researchenv.recording.activity import ActivityWriter, Closed, Opened, activity_files, read_activity
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.sandbox.labels import alive
from pytest_researchenv.schemas import schema_of
from pytest_researchenv.secrets import Secret


def _said(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def _await(what: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_phase_that_lasts_is_told_with_its_limit(tmp_path: Path) -> None:
    """And who tells it: which process, on which machine, what the run may spend."""
    writer = ActivityWriter(tmp_path / "run", "s", "gw1", max_cost_usd=2.5)
    writer.start()
    writer.hear(Phase("codex", "kvpress", "agent at work", 3600.0))
    _await(lambda: len(_said(writer.path)) == 2)
    writer.close()

    opened, phase, closed = (read_activity(line) for line in writer.path.read_bytes().splitlines())

    assert activity_files(tmp_path / "run", "s") == [writer.path]
    assert isinstance(opened, Opened)
    assert (opened.worker, opened.max_cost_usd) == ("gw1", 2.5)
    assert alive(opened.process)
    assert _said(writer.path)[1] | {"at": 0} == {
        "at": 0,
        "agent": "codex",
        "repository": "kvpress",
        "name": "agent at work",
        "limit_s": 3600.0,
        "kind": "phase",
        "schema": 1,
    }
    assert phase
    assert isinstance(closed, Closed)
    schema = Draft202012Validator(json.loads(schema_of("activity")))
    for line in _said(writer.path):
        schema.validate(line)


def test_short_phases_are_not_told_and_no_more_than_one_a_second(tmp_path: Path) -> None:
    """A run that reuses everything writes next to nothing, however many phases it has."""
    writer = ActivityWriter(tmp_path, "s", "")
    writer.start()
    begin = time.monotonic()
    while time.monotonic() - begin < 2.5:
        writer.hear(Phase("a", "r", f"phase {time.monotonic()}"))
        time.sleep(0.6)
    writer.close()
    took = time.monotonic() - begin

    assert 1 <= len([line for line in _said(writer.path) if line["kind"] == "phase"]) <= took + 1


def test_hearing_takes_no_time_whatever_the_disk_does(tmp_path: Path) -> None:
    """A disk that hangs holds up the thread that writes, and no test; the end of a session waits two seconds."""
    writer = ActivityWriter(tmp_path, "s", "")
    # Opening one waits until somebody reads.
    os.mkfifo(writer.path)
    writer.start()
    begin = time.perf_counter()
    for number in range(1000):
        writer.hear(Phase("a", "r", str(number)))
    heard = time.perf_counter() - begin
    writer.close()
    closed = time.perf_counter() - begin - heard

    with writer.path.open("rb") as reader:
        assert b"opened" in reader.read()
    # Microseconds each, and two seconds: with room for a machine that has other things to do.
    assert heard < 5.0
    assert 1.0 < closed < 20.0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
def test_a_full_disk_is_not_told(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Nothing is raised, no thread dies with a warning."""
    writer = ActivityWriter(tmp_path, "s", "")
    writer.path.symlink_to("/dev/full")
    writer.start()
    writer.hear(Phase("a", "r", "p"))
    time.sleep(1.2)
    writer.close()

    assert not recwarn.list


def test_a_folder_that_cannot_be_made_is_not_told(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """Likewise."""
    (tmp_path / "file").write_text("")
    writer = ActivityWriter(tmp_path / "file" / "run", "s", "")
    writer.start()
    writer.close()

    assert not recwarn.list


def test_a_sign_of_life_is_renewed(tmp_path: Path) -> None:
    """While nothing new is done, the file's time goes on, and the file does not grow."""
    writer = ActivityWriter(tmp_path, "s", "", heartbeat_s=0.1)
    writer.start()
    _await(writer.path.exists)
    _await(lambda: writer.path.stat().st_size)
    size = writer.path.stat().st_size
    os.utime(writer.path, (1.0, 1.0))

    _await(lambda: writer.path.stat().st_mtime > 2)

    assert writer.path.stat().st_size == size
    writer.close()


def test_secrets_and_odd_characters_do_not_get_in(tmp_path: Path) -> None:
    """A phase may quote what a provider said, key included; names may hold what is no text."""
    writer = ActivityWriter(tmp_path, "s", "", redactor=lambda: Redactor([Secret("KEY", "sk-very-secret-1")]))
    writer.start()
    writer.hear(Phase("a\udcff", "r\x1b[2J", "waiting, since \udc80 sk-very-secret-1 was refused\n"))
    _await(lambda: len(_said(writer.path)) == 2)
    writer.close()

    phase = _said(writer.path)[1]
    assert phase["name"] == "waiting, since \\udc80 [redacted KEY] was refused\n"
    assert phase["agent"] == "a\\udcff"
    assert b"secret" not in writer.path.read_bytes()


def test_a_redactor_that_fails_fails_nothing(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """What cannot be cleaned is not written."""

    def broken() -> Redactor:
        raise RuntimeError("no engine")

    writer = ActivityWriter(tmp_path, "s", "", redactor=broken)
    writer.start()
    writer.hear(Phase("a", "r", "p"))
    time.sleep(1.3)
    writer.close()

    assert [line["kind"] for line in _said(writer.path)] == ["opened", "closed"]
    assert not recwarn.list
