"""What a gateway has seen, gathered from the events that it prints."""

from __future__ import annotations

import dataclasses
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

from pytest_researchenv.gateway.protocol import Call, EgressRequest, Outcome, Trouble, Usage


__all__ = ["EventLedger"]

#: Kept of what is printed beside events: errors of Python.
_WORDS_BYTES = 4096

#: A service that sends nothing for so long, in seconds, does not answer: one whose model thinks sends signs of life.
_SILENCE_S = 120.0

#: An answer that comes in one piece gives none, however long its model thinks.
_UNSTREAMED_S = 600.0

#: As how many failed requests such silence counts.
_MANY = 100

#: A longer line is no event of ours.
_LINE_BYTES = 1024 * 1024


class EventLedger:
    """A `Ledger` that is fed with what a gateway prints, in pieces of any size.

    Args:
        main: the model that the agent is; empty where its models are not told apart.
    """

    def __init__(self, main: str = "") -> None:
        self._main = main
        self._changed = threading.Condition()
        self._rest = b""
        self._words = b""
        self._calls: list[Call] = []
        self._egress: list[EgressRequest] = []
        self._lines: list[bytes] = []
        self._exhausted = ""
        self._failure = ""
        self._active = time.monotonic()
        #: Requests on their way, and since when they can be answered.
        self._asked: dict[str, float] = {}
        #: Those of them whose answers come in pieces.
        self._streamed: set[str] = set()
        self._unread: set[str] = set()
        self._heard = self._active
        self._authority: bytes | None = None

    # --- What is fed ----------------------------------------------------------------------------------------

    def feed(self, chunk: bytes) -> None:
        """Take what the gateway printed. What is no event is kept as its last words."""
        with self._changed:
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._rest = self._rest[-_LINE_BYTES:]
            for line in lines:
                self._line(line)
            self._changed.notify_all()

    def fail(self, reason: str) -> None:
        """The gateway works no longer."""
        with self._changed:
            self._failure = self._failure or reason
            self._changed.notify_all()

    def _line(self, line: bytes) -> None:
        try:
            said = json.loads(line)
            kind = said.pop("event")
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError):
            self._words = (self._words + line + b"\n")[-_WORDS_BYTES:]
            return
        try:
            self._take(kind, said)
        except (ValueError, AttributeError, KeyError, TypeError) as error:
            # A call that is not counted could have cost anything.
            self._words = (self._words + line + b"\n")[-_WORDS_BYTES:]
            self._failure = self._failure or f"it said what cannot be understood: {kind!r}: {error!r}"[:300]

    def _take(self, kind: str, said: dict[str, Any]) -> None:
        now = time.monotonic()
        match kind:
            case "ready":
                self._authority = str(said["authority"]).encode()
            case "activity":
                pass
            case "heard":
                self._heard = now
            case "asked" | "read" | "unread" | "over":
                self._way(kind, str(said["id"]), now, streamed=bool(said.get("streamed")))
            case "call":
                self._calls.append(
                    Call(**{**said, "outcome": Outcome(said["outcome"]), "usage": Usage(**said["usage"])})
                )
                self._lines.append(json.dumps({"kind": "call", **said}).encode() + b"\n")
            case "egress":
                self._egress.append(EgressRequest(**said))
                self._lines.append(json.dumps({"kind": "egress", **said}).encode() + b"\n")
            case "exhausted":
                self._exhausted = str(said["reason"])
            case "fatal":
                self._failure = self._failure or str(said["reason"])
            case _:
                raise ValueError(kind)
        if kind not in {"egress", "read", "unread"}:
            self._active = now

    def _way(self, kind: str, request: str, now: float, *, streamed: bool) -> None:
        """A request sets out, is over, or its client stops or begins again to read."""
        self._unread.discard(request)
        if kind == "over":
            self._asked.pop(request, None)
            self._streamed.discard(request)
        else:
            self._asked[request] = now
        if kind == "unread":
            self._unread.add(request)
        if streamed:
            self._streamed.add(request)

    # --- What is asked --------------------------------------------------------------------------------------

    def await_ready(self, timeout_s: float) -> bytes | None:
        """Wait until the gateway works, and return its authority's certificate; None when it does not come to that."""
        with self._changed:
            self._changed.wait_for(lambda: self._authority is not None or bool(self._failure), timeout_s)
            return None if self._failure else self._authority

    @property
    def words(self) -> str:
        """What it printed beside events, at most the last few kilobytes."""
        with self._changed:
            return (self._words + self._rest)[-_WORDS_BYTES:].decode(errors="replace").strip()

    @property
    def calls(self) -> tuple[Call, ...]:
        """Every request to the model that is over, in the order they ended."""
        with self._changed:
            return tuple(self._calls)

    @property
    def egress(self) -> tuple[EgressRequest, ...]:
        """Every request to the outside, in the order they came."""
        with self._changed:
            return tuple(sorted(self._egress, key=lambda request: request.at))

    @property
    def usage(self) -> Usage:
        """Tokens of all calls."""
        names = [field.name for field in dataclasses.fields(Usage)]
        calls = self.calls
        return Usage(**{name: sum(getattr(call.usage, name) for call in calls) for name in names})

    @property
    def cost_usd(self) -> float | None:
        """Cost of all calls; None when a call that used tokens has no known price."""
        calls = self.calls
        if any(call.cost_usd is None and call.usage.total for call in calls):
            return None
        return sum((call.cost_usd or 0.0 for call in calls), 0.0)

    @property
    def charged_usd(self) -> float:
        """What all calls took from the budget, in US dollars."""
        return sum((call.charged_usd for call in self.calls), 0.0)

    @property
    def exhausted(self) -> str:
        """Which budget is used up, in words with the figures; empty while none is."""
        with self._changed:
            return self._exhausted

    @property
    def last_activity(self) -> float:
        """When a request to the model came or an answer's bytes passed last, on this host's monotonic clock."""
        with self._changed:
            return self._active

    @property
    def silent_s(self) -> float:
        """How long the service has sent nothing although requests are on their way, in seconds; 0 while none is."""
        with self._changed:
            waiting = [since for request, since in self._asked.items() if request not in self._unread]
            return time.monotonic() - max(min(waiting), self._heard) if waiting else 0.0

    @property
    def failure(self) -> str:
        """Why the gateway itself no longer works, in words; empty while it does."""
        with self._changed:
            return self._failure

    @property
    def trouble(self) -> Trouble | None:
        """Trouble that the newest calls ended in, no call having been answered since; None where the last one was."""
        if (silent := self.silent_s) >= (_SILENCE_S if self._streamed else _UNSTREAMED_S):
            return Trouble(Outcome.NETWORK, None, f"no answer for {silent:.0f} s", _MANY)
        times, newest = 0, None
        calls = self.calls
        # Where the agent's own model answers, another one's trouble does not end its work.
        if any(call.model == self._main and call.outcome is Outcome.ANSWERED for call in calls):
            calls = tuple(call for call in calls if call.model == self._main)
        for call in reversed(calls):
            if call.outcome is Outcome.ANSWERED:
                break
            if call.outcome.provider_trouble:
                times += 1
                newest = newest or call
        return Trouble(newest.outcome, newest.status, newest.message, times) if newest else None

    def lines(self) -> Iterator[bytes]:
        """Every call and request to the outside as a line of JSON each, in the order they ended."""
        with self._changed:
            return iter(tuple(self._lines))
