"""When an agent's work is ended from outside, and in which words."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import final

from pytest_researchenv.gateway.protocol import Ledger


__all__ = ["Watchdog"]

#: How long a tool has to end by itself once its model refuses to answer, in seconds.
_GRACE_S = 20.0


#: A model that sends nothing for so long, in seconds, or all the while that nothing else happens, does not answer.
_SILENT_S = 120.0
_ALL_THE_WHILE = 0.9


@final
class Watchdog:
    """Tells whether an agent must end its work before the deadline.

    Args:
        ledger: what its gateway has seen; None where it has none.
        inactivity_s: how long it may print nothing and ask nothing, in seconds; None for no limit.
        at_each_look: called whenever it is asked, about once a second.
        wanted: asked likewise why the work must end; an empty text while it may go on.
        clock: the monotonic clock.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        *,
        inactivity_s: float | None,
        at_each_look: Callable[[], object] = lambda: None,
        wanted: Callable[[], str] = lambda: "",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._inactivity = inactivity_s
        self._look = at_each_look
        self._wanted = wanted
        self._clock = clock
        self._printed = clock()
        self._exhausted: float | None = None
        self._lasting: float | None = None
        #: Why the work was ended, in words; empty while it goes on.
        self.reason = ""
        #: Whether it was ended while the model owed an answer.
        self.unanswered = False

    def printed(self) -> None:
        """Note that something was printed."""
        self._printed = self._clock()

    def __call__(self) -> bool:
        """Whether the agent must end its work now."""
        self._look()
        self.reason = self.reason or self._wanted() or self._found()
        return bool(self.reason)

    def _found(self) -> str:
        now = self._clock()
        last = max(self._printed, self._ledger.last_activity if self._ledger else self._printed)
        if self._inactivity is not None and now - last > self._inactivity:
            silent = self._ledger.silent_s if self._ledger else 0.0
            self.unanswered = silent > 0 and silent >= min(self._inactivity, _SILENT_S) * _ALL_THE_WHILE
            return f"inactivity limit: nothing was printed or asked for {self._inactivity:g} s"
        return self._gateway(self._ledger, now) if self._ledger else ""

    def _gateway(self, ledger: Ledger, now: float) -> str:
        if ledger.failure:
            return f"its gateway failed: {ledger.failure}"
        if ledger.exhausted:
            self._exhausted = self._exhausted or now
            return ledger.exhausted if now - self._exhausted > _GRACE_S else ""
        trouble = ledger.trouble
        # While something else is on its way, a key that one model refuses may do for another.
        if trouble is None or not trouble.lasting or ledger.silent_s:
            self._lasting = None
            return ""
        self._lasting = self._lasting or now
        return str(trouble) if now - self._lasting > _GRACE_S else ""
