"""Which headers go on to the service, and which come back. Pure: knows nothing of the proxy."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable


__all__ = ["answer_headers", "request_headers"]

Fields = Iterable[tuple[bytes, bytes]]

#: What tools say about themselves and the protocol's version. Everything else stays here: a header that selects an
#: organisation or a kind of login makes the service answer 401, which would look like its trouble.
_KEPT = {
    b"accept",
    b"user-agent",
    b"anthropic-version",
    b"anthropic-beta",
    b"anthropic-dangerous-direct-browser-access",
    b"x-app",
    b"openai-beta",
    b"originator",
    b"session_id",
    b"session-id",
    b"conversation_id",
    b"x-client-request-id",
    b"version",
}

_KEPT_BEGINNING = b"x-stainless-"

#: Plain text of a modest length; what is stranger can trip a service's firewall.
_PLAIN = re.compile(rb"[\w .,;:/()+=@\[\]*<>-]{0,1024}")

#: What a tool calls itself: stranger words could have a firewall refuse the gateway as a whole.
_AGENT = re.compile(rb"[\w .,;:/()+-]{1,200}")

#: Features that change prices, log in otherwise, or act at the service.
_NO_BETAS = (
    b"oauth",
    b"context-1m",
    b"fast-mode",
    b"mcp-client",
    b"files-api",
    b"message-batches",
    b"code-execution",
    b"web-fetch",
    b"web-search",
    b"skills",
)

#: Of the account behind the key, or of connections.
_NOT_RETURNED = {
    b"set-cookie",
    b"alt-svc",
    b"openai-organization",
    b"openai-project",
    b"anthropic-organization-id",
    b"strict-transport-security",
    b"upgrade",
}


def request_headers(fields: Fields) -> list[tuple[bytes, bytes]]:
    """Of a request's headers, those that go on; with those that the gateway decides about."""
    kept: dict[bytes, bytes] = {}
    for name, value in fields:
        lower = name.lower()
        fits = (_AGENT if lower == b"user-agent" else _PLAIN).fullmatch(value)
        if fits and (lower in _KEPT or lower.startswith(_KEPT_BEGINNING)):
            kept[lower] = _betas(value) if lower == b"anthropic-beta" else value
    if not kept.get(b"anthropic-beta", b"-"):
        del kept[b"anthropic-beta"]
    # What is compressed cannot be counted without unpacking it.
    return [*kept.items(), (b"content-type", b"application/json"), (b"accept-encoding", b"identity")]


def _betas(value: bytes) -> bytes:
    features = (feature.strip() for feature in value.split(b","))
    return b",".join(feature for feature in features if feature and not feature.lower().startswith(_NO_BETAS))


def answer_headers(fields: Fields, clean: Callable[[str], str]) -> list[tuple[bytes, bytes]]:
    """Of an answer's headers, those that come back, without secrets."""
    back = []
    for name, value in fields:
        if name.lower() not in _NOT_RETURNED:
            back.append((name, clean(value.decode("latin-1")).encode("latin-1")))
    return back
