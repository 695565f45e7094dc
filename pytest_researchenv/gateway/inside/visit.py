"""One request to the model, from its header to the end of its answer, and what it takes from the budget. Pure."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from .budget import Reservation
from .demand import Demand
from .events import Scrubber
from .meter import Meter, Tokens, priced
from .policy import Route


__all__ = ["Visit", "charge", "complete", "said", "worst"]

Price = dict[str, float | None]

#: Output of an answer that nobody awaited and nothing bounds: what models make at most, as a rule.
_UNTOLD_TOKENS = 32_000


@dataclass(slots=True)
class Visit:
    """One request.

    Attributes:
        flow: mitmproxy's; None for the gateway's own.
        path: without query.
        route: what it is for; None for nothing.
        at: seconds since the epoch when it came.
        begin: the same on the monotonic clock.
        last: when the service sent something last, or could not since its client did not read.
        demand: its body, once read; without the bytes once they are sent on.
        size: bytes of the body that is sent on.
        held: how many of them are in memory.
        reserved: what it may use.
        arrived: the whole body is there.
        own: the answer is the gateway's own.
        forwarded: the service was asked.
        answered: the service has answered in full.
        silent: the service was silent for too long.
        whole: the answer is passed on in one piece.
        encoded: the answer is compressed, so that nothing in it can be seen.
        unread: the client does not take what is there for it.
        taken: bytes of the answer that it has taken, as far as can be told.
        moved: when that changed last.
        fate: outcome and reason where the gateway itself ends it.
        meter: reads the answer.
        scrubber: takes secrets out of it.
        head: its first bytes.
    """

    flow: Any
    path: str
    route: Route | None = None
    at: float = field(default_factory=time.time)
    begin: float = field(default_factory=time.monotonic)
    last: float = field(default_factory=time.monotonic)
    demand: Demand | None = None
    size: int = 0
    held: int = 0
    reserved: Reservation | None = None
    arrived: bool = False
    own: bool = False
    forwarded: bool = False
    answered: bool = False
    silent: bool = False
    whole: bool = False
    encoded: bool = False
    unread: bool = False
    taken: int = 0
    moved: float = 0.0
    fate: tuple[str, str] | None = None
    meter: Meter | None = None
    scrubber: Scrubber | None = None
    head: bytes = b""

    @property
    def model(self) -> str:
        """The model that it names; empty where it names none."""
        return self.demand.model if self.demand else ""

    @property
    def tokens(self) -> Tokens:
        """What the service told so far."""
        return self.meter.tokens if self.meter else Tokens()

    @property
    def complete(self) -> bool:
        """Whether all of its answer has come, with what it used."""
        return self.meter is not None and self.meter.ended and self.meter.counted

    @property
    def generates(self) -> bool:
        """Whether it asks the model itself."""
        return self.route is not None and self.route.purpose == "generate"

    def takes(self, waiting: int, now: float) -> bool:
        """Note how many bytes wait for the client, and return whether it has taken all."""
        if not waiting:
            self.unread = False
            return True
        # The service could say nothing: its clock stands still.
        self.last = now
        taken = (self.meter.passed if self.meter else 0) - waiting
        if not self.unread or taken > self.taken:
            self.unread, self.taken, self.moved = True, taken, now
        return False


def charge(visit: Visit, outcome: str, status: int | None, price: Price | None) -> tuple[int, float]:
    """What a request takes from the budget: what was counted, or else the most that it can have been."""
    demand, meter, tokens = visit.demand, visit.meter, visit.tokens
    assert demand is not None  # noqa: S101 - it was admitted
    refused = outcome == "network failure" or (status is not None and status >= 400)  # noqa: PLR2004 - errors
    if (meter is not None and meter.counted) or (refused and not visit.silent):
        return tokens.total, priced(tokens, price) if price else 0.0
    passed = meter.passed if meter else 0
    input_ = tokens.input or demand.max_in or visit.size
    if outcome == "given up":
        # What is thought is paid, but not seen.
        output = max(tokens.tokens_out, demand.max_out or max(passed, _UNTOLD_TOKENS))
    elif visit.silent and meter is None:
        # It may have worked all the while.
        output = demand.max_out or 0
    else:
        output = max(tokens.tokens_out, passed if demand.max_out is None else min(passed, demand.max_out))
    return input_ + output, worst(price, input_, output)


def worst(price: Price | None, max_in: int, max_out: int) -> float:
    """The most that so many tokens can cost; 0 where the model has no known price, since no limit could hold then."""
    if price is None:
        return 0.0
    kinds = ("tokens_in", "cache_read", "cache_write", "cache_write_long")
    dearest = max(price.get(kind) or 0.0 for kind in kinds)
    return (max_in * dearest + max_out * (price["tokens_out"] or 0.0)) / 1_000_000


def complete(visit: Visit, status: int | None) -> bool:
    """Whether all that the request used was told."""
    if visit.meter is not None and status is not None and status < 400:  # noqa: PLR2004 - errors
        return visit.meter.counted
    # Cut off before an answer came, it may have been worked on; an error of the service used nothing.
    return not visit.forwarded or status is not None


def said(visit: Visit) -> str:
    """What the service said when it refused."""
    if visit.encoded:
        return "the answer is compressed although it was asked not to be"
    meter = visit.meter
    if meter is not None and meter.problem:
        return ": ".join(filter(None, (meter.problem.type, meter.problem.message)))
    head = visit.head.decode(errors="replace")
    return f"{meter.malformed}: {head}" if meter is not None and meter.malformed else head
