"""Ctrl-C once and twice, and SIGTERM, in the middle of a run."""

from __future__ import annotations

import os
import signal
import time

import pytest

from tests.integration.faults.place import DEADLINE_S, FaultPlace
from tests.integration.faults.surviving import Before, goes_on
from tests.integration.second import SecondEngine


pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, signal.SIGINT],
    ids=["SIGTERM", "SIGINT"],
)
def test_a_signal_ends_a_session_in_order(place: FaultPlace, second: SecondEngine, number: signal.Signals) -> None:
    """What is at work is removed at once, and the reports are written; the next session goes on."""
    before = Before(second)
    with place.session(AGENT="sleep 200") as process:
        place.await_line("building one", process)
        time.sleep(1)
        process.send_signal(number)
        printed, _ = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, printed
    assert second.things()["containers"] == []
    assert (place.folder / "out.xml").exists()
    goes_on(place, second, before)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["SIGTERM", "SIGINT"])
def test_a_second_signal_ends_it_at_once(place: FaultPlace, second: SecondEngine, number: signal.Signals) -> None:
    """What is left then, the next session removes."""
    before = Before(second)
    with place.session(AGENT="sleep 200") as process:
        place.await_line("building one", process)
        time.sleep(1)
        process.send_signal(number)
        time.sleep(0.3)
        process.send_signal(number)
        process.communicate(timeout=60)

    assert process.returncode != 0
    goes_on(place, second, before)


def test_ctrl_c_with_workers(place: FaultPlace, second: SecondEngine) -> None:
    """The terminal sends it to all of them."""
    before = Before(second)
    with place.session("-n", "2", AGENT="sleep 200") as process:
        place.await_line("building one", process)
        place.await_line("building two", process)
        time.sleep(1)
        os.killpg(process.pid, signal.SIGINT)
        printed, _ = process.communicate(timeout=DEADLINE_S)

    assert process.returncode == pytest.ExitCode.INTERRUPTED, printed
    goes_on(place, second, before)
