"""Lets requests pass only while a budget is not used up, also when many come at once. Pure: knows nothing of the proxy.

Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf


__all__ = ["Purse", "Reservation"]

#: Requests on their way at once.
_AT_ONCE = 16

#: How often a waiting request looks whether its client is still there, in seconds.
_LOOK_S = 0.25


@dataclass(slots=True)
class Reservation:
    """What a request that is on its way can cost at most.

    Attributes:
        tokens: tokens; infinite where that cannot be told.
        cost: US dollars; infinite where that cannot be told, 0 where the model has no known price.
    """

    tokens: float = inf
    cost: float = inf


@dataclass(slots=True)
class Purse:
    """A budget, and what was used of it.

    A request passes when all that is on its way could end at its worst without passing a limit; else it waits until it
    is alone, and then passes as long as no limit is reached. So a limit is never passed by more than one answer.

    Attributes:
        max_requests: requests; None for no limit.
        max_tokens: tokens; None for no limit.
        max_cost: US dollars; None for no limit.
        requests: requests that passed, without those that ended in trouble of the service.
        tokens: tokens used.
        cost: US dollars spent.
    """

    max_requests: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    requests: int = 0
    tokens: int = 0
    cost: float = 0.0
    _open: list[Reservation] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def exhausted(self) -> str:
        """Which limits are reached, with the figures; empty while none is."""
        reached = []
        # What is on its way may still end in trouble.
        over = self.requests - len(self._open)
        if self.max_requests is not None and over >= self.max_requests:
            reached.append(f"request limit: {over:,} of {self.max_requests:,} requests")
        if self.max_tokens is not None and self.tokens >= self.max_tokens:
            reached.append(f"token limit: {self.tokens:,} of {self.max_tokens:,} tokens")
        if self.max_cost is not None and self.cost >= self.max_cost:
            reached.append(f"cost limit: ${self.cost:.4f} of ${self.max_cost:.4f}")
        return ", ".join(reached)

    @property
    def idle(self) -> bool:
        """Whether nothing is on its way."""
        return not self._open

    async def admit(self, asked: Reservation, gone: Callable[[], bool]) -> str | None:
        """Wait for a request's turn.

        Args:
            asked: its bound; give it to `settle` once the request is over.
            gone: whether its client has left meanwhile.

        Returns:
            None when it may pass; else why not: what `exhausted` says, or empty when its client has left.
        """
        # The lock lets them pass in the order they came: a large one is not overtaken for ever.
        async with self._turn:
            while True:
                if gone():
                    return ""
                if reason := self.exhausted:
                    return reason
                if self._fits(asked):
                    self._open.append(asked)
                    self.requests += 1
                    return None
                self._changed.clear()
                try:
                    async with asyncio.timeout(_LOOK_S):
                        await self._changed.wait()
                except TimeoutError:
                    continue

    def settle(self, asked: Reservation, tokens: int, cost: float, *, counts: bool = True) -> None:
        """A request is over, and has cost this; whether it counts as a request, too."""
        self.requests -= not counts
        # By identity: two requests may have the same bound.
        self._open = [one for one in self._open if one is not asked]
        self.tokens += tokens
        self.cost += cost
        self._changed.set()

    def spend(self, tokens: int, cost: float) -> None:
        """The gateway itself has used something."""
        self.tokens += tokens
        self.cost += cost

    def _fits(self, asked: Reservation) -> bool:
        if not self._open:
            return True
        if len(self._open) >= _AT_ONCE or (self.max_requests is not None and self.requests >= self.max_requests):
            return False
        tokens = self.tokens + asked.tokens + sum(one.tokens for one in self._open)
        cost = self.cost + asked.cost + sum(one.cost for one in self._open)
        return (self.max_tokens is None or tokens <= self.max_tokens) and (
            self.max_cost is None or cost <= self.max_cost
        )
