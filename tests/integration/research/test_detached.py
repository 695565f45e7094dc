"""A research run outlives the session that began it, keeps its clock, and goes on with more budget."""

from __future__ import annotations

import time
from datetime import datetime

from pytest_researchenv.detached.record import going_on, work_of
from tests.integration.research.conftest import Bench


#: Writes the time every half second for a while, then reports.
_TICKS = """
for i in $(seq {count}); do date +%s.%N >> ticks.txt; sleep 0.5; done
date +%s.%N > end.txt
report /usr/bin/python3 system "" "waited"
"""


def test_a_run_outlives_a_killed_session_and_can_be_extended(bench: Bench) -> None:
    """SIGKILL for pytest leaves the work alone; the next session waits for it, and one after that lets it go on."""
    bench.script(_TICKS.format(count=60))
    first = bench.start()
    attempt = bench.await_work()
    work = work_of(attempt.folder)
    assert work
    time.sleep(3)
    first.kill()
    first.wait()
    assert going_on(attempt)
    assert bench.labelled(attempt)
    again = bench.run("--researchenv-run=default")

    environment = bench.await_end(attempt, seconds=1)
    assert "attempt 1 exited with code 0" in again, again
    assert [one.key.attempt for one in bench.attempts()] == [1]
    assert not bench.labelled(attempt)
    (stage,) = environment.stages
    # 60 times half a second, and what the machine adds: the clock is that of the work, not of a session.
    assert abs(stage.seconds - environment.telemetry["wall_s"]) < 5
    assert abs(datetime.fromisoformat(stage.began).timestamp() - work.began) < 5
    assert (stage.limit_s, stage.image) == (180.0, environment.image)

    bench.script('cat end.txt; date +%s.%N >> ticks.txt; report /usr/bin/python3 system "" "went on"\n')
    extended = bench.run("--researchenv-run=default", "--researchenv-extend=1h", "--researchenv-reuse-anyway")

    assert "attempt 2 exited with code 0" in extended, extended
    second = bench.attempts()[1]
    more = bench.await_end(second, seconds=1)
    assert second.start.goes_on == 1
    assert more.report
    assert more.report.notes == "went on"
    assert [(one.attempt, one.limit_s) for one in more.stages] == [(1, 180.0), (2, 3600.0)]
    assert more.stages[0] == stage
    assert attempt.environment() == environment
    assert more.base_image == environment.base_image
    # Judged from now on is the newest stage.
    assert "attempt 2 exited" in bench.run("--researchenv-run=default", "--researchenv-reuse-anyway")
