"""A gateway in front of the stand-in, and a container that asks through it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_researchenv.gateway.protocol import Api, Gateway, Price
from pytest_researchenv.sandbox.protocol import Container
from pytest_researchenv.secrets import Secret


__all__ = ["KEY", "MODEL", "PRICE", "Asked", "Desk", "Outside", "question"]

_INSIDE = Path(__file__).parent / "inside"

KEY = Secret("STANDIN_KEY", "sk-standin-1234567890-canary")
MODEL = "claude-sonnet-4-5"
PRICE = Price(tokens_in=1.0, tokens_out=10.0, cache_read=0.1, cache_write=2.0)

_PATHS = {Api.MESSAGES: "/v1/messages", Api.RESPONSES: "/responses", Api.CHAT: "/chat/completions"}

_SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}


@dataclass(frozen=True, slots=True)
class Asked:
    """What a request in the agent's container came back with.

    Attributes:
        status: HTTP status; 0 where there was none.
        body: the answer.
        first_s: seconds until its first byte.
        last_s: seconds until its end.
        error: what broke off.
        headers: of the answer.
    """

    status: int
    body: str
    first_s: float
    last_s: float
    error: str
    headers: dict[str, str]


@dataclass(frozen=True, slots=True)
class Outside:
    """A host with TLS and a proxy; see `inside/outside.py`.

    Attributes:
        host: its address, for containers.
        authority: certificate (PEM) of its TLS port.
        said: what it printed.
        container: id of its container.
    """

    host: str
    authority: bytes
    said: bytearray
    container: str


@dataclass(frozen=True, slots=True)
class Desk:
    """A gateway, and the container of an agent that can reach nothing else."""

    gateway: Gateway
    agent: Container
    sidecar: str
    api: Api

    def run(self, script: str, *, timeout_s: float = 60) -> str:
        """What a shell line prints, in the agent's container."""
        environment = dict(self.gateway.environment)
        done = self.agent.exec(("sh", "-c", script), timeout_s=timeout_s, environment=environment)
        return done.output.text()

    def ask(self, *requests: dict[str, Any], timeout_s: float = 60) -> list[Asked]:
        """Send requests at once; each may have `path`, `target`, `method`, `body`, `headers`, `token` and `leave_s`."""
        address = self.gateway.address
        assert address is not None
        usual = {"url": address.url, "token": address.token, "path": _PATHS[self.api]}
        argv = ("python3", "-c", (_INSIDE / "ask.py").read_text(), json.dumps([{**usual, **one} for one in requests]))
        done = self.agent.exec(argv, timeout_s=timeout_s)
        assert done.ok, done.output.text()
        return [Asked(**one) for one in json.loads(done.output.text())]

    @property
    def prefix(self) -> str:
        """The path of the endpoint."""
        assert self.gateway.address is not None
        return urlsplit(self.gateway.address.url).path


def question(
    api: Api, *, stream: bool = False, model: str = MODEL, limit: int | None = 100, commands: Sequence[str] = ()
) -> dict[str, Any]:
    """A request's body in a protocol, with a tool that runs commands, so that the stand-in plays its tape."""
    del commands
    said = [{"role": "user", "content": "Build it."}]
    match api:
        case Api.MESSAGES:
            name, tool = "max_tokens", {"name": "Bash", "input_schema": _SCHEMA}
            asked: dict[str, Any] = {"messages": said}
        case Api.RESPONSES:
            name, tool = "max_output_tokens", {"type": "function", "name": "Bash", "parameters": _SCHEMA}
            asked = {"input": said}
        case Api.CHAT:
            name = "max_completion_tokens"
            tool = {"type": "function", "function": {"name": "Bash", "parameters": _SCHEMA}}
            asked = {"messages": said}
    return {"model": model, "stream": stream, "tools": [tool], **asked} | ({name: limit} if limit else {})
