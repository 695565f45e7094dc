"""Output on its way from the engine to whoever wants it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

from pytest_researchenv.sandbox._stream import Pump
from pytest_researchenv.sandbox.capture import Capture


if TYPE_CHECKING:
    from docker.types import CancellableStream


class FakeStream:
    """What the engine sends of a process that says its last words when somebody asks whether it has ended."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.closed = threading.Event()
        connection = SimpleNamespace(_fp=SimpleNamespace(fp=None))
        self._response = SimpleNamespace(raw=connection, close=lambda: None)

    def __iter__(self) -> Iterator[bytes]:
        """Its words; then silence, since a child holds its output."""
        self.asked.wait(30)
        yield b"its time is over"
        self.closed.wait(30)

    def close(self) -> None:
        """Nobody listens any more."""
        self.closed.set()


def test_what_came_while_the_engine_was_asked_is_not_lost() -> None:
    """A process that printed and ended in that moment has said all that it said."""
    stream = FakeStream()
    capture = Capture(1024, None)

    def ended() -> bool:
        stream.asked.set()
        time.sleep(0.2)
        return True

    with Pump(cast("CancellableStream[bytes]", stream), capture) as pump:
        reached = pump.carry(deadline=time.monotonic() + 30, ended=ended)

    assert reached
    assert capture.result().text() == "its time is over"
