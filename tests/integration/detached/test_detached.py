"""A research run outlives the session that began it, keeps its clock, and goes on with more budget."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.archiving.index import newest_index
from pytest_researchenv.detached.record import going_on, keeper_of
from pytest_researchenv.sandbox.reaper import reap
from tests.integration.detached.conftest import Bench


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.labels import Owner


#: Writes the time every half second, for ever.
_TICKS = """
report /usr/bin/python3 system "" "ticks"
mkdir -p deep/er; echo kept > deep/er/note; ln -s deep/er/note link
while true; do date +%s.%N >> ticks.txt; sleep 0.5; done
"""

#: What an agent does that goes on: it says what it found.
_GOES_ON = 'report /usr/bin/python3 system "" "$(head -n 1 ticks.txt) $(tail -n 1 ticks.txt) $(cat link)"\n'

_LIMIT_S = 20.0
_ALWAYS = ("--researchenv-run=default", f"--researchenv-agent-timeout={_LIMIT_S:g}")


def test_a_run_outlives_a_killed_session_and_can_be_extended(
    bench: Bench, docker_client: DockerClient, owner: Owner
) -> None:
    """SIGKILL for pytest changes neither work nor clock; the next session waits, and one after that lets it go on."""
    bench.script(_TICKS)
    first = bench.start(*_ALWAYS)
    attempt = bench.await_work()
    time.sleep(2)
    first.kill()
    first.wait()
    reap(docker_client, everything=False, owner=owner)
    assert going_on(attempt)
    assert bench.labelled(attempt)
    again = bench.run(*_ALWAYS)

    environment = bench.await_end(attempt, seconds=1)
    assert "attempt 1 timed out after" in again, again
    assert len(bench.attempts()) == 1
    assert not bench.labelled(attempt)
    (stage,) = environment.stages
    assert (stage.limit_s, stage.image) == (_LIMIT_S, environment.image)

    bench.script(_GOES_ON)
    # Another script is another agent, which is not let into an environment in silence.
    extended = bench.run(*_ALWAYS, "--researchenv-extend=1h", "--researchenv-reuse-anyway")

    assert "attempt 2 exited with code 0" in extended, extended
    second = bench.attempts()[1]
    more = bench.await_end(second, seconds=1)
    assert second.start.goes_on == 1
    assert more.report
    begin, end, note = (more.report.notes or "").split()
    # By the ticks themselves: the work went on all the time that it had, and no longer.
    worked_s = float(end) - float(begin)
    assert abs(worked_s - _LIMIT_S) < 5
    # On a busy machine the engine takes seconds to end a container.
    assert abs(stage.seconds - worked_s) < 5
    assert note == "kept"
    assert [(one.attempt, one.limit_s) for one in more.stages] == [(1, _LIMIT_S), (2, 3600.0)]
    assert more.stages[0] == stage
    assert attempt.environment() == environment
    # Judged from now on is the newest stage.
    assert "attempt 2 exited" in bench.run(*_ALWAYS)


@pytest.mark.slow
def test_what_was_archived_is_gone_on_from_where_the_process_dies(bench: Bench) -> None:
    """The attempt ends in an error, what it left in the engine goes, and the next stage has the folder and the time."""
    bench.script(_TICKS)
    session = bench.start(*_ALWAYS, "--researchenv-archive-interval=1")
    attempt = bench.await_work()
    deadline = time.monotonic() + 60
    while (index := newest_index(attempt.folder)) is None or index.number < 2:
        assert time.monotonic() < deadline, bench.text
        time.sleep(0.2)
    keeper = keeper_of(attempt.folder)
    assert keeper
    os.kill(keeper.pid, signal.SIGKILL)
    session.wait(60)
    assert "that looked after it died" in attempt.error()
    assert "--researchenv-extend=0" in bench.text

    undecided = bench.run(*_ALWAYS)
    assert "ended in an error" in undecided
    assert len(bench.attempts()) == 1

    bench.script(_GOES_ON)
    goes_on = bench.run(*_ALWAYS, "--researchenv-extend=0")

    assert "attempt 2 exited with code 0" in goes_on, goes_on
    assert not bench.labelled(attempt)
    environment = bench.await_end(bench.attempts()[1], seconds=1)
    dead, own = environment.stages
    assert (dead.attempt, dead.image, dead.limit_s) == (1, "", _LIMIT_S)
    assert 0 < dead.seconds < _LIMIT_S
    assert own.limit_s == _LIMIT_S - dead.seconds
    assert environment.report
    begin, end, note = (environment.report.notes or "").split()
    assert float(end) >= float(begin)
    assert note == "kept"


@pytest.mark.slow
def test_an_interrupt_leaves_the_work_and_says_how_it_is_ended(bench: Bench) -> None:
    """After Ctrl-C in pytest it goes on until `researchenv stop`; then what is there is frozen, and counts."""
    bench.script(_TICKS)
    session = bench.start(*_ALWAYS)
    attempt = bench.await_work()
    session.send_signal(signal.SIGINT)
    assert session.wait(60) == 2
    assert f"`researchenv stop {attempt.folder}` ends it" in bench.text
    assert going_on(attempt)

    argv = [sys.executable, "-m", "pytest_researchenv.cli", "stop", str(attempt.folder), "--wait"]
    said = subprocess.run(argv, check=True, capture_output=True, text=True, timeout=120).stdout

    assert "has ended" in said
    environment = bench.await_end(attempt, seconds=5)
    assert environment.ended == "stopped by the user"
    assert environment.report
    assert environment.report.notes == "ticks"
