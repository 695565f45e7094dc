"""When a report is written again, so that its cost stays in proportion."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import final


__all__ = ["Pace", "Paced"]

#: A report is written as soon as this part of its tests is new: over a session that is 17 entries written a result.
_PART = 16

#: Otherwise it is written after so many seconds, and so many times as long as it took: half a percent of all time.
_LEAST_S = 5.0
_TIMES = 200.0


@final
class Pace:
    """Says how long to wait until a report is due."""

    def __init__(self) -> None:
        self._results = 0
        self._ended = float("-inf")
        self._took = 0.0

    def due_in(self, results: int, now: float) -> float:
        """Return the seconds until a report of so many results is to be written; 0 or less for at once."""
        if (results - self._results) * _PART >= results:
            return 0.0
        return self._ended + max(_LEAST_S, _TIMES * self._took) - now

    def written(self, results: int, *, began: float, ended: float) -> None:
        """Take note of what was written, and when."""
        self._results, self._took, self._ended = results, ended - began, ended


@final
class Paced:
    """Calls what writes a report when it is due, from a thread of its own where nothing else happens.

    Args:
        write: writes the report, and returns of how many results.
    """

    def __init__(self, write: Callable[[], int]) -> None:
        self._write = write
        self._pace = Pace()
        self._lock = threading.RLock()
        self._timer: threading.Timer | None = None

    def changed(self, results: int) -> None:
        """Say that there are so many results now."""
        with self._lock:
            wait = self._pace.due_in(results, time.monotonic())
            if wait <= 0:
                self.write()
            elif self._timer is None:
                self._timer = threading.Timer(wait, self.write)
                self._timer.daemon = True
                self._timer.start()

    def write(self) -> None:
        """Write at once."""
        with self._lock:
            if self._timer:
                self._timer.cancel()
            self._timer = None
            began = time.monotonic()
            results = self._write()
            self._pace.written(results, began=began, ended=time.monotonic())
