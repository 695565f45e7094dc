"""The stand-in of the models' services must itself be right: what every test of agents and gateways rests on.

That the real tools understand it is shown by the contract suite of agents.
"""

from __future__ import annotations

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from pytest_researchenv.sandbox.protocol import ContainerSpec, Join, Network
from tests.contract.speaking import Chat, Messages, Responses, Said, post
from tests.contract.standin import StandIn, in_container, on_host, tape


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox


_TAPES = sorted(path.stem for path in (Path(__file__).parents[2] / "fixtures" / "api" / "tapes").glob("*.toml"))

_USAGE = {"tokens_in": 100, "cache_read": 30, "cache_write": 20, "tokens_out": 50, "reasoning": 10}

_TURNS = {
    "turn": [
        {"text": "I look around.", "run": ["ls", "env"], "usage": _USAGE},
        {"text": "I look once more.", "run": ["pwd"]},
        {"text": "That is all."},
    ]
}


Dialect = Messages | Responses | Chat


@pytest.fixture(params=[Messages, Responses, Chat], ids=lambda each: each.__name__.lower())
def dialect(request: pytest.FixtureRequest) -> Dialect:
    """Each protocol in turn."""
    made: Dialect = request.param()
    return made


@pytest.fixture(scope="module")
def server() -> Iterator[StandIn]:
    """One stand-in for all tests here; each plays its own tape."""
    with on_host(_TURNS) as standin:
        yield standin


@pytest.fixture
def standin(server: StandIn) -> StandIn:
    """It plays three turns: two commands, one command, the last word."""
    server.play(_TURNS)
    return server


def ask(standin: StandIn, dialect: Dialect, *told: Said, stream: bool) -> Said:
    """Ask for the next turn."""
    answer = post(standin, dialect.path, dialect.body(list(told), stream=stream))
    assert (answer.status, answer.whole) == (200, True)
    return dialect.streamed(answer.events) if stream else dialect.whole(answer.document)


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_a_tape_is_played_turn_by_turn(standin: StandIn, dialect: Dialect, *, stream: bool) -> None:
    """Each request hears the turn after those that it holds, commands in the words of the tool that it offers."""
    first = ask(standin, dialect, stream=stream)
    second = ask(standin, dialect, first, stream=stream)
    third = ask(standin, dialect, first, second, stream=stream)

    assert (first.text, first.commands) == ("I look around.", ("ls", "env"))
    assert first.tokens == (150, 30, 50)
    assert (second.text, second.commands) == ("I look once more.", ("pwd",))
    assert (third.text, third.commands) == ("That is all.", ())
    assert len({*first.ids, *second.ids}) == 3


def test_asking_again_hears_the_same_turn(standin: StandIn, dialect: Dialect) -> None:
    """A client that repeats a request does not wind the tape on, nor do two conversations."""
    first = ask(standin, dialect, stream=True)
    ask(standin, dialect, first, stream=True)

    assert ask(standin, dialect, stream=False) == first


def test_beside_the_work_nothing_is_played(standin: StandIn, dialect: Dialect) -> None:
    """Requests without a tool for commands (titles, checks of a quota) hear something trivial."""
    answer = post(standin, dialect.path, dialect.body([], stream=False, tools=False))

    assert dialect.whole(answer.document).text == "stand-in"
    assert standin.log()[-1]["played"] == "side"
    assert ask(standin, dialect, stream=False).text == "I look around."


@pytest.mark.parametrize(
    ("fault", "statuses"),
    [
        ("unauthorized", (401, 401)),
        ("quota", (400, 429)),
        ("rate-limited", (429, 429)),
        ("overloaded", (529, 503)),
        ("server-error", (500, 500)),
        ("bad-request", (400, 400)),
    ],
)
def test_errors_have_the_providers_shapes(
    standin: StandIn, dialect: Dialect, fault: str, statuses: tuple[int, int]
) -> None:
    """Status and body are those that the provider answers with, whether a stream was wanted or not."""
    standin.play({"turn": [{"fault": fault, "headers": {"retry-after": "7"}}]})

    for stream in (True, False):
        answer = post(standin, dialect.path, dialect.body([], stream=stream))

        assert answer.status == statuses[0 if isinstance(dialect, Messages) else 1]
        assert answer.headers["retry-after"] == "7"
        assert answer.document["error"]["message"]
        assert answer.document["error"]["type"]
        assert (answer.document.get("type") == "error") is isinstance(dialect, Messages)


def test_any_answer_can_be_made_up(standin: StandIn, dialect: Dialect) -> None:
    """A status, a body and headers, for what providers and what stands before them may say."""
    standin.play({"turn": [{"status": 502, "body": "<html>bad gateway</html>", "headers": {"x-from": "a proxy"}}]})

    answer = post(standin, dialect.path, dialect.body([], stream=True))

    assert (answer.status, answer.body, answer.headers["x-from"]) == (502, b"<html>bad gateway</html>", "a proxy")


def test_a_fault_can_go_away(standin: StandIn, dialect: Dialect) -> None:
    """After so many times the turn is played as if nothing had been; another conversation has it again."""
    standin.play({"turn": [{"text": "At last.", "fault": "overloaded", "times": 2}]})
    body = dialect.body([], stream=False)
    other = json.loads(json.dumps(body).replace("Go.", "Come."))

    statuses = [post(standin, dialect.path, each).status for each in (body, body, body, other)]

    assert [status < 300 for status in statuses] == [False, False, True, False]


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_an_answer_can_be_cut(standin: StandIn, dialect: Dialect, *, stream: bool) -> None:
    """The connection ends in the middle, and the client can tell."""
    standin.play({"turn": [{"text": "Never said to its end.", "cut_after": 3}]})

    answer = post(standin, dialect.path, dialect.body([], stream=stream))

    assert answer.status == 200
    assert not answer.whole
    assert answer.body
    assert not stream or len(answer.events) == 3


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_an_answer_can_be_no_json(standin: StandIn, dialect: Dialect, *, stream: bool) -> None:
    """It comes whole, by its length, and cannot be understood."""
    standin.play({"turn": [{"text": "Hardly understood.", "malformed_after": 2}]})

    answer = post(standin, dialect.path, dialect.body([], stream=stream))

    assert (answer.status, answer.whole) == (200, True)
    with pytest.raises(ValueError, match=r"control character|delimiter|Expecting|decode|Unterminated"):
        _ = answer.events if stream else answer.document


def test_an_error_can_come_in_the_middle(standin: StandIn, dialect: Dialect) -> None:
    """Providers have a form for trouble that begins after the answer did."""
    standin.play({"turn": [{"text": "Not to its end.", "fault": "overloaded", "error_after": 3}]})

    answer = post(standin, dialect.path, dialect.body([], stream=True))

    assert (answer.status, answer.whole, len(answer.events)) == (200, True, 4)
    assert "verloaded" in json.dumps(answer.events[-1])


@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_an_answer_can_stall(standin: StandIn, dialect: Dialect, *, stream: bool) -> None:
    """After some events nothing more comes, and others are served meanwhile; a short stall ends."""
    body = dialect.body([], stream=stream)
    standin.play({"turn": [{"text": "Wait.", "stall_after": 2}]})

    started = time.monotonic()
    if stream:
        answer = post(standin, dialect.path, body, timeout_s=1)
        assert (len(answer.events), answer.whole) == (2, False)
    else:
        with pytest.raises(TimeoutError):
            post(standin, dialect.path, body, timeout_s=1)
    assert time.monotonic() - started >= 1

    standin.play({"turn": [{"text": "Wait.", "stall_after": 2, "stall_s": 1}]})
    assert ask(standin, dialect, stream=stream).text == "Wait."


def test_a_connection_can_be_dropped(standin: StandIn, dialect: Dialect) -> None:
    """No answer at all, as when a network fails."""
    standin.play({"turn": [{"drop": True}]})

    with pytest.raises((http.client.RemoteDisconnected, ConnectionResetError)):
        post(standin, dialect.path, dialect.body([], stream=True))


def test_an_answer_can_be_slow(standin: StandIn, dialect: Dialect) -> None:
    """Before it begins, and between its events, so that it is seen whether events are passed on at once."""
    standin.play({"turn": [{"text": "Slow.", "delay_s": 0.3, "event_delay_s": 0.1}]})

    started = time.monotonic()
    ask(standin, dialect, stream=True)

    assert time.monotonic() - started > 0.7


def test_a_model_may_never_stop(standin: StandIn, dialect: Dialect) -> None:
    """Without `repeat` a tape comes to its end; with it, its last turn is played for ever."""
    turn = {"text": "Once more.", "run": ["date"]}
    for repeat, expected in ((False, "The tape has ended."), (True, "Once more.")):
        standin.play({"turn": [turn], "repeat": repeat})
        told: list[Said] = []
        for _ in range(4):
            told.append(ask(standin, dialect, *told, stream=False))

        assert told[-1].text == expected


def test_it_can_insist_on_a_key(standin: StandIn, dialect: Dialect) -> None:
    """Then every other key is refused, and nothing is played; what was shown can be read."""
    standin.play({**_TURNS, "key": "right"})
    body = dialect.body([], stream=False)

    answers = [post(standin, dialect.path, body, key=key).status for key in ("wrong", "right")]

    assert answers == [401, 200]
    assert [(entry["auth"], entry["key"]) for entry in standin.log()[-2:]] == [("bearer", "wrong"), ("bearer", "right")]


def test_it_remembers_what_it_was_asked(standin: StandIn, dialect: Dialect) -> None:
    """Path, model, tools, sizes and bodies, for tests of what tools and gateways send."""
    body = dialect.body([], stream=True)

    post(standin, f"/some/base{dialect.path}?beta=true", body)

    entry = standin.log()[-1]
    assert entry["path"] == f"/some/base{dialect.path}?beta=true"
    assert (entry["model"], entry["stream"], entry["position"]) == ("m", True, 0)
    assert (entry["played"], entry["status"]) == ("turn", 200)
    assert entry["bytes"] == len(json.dumps(body))
    assert json.loads(standin.bodies()[-1]) == body


def test_what_tools_ask_beside_is_answered(standin: StandIn) -> None:
    """Counting tokens, greetings and lists of models work; what no provider has is not found."""
    counted = post(standin, "/v1/messages/count_tokens", {"model": "m", "messages": []})
    missing = post(standin, "/v1/nothing", {})

    assert counted.document["input_tokens"] > 0
    assert (missing.status, missing.document["error"]["type"]) == (404, "not_found_error")
    for path, status in (("/v1/models", 200), ("/api/hello", 200), ("/nothing", 404)):
        connection = http.client.HTTPConnection(urlsplit(standin.url).netloc, timeout=10)
        connection.request("GET", path)
        assert connection.getresponse().status == status
        connection.close()


def test_nonsense_does_not_bring_it_down(standin: StandIn) -> None:
    """It answers on, whatever was sent: no JSON, other JSON, half a request."""
    for body in (b"{", b"[]", b"\xff\xfe", b""):
        assert post(standin, "/v1/messages", body).status in {200, 400}
    place = urlsplit(standin.url)
    with socket.create_connection((place.hostname, place.port), timeout=10) as half:
        half.sendall(b"POST /v1/messages HTTP/1.1\r\nContent-Length: 100\r\n\r\n{")

    assert ask(standin, Messages(), stream=True).text == "I look around."


def test_many_may_ask_at_once(standin: StandIn, dialect: Dialect) -> None:
    """Answers do not get into each other's way."""
    heard: list[Said] = []
    threads = [threading.Thread(target=lambda: heard.append(ask(standin, dialect, stream=True))) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(heard) == 20
    assert {said.commands for said in heard} == {("ls", "env")}


@pytest.mark.parametrize("name", _TAPES)
def test_shipped_tapes_can_be_played(standin: StandIn, name: str) -> None:
    """Each is understood."""
    standin.play(tape(name))


def test_a_tapes_commands_are_the_tests_choice(standin: StandIn, dialect: Dialect) -> None:
    """`good` plays one turn for each command that it is given."""
    standin.play(tape("good", commands=["make", "make test"]))
    told: list[Said] = []
    for _ in range(4):
        told.append(ask(standin, dialect, *told, stream=False))

    assert [said.commands for said in told] == [("pwd",), ("make",), ("make test",), ()]


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"turns": []}, "turns"),
        ({"turn": [{"txt": "a"}]}, "txt"),
        ({"turn": [{"fault": "tired"}]}, "tired"),
        ({"turn": [{"usage": {"tokens": 1}}]}, "tokens"),
    ],
)
def test_a_misspelt_tape_is_refused(standin: StandIn, values: dict[str, Any], named: str) -> None:
    """A test that rests on it must not pass by accident."""
    with pytest.raises(ValueError, match=named):
        standin.play(values)


def test_it_works_in_a_container(docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str) -> None:
    """It answers this host, containers on the default bridge, and those of a private network by its name there."""
    look = "import urllib.request,sys; print(urllib.request.urlopen(sys.argv[1] + '/v1/models', timeout=10).status)"
    with (
        docker_sandbox.private_network(outward=False, labels={}) as network,
        in_container(docker_client, base_image, _TURNS, network=network, alias="a-model") as standin,
    ):
        places: list[tuple[str, Callable[..., ContainerSpec], dict[str, Any]]] = [
            (standin.bridge_url, ContainerSpec, {"network": Network.OPEN}),
            (standin.network_url, ContainerSpec, {"joins": (Join(network),)}),
        ]
        for url, spec, reach in places:
            with docker_sandbox.opened(spec(base_image, argv=("python3", "-c", look, url), **reach)) as container:
                done = container.run(timeout_s=30)
            assert (done.exit_code, done.output.text()) == (0, "200\n"), url

        assert standin.network_url == "http://a-model:8000"
        assert ask(standin, Chat(), stream=True).text == "I look around."
        assert len(standin.log()) == 3
