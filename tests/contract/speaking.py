"""How clients of the models' services speak: to ask the stand-in what they would ask."""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from tests.contract.standin import StandIn


__all__ = ["Answer", "Chat", "Messages", "Responses", "Said", "post"]

_PARAMETERS = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}


@dataclass(frozen=True)
class Answer:
    """What came over the wire."""

    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool

    @property
    def document(self) -> Any:  # noqa: ANN401 - any JSON
        """The body as JSON."""
        return json.loads(self.body)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events that are JSON, in order."""
        lines = [line[6:] for line in self.body.decode(errors="replace").splitlines() if line.startswith("data: {")]
        return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class Said:
    """An answer without the dialect's shape: words, commands, ids of calls, and tokens in and out."""

    text: str
    commands: tuple[str, ...]
    ids: tuple[str, ...]
    tokens: tuple[int, int, int]


def post(standin: StandIn, path: str, body: object, *, key: str = "k", timeout_s: float = 20) -> Answer:
    """Send a request, and read as much of the answer as comes."""
    connection = http.client.HTTPConnection(urlsplit(standin.url).netloc, timeout=timeout_s)
    try:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection.request("POST", path, content, {"Authorization": f"Bearer {key}"})
        answer = connection.getresponse()
        received, whole = b"", True
        try:
            while part := answer.read1():
                received += part
            whole = not answer.length
        except (http.client.IncompleteRead, TimeoutError):
            whole = False
        return Answer(answer.status, {k.lower(): v for k, v in answer.getheaders()}, received, whole)
    finally:
        connection.close()


class Messages:
    """How Anthropic's clients speak."""

    path = "/v1/messages"

    def body(self, told: list[Said], *, stream: bool, tools: bool = True) -> dict[str, Any]:
        """A request that holds the answers so far."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
        for said in told:
            calls = zip(said.ids, said.commands, strict=True)
            uses = [{"type": "tool_use", "id": i, "name": "Bash", "input": {"command": c}} for i, c in calls]
            messages.append({"role": "assistant", "content": [{"type": "text", "text": said.text}, *uses]})
            results = [{"type": "tool_result", "tool_use_id": i, "content": "done"} for i in said.ids]
            messages.append({"role": "user", "content": results})
        offered = [{"name": "Read", "input_schema": {}}, {"name": "Bash", "input_schema": _PARAMETERS}]
        return {"model": "m", "stream": stream, "messages": messages, "tools": offered if tools else []}

    def whole(self, document: dict[str, Any]) -> Said:
        """Read an answer in one piece."""
        blocks, usage = document["content"], document["usage"]
        uses = [block for block in blocks if block["type"] == "tool_use"]
        return Said(
            "".join(block["text"] for block in blocks if block["type"] == "text"),
            tuple(use["input"]["command"] for use in uses),
            tuple(use["id"] for use in uses),
            (
                usage["input_tokens"] + usage["cache_read_input_tokens"] + usage["cache_creation_input_tokens"],
                usage["cache_read_input_tokens"],
                usage["output_tokens"],
            ),
        )

    def streamed(self, events: list[dict[str, Any]]) -> Said:
        """Put a streamed answer together, as a client does."""
        assert [events[0]["type"], events[-1]["type"]] == ["message_start", "message_stop"]
        blocks: list[dict[str, Any]] = []
        for event in events:
            if event["type"] == "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            elif event["type"] == "content_block_delta":
                delta = event["delta"]
                blocks[event["index"]]["text"] = blocks[event["index"]].get("text", "") + delta.get("text", "")
                blocks[event["index"]]["json"] += delta.get("partial_json", "")
        for block in blocks:
            block["input"] = json.loads(block["json"]) if block["json"] else {}
        usage = {**events[0]["message"]["usage"], **events[-2]["usage"]}
        return self.whole({"content": blocks, "usage": usage})


class Responses:
    """How OpenAI's newer clients speak."""

    path = "/v1/responses"

    def body(self, told: list[Said], *, stream: bool, tools: bool = True) -> dict[str, Any]:
        """A request that holds the answers so far."""
        items: list[dict[str, Any]] = [{"type": "message", "role": "user", "content": "Go."}]
        for said in told:
            items.append({"type": "message", "role": "assistant", "content": said.text})
            for call, command in zip(said.ids, said.commands, strict=True):
                arguments = json.dumps({"cmd": command})
                items.append({"type": "function_call", "call_id": call, "name": "exec_command", "arguments": arguments})
                items.append({"type": "function_call_output", "call_id": call, "output": "done"})
        parameters = {"type": "object", "properties": {"cmd": {"type": "string"}}, "required": ["cmd"]}
        offered = [{"type": "function", "name": "exec_command", "parameters": parameters}]
        return {"model": "m", "stream": stream, "input": items, "tools": offered if tools else []}

    def whole(self, document: dict[str, Any]) -> Said:
        """Read an answer in one piece."""
        calls = [item for item in document["output"] if item["type"] == "function_call"]
        words = [item["content"][0]["text"] for item in document["output"] if item["type"] == "message"]
        usage = document["usage"]
        return Said(
            "".join(words),
            tuple(json.loads(call["arguments"])["cmd"] for call in calls),
            tuple(call["call_id"] for call in calls),
            (usage["input_tokens"], usage["input_tokens_details"]["cached_tokens"], usage["output_tokens"]),
        )

    def streamed(self, events: list[dict[str, Any]]) -> Said:
        """The last event holds all; the pieces must say the same."""
        assert [events[0]["type"], events[-1]["type"]] == ["response.created", "response.completed"]
        said = self.whole(events[-1]["response"])
        assert "".join(e["delta"] for e in events if e["type"] == "response.output_text.delta") == said.text
        return said


class Chat:
    """How most others speak."""

    path = "/v1/chat/completions"

    def body(self, told: list[Said], *, stream: bool, tools: bool = True) -> dict[str, Any]:
        """A request that holds the answers so far."""
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Go."}]
        for said in told:
            calls = [
                {"id": i, "type": "function", "function": {"name": "bash", "arguments": json.dumps({"command": c})}}
                for i, c in zip(said.ids, said.commands, strict=True)
            ]
            messages.append({"role": "assistant", "content": said.text, "tool_calls": calls})
            messages += [{"role": "tool", "tool_call_id": i, "content": "done"} for i in said.ids]
        offered = [{"type": "function", "function": {"name": "bash", "parameters": _PARAMETERS}}]
        body = {"model": "m", "stream": stream, "messages": messages, "tools": offered if tools else []}
        return {**body, "stream_options": {"include_usage": True}} if stream else body

    def whole(self, document: dict[str, Any]) -> Said:
        """Read an answer in one piece."""
        message, usage = document["choices"][0]["message"], document["usage"]
        calls = message.get("tool_calls") or []
        return Said(
            message["content"] or "",
            tuple(json.loads(call["function"]["arguments"])["command"] for call in calls),
            tuple(call["id"] for call in calls),
            (usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"], usage["completion_tokens"]),
        )

    def streamed(self, events: list[dict[str, Any]]) -> Said:
        """Put a streamed answer together, as a client does."""
        deltas = [event["choices"][0]["delta"] for event in events if event["choices"]]
        calls = [call for delta in deltas for call in delta.get("tool_calls", ())]
        message = {"content": "".join(delta.get("content") or "" for delta in deltas), "tool_calls": calls}
        return self.whole({"choices": [{"message": message}], "usage": events[-1]["usage"]})
