"""The gateway's port to the outside, with hosts on the list and off it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from pytest_researchenv.gateway.protocol import Api, EgressRequest, Reach
from pytest_researchenv.gateway.sidecar import HostNetwork
from tests.contract.standin import StandIn
from tests.integration.gateway.desk import Desk, Outside, question


Open = Callable[..., AbstractContextManager[Desk]]


def _plain(standin: StandIn) -> str:
    """Host and port of the stand-in, which plays a host with plain http."""
    return standin.bridge_url.removeprefix("http://")


def _trust(desk: Desk) -> None:
    """Put the gateway's authority into the agent's container."""
    authority = desk.gateway.authority.decode()
    desk.run(f"cat > /ca.pem <<'END'\n{authority}\nEND")


def _egress(desk: Desk, count: int) -> tuple[EgressRequest, ...]:
    deadline = time.monotonic() + 10
    while len(desk.gateway.ledger.egress) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return desk.gateway.ledger.egress


def test_hosts_on_the_list_answer_and_others_are_refused(open_desk: Open, standin: StandIn, outside: Outside) -> None:
    """Over http and https, with the gateway's authority; each request is listed with its path and bytes."""
    secure = f"{outside.host}:8443"
    with open_desk(
        reach=Reach.ALLOWLIST,
        allow=(_plain(standin), secure),
        host=HostNetwork(ca_bundle=outside.authority),
    ) as desk:
        _trust(desk)
        plain = desk.run(f"curl -sS {standin.bridge_url}/v1/models?secret=1")
        safe = desk.run(f"curl -sS --cacert /ca.pem https://{secure}/wheel")
        distrusted = desk.run(f"curl -sS https://{secure}/wheel; echo code $?")
        refused = desk.run("curl -sS https://example.org/x; echo code $?")
        refused_plain = desk.run("curl -sS http://example.org/x")
        direct = desk.run(f"curl -sS --noproxy '*' -m 5 {standin.bridge_url}/v1/models; echo code $?")
        egress = _egress(desk, 4)

    assert json.loads(plain)["object"] == "list"
    assert safe == "secure /wheel"
    assert "code 60" in distrusted
    assert "403" in refused
    assert "not on this attempt's list" in refused_plain
    assert "code 0" not in direct
    assert [(one.method, one.host, one.path, one.allowed, one.status, one.bytes_down) for one in egress] == [
        ("GET", _plain(standin), "/v1/models", True, 200, len(plain)),
        ("GET", secure, "/wheel", True, 200, len(safe)),
        ("CONNECT", "example.org", "", False, None, 0),
        ("GET", "example.org", "/x", False, None, 0),
    ]


@pytest.mark.parametrize(
    "path", ["/simple/pytest-researchenv/", "/simple/Pytest_Research%65nv/", "/x?q=pytest.researchenv"]
)
def test_what_gives_the_answers_away_is_refused_on_every_host(open_desk: Open, standin: StandIn, path: str) -> None:
    """In whatever spelling the name of our own distribution comes, the request is refused and says why."""
    with open_desk(reach=Reach.ALLOWLIST, allow=(_plain(standin),), deny=("pytest-researchenv",)) as desk:
        text = desk.run(f"curl -sS '{standin.bridge_url}{path}'")
        (one,) = _egress(desk, 1)

    assert "belongs to the benchmark itself" in text
    assert not one.allowed


def test_what_counts_is_the_host_that_would_be_reached(open_desk: Open, standin: StandIn, outside: Outside) -> None:
    """A Host header, a name in TLS, another port or address of an allowed host opens nothing."""
    secure = f"{outside.host}:8443"
    host = HostNetwork(ca_bundle=outside.authority)
    with open_desk(reach=Reach.ALLOWLIST, allow=(secure, "example.org"), host=host) as desk:
        _trust(desk)
        named = desk.run(f"curl -sS -H 'Host: example.org' {standin.bridge_url}/v1/models")
        fronted = desk.run(f"curl -sS --cacert /ca.pem -H 'Host: example.net' https://{secure}/wheel")
        port = desk.run(f"curl -sS http://{outside.host}:3128/; echo code $?")
        raw = desk.run(f"curl -sS -m 3 --proxytunnel telnet://{secure} </dev/null; echo code $?")
        egress = desk.gateway.ledger.egress

    assert "not on this attempt's list" in named
    assert "names another host" in fronted
    assert "refused" in port
    assert "code 0" not in raw
    assert not [one for one in egress if one.allowed]


def test_a_name_that_leads_to_a_private_address_is_refused(open_desk: Open) -> None:
    """An allowed name must not become a way to the engine's host or its networks, unless the lab says so."""
    # The sidecar's own name is the one name that surely has a private address everywhere.
    with open_desk(reach=Reach.ALLOWLIST, allow=("gateway:4000",)) as desk:
        refused = desk.run(
            "curl -sS -m 10 -x http://gateway:4001 --noproxy '' http://gateway:4000/api/anthropic/api/hello"
        )
        (one,) = _egress(desk, 1)
    private = HostNetwork(private_hosts=("gateway:4000",))
    with open_desk(reach=Reach.ALLOWLIST, allow=("gateway:4000",), host=private) as desk:
        passed = desk.run(
            "curl -sS -m 10 -x http://gateway:4001 --noproxy '' http://gateway:4000/api/anthropic/api/hello"
        )

    assert "not in the public internet" in refused
    assert not one.allowed
    assert "authentication_error" in passed


def test_both_ports_go_out_through_the_hosts_proxy(open_desk: Open, standin: StandIn, outside: Outside) -> None:
    """With a proxy that wants a password: tunnels for https and the model, plain requests as such; no_proxy holds."""
    secure = f"{outside.host}:8443"
    password = "proxy-password-canary"  # noqa: S105 - the stand-in's
    proxy = f"http://lab:{password}@{outside.host}:3128"
    host = HostNetwork(
        ca_bundle=outside.authority,
        proxies={"http_proxy": proxy, "https_proxy": proxy, "no_proxy": "direct.example.org"},
    )
    with open_desk(reach=Reach.ALLOWLIST, allow=(secure, "plain.example.org"), host=host) as desk:
        _trust(desk)
        safe = desk.run(f"curl -sS --cacert /ca.pem https://{secure}/wheel")
        plain = desk.run("curl -sS http://plain.example.org/x")
        (asked,) = desk.ask({"body": question(Api.MESSAGES)})
        lines = b"".join(desk.gateway.ledger.lines()).decode()
    wanted = f"proxy CONNECT {_plain(standin)} True"
    deadline = time.monotonic() + 10
    # What it prints takes its way through the engine.
    while wanted not in (said := outside.said.decode()) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert safe == "secure /wheel"
    assert plain == "through the proxy: http://plain.example.org/x"
    assert asked.status == 200
    assert f"proxy CONNECT {secure} True" in said
    assert wanted in said
    assert "proxy GET http://plain.example.org/x True" in said
    assert password not in lines


def test_an_agent_without_a_model_gets_the_way_out_alone(open_desk: Open, standin: StandIn) -> None:
    """There is no model's port then, and no address."""
    with open_desk(service=None, key=None, reach=Reach.ALLOWLIST, allow=(_plain(standin),)) as desk:
        passed = desk.run(f"curl -sS {standin.bridge_url}/v1/models")
        model = desk.run("curl -sS -m 5 http://gateway:4000/; echo code $?")
        address = desk.gateway.address

    assert json.loads(passed)["object"] == "list"
    assert "code 7" in model
    assert address is None
