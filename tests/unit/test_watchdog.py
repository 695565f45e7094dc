"""When an agent's work is ended from outside."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from pytest_researchenv.gateway.protocol import Outcome, Trouble
from pytest_researchenv.watchdog import Watchdog


@dataclass
class FakeClock:
    """A clock that tests move."""

    now: float = 1000.0

    def __call__(self) -> float:
        """What time it is."""
        return self.now


@dataclass
class FakeState:
    """What of a ledger the watchdog looks at."""

    last_activity: float = 0.0
    exhausted: str = ""
    failure: str = ""
    silent_s: float = 0.0
    charged_usd: float = 0.0
    trouble: Trouble | None = None


@dataclass
class Scene:
    """A watchdog with all that it looks at."""

    clock: FakeClock = field(default_factory=FakeClock)
    ledger: FakeState = field(default_factory=FakeState)

    def watch(self, inactivity_s: float | None = None) -> Watchdog:
        """Begin to look after an agent."""
        return Watchdog(self.ledger, inactivity_s=inactivity_s, clock=self.clock)  # type: ignore[arg-type]

    def after(self, watch: Watchdog, seconds: float) -> str:
        """What the watchdog says some seconds later, having been asked in between."""
        watch()
        self.clock.now += seconds
        return watch.reason if watch() else ""


@pytest.fixture
def scene() -> Scene:
    """Nothing happens yet."""
    return Scene()


def test_an_agent_that_does_nothing_is_ended(scene: Scene) -> None:
    """Without output and without requests the limit of inactivity ends the work, in words with the figure."""
    watch = scene.watch(60)

    assert scene.after(watch, 59) == ""
    assert scene.after(watch, 2) == "inactivity limit: nothing was printed or asked for 60 s"


def test_output_and_requests_are_activity(scene: Scene) -> None:
    """Either keeps the work going."""
    watch = scene.watch(60)

    scene.clock.now += 50
    watch.printed()
    assert scene.after(watch, 50) == ""
    scene.ledger.last_activity = scene.clock.now
    assert scene.after(watch, 50) == ""


def test_no_limit_means_no_limit(scene: Scene) -> None:
    """Without a limit of inactivity, silence ends nothing."""
    assert scene.after(scene.watch(None), 1e6) == ""


def test_a_tool_may_end_by_itself_once_its_budget_is_used_up(scene: Scene) -> None:
    """Only a tool that goes on although its model refuses is ended, and the reason is the budget."""
    watch = scene.watch()
    scene.ledger.exhausted = "token limit: 1,200 of 1,000 tokens used"

    assert scene.after(watch, 5) == ""
    assert scene.after(watch, 60) == scene.ledger.exhausted


def test_a_refused_key_ends_the_work_early(scene: Scene) -> None:
    """Tools that ask again and again with a refused key are not waited for; trouble that may pass is."""
    watch = scene.watch()
    scene.ledger.trouble = Trouble(Outcome.OVERLOADED, 529, "", 1)
    assert scene.after(watch, 1000) == ""
    scene.ledger.trouble = Trouble(Outcome.AUTHENTICATION, 401, "invalid key", 1)
    assert scene.after(watch, 5) == ""

    assert scene.after(watch, 60) == "authentication failure (HTTP 401): invalid key"


def test_a_failed_gateway_ends_the_work_at_once(scene: Scene) -> None:
    """Without its gateway an agent can do nothing more."""
    watch = scene.watch()
    scene.ledger.failure = "killed: out of memory"

    assert scene.after(watch, 0) == "its gateway failed: killed: out of memory"


def test_the_first_reason_stays(scene: Scene) -> None:
    """What ended the work is what is told, whatever happens while it ends."""
    watch = scene.watch(10)
    first = scene.after(watch, 20)
    scene.ledger.failure = "gone"

    assert scene.after(watch, 100) == first
