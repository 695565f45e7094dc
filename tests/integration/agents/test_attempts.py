"""Agents' real tools against the stand-in of their services: how an attempt goes, and how it ends."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
import time
from collections.abc import Callable

import pytest
from docker import DockerClient

from pytest_researchenv.agents.trajectory import problems
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec
from tests.choosing import mostly_slow
from tests.integration.agents.conftest import NEEDY, Bench
from tests.integration.workplace import FIXTURES


DOCS = FIXTURES.parent / "docs"

REAL = ("claude-sonnet", "codex", "mini-swe")


@pytest.mark.parametrize("agent", mostly_slow(REAL, but={"claude-sonnet"}))
def test_a_model_that_sets_up_the_repository_passes(
    bench: Bench, agent: str, survivors: Callable[[], list[str]]
) -> None:
    """The tool runs the model's commands in the container; what it used is in the properties and in the summary."""
    bench.play("good", commands=list(NEEDY))

    ran = bench.run(agent, "-k", "needy")

    assert set(ran.outcomes.values()) == {"passed"}, ran.text
    facts = ran.properties[f"C1 {agent}-needy"]
    assert int(facts["agent_tokens_in"]) > 3000
    assert int(facts["agent_tokens_out"]) > 100
    assert int(facts["agent_requests"]) >= 4
    assert "agent_cost_usd" in facts or "cost unknown" in facts["agent_notes"]
    assert f"{agent}: 1 environment: " in ran.text
    trajectory = (bench.attempt(agent) / "trajectory.json").read_bytes()
    assert problems(trajectory) == []
    assert b"/opt/needy" in trajectory
    assert survivors() == []


def _added(client: DockerClient, image: str, base: str) -> set[str]:
    """Paths of files that an image has and its base has not."""
    sandbox = DockerSandbox(client, Owner.current("tests"))

    def listed(name: str) -> set[str]:
        # Attached to: what the engine's log gives can be cut off while it is busy.
        with sandbox.opened(ContainerSpec(name, argv=("find", "/", "-xdev"))) as container:
            found = container.run(timeout_s=120, capture_bytes=64 * 1024**2).stdout
        assert not found.omitted
        return set(found.text().splitlines())

    there, before = listed(image), listed(base)
    assert len(before) > 10_000
    return there - before


@pytest.mark.slow  # As the contract of agents has it, for each of them.
@pytest.mark.parametrize("agent", REAL)
def test_nothing_of_the_tool_is_frozen(bench: Bench, agent: str) -> None:
    """The frozen image holds what the model's commands made and nothing of tool and gateway; its size stands apart."""
    bench.play("good", commands=list(NEEDY))
    bench.run(agent)
    record = bench.record(agent)
    client = bench.place.client

    changed = _added(client, record["image"], record["base_image"])
    image, base = (client.images.get(record[name]).attrs for name in ("image", "base_image"))

    traces = ("claude", "codex", "mini-swe", "minisweagent", "anthropic", "openai", "gateway", "authority.pem")
    assert not [path for path in changed if any(trace in path.lower() for trace in traces)]
    assert image["Config"]["Env"] == base["Config"]["Env"]
    assert not [name for name in image["Config"]["Labels"] if any(trace in name for trace in traces)]
    assert record["telemetry"]["base_image_bytes"] == base["Size"]
    assert record["telemetry"]["added_image_bytes"] == image["Size"] - base["Size"] > 0


def test_a_liar_fails(bench: Bench) -> None:
    """A model that installs nothing and claims everything fails, and its claims are found false."""
    bench.play("liar")

    ran = bench.run("claude-sonnet", "-k", "needy")

    assert ran.outcomes["C1 claude-sonnet-needy"] == "failure"
    assert "error" not in ran.outcomes.values()


#: Tape → how its trouble is called.
TROUBLE = {
    "unauthorized": "authentication failure",
    "rate-limited": "rate limit",
    "overloaded": "overloaded",
    "quota": "quota used up",
    "cut": "answer cut off",
    "malformed": "malformed answer",
}

#: What every change is tried with.
ALWAYS = {("claude-sonnet", "quota")}


@pytest.mark.parametrize(
    ("agent", "tape"),
    mostly_slow([(agent, tape) for agent in ("claude-sonnet", "codex") for tape in TROUBLE], but=ALWAYS),
)
def test_the_providers_trouble_is_an_error(bench: Bench, agent: str, tape: str) -> None:
    """What the provider breaks is no verdict: the test is an error that names the kind, and the evidence is kept."""
    kind = TROUBLE[tape]
    bench.play(tape)

    ran = bench.run(agent, "--researchenv-agent-timeout=300")

    assert ran.outcomes == {f"C1 {agent}-needy": "error"}, ran.text
    assert kind in ran.text
    attempt = bench.attempt(agent)
    assert kind in (attempt / "error.txt").read_text()
    assert not (attempt / "environment.json").exists()
    calls = [json.loads(line) for line in bench.log(agent, "requests.jsonl").splitlines()]
    assert kind in {call.get("outcome") for call in calls}
    assert bench.log(agent, "transcript.log")


@pytest.mark.slow
def test_trouble_that_passes_is_ridden_out(bench: Bench) -> None:
    """A provider that limits the rate for a moment costs time and no verdict."""
    bench.play("rate-limited-twice", commands=list(NEEDY))

    ran = bench.run("claude-sonnet")

    assert "error" not in ran.outcomes.values(), ran.text
    assert int(ran.properties["C1 claude-sonnet-needy"]["agent_requests_rate_limited"]) >= 1


def test_a_model_that_gives_up_fails(bench: Bench) -> None:
    """Who says that it cannot be done has failed: that is no trouble of the provider."""
    bench.play("gives-up")

    assert bench.run("claude-sonnet").outcomes == {"C1 claude-sonnet-needy": "failure"}


@pytest.mark.slow
def test_the_deadline_is_kept(bench: Bench, survivors: Callable[[], list[str]]) -> None:
    """An attempt ends at its wall time limit whatever its model does; what there is is judged, and nothing survives."""
    bench.play("good", commands=["sleep 600"])

    started = time.monotonic()
    ran = bench.run("claude-sonnet", "--researchenv-agent-timeout=20")
    took = time.monotonic() - started

    assert ran.outcomes == {"C1 claude-sonnet-needy": "failure"}, ran.text
    assert bench.record("claude-sonnet")["telemetry"]["wall_s"] < 30
    assert re.match(r"timed out after 2\d s", ran.properties["C1 claude-sonnet-needy"]["agent_ended"])
    assert took < 120
    assert survivors() == []


BUDGETS = """
[short]
extends = "claude-sonnet"
%s
"""


@pytest.mark.parametrize(
    ("limit", "name", "allowed"),
    [("max_requests = 3", "requests", 3), ("max_tokens = 4000", "tokens_in", 4000 + 1500)],
)
def test_a_model_that_never_stops_is_stopped_by_its_budget(bench: Bench, limit: str, name: str, allowed: int) -> None:
    """Each limit ends the attempt in its own words, is exceeded by one answer at most, and what there is is judged."""
    bench.play("endless")

    ran = bench.run("short", bench.profile(BUDGETS % limit))

    assert ran.outcomes == {"C1 short-needy": "failure"}, ran.text
    facts = ran.properties["C1 short-needy"]
    assert "limit" in facts["agent_ended"]
    answered = [
        call
        for line in bench.log("short", "requests.jsonl").splitlines()
        if (call := json.loads(line)).get("outcome") == "answered"
    ]
    if name == "requests":
        assert len(answered) <= allowed
    else:
        assert int(facts["agent_tokens_in"]) + int(facts["agent_tokens_out"]) <= allowed


def test_a_run_that_may_spend_little_stops(bench: Bench) -> None:
    """The run's own limit ends an attempt, too, and the plan says before what it can cost."""
    bench.play("endless")

    ran = bench.run("claude-sonnet", "--researchenv-max-cost=0.02")

    assert ran.outcomes == {"C1 claude-sonnet-needy": "failure"}, ran.text
    assert "cost: at most $0.02 (--researchenv-max-cost)" in ran.text
    assert float(ran.properties["C1 claude-sonnet-needy"]["agent_cost_usd"]) < 0.06


@pytest.mark.slow
def test_an_agent_that_falls_silent_is_ended(bench: Bench) -> None:
    """A model that runs one command for ever, without a word, ends by the limit of inactivity."""
    bench.play("good", commands=["sleep 600"])

    ran = bench.run("short", bench.profile(BUDGETS % "inactivity_s = 8"))

    assert ran.outcomes == {"C1 short-needy": "failure"}, ran.text
    assert ran.properties["C1 short-needy"]["agent_ended"].startswith("inactivity limit")


@pytest.mark.slow
def test_a_model_that_does_not_answer_is_trouble(bench: Bench) -> None:
    """When it is the provider that falls silent, nobody who builds environments is to blame."""
    bench.play("silent")

    ran = bench.run("short", bench.profile(BUDGETS % "inactivity_s = 8"))

    assert ran.outcomes == {"C1 short-needy": "error"}, ran.text


@pytest.mark.slow
def test_a_failed_attempt_is_made_again(bench: Bench) -> None:
    """An attempt that the provider failed is made again in a folder of its own, as often as was allowed."""
    bench.play("malformed")

    ran = bench.run("claude-sonnet", "--researchenv-retries=1")

    assert ran.outcomes == {"C1 claude-sonnet-needy": "error"}
    assert [bench.attempt("claude-sonnet", number).exists() for number in (1, 2, 3)] == [True, True, False]


def test_a_key_that_is_revoked_stops_the_run(bench: Bench) -> None:
    """The run says once that the key is refused; repositories that were to come are errors with that cause."""
    bench.play("revoked", commands=list(NEEDY))

    ran = bench.run("claude-sonnet", "-k", "c1 and (needy or plain)", "--researchenv-retries=2")

    assert set(ran.outcomes.values()) == {"error"}
    assert len(ran.outcomes) == 2
    stopped = [line for line in ran.text.splitlines() if line.startswith("stopped: ")]
    assert len(stopped) == 1
    assert "authentication failure" in stopped[0]
    assert len(ran.attempts()) == 1


@pytest.mark.slow
def test_a_users_own_agent_is_a_profile_of_a_few_lines(bench: Bench) -> None:
    """The profile that the docs show makes any command an agent, with model, tokens and verdict like every other."""
    own = FIXTURES / "agents" / "own"
    shown = (own / "agents.toml").read_text()
    bench.play("good", commands=list(NEEDY))
    shutil.copytree(own, bench.folder / "own")
    file = bench.folder / "own" / "agents.toml"
    file.write_text(shown.replace("https://api.openai.com/v1", f"{bench.standin.bridge_url}/v1"))

    ran = bench.run("my-agent", f"--researchenv-agents-file={file}")

    assert ran.outcomes == {"C1 my-agent-needy": "passed"}, ran.text
    assert int(ran.properties["C1 my-agent-needy"]["agent_tokens_out"]) > 100
    assert len(shown.strip().splitlines()) < 10
    assert textwrap.indent(shown.strip(), "    ") in (DOCS / "agents.md").read_text()
