"""What a request asks of a model: read out of its body, cut to what may be asked, and bounded. Pure.

Runs in the sidecar, under any Python from 3.11 on, with the standard library alone.
"""

from __future__ import annotations

import json
import re
import zlib
from dataclasses import dataclass

from .fields import known_fields


__all__ = ["Demand", "DemandError", "read_demand"]

MESSAGES, RESPONSES = "anthropic-messages", "openai-responses"

#: Largest body, after decompression. The longest contexts are some 4 MB of text.
BODY_BYTES = 16 * 1024 * 1024

#: Most values in a body: each takes up to a hundred times its own bytes in memory once it is parsed.
_VALUES = 1_000_000

#: Tokens that services add to what was sent, for the descriptions of tools.
_ADDED_TOKENS = 1024

#: Beginnings of tool types that the tool itself carries out. The rest run at the service: they reach hosts that the
#: attempt must not reach, and have prices that no tokens tell.
_OWN_TOOLS = {
    MESSAGES: ("custom", "bash_", "text_editor_", "computer_", "memory_", "tool_search_"),
    RESPONSES: ("function", "custom", "local_shell", "apply_patch", "computer", "namespace", "tool_search"),
}

#: Keys whose content the service gets from elsewhere, so that the body's length bounds nothing.
_ELSEWHERE = {"file_id", "file_url", "previous_response_id", "conversation", "container"}

#: Types of parts that the service may fetch from an address.
_FETCHED = ("url", "image_url", "input_image", "input_file", "file", "image", "document")

#: Fields that bound the output.
_LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")


class DemandError(ValueError):
    """The body cannot be read, or asks for something that is not allowed."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class Demand:
    """A request's body.

    Attributes:
        model: the model that it names; empty where it names none.
        body: what is sent to the service.
        max_in: most input tokens that it can cost; None where that cannot be told.
        max_out: most output tokens that it can cost; None where that cannot be told.
        streamed: whether its answer is to come piece by piece.
    """

    model: str
    body: bytes
    max_in: int | None
    max_out: int | None
    streamed: bool = False


def read_demand(api: str, content: bytes, encoding: str, *, hosted_tools: bool = False) -> Demand:
    """Read a body, drop what may not be asked, and write it anew, so that the service reads exactly what was read here.

    Args:
        api: value of `Api`.
        content: the body.
        encoding: its Content-Encoding.
        hosted_tools: whether the service may run tools of its own, such as a web search.

    Raises:
        DemandError: with the HTTP status to refuse it with.
    """
    raw = _inflated(content, encoding.strip().lower())
    if raw.count(b",") + raw.count(b"[") + raw.count(b"{") > _VALUES:
        raise DemandError(413, "the request has too many values")
    try:
        asked = json.loads(raw, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        raise DemandError(400, "the request is no JSON") from error
    if not isinstance(asked, dict):
        raise DemandError(400, "the request is no JSON object")
    if asked.get("background"):
        raise DemandError(400, "background requests are not available here")
    _check_numbers(asked)
    known = known_fields(api)
    asked = {name: value for name, value in asked.items() if name in known}
    hosted = _own_tools(api, asked.get("tools")) != (asked.get("tools") or [])
    if not hosted_tools:
        _keep_own_tools(api, asked)
    if api not in _OWN_TOOLS and asked.get("stream") is True:
        options = asked.get("stream_options")
        asked["stream_options"] = {**(options if isinstance(options, dict) else {}), "include_usage": True}
    body = _written(asked)
    model = asked.get("model")
    # What a search found is input, too.
    bounded = not _from_elsewhere(asked) and not (hosted and hosted_tools)
    return Demand(
        model=model if isinstance(model, str) else "",
        body=body,
        max_in=len(body) + _ADDED_TOKENS if bounded else None,
        max_out=_most_output(asked),
        streamed=asked.get("stream") is True,
    )


def _inflated(content: bytes, encoding: str) -> bytes:
    if encoding in {"", "identity"}:
        return content
    if encoding not in {"gzip", "deflate"}:
        raise DemandError(415, f"requests cannot be compressed with {encoding[:20]!r} here: send them as they are")
    decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        raw = decoder.decompress(content, BODY_BYTES)
    except zlib.error as error:
        raise DemandError(400, f"the request is not {encoding}") from error
    if decoder.unconsumed_tail or not decoder.eof:
        raise DemandError(413, f"the request is larger than {BODY_BYTES} bytes, or cut off")
    return raw


def _keep_own_tools(api: str, asked: dict[str, object]) -> None:
    """Take away the tools that the service itself would run."""
    if isinstance(asked.get("tools"), list):
        asked["tools"] = _own_tools(api, asked["tools"])
        if not asked["tools"]:
            # An empty list, or a choice among none, would be refused.
            asked.pop("tools")
            asked.pop("tool_choice", None)
    items = asked.get("input")
    for item in items if isinstance(items, list) else ():
        # Codex hands its tools over as a part of the input.
        if isinstance(item, dict) and isinstance(item.get("tools"), list):
            item["tools"] = _own_tools(api, item["tools"])


def _own_tools(api: str, tools: object) -> list[object]:
    own = _OWN_TOOLS.get(api, ("function", "custom"))
    default = "custom" if api == MESSAGES else "function"
    kept: list[object] = []
    for tool in tools if isinstance(tools, list) else ():
        if isinstance(tool, dict) and str(tool.get("type") or default).startswith(own):
            inner = {"tools": _own_tools(api, tool["tools"])} if isinstance(tool.get("tools"), list) else {}
            kept.append({**tool, **inner})
    return kept


def _written(asked: dict[str, object]) -> bytes:
    try:
        body = json.dumps(asked, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as error:
        # Services refuse them as well; escaped, they would take three times the memory.
        raise DemandError(400, "the request has halves of characters (lone surrogates) in its text") from error
    if len(body) > BODY_BYTES:
        # Control characters grow when they are escaped.
        raise DemandError(413, f"the request is larger than {BODY_BYTES} bytes")
    return body


def _no_number(name: str) -> object:
    raise ValueError(name)


def _check_numbers(asked: dict[str, object]) -> None:
    """Refuse limits that some services would read and this gateway would not: `"5000"`, 5000.0, true."""
    for name in (*_LIMITS, "n"):
        given = asked.get(name)
        if given is None:
            asked.pop(name, None)
        elif not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise DemandError(400, f"{name} must be a positive integer")


def _from_elsewhere(asked: dict[str, object]) -> bool:
    """Whether some of the input is not in the body itself."""
    # Tools' descriptions are text, whatever their fields are called.
    waiting: list[object] = [{name: value for name, value in asked.items() if name != "tools"}]
    while waiting:
        one = waiting.pop()
        if isinstance(one, list):
            waiting.extend(one)
        elif isinstance(one, dict):
            if any(one.get(key) for key in _ELSEWHERE) or _by_address(one):
                return True
            waiting.extend(one.values())
    return False


def _by_address(one: dict[str, object]) -> bool:
    """Whether it is a picture or document that the service fetches."""
    # Compared one by one: in a description of a tool, a field may be called `type`, and hold anything.
    if not any(one.get("type") == kind for kind in _FETCHED):
        return False
    addresses = [one.get("url"), one.get("image_url")]
    addresses += [place.get("url") for place in addresses if isinstance(place, dict)]
    return any(isinstance(where, str) and re.match(r"\s*https?:", where, re.IGNORECASE) for where in addresses)


def _most_output(asked: dict[str, object]) -> int | None:
    limits = [limit for name in _LIMITS if isinstance(limit := asked.get(name), int)]
    return max(limits, default=None)
