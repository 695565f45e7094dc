"""What an agent does to its gateway must not look like trouble of the service, nor break anything for others."""

from __future__ import annotations

import gzip
import json
import socket
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_researchenv.gateway.protocol import Api, Budget, Outcome, Reach
from tests.contract.standin import StandIn
from tests.integration.gateway.desk import KEY, MODEL, Desk, question


if TYPE_CHECKING:
    from docker import DockerClient

Open = Callable[..., AbstractContextManager[Desk]]

_RAW = (Path(__file__).parent / "inside" / "raw.py").read_text()
_POST = "POST /api/anthropic/v1/messages"


def _post(desk: Desk, body: bytes = b"", *, line: str = f"{_POST} HTTP/1.1", headers: str = "") -> bytes:
    """A request for the model, as bytes."""
    assert desk.gateway.address is not None
    length = "" if "chunked" in headers else f"content-length: {len(body)}\r\n"
    return f"{line}\r\nHost: x\r\nx-api-key: {desk.gateway.address.token}\r\n{headers}{length}\r\n".encode() + body


def _raw(desk: Desk, sent: bytes, *, port: int = 4000, patience: float = 10, pause: float = 0, buffer: int = 0) -> str:
    """What bytes come back with."""
    arguments = [str(port), sent.hex(), str(patience), str(pause), str(buffer)]
    done = desk.agent.exec(("python3", "-c", _RAW, *arguments), timeout_s=pause + patience + 30)
    assert done.ok, done.output.text()
    return done.output.text()


def _await(condition: Callable[[], object], within_s: float = 10) -> bool:
    deadline = time.monotonic() + within_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return bool(condition())


def _asked() -> bytes:
    return json.dumps(question(Api.MESSAGES)).encode()


@pytest.mark.parametrize("version", ["HTTP/3.0", "HTTP/2.0", "HTTP/1.9"])
def test_other_versions_of_http_never_reach_the_service(open_desk: Open, standin: StandIn, version: str) -> None:
    """A service answers them with a status that would be its own trouble."""
    with open_desk() as desk:
        before = len(standin.log())
        said = _raw(desk, _post(desk, _asked(), line=f"{_POST} {version}"))
        assert _await(lambda: desk.gateway.ledger.calls)
        ledger = desk.gateway.ledger

    assert "400 Bad Request" in said
    assert len(standin.log()) == before
    assert [call.outcome for call in ledger.calls] == [Outcome.DENIED]


def test_an_old_client_is_asked_for_in_the_version_of_today(open_desk: Open) -> None:
    """It gets its answer, and then the end of the connection that it awaits."""
    with open_desk() as desk:
        said = _raw(desk, _post(desk, _asked(), line=f"{_POST} HTTP/1.0"))

    assert said.startswith("ended")
    assert "200 OK" in said


def test_trailers_are_refused(open_desk: Open) -> None:
    """No request stays open for ever."""
    chunked = b"%x\r\n%s\r\n0\r\nx: y\r\n\r\n" % (len(_asked()), _asked())
    with open_desk() as desk:
        said = _raw(desk, _post(desk, chunked, headers="transfer-encoding: chunked\r\n"))
        assert _await(lambda: desk.gateway.ledger.calls)
        (call,) = desk.gateway.ledger.calls

    assert said.startswith("ended")
    assert call.outcome is Outcome.DENIED
    assert "trailers" in call.message


def test_an_answer_that_is_not_read_is_no_silence_of_the_service(open_desk: Open) -> None:
    """Its clock stands still, and in the end the gateway hangs up."""
    with open_desk([{"text": "word " * 6_000_000}], silence_s=6) as desk:
        asked = json.dumps(question(Api.MESSAGES, stream=True)).encode()
        silent: list[float] = []

        def look() -> bool:
            silent.append(desk.gateway.ledger.silent_s)
            return False

        done = desk.agent.exec(
            ("python3", "-c", _RAW, "4000", _post(desk, asked).hex(), "20", "12", "4096"),
            timeout_s=60,
            stop=look,
        )
        assert _await(lambda: desk.gateway.ledger.calls)
        (call,) = desk.gateway.ledger.calls
        ledger = desk.gateway.ledger

    assert done.ok, done.output.text()
    assert max(silent) < 4
    assert call.outcome is Outcome.ABANDONED
    assert "did not read" in call.message
    assert ledger.trouble is None
    assert call.charged_usd > 0


def _errors(desk: Desk, turns: list[dict[str, Any]], standin: StandIn) -> list[Outcome]:
    """What became of one request for each of some turns."""
    for turn in turns:
        standin.play({"key": KEY.value, "turn": [turn]})
        desk.ask({"body": question(Api.MESSAGES)})
    assert _await(lambda: len(desk.gateway.ledger.calls) >= len(turns))
    return [call.outcome for call in desk.gateway.ledger.calls]


def _error(status: int, kind: str, message: str) -> dict[str, Any]:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": message}})
    return {"status": status, "body": body}


def test_a_lasting_refusal_counts_only_when_the_gateway_gets_it_as_well(open_desk: Open, standin: StandIn) -> None:
    """Else it is what the agent sent; the question that showed it is on record with its usage, and asked rarely."""
    refusals = [_error(403, "permission_error", "no"), _error(429, "insufficient_quota", "none left")]
    with open_desk() as desk:
        outcomes = _errors(desk, refusals, standin)
        ledger = desk.gateway.ledger

    assert outcomes == [Outcome.ANSWERED, Outcome.REJECTED, Outcome.REJECTED]
    assert ledger.calls[0].message == "control"
    assert ledger.calls[0].usage.total > 0
    assert ledger.trouble is None


def test_words_of_an_agent_are_no_words_of_the_service(open_desk: Open, standin: StandIn) -> None:
    """A field that the service would quote never reaches it."""
    body = question(Api.MESSAGES) | {"Your credit balance is too low to access the Anthropic API.": 1}
    with open_desk() as desk:
        desk.ask({"body": body})

    assert "credit balance" not in standin.bodies()[-1]


def test_a_model_that_is_gone_is_no_fault_of_the_agent(open_desk: Open, standin: StandIn) -> None:
    """As long as nothing was ever answered; then a refusal is what the agent asked for."""
    gone = _error(404, "not_found_error", "model: gone")
    with open_desk() as desk:
        outcomes = _errors(desk, [gone], standin)
        trouble = desk.gateway.ledger.trouble
    with open_desk() as desk:
        later = _errors(desk, [{"text": "done"}, gone], standin)
    with open_desk() as desk:
        own = _errors(desk, [_error(400, "invalid_request_error", "messages: no")], standin)

    assert outcomes == [Outcome.UNSERVED]
    assert trouble is not None
    assert trouble.lasting
    assert later == [Outcome.ANSWERED, Outcome.REJECTED]
    assert own == [Outcome.ANSWERED, Outcome.REJECTED]


def test_compressed_answers_are_refused(open_desk: Open) -> None:
    """The key could stand in them, and nobody would see it."""
    packed = {"status": 200, "body": f"gzip of {KEY.value}", "headers": {"content-encoding": "gzip"}}
    with open_desk([packed]) as desk:
        (asked,) = desk.ask({"body": question(Api.MESSAGES)})
        assert _await(lambda: desk.gateway.ledger.calls)
        (call,) = desk.gateway.ledger.calls

    assert asked.status == 502
    assert json.loads(asked.body)["error"]["type"] == "api_error"
    assert "gzip of" not in asked.body
    assert call.outcome is Outcome.MALFORMED


def test_trouble_uses_up_no_requests(open_desk: Open, standin: StandIn) -> None:
    """A budget of one request is there for one answer."""
    with open_desk(budget=Budget(max_requests=1)) as desk:
        outcomes = _errors(
            desk, [{"fault": "overloaded"}, {"fault": "server-error"}, {"text": "a"}, {"text": "b"}], standin
        )
        exhausted = desk.gateway.ledger.exhausted

    assert outcomes == [Outcome.OVERLOADED, Outcome.SERVER_ERROR, Outcome.ANSWERED, Outcome.BUDGET]
    assert "1 of 1" in exhausted


_MANY = """\
import socket, sys
request = bytes.fromhex(sys.argv[1])
open_ = [socket.create_connection(("gateway", 4000)) for _ in range(110)]
for one in open_:
    one.sendall(request[:-1])
for one in open_:
    one.sendall(request[-1:])
found = []
for one in open_:
    one.settimeout(60)
    try:
        found.append(one.recv(20).decode())
    except OSError:
        found.append("")
print(sorted(set(found)))
"""


@pytest.mark.slow
def test_memory_cannot_be_filled(open_desk: Open, docker_client: DockerClient) -> None:
    """110 small bodies that become large at once: some are refused, and the gateway goes on."""
    begin = json.dumps({"model": MODEL, "max_tokens": 100, "stream": True}).encode()[:-1] + b',"messages":"'
    half = begin + b"\xed\xa0\x80" + "é".encode() * 8_300_000 + b'"}'
    large = begin + "\N{GRINNING FACE}".encode() + b"x" * 16_600_000 + b'"}'
    with open_desk() as desk:
        for body in (half, large):
            packed = _post(desk, gzip.compress(body), headers="content-encoding: gzip\r\n").hex()
            done = desk.agent.exec(("python3", "-c", _MANY, packed), timeout_s=400)
            assert done.ok, done.output.text()
        (asked,) = desk.ask({"body": question(Api.MESSAGES)})
        state = docker_client.containers.get(desk.sidecar).attrs["State"]
        ledger = desk.gateway.ledger

    assert asked.status == 200
    assert not state["OOMKilled"]
    assert ledger.failure == ""
    assert ledger.trouble is None


def test_a_gateway_ends_when_its_time_is_over(open_desk: Open) -> None:
    """Nothing is spent once nobody looks after it any more."""
    with open_desk(lifetime_s=8) as desk:
        assert _await(lambda: desk.gateway.ledger.failure, within_s=60)
        (asked,) = desk.ask({"body": question(Api.MESSAGES)})
        failure = desk.gateway.ledger.failure

    assert "its time is over" in failure
    assert asked.status == 0


def test_the_way_out_is_for_the_private_network_alone(open_desk: Open, docker_client: DockerClient) -> None:
    """Also where the model's port is for the engine's host."""
    with open_desk(on_host=True, reach=Reach.ALLOWLIST) as desk:
        networks = docker_client.containers.get(desk.sidecar).attrs["NetworkSettings"]["Networks"]
        address = networks["bridge"]["IPAddress"]
        refused = []
        for port in (4000, 4001):
            with socket.socket() as probe:
                probe.settimeout(5)
                refused.append(probe.connect_ex((address, port)) != 0)

    assert refused == [False, True]


def test_what_is_asked_of_the_outside_can_be_written_down(open_desk: Open) -> None:
    """Whatever bytes stand for a method, a host or a path."""
    lines = [
        b"\xff\xfe http://evil.example/",
        b"GET http://evil.example/\xed\xa0\x80\x1b[2J",
        b"GET http://e\xff.example/",
    ]
    with open_desk(reach=Reach.ALLOWLIST, allow=("evil.example",)) as desk:
        for line in [*lines, b"GET http://evil.example/"]:
            version = b"HTTP/3.0" if line is not lines[0] else b"HTTP/1.1"
            _raw(desk, line + b" " + version + b"\r\nHost: evil.example\r\n\r\n", port=4001)
        assert _await(lambda: len(desk.gateway.ledger.egress) >= 2)
        egress = desk.gateway.ledger.egress
        written = b"".join(desk.gateway.ledger.lines())

    assert not [one for one in egress if one.allowed]
    for one in egress:
        f"{one.method} {one.host} {one.path}".encode()
    json.dumps([json.loads(line) for line in written.splitlines()], ensure_ascii=False).encode()
