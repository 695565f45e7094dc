"""What must hold after any fault: nothing recorded is lost, nothing is left, and nothing is done twice."""

from __future__ import annotations

import time
from dataclasses import dataclass

from tests.integration.faults.place import FaultPlace
from tests.integration.second import SecondEngine


__all__ = ["SWEEP_S", "Before", "Survived", "goes_on"]

#: Most that the next session may take until nothing of the dead one is left, in seconds.
SWEEP_S = 60.0


class Before:
    """What there was before a fault."""

    def __init__(self, second: SecondEngine) -> None:
        self.images = set(second.things()["images"])


@dataclass(frozen=True, slots=True)
class Survived:
    """What became of a fault once the next session had gone on.

    Attributes:
        swept_s: seconds from its start until nothing of the dead one was left.
        lost: records that were there before, and are gone or changed.
        leaked: things in the engine that nothing needs.
        twice: what was built or judged again although it was recorded, or twice in a session.
    """

    swept_s: float
    lost: int
    leaked: int
    twice: int


def goes_on(place: FaultPlace, second: SecondEngine, before: Before, *arguments: str) -> Survived:
    """Let the next session do what is missing, and make sure that nothing was lost, left or done twice."""
    records = place.records()
    finished = {name.split("/")[3] for name in records if name.endswith("environment.json")}
    dead = second.things()
    place.done()
    began = time.monotonic()

    with place.session(*arguments) as process:
        place.await_(lambda: "" if _left(second, dead) else "nothing", process)
        swept = time.monotonic() - began
        printed, _ = process.communicate(timeout=300)

    assert process.returncode == 0, printed
    after, done, things = place.records(), place.done(), second.things()
    lost = [name for name, content in records.items() if after.get(name) != content]
    needless = set(things["images"]) - before.images - set(place.images())
    leaked = [*things["containers"], *things["networks"], *things["volumes"], *needless]
    again = [name for name in finished if done[f"building {name}"]]
    twice = [*again, *(name for name, count in done.items() if count > 1)]
    assert (lost, leaked, twice) == ([], [], []), printed
    assert set(place.images()) <= set(things["images"])
    assert swept <= SWEEP_S
    assert place.outcomes() == dict.fromkeys(place.repositories, "passed"), printed
    return Survived(swept, len(lost), len(leaked), len(twice))


def _left(second: SecondEngine, dead: dict[str, list[str]]) -> bool:
    now = second.things()
    return any(set(dead[kind]) & set(now[kind]) for kind in ("containers", "networks", "volumes"))
