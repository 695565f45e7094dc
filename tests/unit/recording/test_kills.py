"""kill -9 of the controller or of a worker, at any moment: what was known stays, and only the rest is done again."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from pytest_researchenv.recording.earlier import earlier_sessions
from pytest_researchenv.recording.entry import Entry, Outcome
from pytest_researchenv.recording.journal import Began, Finished, Journal
from pytest_researchenv.store import Store
from tests.simulated import DEADLINE_S, REPOSITORIES, TESTS, Workplace
from tests.unit.recording.valid import problems_of_ctrf, problems_of_junit


#: How long a session is at work, about, in seconds: moments are drawn from it.
_WORK_S = 2.5

_EACH_VICTIM = pytest.mark.parametrize(
    ("whom", "workers"),
    [
        pytest.param("controller", [], id="controller alone"),
        # Of a whole line on real containers they are killed for every change (`tests/integration/faults`).
        pytest.param("controller", ["-n", "2"], id="controller of workers", marks=pytest.mark.slow),
        pytest.param("worker", ["-n", "2"], id="worker", marks=pytest.mark.slow),
    ],
)


@contextmanager
def _session(workplace: Workplace, run: str, *workers: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start a session in a process group of its own; in the end none of it is left."""
    with subprocess.Popen(
        workplace.command(f"--researchenv-run={run}", *workers),
        cwd=workplace.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=workplace.environment(MENDED="1"),
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Wait until workers have noticed that their controller is gone, and end those that have not."""
    process.wait(DEADLINE_S)
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)


def _await_work(workplace: Workplace, process: subprocess.Popen[bytes], moment_s: float) -> None:
    """Wait until the first environment is built, and then for so long."""
    log = workplace.folder / "done.log"
    deadline = time.monotonic() + DEADLINE_S
    while not log.exists():
        assert process.poll() is None, "the session ended before it did anything"
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(moment_s)


def _kill(workplace: Workplace, process: subprocess.Popen[bytes], whom: str) -> None:
    """Kill the controller, or the worker that did something last."""
    if whom == "controller":
        process.kill()
        return
    victim = int((workplace.folder / "done.log").read_text().split()[-1])
    assert victim != process.pid
    # At the very end it may be gone while the controller still is at work.
    with suppress(ProcessLookupError):
        os.kill(victim, signal.SIGKILL)


def _records(workplace: Workplace, run: str) -> dict[str, str]:
    """Every record that is stored → its content."""
    folder = workplace.folder / "researchenv-results" / run
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("attempt-*/*.json")}


def _finished(records: dict[str, str]) -> set[str]:
    """What is done for good, as agents and probes write it down."""
    found = set()
    for name in records:
        repository, record = Path(name).parts[2], Path(name).stem
        subject = record.partition("-")[0]
        if subject in ("C0", "C1"):
            found.add(f"probed fake {repository} {subject}")
        elif subject == "integrity":
            found.add(f"audited fake {repository}")
    return found


def _survives(workplace: Workplace, run: str, whom: str, workers: list[str], moment_s: float) -> None:
    """Kill at a moment, look at what is there, go on, and look again."""
    with _session(workplace, run, *workers) as process:
        _await_work(workplace, process, moment_s)
        if process.poll() is None:
            _kill(workplace, process, whom)
        if whom == "controller":
            process.wait(DEADLINE_S)
            assert problems_of_junit(workplace.junit.read_bytes()) == []
    assert problems_of_junit(workplace.junit.read_bytes()) == []
    assert problems_of_ctrf(workplace.ctrf.read_bytes()) == []
    before = _records(workplace, run)
    environments = sum(name.endswith("environment.json") for name in before)
    workplace.done()

    code, printed = workplace.run(f"--researchenv-run={run}", *workers, MENDED="1")

    assert code == 0, printed
    after = _records(workplace, run)
    assert {name: after.get(name) for name in before} == before
    done = Counter(workplace.done())
    assert done.pop("built fake", 0) == len(REPOSITORIES) - environments
    assert not _finished(before) & set(done)
    assert set(done.values()) <= {1}
    assert problems_of_junit(workplace.junit.read_bytes()) == []
    outcomes = Counter(workplace.outcomes().values())
    assert outcomes == {"passed": TESTS - 1, "skipped": 1}


@_EACH_VICTIM
def test_a_run_outlives_a_kill(tmp_path: Path, whom: str, workers: list[str]) -> None:
    """At a random moment."""
    workplace = Workplace(tmp_path, pause_s=0.05)
    moment = random.SystemRandom().uniform(0, _WORK_S)

    _survives(workplace, "killed", whom, workers, moment)


@pytest.mark.slow
@_EACH_VICTIM
def test_a_run_outlives_twenty_kills(tmp_path: Path, whom: str, workers: list[str]) -> None:
    """At twenty random moments, each in a run of its own."""
    workplace = Workplace(tmp_path, pause_s=0.05)
    for number in range(20):
        moment = random.SystemRandom().uniform(0, _WORK_S)
        workplace.junit.unlink(missing_ok=True)
        workplace.ctrf.unlink(missing_ok=True)

        _survives(workplace, f"killed-{number}", whom, workers, moment)


def test_sigterm_ends_a_session_in_order(tmp_path: Path) -> None:
    """As Ctrl-C does: the process says how it ended, and the next session does the rest."""
    workplace = Workplace(tmp_path, pause_s=0.2)
    with _session(workplace, "ended") as process:
        _await_work(workplace, process, 0.1)
        process.terminate()
        assert process.wait(DEADLINE_S) == pytest.ExitCode.INTERRUPTED
    assert problems_of_junit(workplace.junit.read_bytes()) == []
    (manifest,) = workplace.manifests("ended")
    assert manifest["exit_status"] == pytest.ExitCode.INTERRUPTED
    before = _records(workplace, "ended")

    code, printed = workplace.run("--researchenv-run=ended", MENDED="1")

    assert code == 0, printed
    assert {name: _records(workplace, "ended").get(name) for name in before} == before


def test_a_damaged_record_of_a_test_that_was_cut_short_stops_nothing(tmp_path: Path) -> None:
    """It is left out of the report, and all other tests are run and reported."""
    store = Store(tmp_path, "r")
    attempt = store.begin("fake", "mine/x", "s1")
    (attempt.folder / "C1-001.json").write_text("{")
    journal = Journal(store.folder, "s1")
    journal.append(Began("test_c1[fake-x]", 1.0, "fake", "mine/x", "C1"))
    journal.append(Finished(Entry("test_c0[fake-x]", Outcome.PASSED, 1.0, 1.0)))

    (earlier,) = earlier_sessions(store, but="s2")

    assert [entry.test for entry in earlier.entries] == ["test_c0[fake-x]"]


def test_what_was_stored_before_a_process_died_is_reported_by_the_next_session(tmp_path: Path) -> None:
    """Although that session runs other tests, and the one that died could not say what its test came to."""
    workplace = Workplace(tmp_path)
    workplace.run("--researchenv-run=cut", "-k", "fine", MENDED="1")
    (journal,) = (tmp_path / "researchenv-results/cut").glob("journal-*.jsonl")
    kept = [line for line in journal.read_text().splitlines() if not ('"finished"' in line and "test_c1" in line)]
    journal.write_text("\n".join(kept))

    workplace.run("--researchenv-run=cut", "-k", "failing", MENDED="1")

    outcomes = workplace.outcomes()
    assert outcomes["test_c1_cpu_execution[fake-fine]"] == "passed"
    assert len(outcomes) == 6
