"""A clock that jumps: no verdict, no limit and no removal depends on it."""

from __future__ import annotations

import pytest

from tests.integration.faults.place import FaultPlace
from tests.integration.second import SecondEngine


@pytest.mark.slow
@pytest.mark.parametrize("jump_s", [10 * 24 * 3600, -10 * 24 * 3600], ids=["ahead", "back"])
def test_a_clock_that_jumps_by_ten_days(place: FaultPlace, second: SecondEngine, jump_s: int) -> None:
    """Every other second, there and back: `time.time` of the session is replaced, since the host's is everybody's.

    Ten days are more than the lease of any container.
    """
    code, printed = place.run("-n", "2", "--researchenv-agent-timeout=60", AGENT="sleep 3", JUMP_S=str(jump_s))

    assert code == 0, printed
    assert place.outcomes() == {"one": "passed", "two": "passed"}, printed
    assert second.things()["containers"] == []
    assert place.done()["building one"] == 1
