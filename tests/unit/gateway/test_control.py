"""The gateway's own question tells a service that fails from a request that is refused."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from pytest_researchenv.gateway.inside.control import Control
from pytest_researchenv.gateway.inside.meter import Tokens
from pytest_researchenv.gateway.inside.settings import Budget, ModelSettings, Via


USED = {"input_tokens": 5, "output_tokens": 2, "prompt_tokens": 5, "completion_tokens": 2}
ANSWER: dict[str, Any] = {"type": "message", "object": "response", "usage": USED}

Asked = list[tuple[str, dict[str, str], dict[str, Any]]]


@contextmanager
def service(answer: Callable[[dict[str, Any]], tuple[int, object]]) -> Iterator[tuple[str, Asked]]:
    """A service on this host, and what it was asked."""
    asked: Asked = []

    class StandInHandler(BaseHTTPRequestHandler):
        def do_CONNECT(self) -> None:
            self.send_response(200)
            self.end_headers()
            asked.append((f"CONNECT {self.path}", dict(self.headers), {}))
            self.close_connection = False

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status, said = answer(body)
            content = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), StandInHandler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()


def control(api: str, endpoint: str, via: Via | None = None) -> Control:
    """A control with a key."""
    settings = ModelSettings(
        api, endpoint, api != "anthropic-messages", "sk-key", "t", ("m",), {}, Budget(), 1, via=via
    )
    return Control(settings, "", "Basic x")


@pytest.mark.parametrize(
    ("api", "path", "limit", "header"),
    [
        ("anthropic-messages", "/v1/messages", "max_tokens", ("x-api-key", "sk-key")),
        ("openai-responses", "/responses", "max_output_tokens", ("authorization", "Bearer sk-key")),
        ("openai-chat", "/chat/completions", "max_tokens", ("authorization", "Bearer sk-key")),
    ],
)
def test_it_asks_little_with_the_key_at_the_path(api: str, path: str, limit: str, header: tuple[str, str]) -> None:
    """And counts what that used."""
    with service(lambda _: (200, ANSWER)) as (url, asked):
        found = control(api, f"{url}/p")("m")

    ((at, headers, body),) = asked
    assert (found.outcome, found.path, found.status) == ("answered", f"/p{path}", 200)
    assert found.tokens == Tokens(5, tokens_out=2)
    assert at == f"/p{path}"
    assert headers[header[0]] == header[1]
    assert (body["model"], body[limit]) == ("m", 16)


def test_a_model_may_call_its_limit_otherwise() -> None:
    """It is asked again, with the other name."""

    def answer(body: dict[str, Any]) -> tuple[int, object]:
        return (400, {"error": {"message": "use max_completion_tokens"}}) if "max_tokens" in body else (200, ANSWER)

    with service(answer) as (url, asked):
        found = control("openai-chat", url)("m")

    assert found.outcome == "answered"
    assert len(asked) == 2


@pytest.mark.parametrize(
    ("status", "said", "outcome"),
    [
        (401, {}, "authentication failure"),
        (404, {}, "rejected"),
        (429, {"error": {"code": "insufficient_quota"}}, "quota used up"),
        (529, {}, "overloaded"),
        (200, [], "malformed answer"),
    ],
)
def test_a_refusal_has_the_name_that_requests_of_agents_get(status: int, said: object, outcome: str) -> None:
    """So that both can be compared."""
    with service(lambda _: (status, said)) as (url, _):
        assert control("openai-chat", url)("m").outcome == outcome


@pytest.mark.parametrize("via", [None, ("https", ("127.0.0.1", 1))])
def test_a_service_that_cannot_be_asked_is_none(via: Via | None) -> None:
    """Whatever stands in the way."""
    assert control("openai-chat", "http://127.0.0.1:1", via)("m").outcome == "network failure"


def test_it_goes_through_the_hosts_proxy() -> None:
    """With its login, in a tunnel."""
    with service(lambda _: (200, ANSWER)) as (url, asked):
        host, _, port = url.removeprefix("http://").rpartition(":")
        found = control("openai-chat", "http://service.example", ("http", (host, int(port))))("m")

    assert found.outcome == "answered"
    assert [one[0] for one in asked] == ["CONNECT service.example:80", "/chat/completions"]
    assert asked[0][1]["Proxy-Authorization"] == "Basic x"
