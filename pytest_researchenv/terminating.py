"""SIGTERM ends a session as Ctrl-C does: what is at work is stopped and removed, and the reports are written."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import NoReturn, final

import pytest


__all__ = ["Terminating"]


@final
class Terminating:
    """Registered where the session is led, and only where an agent was chosen."""

    def __init__(self) -> None:
        self._took = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Take the signal, unless somebody else has it."""
        free = signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if free and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, _end)
            self._took = True

    def pytest_unconfigure(self) -> None:
        """Give it back."""
        if self._took and signal.getsignal(signal.SIGTERM) is _end:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _end(number: int, frame: FrameType | None) -> NoReturn:
    del number, frame
    # A second one ends the process at once, as it always did.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    raise KeyboardInterrupt("SIGTERM")
