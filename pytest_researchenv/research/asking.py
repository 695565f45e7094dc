"""One question to a model through the gateway of an attempt, in each of the protocols that models are served in."""

from __future__ import annotations

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from pytest_researchenv.errors import ResearchEnvError
from pytest_researchenv.gateway.protocol import Api, Auth, GatewayAddress, ModelService
from pytest_researchenv.probes.lookup import printable


__all__ = ["Unanswered", "answer_of"]

#: An answer is some thousand characters; nothing longer is read.
_LARGEST = 4 * 1024 * 1024

_TOKENS = 8000

_PATHS = {Api.MESSAGES: "/v1/messages", Api.RESPONSES: "/responses", Api.CHAT: "/chat/completions"}


class Unanswered(ResearchEnvError):  # noqa: N818 - it says what became of the question
    """A model gave no answer: it refused, broke off, or could not be reached."""


def answer_of(
    service: ModelService, address: GatewayAddress | None, asked: str, material: str, *, timeout_s: float
) -> str:
    """Ask a model once, and return what it said.

    Args:
        service: the model, and its protocol.
        address: the gateway, on this host; None where it has no model.
        asked: the instruction.
        material: what it is about.
        timeout_s: how long each step of the exchange may take, in seconds.

    Raises:
        Unanswered: there is no answer; the message says why.
    """
    if address is None:
        raise Unanswered("the gateway has no model behind it")
    body = json.dumps(_body(service, asked, material)).encode()
    headers = {"content-type": "application/json", "anthropic-version": "2023-06-01"}
    if service.auth is Auth.API_KEY:
        headers["x-api-key"] = address.token
    else:
        headers["authorization"] = f"Bearer {address.token}"
    parts = urlsplit(address.url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=timeout_s)
    try:
        connection.request("POST", parts.path + _PATHS[service.api], body, headers)
        response = connection.getresponse()
        data = response.read(_LARGEST + 1)
    except (OSError, http.client.HTTPException) as error:
        raise Unanswered(f"the model could not be asked: {error or type(error).__name__}") from error
    finally:
        connection.close()
    shown = printable(data[:300].decode(errors="replace"), 300)
    if response.status != http.HTTPStatus.OK:
        raise Unanswered(f"the model did not answer: HTTP {response.status}: {shown}")
    if len(data) > _LARGEST:
        raise Unanswered(f"the model's answer has more than {_LARGEST} bytes")
    try:
        text = _text(service.api, json.loads(data))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise Unanswered(f"the model's answer cannot be read: {shown}") from error
    if not text.strip():
        raise Unanswered("the model answered with no words, as when it refuses")
    return text


def _body(service: ModelService, asked: str, material: str) -> Mapping[str, Any]:
    match service.api:
        case Api.MESSAGES:
            said = [{"role": "user", "content": material}]
            return {"model": service.model, "max_tokens": _TOKENS, "system": asked, "messages": said}
        case Api.RESPONSES:
            return {"model": service.model, "max_output_tokens": _TOKENS, "instructions": asked, "input": material}
        case Api.CHAT:
            roles = [{"role": "system", "content": asked}, {"role": "user", "content": material}]
            return {"model": service.model, "max_completion_tokens": _TOKENS, "messages": roles}


def _text(api: Api, answer: Any) -> str:  # noqa: ANN401 - whatever came
    """The words of an answer; those of a refusal are none."""
    match api:
        case Api.MESSAGES:
            parts = [part["text"] for part in answer["content"] if part.get("type") == "text"]
            refused = answer.get("stop_reason") == "refusal"
        case Api.RESPONSES:
            contents = [part for item in answer["output"] if item.get("type") == "message" for part in item["content"]]
            parts = [part["text"] for part in contents if part.get("type") == "output_text"]
            refused = any(part.get("type") == "refusal" for part in contents)
        case Api.CHAT:
            message = answer["choices"][0]["message"]
            parts = [message.get("content") or ""]
            refused = bool(message.get("refusal"))
    if refused:
        raise Unanswered("the model refuses to answer")
    return "".join(parts)
