"""The engine is restarted, killed or frozen in the middle of a run: an error, never a failure, and nothing is lost."""

from __future__ import annotations

import signal
import threading
import time

import pytest

from tests.integration.faults.place import DEADLINE_S, FaultPlace
from tests.integration.faults.surviving import Before, goes_on
from tests.integration.second import SecondEngine


@pytest.fixture
def before(second: SecondEngine) -> Before:
    """What the engine holds before the fault."""
    return Before(second)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "when"),
    [
        pytest.param(signal.SIGKILL, "building one", id="killed at an agent's work"),
        pytest.param(signal.SIGTERM, "building one", id="restarted at an agent's work"),
        pytest.param(signal.SIGTERM, "probing one", id="restarted at a probe"),
        pytest.param(signal.SIGKILL, "probing one", id="killed at a probe"),
    ],
)
def test_an_engine_that_goes_and_comes_back(
    place: FaultPlace, second: SecondEngine, before: Before, how: signal.Signals, when: str
) -> None:
    """What was under way is an error; what follows is judged by the engine that has come back."""
    with place.session(AGENT="sleep 3", PROBE="sleep 3") as process:
        place.await_line(when, process)
        time.sleep(1)
        second.signal(how)
        second.start()
        printed, _ = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == pytest.ExitCode.TESTS_FAILED, printed
    assert place.outcomes() == {"one": "error", "two": "passed"}, printed
    goes_on(place, second, before)


@pytest.mark.slow
def test_an_engine_that_stays_away(place: FaultPlace, second: SecondEngine, before: Before) -> None:
    """All that is left is errors, soon; the reports are written."""
    with place.session(AGENT="sleep 3") as process:
        place.await_line("probed one", process)
        second.signal(signal.SIGKILL)
        printed, _ = process.communicate(timeout=DEADLINE_S)

    assert place.outcomes() in ({"one": "passed", "two": "error"}, {"one": "error", "two": "error"}), printed
    second.start()
    goes_on(place, second, before)


@pytest.mark.slow
def test_an_engine_that_hangs_for_a_while(place: FaultPlace, second: SecondEngine) -> None:
    """It is waited for, and nothing is an error."""
    with place.session(AGENT="sleep 2") as process:
        place.await_line("building one", process)
        second.signal(signal.SIGSTOP)
        time.sleep(10)
        second.signal(signal.SIGCONT)
        printed, _ = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == 0, printed
    assert place.outcomes() == {"one": "passed", "two": "passed"}


@pytest.mark.slow
def test_an_engine_that_hangs_for_good(place: FaultPlace, second: SecondEngine, before: Before) -> None:
    """After the time that an answer may take (here 20 s) it is an error, and no run waits for ever."""
    thaw = threading.Timer(DEADLINE_S - 20, second.signal, (signal.SIGCONT,))
    with place.session(AGENT="sleep 2", ANSWER_S="20") as process:
        place.await_line("building one", process)
        second.signal(signal.SIGSTOP)
        thaw.start()
        began = time.monotonic()
        printed, _ = process.communicate(timeout=DEADLINE_S)
        took = time.monotonic() - began
    thaw.cancel()
    second.signal(signal.SIGCONT)

    assert took < DEADLINE_S - 30, printed
    assert place.outcomes() == {"one": "error", "two": "error"}, printed
    goes_on(place, second, before)


@pytest.mark.slow
def test_a_network_that_is_taken_away(place: FaultPlace, second: SecondEngine, before: Before) -> None:
    """An agent that found nothing outside any more is not to blame, and neither is what it left."""
    with place.session(AGENT="sleep 4") as process:
        place.await_line("building one", process)
        time.sleep(1)
        client = second.client()
        (container,) = client.containers.list()
        client.networks.get("bridge").disconnect(container, force=True)
        client.close()
        printed, _ = process.communicate(timeout=DEADLINE_S)

    assert place.outcomes() == {"one": "error", "two": "passed"}, printed
    assert "lost its network while it worked" in printed
    goes_on(place, second, before)
