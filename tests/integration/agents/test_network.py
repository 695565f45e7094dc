"""What agents can reach, as their containers find it."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from docker import DockerClient

from tests.contract.standin import StandIn, in_container, tape
from tests.integration.agents.conftest import NEEDY, Bench


#: Asks for an address as tools do, by the variables of its environment, and says what came of it.
ASK = """python3 - <<'END'
import urllib.request
for url in (%s):
    try:
        print("answered", url, urllib.request.urlopen(url, timeout=5).status)
    except Exception as error:
        print("failed", url, error)
END"""


@pytest.fixture(scope="module")
def outside(docker_client: DockerClient, base_image: str) -> Iterator[StandIn]:
    """A server that stands for the rest of the world."""
    with in_container(docker_client, base_image, tape("good")) as server:
        yield server


#: Where the base image's own packages come from.
MIRROR = "http://deb.debian.org/debian/dists/bookworm/Release"


def asked(bench: Bench, address: str, *arguments: str) -> tuple[str, dict[str, str]]:
    """What an agent's command said of an address, and the properties of its test."""
    bench.play("good", commands=[ASK % f'"{address}",', *NEEDY])
    ran = bench.run("claude-sonnet", *arguments)
    assert ran.outcomes == {"C1 claude-sonnet-needy": "passed"}, ran.text
    trajectory = json.loads((bench.attempt("claude-sonnet") / "trajectory.json").read_text())
    results = [
        str(result["content"])
        for step in trajectory["steps"]
        for result in step.get("observation", {}).get("results", [])
    ]
    said = next(text for text in results if address in text)
    return said, ran.properties["C1 claude-sonnet-needy"]


def test_a_host_that_is_not_on_the_list_is_refused_and_listed(bench: Bench, outside: StandIn) -> None:
    """With an allowlist, what is not on it fails inside, and stands in the result and in the attempt's record."""
    said, facts = asked(bench, f"{outside.bridge_url}/_log", "--researchenv-network=allowlist")

    host = outside.bridge_url.removeprefix("http://")
    assert said.startswith("failed"), said
    assert f"GET {host}/_log" in facts["agent_refused"]
    assert f"GET {host}/_log" in bench.record("claude-sonnet")["refused"]
    lines = bench.log("claude-sonnet", "requests.jsonl").splitlines()
    assert [line for line in map(json.loads, lines) if line.get("host") == host and not line["allowed"]]
    assert not [line for line in outside.log() if line["path"] == "/_log"]


def test_a_host_that_was_allowed_answers(bench: Bench, outside: StandIn) -> None:
    """`--researchenv-allow` adds a host; the request is on record with its bytes."""
    host = outside.bridge_url.removeprefix("http://")

    said, facts = asked(
        bench, f"{outside.bridge_url}/_log", "--researchenv-network=allowlist", f"--researchenv-allow={host}"
    )

    assert said.startswith("answered"), said
    assert host not in facts.get("agent_refused", "")
    lines = map(json.loads, bench.log("claude-sonnet", "requests.jsonl").splitlines())
    (request,) = [line for line in lines if line.get("host") == host]
    assert (request["method"], request["path"], request["status"]) == ("GET", "/_log", 200)
    assert request["bytes_down"] > 0


def test_with_none_only_the_model_answers(bench: Bench, outside: StandIn) -> None:
    """Without a network the model still answers, since the attempt went well, and nothing else does."""
    said, _ = asked(bench, f"{outside.bridge_url}/_log", "--researchenv-network=none")

    assert said.startswith("failed"), said


@pytest.mark.slow
def test_with_an_open_network_the_world_answers(bench: Bench) -> None:
    """Without restrictions an agent reaches what any container does, and the model through its gateway."""
    said, _ = asked(bench, MIRROR, "--researchenv-network=open")

    assert said.startswith("answered"), said
