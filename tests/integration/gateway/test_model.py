"""The model's port of the real gateway, in front of a stand-in of the services."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api, Auth, Budget, GatewayRequest, ModelService, Outcome, Reach, Usage
from pytest_researchenv.gateway.sidecar import open_gateway
from tests.choosing import mostly_slow
from tests.contract.standin import StandIn
from tests.integration.gateway.desk import KEY, MODEL, Desk, question


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.protocol import Mount

Open = Callable[..., AbstractContextManager[Desk]]

USED = {"tokens_in": 1000, "cache_read": 300, "cache_write": 0, "tokens_out": 50, "reasoning": 10}


def _settled(desk: Desk, calls: int, *, within_s: float = 10) -> None:
    """Wait for events that are still on their way."""
    deadline = time.monotonic() + within_s
    while len(desk.gateway.ledger.calls) < calls and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(desk.gateway.ledger.calls) == calls


@pytest.mark.parametrize("api", list(Api))
def test_what_the_service_reports_is_counted(open_desk: Open, standin: StandIn, api: Api) -> None:
    """Streamed or whole, in every protocol: the tokens are the service's, and the cost is theirs by the price list."""
    with open_desk([{"text": "done", "usage": USED}], api=api) as desk:
        whole, streamed = (desk.ask({"body": question(api, stream=stream)})[0] for stream in (False, True))
        _settled(desk, 2)
        ledger = desk.gateway.ledger
        log = standin.log()[-2:]

    assert [whole.status, streamed.status] == [200, 200]
    reasoning = 0 if api is Api.MESSAGES else USED["reasoning"]
    once = Usage(**{**USED, "reasoning": reasoning})
    assert [call.usage for call in ledger.calls] == [once, once]
    assert all(call.outcome is Outcome.ANSWERED and call.complete and call.status == 200 for call in ledger.calls)
    assert ledger.cost_usd == pytest.approx(2 * (1000 * 1.0 + 300 * 0.1 + 50 * 10.0) / 1e6)
    assert ledger.trouble is None
    # The key went where this service takes it, and the token nowhere.
    assert {(entry["auth"], entry["key"]) for entry in log} == {
        ("x-api-key" if api is Api.MESSAGES else "bearer", KEY.value)
    }
    assert desk.gateway.address is not None
    assert desk.gateway.address.token not in json.dumps(log)


@pytest.mark.parametrize("api", list(Api))
def test_a_streamed_answer_arrives_as_it_is_made(open_desk: Open, api: Api) -> None:
    """The first piece comes long before the last one is sent."""
    with open_desk([{"text": "a word or two", "event_delay_s": 0.3}], api=api) as desk:
        (asked,) = desk.ask({"body": question(api, stream=True)})

    assert asked.status == 200
    assert asked.last_s - asked.first_s > 0.5
    assert asked.first_s < asked.last_s / 2


def test_a_budget_of_tokens_is_passed_by_one_answer_at_most(open_desk: Open) -> None:
    """Eight requests at once against a budget of three and a half: what is over it is refused, as no money left."""
    each = USED["tokens_in"] + USED["cache_read"] + USED["tokens_out"]
    limit = int(3.5 * each)
    turns = [{"text": "done", "usage": USED, "delay_s": 0.3}]
    with open_desk(turns, budget=Budget(max_tokens=limit)) as desk:
        asked = desk.ask(*[{"body": question(Api.MESSAGES)} for _ in range(8)])
        _settled(desk, 8)
        ledger = desk.gateway.ledger

    assert limit <= ledger.usage.total <= limit + each
    refused = [one for one in asked if one.status != 200]
    assert len(refused) == 4
    assert all(one.status == 400 and "credit balance is too low" in one.body for one in refused)
    assert [call.outcome for call in ledger.calls].count(Outcome.BUDGET) == 4
    assert f"{limit:,}" in ledger.exhausted
    assert ledger.trouble is None


def test_a_budget_of_money_holds_for_requests_without_any_bound(open_desk: Open) -> None:
    """Without a limit of their own, requests go one at a time, so that the budget is passed by one answer at most."""
    each = (1000 * 1.0 + 300 * 0.1 + 50 * 10.0) / 1e6
    with open_desk(
        [{"text": "done", "usage": USED, "delay_s": 0.2}], api=Api.RESPONSES, budget=Budget(max_cost_usd=1.5 * each)
    ) as desk:
        asked = desk.ask(*[{"body": question(Api.RESPONSES, limit=None)} for _ in range(6)])
        _settled(desk, 6)
        ledger = desk.gateway.ledger

    assert ledger.cost_usd == pytest.approx(2 * each)
    refused = [one for one in asked if one.status != 200]
    assert len(refused) == 4
    assert all(one.status == 429 and "insufficient_quota" in one.body for one in refused)
    assert not any("retry-after" in one.headers for one in refused)


def test_a_budget_of_requests_is_exact(open_desk: Open) -> None:
    """With three requests allowed, three pass, also when eight come at once."""
    with open_desk([{"text": "done", "delay_s": 0.2}], budget=Budget(max_requests=3)) as desk:
        asked = desk.ask(*[{"body": question(Api.MESSAGES)} for _ in range(8)])

    assert sorted(one.status for one in asked) == [200] * 3 + [400] * 5


def test_a_client_that_leaves_while_it_waits_frees_its_place(open_desk: Open) -> None:
    """The others go on, and its request never reaches the service."""
    with open_desk([{"text": "done", "delay_s": 1.5}], budget=Budget(max_tokens=100_000)) as desk:
        unbounded = question(Api.MESSAGES, limit=None)
        first, left, last = (
            {"body": unbounded},
            {"body": unbounded, "leave_s": 0.5},
            {"body": unbounded},
        )
        asked = desk.ask(first, left, last)

    assert sorted(one.status for one in asked) == [0, 200, 200]


REFUSED: dict[str, tuple[dict[str, Any], int]] = {
    "another model": ({"body": question(Api.MESSAGES, model="claude-opus-4-6")}, 404),
    "no model": ({"body": {"max_tokens": 1, "messages": []}}, 404),
    "two models": ({"body": {"model": [MODEL, "claude-opus-4-6"]}}, 404),
    "a batch": ({"path": "/v1/messages/batches", "body": {}}, 404),
    "files": ({"path": "/v1/files", "body": {}}, 404),
    "another protocol": ({"path": "/v1/chat/completions", "body": question(Api.CHAT)}, 404),
    "a path that is folded": ({"path": "/v1/files/../messages", "body": question(Api.MESSAGES)}, 404),
    "an encoded path": ({"path": "/v1/%6dessages", "body": question(Api.MESSAGES)}, 404),
    "counting for another model": (
        {"path": "/v1/messages/count_tokens", "body": question(Api.MESSAGES, model="claude-opus-4-6")},
        404,
    ),
    "no token": ({"token": "", "body": question(Api.MESSAGES)}, 401),
    "a wrong token": ({"token": "attempt-0", "body": question(Api.MESSAGES)}, 401),
    "an absolute address": ({"target": "http://example.org/v1/messages", "body": question(Api.MESSAGES)}, 404),
    "an absolute address with the right path": (
        {"target": "http://example.org/api/anthropic/v1/messages", "body": question(Api.MESSAGES)},
        404,
    ),
    "a tunnel": ({"method": "CONNECT", "target": "example.org:443"}, 400),
    "no JSON object": ({"body": [1]}, 400),
}


def test_what_is_not_allowed_never_reaches_the_service(open_desk: Open, standin: StandIn) -> None:
    """Other models, paths, tokens and forms of requests are refused in the provider's own shape."""
    with open_desk() as desk:
        before = len(standin.log())
        asked = {name: desk.ask(request)[0] for name, (request, _) in REFUSED.items()}
        after = len(standin.log())
        ledger = desk.gateway.ledger

    assert {name: one.status for name, one in asked.items()} == {name: status for name, (_, status) in REFUSED.items()}
    assert all(json.loads(one.body)["type"] == "error" for one in asked.values())
    assert after == before
    assert {call.outcome for call in ledger.calls} == {Outcome.DENIED}
    assert len(ledger.calls) == len(REFUSED)
    assert ledger.trouble is None


def test_only_what_the_protocol_needs_goes_on(open_desk: Open, standin: StandIn) -> None:
    """Cookies, other logins and organisations stay behind; what the tool says about itself goes on."""
    headers = {
        "Authorization": "Bearer somebody-elses",
        "Cookie": "session=1",
        "OpenAI-Organization": "org-1",
        "Proxy-Authorization": "Basic eDp5",
        "X-Forwarded-For": "10.0.0.1",
        "Accept-Encoding": "gzip",
        "anthropic-beta": "oauth-2025-04-20,prompt-caching-2024-07-31,context-1m-2025-08-07",
        "anthropic-version": "2023-06-01",
        "User-Agent": "claude-cli/2.1 (external, cli)",
    }
    with open_desk() as desk:
        (asked,) = desk.ask({"path": "/v1/messages?beta=true&x=1", "headers": headers, "body": question(Api.MESSAGES)})
        entry = standin.log()[-1]

    assert asked.status == 200
    assert entry["path"] == "/api/anthropic/v1/messages?beta=true"
    got = entry["headers"]
    assert {"authorization", "cookie", "openai-organization", "proxy-authorization", "x-forwarded-for"}.isdisjoint(got)
    assert got["accept-encoding"] == "identity"
    assert got["anthropic-beta"] == "prompt-caching-2024-07-31"
    assert (got["anthropic-version"], got["user-agent"]) == ("2023-06-01", "claude-cli/2.1 (external, cli)")


def test_the_gateway_answers_what_needs_no_model(open_desk: Open, standin: StandIn) -> None:
    """The list of models names those that may be asked; nothing of it is a call."""
    with open_desk() as desk:
        before = len(standin.log())
        models, hello = desk.ask({"method": "GET", "path": "/v1/models"}, {"method": "GET", "path": "/api/hello"})
        (counted,) = desk.ask({"path": "/v1/messages/count_tokens", "body": question(Api.MESSAGES)})
        entries = standin.log()[before:]
        calls = desk.gateway.ledger.calls

    assert [model["id"] for model in json.loads(models.body)["data"]] == [MODEL]
    assert hello.status == 200
    assert json.loads(counted.body)["input_tokens"] > 0
    assert [entry["played"] for entry in entries] == ["count"]
    assert calls == ()


def test_the_key_stands_in_nothing_that_can_be_seen(
    open_desk: Open, docker_client: DockerClient, capfd: pytest.CaptureFixture[str]
) -> None:
    """Not in what the engine shows of the sidecar, nor in its processes, files, events, nor in answers that echo it."""
    echo = {"status": 418, "body": f"your key is {KEY.value}", "headers": {"x-debug": KEY.value}}
    with open_desk([echo]) as desk:
        (asked,) = desk.ask({"body": question(Api.MESSAGES)})
        # The gateway asked for itself as well.
        _settled(desk, 2)
        sidecar = docker_client.containers.get(desk.sidecar)
        seen = [
            json.dumps(sidecar.attrs),
            json.dumps(sidecar.top(ps_args="auxe")),
            asked.body,
            json.dumps(asked.headers),
        ]
        seen += [b"".join(desk.gateway.ledger.lines()).decode(), str(desk.gateway.ledger.calls)]
        seen += [json.dumps(docker_client.networks.get(desk.gateway.network).attrs)]
        changed = docker_client.api.diff(desk.sidecar) or []

    assert asked.status == 418
    assert "your key is ***" in asked.body
    assert not [text for text in (*seen, *capfd.readouterr()) if KEY.value in text]
    # It wrote nothing beyond its own scripts, so that no file holds the key.
    made = {change["Path"] for change in changed}
    assert not [path for path in made if not path.startswith(("/researchenv", "/run", "/etc", "/dev", "/usr"))]


TROUBLES: list[tuple[dict[str, Any], Outcome]] = [
    ({"fault": "unauthorized"}, Outcome.AUTHENTICATION),
    ({"fault": "quota"}, Outcome.QUOTA),
    ({"fault": "rate-limited", "headers": {"retry-after": "1"}}, Outcome.RATE_LIMITED),
    ({"fault": "overloaded"}, Outcome.OVERLOADED),
    ({"fault": "server-error"}, Outcome.SERVER_ERROR),
    ({"fault": "bad-request"}, Outcome.REJECTED),
    ({"fault": "overloaded", "error_after": 2}, Outcome.OVERLOADED),
    ({"text": "never said", "cut_after": 2}, Outcome.CUT),
    ({"text": "never said", "malformed_after": 2}, Outcome.MALFORMED),
    ({"status": 200, "body": "<html>not a model</html>"}, Outcome.MALFORMED),
    ({"drop": True}, Outcome.NETWORK),
    ({"text": "never said", "stall_after": 2}, Outcome.CUT),
]


@pytest.mark.parametrize("api", mostly_slow(Api, but={Api.MESSAGES}))
def test_every_fault_of_a_service_has_its_name(open_desk: Open, standin: StandIn, api: Api) -> None:
    """Each kind of trouble is told apart, in every protocol; only a refusal of what was asked is none."""
    found = []
    with open_desk(api=api, silence_s=3) as desk:
        desk.ask({"body": question(api, stream=True)})
        for number, (turn, outcome) in enumerate(TROUBLES, start=1):
            standin.play({"key": KEY.value, "turn": [turn]})
            desk.ask({"body": question(api, stream=True)})
            _settled(desk, number + 1)
            trouble = desk.gateway.ledger.trouble
            found.append((turn, desk.gateway.ledger.calls[-1].outcome))
            if outcome.provider_trouble:
                assert trouble is not None
                assert trouble.outcome is outcome
        rest = desk.gateway.ledger

    assert found == TROUBLES
    assert rest.trouble is not None
    assert rest.trouble.times == len(TROUBLES) - 1


def test_an_agent_that_hangs_up_makes_no_trouble(open_desk: Open) -> None:
    """A connection that the agent's side closed is its own doing, and still counts against the budget."""
    turns = [{"text": "a long answer", "event_delay_s": 0.5, "usage": USED}]
    with open_desk(turns, budget=Budget(max_tokens=100)) as desk:
        (asked,) = desk.ask({"body": question(Api.MESSAGES, stream=True), "leave_s": 0.3})
        _settled(desk, 1)
        (second,) = desk.ask({"body": question(Api.MESSAGES)})
        ledger = desk.gateway.ledger

    assert asked.error
    assert ledger.calls[0].outcome is Outcome.ABANDONED
    assert not ledger.calls[0].complete
    assert ledger.trouble is None
    assert second.status == 400
    assert ledger.exhausted


def test_a_tool_that_gives_up_a_silent_stream_is_not_to_blame(open_desk: Open) -> None:
    """The service said nothing for long: whoever closes the connection, it is the service's trouble."""
    with open_desk([{"text": "never said", "stall_after": 2}], silence_s=5) as desk:
        desk.ask({"body": question(Api.MESSAGES, stream=True), "leave_s": 2})
        _settled(desk, 1)
        trouble = desk.gateway.ledger.trouble

    assert trouble is not None
    assert trouble.outcome is Outcome.CUT
    assert "silent for" in trouble.message


def test_a_service_that_cannot_be_reached_is_told_in_its_own_shape(open_desk: Open) -> None:
    """Nothing listens there: the tool gets a server error that it understands."""
    service = ModelService(Api.MESSAGES, "http://192.0.2.1.invalid:1", Auth.API_KEY, KEY.name, MODEL)
    with open_desk(service=service) as desk:
        (asked,) = desk.ask({"body": question(Api.MESSAGES)})
        _settled(desk, 1)
        trouble = desk.gateway.ledger.trouble

    assert asked.status == 502
    assert json.loads(asked.body)["error"]["type"] == "api_error"
    assert trouble is not None
    assert trouble.outcome is Outcome.NETWORK


def test_without_reach_there_is_only_the_gateway(open_desk: Open, standin: StandIn) -> None:
    """The service itself, the proxy's port and names outside are out of reach; the gateway answers."""
    with open_desk(reach=Reach.NONE) as desk:
        (asked,) = desk.ask({"body": question(Api.MESSAGES)})
        direct = desk.run(f"curl -sS -m 5 {standin.bridge_url}/v1/models; echo code $?")
        proxy = desk.run("curl -sS -m 5 http://gateway:4001/; echo code $?")
        outside = desk.run("curl -sS -m 20 https://pypi.org/; echo code $?")
        environment = desk.gateway.environment

    assert asked.status == 200
    assert "code 0" not in direct
    assert "code 7" in proxy
    assert "code 6" in outside
    assert "http_proxy" not in environment


def test_a_tool_on_the_host_reaches_it_through_a_port(open_desk: Open) -> None:
    """The address is on this host's loopback, and answers with the token."""
    import urllib.request  # noqa: PLC0415 - one test's

    with open_desk(on_host=True) as desk:
        address = desk.gateway.address
        assert address is not None
        request = urllib.request.Request(f"{address.url}/v1/models", headers={"x-api-key": address.token})  # noqa: S310
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=10) as answer:
            listed = json.load(answer)

    assert address.url.startswith("http://127.0.0.1:")
    assert listed["data"][0]["id"] == MODEL


def test_the_ledger_says_when_the_gateway_dies(open_desk: Open, docker_client: DockerClient) -> None:
    """A sidecar that is killed from outside is a failure of the gateway, and what it saw stays."""
    with open_desk() as desk:
        desk.ask({"body": question(Api.MESSAGES)})
        _settled(desk, 1)
        docker_client.containers.get(desk.sidecar).kill()
        deadline = time.monotonic() + 10
        while not desk.gateway.ledger.failure and time.monotonic() < deadline:
            time.sleep(0.05)
        ledger = desk.gateway.ledger

    assert "signal" in ledger.failure or "137" in ledger.failure
    assert len(ledger.calls) == 1


def test_an_agent_cannot_bring_the_gateway_down(open_desk: Open) -> None:
    """Requests without end, over many connections, are cut off before memory is; or a failure would become an error."""
    script = (Path(__file__).parent / "inside" / "flood.py").read_text()
    with open_desk(reach=Reach.ALLOWLIST, allow=("example.org",)) as desk:
        assert desk.gateway.address is not None
        done = desk.agent.exec(("python3", "-c", script, desk.gateway.address.token, "4"), timeout_s=60)
        (asked,) = desk.ask({"body": question(Api.MESSAGES)})
        ledger = desk.gateway.ledger

    assert "the flood is over" in done.output.text()
    assert asked.status == 200
    assert ledger.failure == ""
    assert ledger.trouble is None


def test_refusals_without_end_are_not_all_reported(open_desk: Open) -> None:
    """The ledger is bounded, whatever an agent does."""
    script = (
        "import http.client, sys\n"
        "connection = http.client.HTTPConnection('gateway', 4000)\n"
        "for _ in range(1200):\n"
        "    connection.request('GET', '/x')\n"
        "    connection.getresponse().read()\n"
    )
    with open_desk() as desk:
        done = desk.agent.exec(("python3", "-c", script), timeout_s=60)
        (asked,) = desk.ask({"body": question(Api.MESSAGES)})
        _settled(desk, 1001)

    assert done.ok, done.output.text()
    assert asked.status == 200


def test_nothing_is_left_behind(open_desk: Open, left_behind: Callable[[], list[str]]) -> None:
    """After an error inside the block, containers and network are gone as after any other end."""
    found: list[list[str]] = []

    def break_off() -> None:
        with open_desk():
            found.append(left_behind())
            raise KeyError("an error")

    with pytest.raises(KeyError, match="an error"):
        break_off()

    assert [len(things) for things in (*found, left_behind())] == [2, 0]


def test_an_endpoint_on_this_host_is_refused_with_the_reason(
    docker_sandbox: DockerSandbox, base_image: str, proxy_volume: Mount
) -> None:
    """In the sidecar, loopback is the sidecar: the user hears so before anything is made."""
    service = ModelService(Api.CHAT, "http://localhost:8000/v1", Auth.BEARER, KEY.name, MODEL)

    with (
        pytest.raises(ConfigurationError, match="this host's own address"),
        open_gateway(docker_sandbox, base_image, proxy_volume, GatewayRequest(service=service)),
    ):
        pass
