"""Asks a service one tiny question of the gateway's own: does the service fail, or is it what an agent sent?"""

from __future__ import annotations

import http.client
import json
import ssl
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .meter import Meter, Tokens
from .policy import classify
from .settings import ModelSettings


__all__ = ["Control", "Finding"]

_LIMIT_S = 20.0

#: The least that all services take.
_MOST_OUT = 16

#: Of the answer, which is tiny.
_ANSWER_BYTES = 1024 * 1024

_PATHS = {"anthropic-messages": "/v1/messages", "openai-responses": "/responses", "openai-chat": "/chat/completions"}

#: Some models take the one name for the limit, some the other.
_CHAT_LIMITS = ("max_tokens", "max_completion_tokens")

#: What says that a field was not liked.
_FIELD_STATUSES = {400, 422}


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of the question.

    Attributes:
        outcome: value of `Outcome`.
        path: path that was asked.
        status: HTTP status; None where there was none.
        tokens: what the answer used.
        counted: whether the service told all of it.
    """

    outcome: str
    path: str
    status: int | None = None
    tokens: Tokens = field(default_factory=Tokens)
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Control:
    """Asks with the same key, endpoint, proxy and authorities as the agent's requests. Blocks: for a thread.

    Attributes:
        settings: of the model's port.
        authorities: file with the authorities that are trusted.
        login: value of Proxy-Authorization for the host's proxy; empty for none.
    """

    settings: ModelSettings
    authorities: str
    login: str = field(default="", repr=False)

    def __call__(self, model: str) -> Finding:
        """Ask, and tell what came of it."""
        api = self.settings.api
        path = self.settings.prefix + _PATHS[api]
        finding = Finding("network failure", path)
        for asked in _questions(api, model):
            try:
                finding = self._ask(path, asked)
            except (OSError, http.client.HTTPException, ValueError):
                return Finding("network failure", path)
            if finding.status not in _FIELD_STATUSES:
                break
        return finding

    def _ask(self, path: str, asked: dict[str, object]) -> Finding:
        connection = self._connection()
        try:
            connection.request("POST", path, json.dumps(asked).encode(), self._headers())
            answer = connection.getresponse()
            meter = Meter(self.settings.api)
            meter.feed(answer.read(_ANSWER_BYTES))
            meter.close()
        finally:
            connection.close()
        outcome = classify(answer.status, meter.problem)
        if outcome == "answered" and (meter.malformed or answer.status >= 300):  # noqa: PLR2004 - redirects
            outcome = "malformed answer"
        return Finding(outcome, path, answer.status, meter.tokens, meter.counted)

    def _connection(self) -> http.client.HTTPConnection:
        where, via = urlsplit(self.settings.origin), self.settings.via
        if via and via[0] != "http":
            raise ValueError(f"a proxy that speaks {via[0]} cannot be used for it")
        host, port = via[1] if via else (where.hostname or "", where.port)
        if where.scheme == "https":
            context = ssl.create_default_context(cafile=self.authorities)
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                host, port, timeout=_LIMIT_S, context=context
            )
        else:
            connection = http.client.HTTPConnection(host, port, timeout=_LIMIT_S)
        if via:
            headers = {"Proxy-Authorization": self.login} if self.login else {}
            connection.set_tunnel(where.hostname or "", where.port, headers=headers)
        return connection

    def _headers(self) -> dict[str, str]:
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", "Host": self.settings.authority}
        if self.settings.api == "anthropic-messages":
            headers["anthropic-version"] = "2023-06-01"
        if self.settings.credential is not None:
            name, value = self.settings.credential
            headers[name.decode()] = value.decode()
        return headers


def _questions(api: str, model: str) -> list[dict[str, object]]:
    """What is asked, one after the other until a service likes its fields."""
    words = "Say OK."
    messages = [{"role": "user", "content": words}]
    match api:
        case "anthropic-messages":
            return [{"model": model, "max_tokens": _MOST_OUT, "messages": messages}]
        case "openai-responses":
            return [{"model": model, "max_output_tokens": _MOST_OUT, "input": words, "store": False}]
    return [{"model": model, limit: _MOST_OUT, "messages": messages} for limit in _CHAT_LIMITS]
