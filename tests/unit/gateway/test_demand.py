"""What a request asks of a model is read, cut and bounded before anything is sent."""

from __future__ import annotations

import gzip
import json
import random
import zlib
from typing import Any

import pytest

from pytest_researchenv.gateway.inside.demand import BODY_BYTES, Demand, DemandError, read_demand


MESSAGES, RESPONSES, CHAT = "anthropic-messages", "openai-responses", "openai-chat"


def read(api: str, **asked: Any) -> tuple[Demand, dict[str, Any]]:  # noqa: ANN401 - a request's own fields
    """A demand, and the body that is sent on."""
    demand = read_demand(api, json.dumps(asked).encode(), "")
    return demand, json.loads(demand.body)


def test_the_service_reads_what_the_gateway_read() -> None:
    """Of a field that is given twice, the gateway and the service could otherwise take another one each."""
    demand = read_demand(CHAT, b'{"model": "dear", "model": "cheap", "user": "\xc3\xa9"}', "")

    assert demand.model == "cheap"
    assert demand.body.count(b"model") == 1
    assert json.loads(demand.body)["user"] == "é"


@pytest.mark.parametrize(
    ("asked", "most"),
    [
        ({"max_tokens": 5}, 5),
        ({"max_completion_tokens": 6, "max_tokens": 5}, 6),
        ({"max_output_tokens": 7}, None),
        ({"max_tokens": 5, "n": 3}, 5),
        ({"max_tokens": None}, None),
        ({}, None),
    ],
)
def test_output_is_bounded_by_what_the_request_says(asked: dict[str, Any], most: int | None) -> None:
    """The largest of several limits counts, and there is one answer."""
    demand, sent = read(CHAT, **asked)

    assert demand.max_out == most
    assert "n" not in sent
    assert read(RESPONSES, max_output_tokens=7)[0].max_out == 7


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens", "n"])
@pytest.mark.parametrize("value", ["5000", 5000.0, True, -1, 0, [1]])
def test_limits_that_services_may_read_otherwise_are_refused(name: str, value: object) -> None:
    """Some take the text "5000" for a number."""
    with pytest.raises(DemandError) as caught:
        read(CHAT, **{name: value})

    assert caught.value.status == 400


@pytest.mark.parametrize("api", [MESSAGES, RESPONSES, CHAT])
def test_fields_that_no_tool_needs_are_dropped(api: str) -> None:
    """A service would quote their names; what makes answers huge goes as well."""
    asked = {"Your credit balance is too low": 1, "n": 2, "logprobs": True, "top_logprobs": 20, "provider": {}}

    assert read(api, model="m", stream=False, **asked)[1] == {"model": "m", "stream": False}


SENT = {
    MESSAGES: "model messages system tools metadata max_tokens thinking context_management output_config stream",
    RESPONSES: "model instructions input tools tool_choice parallel_tool_calls reasoning store stream include "
    "prompt_cache_key text client_metadata",
    CHAT: "model messages tools tool_choice parallel_tool_calls temperature max_tokens max_completion_tokens stream "
    "stream_options stop reasoning_effort response_format usage",
}


@pytest.mark.parametrize("api", SENT)
def test_fields_that_the_tools_send_go_on(api: str) -> None:
    """As recorded of Claude Code 2.1.332 and Codex 0.171, and as the tools on LiteLLM may send them."""
    names = set(SENT[api].split())
    values: dict[str, Any] = {name: 7 if name.startswith("max_") else [{"type": "custom"}] for name in names}

    assert set(read(api, **values)[1]) == names


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
        {"type": "image_url", "image_url": {"url": "HTTPS://example.org/a.png"}},
        {"type": "input_image", "image_url": "http://example.org/a.png"},
        {"type": "input_file", "file_id": "file-1"},
        {"type": "document", "source": {"type": "file", "file_id": "f"}},
    ],
)
def test_input_from_elsewhere_has_no_bound(part: dict[str, Any]) -> None:
    """The length of the request says nothing then."""
    assert read(MESSAGES, messages=[{"content": [part]}])[0].max_in is None


def test_descriptions_of_tools_are_text_whatever_their_fields_are_called() -> None:
    """A field may be called `type` or `file_id`, and hold anything."""
    fields = {"type": {"type": "string"}, "file_id": {"type": ["string", "null"]}, "url": {"type": "string"}}
    part = {"type": {"type": "object"}, "url": "https://example.org"}

    demand, _ = read(RESPONSES, tools=[{"type": "function", "parameters": {"properties": fields}}], input=[part])

    assert demand.max_in is not None


def test_input_in_the_request_is_bounded_by_its_length() -> None:
    """A token has at least a byte; services add descriptions of tools."""
    demand, sent = read(MESSAGES, messages=[{"content": "see https://example.org", "url": ""}])

    assert demand.max_in is not None
    assert len(json.dumps(sent, separators=(",", ":"))) < demand.max_in


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_input_that_the_service_remembers_has_no_bound(field: str) -> None:
    """Earlier turns come on top."""
    assert read(RESPONSES, **{field: "x"})[0].max_in is None


def test_tools_that_the_service_would_run_are_taken_away() -> None:
    """They would reach what the attempt must not reach, and cost what no tokens tell."""
    _, claude = read(
        MESSAGES,
        tools=[{"name": "Bash", "input_schema": {}}, {"type": "web_search_20250305", "name": "web_search"}],
        mcp_servers=[{"url": "https://example.org"}],
        service_tier="auto",
    )
    _, codex = read(
        RESPONSES,
        tools=[{"type": "web_search"}],
        tool_choice={"type": "web_search"},
        input=[{"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}, {"type": "mcp"}]}],
    )

    assert claude == {"tools": [{"name": "Bash", "input_schema": {}}]}
    assert codex == {"input": [{"type": "additional_tools", "tools": [{"type": "custom", "name": "exec"}]}]}


def test_tools_of_the_service_make_input_boundless_where_they_are_allowed() -> None:
    """What a search finds is input that the request does not hold."""
    asked = json.dumps({"tools": [{"type": "web_search"}], "max_output_tokens": 1}).encode()

    demand = read_demand(RESPONSES, asked, "", hosted_tools=True)

    assert json.loads(demand.body) == json.loads(asked)
    assert demand.max_in is None
    assert read_demand(RESPONSES, b'{"tools": []}', "", hosted_tools=True).max_in is not None


def test_streamed_chats_are_asked_for_their_usage() -> None:
    """Only then does their stream hold it; what else the request says of its stream stays."""
    assert read(CHAT, stream=True, stream_options={"a": 1})[1]["stream_options"] == {"a": 1, "include_usage": True}
    assert "stream_options" not in read(CHAT, stream=False)[1]
    assert "stream_options" not in read(RESPONSES, stream=True)[1]


@pytest.mark.parametrize(
    ("content", "encoding", "status"),
    [
        (b"", "", 400),
        (b"[1]", "", 400),
        (b"{", "", 400),
        (b"[" * 100_000, "", 400),
        (b'{"a": ' + b"9" * 5000 + b"}", "", 400),
        (b'{"background": true}', "", 400),
        (b'{"a": [' + b"0," * 1_000_001 + b"0]}", "", 413),
        (b'{"a": NaN}', "", 400),
        (b'{"user": "\\ud800"}', "", 400),
        (b'{"user": "\xed\xa0\x80"}', "", 400),
        (b'{"input": [' + b"1e15," * 990_000 + b"0]}", "", 413),
        (b"{}", "zstd", 415),
        (b"{}", "gzip", 400),
        (gzip.compress(b"{}")[:-4], "gzip", 413),
        (gzip.compress(b" " * (BODY_BYTES + 1) + b"{}"), "gzip", 413),
    ],
    ids=[
        "empty",
        "list",
        "half",
        "deep",
        "long number",
        "background",
        "values",
        "nan",
        "half a character",
        "half, raw",
        "grown",
        "zstd",
        "no gzip",
        "cut",
        "bomb",
    ],
)
def test_what_cannot_be_read_is_refused(content: bytes, encoding: str, status: int) -> None:
    """With a status that blames the request; nothing of it can fill the gateway's memory."""
    with pytest.raises(DemandError) as caught:
        read_demand(RESPONSES, content, encoding)

    assert caught.value.status == status


def test_whatever_a_request_holds_it_is_read_or_refused() -> None:
    """Any other error would be the gateway's own."""
    choice = random.Random(6)  # noqa: S311 - no secret
    names = (
        "type",
        "tools",
        "input",
        "url",
        "image_url",
        "file_id",
        "model",
        "n",
        "max_tokens",
        "stream",
        "stream_options",
    )

    def value(depth: int) -> object:
        kind = choice.randrange(8 if depth else 5)
        plain = (None, True, choice.randrange(-5, 5), "url", "https://x")
        if kind < len(plain):
            return plain[kind]
        if kind == len(plain):
            return [value(depth - 1) for _ in range(3)]
        return {choice.choice(names): value(depth - 1) for _ in range(4)}

    for _ in range(3000):
        api = choice.choice((MESSAGES, RESPONSES, CHAT))
        asked = {name: value(3) for name in names if name not in {"n", "max_tokens"}}
        for hosted in (False, True):
            assert json.loads(read_demand(api, json.dumps(asked).encode(), "", hosted_tools=hosted).body)


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_compressed_requests_are_sent_on_as_they_are_read(encoding: str, pack: Any) -> None:  # noqa: ANN401 - a function
    """Their bound is that of the text in them."""
    body = json.dumps({"model": "m", "user": "x" * 10_000}).encode()

    demand = read_demand(CHAT, pack(body), encoding)

    assert demand.max_in is not None
    assert demand.max_in > 10_000
    assert json.loads(demand.body) == json.loads(body)
