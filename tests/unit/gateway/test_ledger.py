"""The ledger is what the gateway's events add up to."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from pytest_researchenv.gateway.ledger import EventLedger
from pytest_researchenv.gateway.protocol import Outcome, Usage


def call(outcome: Outcome = Outcome.ANSWERED, *, cost: float | None = 0.5, model: str = "m", **usage: int) -> bytes:
    """An event as the gateway prints it."""
    said: dict[str, Any] = {
        "event": "call",
        "at": 1.0,
        "path": "/v1/messages",
        "model": model,
        "outcome": outcome.value,
        "status": 200,
        "latency_s": 0.1,
        "usage": usage,
        "complete": True,
        "cost_usd": cost,
        "message": outcome.value,
    }
    return json.dumps(said).encode() + b"\n"


def egress(at: float) -> bytes:
    """Likewise."""
    said = {"event": "egress", "at": at, "method": "GET", "host": "h", "path": "/", "allowed": True}
    return json.dumps(said).encode() + b"\n"


@pytest.mark.parametrize("size", [1, 10, 10_000])
def test_events_may_come_in_any_pieces(size: int) -> None:
    """With lines of others between them."""
    printed = call(tokens_in=1, tokens_out=2) + b"Traceback: oops\n" + egress(2) + egress(1) + call(cache_read=4)
    ledger = EventLedger()

    for start in range(0, len(printed), size):
        ledger.feed(printed[start : start + size])

    assert ledger.usage == Usage(tokens_in=1, cache_read=4, tokens_out=2)
    assert ledger.cost_usd == 1.0
    assert [one.at for one in ledger.egress] == [1, 2]
    assert ledger.words == "Traceback: oops"
    assert [json.loads(line)["kind"] for line in ledger.lines()] == ["call", "egress", "egress", "call"]


@pytest.mark.parametrize(
    "line", [b"3\n", b"[]\n", b'{"other": 1}\n', b'{"event": "call", "at"\n', b"\xff\n", b"[" * 9999 + b"\n"]
)
def test_what_is_no_event_is_kept_as_words(line: bytes) -> None:
    """It breaks nothing."""
    ledger = EventLedger()

    ledger.feed(line + call())

    assert len(ledger.calls) == 1
    assert ledger.words
    assert not ledger.failure


@pytest.mark.parametrize(
    "line", [b'{"event": "other"}\n', b'{"event": "call"}\n', b'{"event": 3}\n', call().replace(b"answered", b"odd")]
)
def test_an_event_that_does_not_fit_is_a_failure(line: bytes) -> None:
    """A call that nobody counts must not pass in silence."""
    ledger = EventLedger()

    ledger.feed(line)

    assert "cannot be understood" in ledger.failure


def way(ledger: EventLedger, *events: str) -> float:
    """How long the service is silent after events, of which each comes a moment after the one before."""
    for event in events:
        kind, _, request = event.partition(" ")
        time.sleep(0.05)
        ledger.feed(json.dumps({"event": kind, **({"id": request} if request else {})}).encode() + b"\n")
    time.sleep(0.05)
    return ledger.silent_s


@pytest.mark.parametrize(
    ("events", "moments"),
    [
        (["asked a"], 1),
        (["asked a", "over a"], 0),
        (["asked a", "activity", "activity"], 3),
        (["asked a", "asked b", "over b"], 3),
        (["asked a", "heard"], 1),
        (["asked a", "unread a", "activity"], 0),
        (["asked a", "unread a", "asked b", "activity"], 2),
        (["asked a", "unread a", "activity", "read a"], 1),
        (["asked a", "unread a", "over a"], 0),
    ],
)
def test_silence_is_the_services_own(events: list[str], moments: int) -> None:
    """Since it sent something for anybody; what a client does not read, or asks, neither makes nor ends it."""
    assert round(way(EventLedger(), *events) / 0.05 - 0.2) == moments


def test_cost_is_unknown_once_tokens_have_no_price() -> None:
    """Calls without tokens cost nothing, whatever their model."""
    ledger = EventLedger()

    ledger.feed(call(cost=None))
    assert ledger.cost_usd == 0.0

    ledger.feed(call(cost=None, tokens_out=1))
    assert ledger.cost_usd is None


def test_trouble_is_what_the_newest_calls_ended_in() -> None:
    """An answer ends it; what an agent can cause itself neither makes nor ends it."""
    ledger = EventLedger()
    assert ledger.trouble is None

    ledger.feed(call(Outcome.RATE_LIMITED) + call() + call(Outcome.SERVER_ERROR) + call(Outcome.OVERLOADED))
    for own in (Outcome.BUDGET, Outcome.DENIED, Outcome.REJECTED, Outcome.ABANDONED):
        ledger.feed(call(own))

    trouble = ledger.trouble
    assert trouble is not None
    assert (trouble.outcome, trouble.message, trouble.times) == (Outcome.OVERLOADED, "overloaded", 2)
    ledger.feed(call())
    assert ledger.trouble is None


def test_signs_of_life_move_the_clock_and_egress_does_not() -> None:
    """What counts is that the model is asked."""
    ledger = EventLedger()
    begin = ledger.last_activity

    time.sleep(0.01)
    ledger.feed(egress(1))
    assert ledger.last_activity == begin

    ledger.feed(b'{"event":"activity"}\n')
    assert ledger.last_activity > begin


def test_waiting_ends_with_readiness_or_failure() -> None:
    """With the certificate, or with nothing; at the latest after its time."""
    ready, broken, silent = EventLedger(), EventLedger(), EventLedger()

    threading.Timer(0.05, ready.feed, [b'{"event":"ready","authority":"PEM"}\n']).start()
    threading.Timer(0.05, broken.feed, [b'{"event":"fatal","reason":"no room"}\n']).start()

    assert ready.await_ready(5) == b"PEM"
    assert broken.await_ready(5) is None
    assert broken.failure == "no room"
    assert silent.await_ready(0.01) is None


def test_the_first_failure_is_the_reason() -> None:
    """Later ones follow from it."""
    ledger = EventLedger()

    ledger.fail("out of memory")
    ledger.fail("removed")
    ledger.feed(b'{"event":"exhausted","reason":"5 of 5 requests"}\n')

    assert ledger.failure == "out of memory"
    assert ledger.exhausted == "5 of 5 requests"


def test_another_models_trouble_is_none_once_the_agents_own_has_answered() -> None:
    """A key that is refused for a small side model neither ends nor excuses work whose own model answers."""
    ledger = EventLedger("m")

    ledger.feed(call(Outcome.AUTHENTICATION, model="small"))
    assert ledger.trouble is not None
    ledger.feed(call() + call(Outcome.AUTHENTICATION, model="small"))
    assert ledger.trouble is None
    ledger.feed(call(Outcome.OVERLOADED))
    assert ledger.trouble is not None


@pytest.mark.parametrize(
    ("streamed", "after_s", "trouble"), [(True, 130, True), (False, 130, False), (False, 610, True)]
)
def test_an_answer_in_one_piece_may_take_long(
    monkeypatch: pytest.MonkeyPatch, *, streamed: bool, after_s: float, trouble: bool
) -> None:
    """Only answers that come in pieces show that a service is at work."""
    ledger = EventLedger()
    ledger.feed(json.dumps({"event": "asked", "id": "a", "streamed": streamed}).encode() + b"\n")
    now = time.monotonic()

    monkeypatch.setattr(time, "monotonic", lambda: now + after_s)

    assert (ledger.trouble is not None) is trouble
