"""Real sessions of pytest, watched while they go on: with workers, killed, and by several at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.simulated import DEADLINE_S, REPOSITORIES, TESTS, Workplace
from tests.unit.watching.terminals import Terminal


_WATCH = [sys.executable, "-m", "pytest_researchenv.cli", "watch"]


@contextmanager
def _session(workplace: Workplace, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A session in a process group of its own, of which nothing is left in the end."""
    with (workplace.folder / "printed").open("wb") as printed:
        process = subprocess.Popen(
            workplace.command(*arguments),
            cwd=workplace.folder,
            stdout=printed,
            stderr=subprocess.STDOUT,
            env=workplace.environment(),
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.wait(DEADLINE_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _watching(workplace: Workplace, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*_WATCH, *arguments],
        cwd=workplace.folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=workplace.environment(),
    )


def _events(printed: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in printed.splitlines()]


def _kinds(events: list[dict[str, Any]]) -> Counter[str]:
    return Counter(event["event"] for event in events)


def test_a_session_with_workers_is_told_in_full(tmp_path: Path) -> None:
    """Every attempt, every verdict once, in order; a log that is opened afterwards tells the same."""
    # Longer than phases have to last for each to be written down.
    workplace = Workplace(tmp_path, pause_s=1.5)
    watching = _watching(workplace, "--json")
    assert watching.stderr
    assert watching.stderr.readline() == "researchenv: waiting for a session in researchenv-results/default\n"
    with _session(workplace, "-n", "2") as session:
        assert session.wait(DEADLINE_S) == 1
    printed, said = watching.communicate(timeout=DEADLINE_S)

    assert watching.returncode == 0
    assert said == ""
    events = _events(printed)
    times = [event["at"] for event in events]
    assert times == sorted(times)
    kinds = _kinds(events)
    phases = kinds.pop("phase")
    assert kinds == {
        "session began": 1,
        "collected": 1,
        "attempt began": len(REPOSITORIES),
        "frozen": len(REPOSITORIES),
        "verdict": TESTS,
        "session ended": 1,
    }
    verdicts = Counter(event["verdict"] for event in events if event["event"] == "verdict")
    assert verdicts == {"passed": 14, "failed": 1, "error": 2, "skipped": 1}
    probing = {(event["worker"], event["phase"], event["limit_s"]) for event in events if event["event"] == "phase"}
    assert {("gw0", "probing C1", 600.0), ("gw1", "probing C1", 600.0)} <= probing
    assert phases >= len(REPOSITORIES)

    later = subprocess.run(
        [*_WATCH, "--json"], cwd=tmp_path, check=True, capture_output=True, text=True, env=workplace.environment()
    )
    assert sorted(later.stdout.splitlines()) == sorted(printed.splitlines())


def test_a_view_shows_a_session_while_it_goes_on(tmp_path: Path) -> None:
    """Workers, phases, output; and the session does what it does without anybody watching."""
    workplace = Workplace(tmp_path, pause_s=1.2)
    environment = workplace.environment()
    environment.pop("COLUMNS", None)
    with (
        Terminal(_WATCH, folder=tmp_path, environment=environment, rows=24, columns=100) as terminal,
        _session(workplace, "-n", "2") as session,
    ):
        terminal.await_text("waiting: no session has begun yet")
        terminal.await_text("probing C1")
        shown = "".join(terminal.lines(terminal.frames()[-1]))
        assert "gw0" in shown
        assert "gw1" in shown
        assert f"of {TESTS} tests:" in shown
        terminal.await_text("C0-001.log")
        assert terminal.end() == 0
        assert session.wait(DEADLINE_S) == 1
        assert f"{TESTS} of {TESTS} tests: 14 passed, 1 failed | 2 errors, 1 skipped" in terminal.text
    assert Counter(workplace.outcomes().values()) == {"passed": 14, "failure": 1, "error": 2, "skipped": 1}


@pytest.mark.parametrize(
    "workers", [pytest.param([], id="alone", marks=pytest.mark.slow), pytest.param(["-n", "2"], id="with workers")]
)
def test_a_session_that_is_killed_is_told(tmp_path: Path, workers: list[str]) -> None:
    """At once; the exit code says so; and when the run goes on, only the rest is told anew."""
    workplace = Workplace(tmp_path, pause_s=1.0)
    watching = _watching(workplace, "--json", "night")
    with _session(workplace, "--researchenv-run=night", *workers) as session:
        assert watching.stdout
        before = []
        for line in watching.stdout:
            before.append(json.loads(line))
            if before[-1]["event"] == "verdict":
                break
        session.kill()
        killed = time.monotonic()
        rest, _ = watching.communicate(timeout=DEADLINE_S)
        assert time.monotonic() - killed < 60

    assert watching.returncode == 1
    events = before + _events(rest)
    kinds = _kinds(events)
    assert kinds["session died"] == 1
    assert kinds["session ended"] == 0

    workplace.run("--researchenv-run=night", *workers, MENDED="1")
    done = subprocess.run(
        [*_WATCH, "night", "--json"],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        env=workplace.environment(),
    )
    kinds = _kinds(_events(done.stdout))
    assert (kinds["session began"], kinds["session died"], kinds["session ended"]) == (2, 1, 1)


def test_a_killed_worker_is_told_and_the_session_goes_on(tmp_path: Path) -> None:
    """Its test is an error, and another worker takes its place."""
    workplace = Workplace(tmp_path, pause_s=1.0)
    watching = _watching(workplace, "--json")
    with _session(workplace, "-n", "2") as session:
        deadline = time.monotonic() + DEADLINE_S
        while not (tmp_path / "done.log").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1.5)
        os.kill(int((tmp_path / "done.log").read_text().split()[-1]), signal.SIGKILL)
        session.wait(DEADLINE_S)
    printed, _ = watching.communicate(timeout=DEADLINE_S)

    kinds = _kinds(_events(printed))
    assert kinds["worker died"] == 1
    assert kinds["session ended"] == 1
    assert watching.returncode == 0


def test_a_run_that_nobody_can_write_about_is_judged_all_the_same(tmp_path: Path) -> None:
    """Where a process cannot say what it does, results are what they are, and nothing is printed about it."""
    workplace = Workplace(tmp_path)
    folder = tmp_path / "researchenv-results/default"
    folder.mkdir(parents=True)
    conftest = tmp_path / "conftest.py"
    # Its file is there before the session begins, and takes nothing.
    conftest.write_text(
        conftest.read_text()
        + """

def pytest_sessionstart(session):
    from pytest_researchenv.xdist import SESSION
    name = f"activity-{session.config.stash[SESSION]}-main.jsonl"
    Path("researchenv-results/default", name).symlink_to("/dev/full")
"""
    )

    code, printed = workplace.run(MENDED="1")

    assert code == 0, printed
    assert "activity" not in printed
    assert Counter(workplace.outcomes().values()) == {"passed": TESTS - 1, "skipped": 1}


def test_a_session_without_agents_writes_nothing(tmp_path: Path) -> None:
    """The plugin costs nothing where it is not used."""
    (tmp_path / "test_x.py").write_text("def test_x(): pass\n")
    workplace_environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-c", "/dev/null", "--rootdir=.", "test_x.py"],
        cwd=tmp_path,
        check=True,
        env=workplace_environment,
        capture_output=True,
    )

    assert not list(tmp_path.rglob("activity-*"))
