"""Usage and errors are read out of answers that pass in pieces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_researchenv.gateway.inside.meter import Meter, Problem, Tokens, priced


MESSAGES, RESPONSES, CHAT = "anthropic-messages", "openai-responses", "openai-chat"


def sse(*events: object) -> bytes:
    """A stream of events as services send it."""
    lines = [event if isinstance(event, str) else json.dumps(event) for event in events]
    return b": comment\n\n" + b"".join(f"event: any\r\ndata: {line}\r\n\r\n".encode() for line in lines)


def read(api: str, body: bytes, *, size: int = 7) -> Meter:
    """A meter that was fed a complete body in pieces."""
    meter = Meter(api)
    for start in range(0, len(body), size):
        meter.feed(body[start : start + size])
    meter.close()
    return meter


MESSAGES_USAGE: dict[str, Any] = {
    "input_tokens": 10,
    "cache_read_input_tokens": 20,
    "cache_creation_input_tokens": 30,
    "cache_creation": {"ephemeral_5m_input_tokens": 10, "ephemeral_1h_input_tokens": 20},
    "output_tokens": 40,
}
RESPONSES_USAGE: dict[str, Any] = {
    "input_tokens": 60,
    "input_tokens_details": {"cached_tokens": 20},
    "output_tokens": 40,
    "output_tokens_details": {"reasoning_tokens": 15},
    "total_tokens": 100,
}
CHAT_USAGE: dict[str, Any] = {
    "prompt_tokens": 60,
    "prompt_tokens_details": {"cached_tokens": 20},
    "completion_tokens": 40,
    "completion_tokens_details": {"reasoning_tokens": 15},
    "total_tokens": 100,
}
CLAUDE = Tokens(10, 20, 30, 40, 0, 20)
GPT = Tokens(40, 20, 0, 40, 15)

ANSWERS: dict[str, tuple[str, bytes, Tokens]] = {
    "messages": (MESSAGES, json.dumps({"type": "message", "usage": MESSAGES_USAGE}).encode(), CLAUDE),
    "messages, streamed": (
        MESSAGES,
        sse(
            {"type": "message_start", "message": {"usage": {**MESSAGES_USAGE, "output_tokens": 1}}},
            {"type": "ping"},
            {"type": "content_block_delta", "delta": {"text": "data: {}\n\n"}},
            {"type": "message_delta", "usage": {"output_tokens": 40}},
            {"type": "message_stop"},
        ),
        CLAUDE,
    ),
    "messages, streamed, all usage at the end": (
        MESSAGES,
        sse(
            {"type": "message_start", "message": {"usage": {"input_tokens": 0, "output_tokens": 0}}},
            {"type": "message_delta", "usage": MESSAGES_USAGE},
            {"type": "message_stop"},
        ),
        CLAUDE,
    ),
    "responses": (RESPONSES, json.dumps({"object": "response", "error": None, "usage": RESPONSES_USAGE}).encode(), GPT),
    "responses, streamed": (
        RESPONSES,
        sse(
            {"type": "response.created", "response": {"usage": None}},
            {"type": "response.completed", "response": {"status": "completed", "usage": RESPONSES_USAGE}},
        ),
        GPT,
    ),
    "chat": (CHAT, json.dumps({"object": "chat.completion", "usage": CHAT_USAGE}).encode(), GPT),
    "chat, streamed": (
        CHAT,
        sse(
            {"choices": [{"delta": {"content": "x"}}], "usage": None},
            {"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None},
            {"choices": [], "usage": CHAT_USAGE},
            "[DONE]",
        ),
        GPT,
    ),
    "chat, streamed, sums so far in every piece, no end mark": (
        CHAT,
        sse(
            {"choices": [{"delta": {}}], "usage": CHAT_USAGE | {"completion_tokens": 3, "total_tokens": 63}},
            {"choices": [{"finish_reason": "stop"}], "usage": CHAT_USAGE},
        ),
        GPT,
    ),
    "chat, reasoning beside the output": (
        CHAT,
        json.dumps(
            {
                "usage": {
                    "prompt_tokens": 60,
                    "prompt_cache_hit_tokens": 20,
                    "completion_tokens": 25,
                    "completion_tokens_details": {"reasoning_tokens": 15},
                    "total_tokens": 100,
                }
            }
        ).encode(),
        GPT,
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_usage_is_the_same_however_the_answer_is_cut(name: str, size: int) -> None:
    """Cached input is counted once, reasoning is a part of the output, whatever the protocol."""
    api, body, expected = ANSWERS[name]

    meter = read(api, body, size=size)

    assert meter.tokens == expected
    assert (meter.counted, meter.ended, meter.malformed, meter.problem) == (True, True, "", None)


@pytest.mark.parametrize("name", [name for name in ANSWERS if "streamed" in name])
def test_a_stream_that_stops_early_has_not_ended(name: str) -> None:
    """What is known is counted, and nothing says that this was all."""
    api, body, _ = ANSWERS[name]
    second = body.index(b"event: ", body.index(b"event: ") + 1)

    meter = read(api, body[:second])

    assert not meter.ended
    assert not meter.malformed


def test_the_known_part_of_a_cut_stream_is_counted() -> None:
    """Anthropic tells the input at once."""
    begun = sse({"type": "message_start", "message": {"usage": {**MESSAGES_USAGE, "output_tokens": 1}}})

    meter = read(MESSAGES, begun)

    assert meter.tokens == Tokens(10, 20, 30, 1, 0, 20)
    assert not meter.counted


@pytest.mark.parametrize("api", [MESSAGES, RESPONSES, CHAT])
@pytest.mark.parametrize("body", [b"", b"  ", b"<html>busy</html>", b'{"type": "mess', b"[1]", b'data: {"a": \n\n'])
def test_what_is_neither_json_nor_events_is_malformed(api: str, body: bytes) -> None:
    """A page of a proxy, half an object, an empty body."""
    assert read(api, body).malformed


@pytest.mark.parametrize(
    ("api", "said", "problem"),
    [
        (MESSAGES, {"type": "error", "error": {"type": "overloaded_error", "message": "m"}}, "overloaded_error"),
        (RESPONSES, {"type": "error", "code": "rate_limit_exceeded", "message": "m"}, "rate_limit_exceeded"),
        (
            RESPONSES,
            {"type": "response.failed", "response": {"error": {"code": "server_error", "message": "m"}}},
            "server_error",
        ),
        (CHAT, {"error": {"type": "x", "code": "insufficient_quota", "message": "m"}}, "insufficient_quota"),
    ],
)
@pytest.mark.parametrize("streamed", [True, False])
def test_errors_are_found_in_events_and_bodies(api: str, said: dict[str, object], problem: str, streamed: bool) -> None:  # noqa: FBT001 - a parameter
    """With the finest name that the service gives them."""
    meter = read(api, sse(said) if streamed else json.dumps(said).encode())

    assert meter.problem == Problem(problem, "m")


def test_numbers_that_are_none_count_nothing() -> None:
    """A broken service must not break the count."""
    usage = {"input_tokens": "many", "output_tokens": -5, "cache_read_input_tokens": True}

    assert read(MESSAGES, json.dumps({"type": "message", "usage": usage}).encode()).tokens == Tokens()


@pytest.mark.parametrize("api", [MESSAGES, RESPONSES, CHAT])
def test_fields_of_the_wrong_kind_break_nothing(api: str) -> None:
    """Whatever stands where a table, a list or a name is expected."""
    odds: tuple[object, ...] = ([], {}, 3, None, True, "x", [[]], {"usage": []})
    for odd in odds:
        for name in ("type", "object", "error", "message", "response", "usage", "choices", "status"):
            said = {"type": "message", "object": "response", "choices": [odd], name: odd}
            assert read(api, json.dumps(said).encode()).ended
            read(api, sse(said))


def test_an_endless_line_is_given_up() -> None:
    """Memory is bounded."""
    meter = Meter(CHAT)
    for _ in range(40):
        meter.feed(b"data: " + b"x" * 1024 * 1024)

    assert meter.malformed


def test_each_kind_of_token_has_its_price() -> None:
    """Input that was cached for an hour is dearer; kinds without a price of their own cost what input costs."""
    tokens = Tokens(1_000_000, 1_000_000, 2_000_000, 1_000_000, 500_000, 1_000_000)

    whole = priced(
        tokens, {"tokens_in": 3, "tokens_out": 15, "cache_read": 0.3, "cache_write": 4, "cache_write_long": 6}
    )
    plain = priced(tokens, {"tokens_in": 3, "tokens_out": 15, "cache_read": None, "cache_write": None})

    assert whole == pytest.approx(3 + 0.3 + 4 + 6 + 15)
    assert plain == pytest.approx(3 + 3 + 6 + 15)
