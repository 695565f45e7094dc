"""NexAU: its settings, how its end is told, and how its transcript is read. The recordings are its own."""

from __future__ import annotations

import json
import runpy
from importlib import resources
from typing import Any

import pytest

from pytest_researchenv.agents.nexau import NexauAgent
from pytest_researchenv.agents.protocol import SCRATCH, Needs
from pytest_researchenv.agents.trajectory import Metrics, dump, problems
from pytest_researchenv.errors import ConfigurationError, SandboxError
from pytest_researchenv.gateway.protocol import Api, Auth, ModelService
from tests.unit.agents.bench import RECORDINGS, REPOSITORY
from tests.unit.agents.desk import PYTHON, Desk


GOOD = RECORDINGS / "nexau-good.log"
UNAUTHORIZED = RECORDINGS / "nexau-unauthorized.log"


def agent(api: Api = Api.CHAT, **options: Any) -> NexauAgent:  # noqa: ANN401 - what it takes
    """One that asks a model in this protocol."""
    service = ModelService(api, "https://api.example.org", Auth.BEARER, "EXAMPLE_KEY", "a-model")
    return NexauAgent(name="nexau", needs=Needs(service=service), **options)


def settings(desk: Desk) -> dict[str, Any]:
    """Its file of settings."""
    values: dict[str, Any] = json.loads(desk.files[f"{SCRATCH}/nexau/agent.yaml"])
    return values


@pytest.mark.parametrize(
    ("api", "kind"),
    [
        (Api.CHAT, "openai_chat_completion"),
        (Api.RESPONSES, "openai_responses"),
        (Api.MESSAGES, "anthropic_chat_completion"),
    ],
)
def test_it_asks_the_gateway_in_the_services_protocol(api: Api, kind: str) -> None:
    """Address, token and model come by variables, so that they stand in no file."""
    desk = Desk()

    desk.work(agent(api))

    assert settings(desk)["llm_config"]["api_type"] == kind
    assert settings(desk)["llm_config"]["api_key"] == "${env.LLM_API_KEY}"
    assert desk.environment["LLM_API_KEY"] == "the-token"
    assert desk.environment["LLM_BASE_URL"] == "http://gateway:4000"
    assert desk.environment["LLM_MODEL"] == "a-model"
    assert not any("the-token" in text for text in desk.files.values())
    assert "the-token" not in " ".join(desk.argv)


def test_its_own_state_is_where_nothing_is_frozen_and_its_commands_are_at_home() -> None:
    """It has another home than its commands, whose work is frozen."""
    desk = Desk()

    desk.work(agent())

    assert desk.environment["HOME"].startswith(SCRATCH)
    assert desk.environment["TMPDIR"].startswith(SCRATCH)
    assert settings(desk)["sandbox_config"] == {
        "type": "local",
        "work_dir": REPOSITORY.workdir,
        "envs": {"HOME": "/root", "TMPDIR": "/tmp", "LLM_API_KEY": ""},  # noqa: S108 - the container's.
    }


def test_every_tool_is_described_where_its_settings_say() -> None:
    """Each tool of the settings has a file, which names it and what must be given."""
    desk = Desk()

    desk.work(agent())

    tools = settings(desk)["tools"]
    assert {"run_shell_command", "complete_task"} <= {tool["name"] for tool in tools}
    for tool in tools:
        described = json.loads(desk.files[f"{SCRATCH}/nexau/{tool['yaml_path']}".replace("./", "")])
        assert described["name"] == tool["name"]
        assert set(described["input_schema"]["required"]) <= set(described["input_schema"]["properties"])


def test_a_profile_changes_its_settings_but_not_where_its_model_is() -> None:
    """What would lead past the gateway is fixed."""
    desk = Desk()

    desk.work(agent(arguments=("llm_config.temperature=0", "llm_config.base_url=https://elsewhere", "name=other")))

    assert settings(desk)["llm_config"]["temperature"] == 0
    assert settings(desk)["llm_config"]["base_url"] == "${env.LLM_BASE_URL}"
    assert settings(desk)["name"] == "other"


@pytest.mark.parametrize("argument", ["temperature", "=1", "name.first=1", "llm_config.=1"])
def test_an_argument_that_sets_nothing_is_refused(argument: str) -> None:
    """The message shows it, and how one is written."""
    with pytest.raises(ConfigurationError, match=r"llm_config\.temperature=0"):
        Desk().work(agent(arguments=(argument,)))


def test_a_prompt_beyond_its_lines_is_refused() -> None:
    """It would lose the request without a word."""
    with pytest.raises(ConfigurationError, match="shorten it"):
        Desk().work(agent(), "x" * 70_000)


def test_a_full_folder_is_trouble_of_the_engine() -> None:
    """Nothing can be said of the agent then."""
    with pytest.raises(SandboxError, match="no room"):
        Desk(full=True).work(agent())


def test_an_answered_request_is_a_good_end() -> None:
    """The runner exits with 0 then, whatever was printed."""
    desk = Desk(GOOD.read_bytes())

    telemetry = desk.work(agent())

    assert telemetry.ok
    assert desk.argv[:3] == (PYTHON, "-I", f"{SCRATCH}/nexau/runner.py")
    assert desk.transcript == GOOD.read_bytes()


def test_an_error_is_told_in_its_own_words() -> None:
    """What the service said stands in it."""
    telemetry = Desk(UNAUTHORIZED.read_bytes(), code=1).work(agent())

    assert not telemetry.ok
    assert "401" in telemetry.ended
    assert "Incorrect API key" in telemetry.ended


def test_a_deadline_is_told_as_such() -> None:
    """And is no good end."""
    telemetry = Desk(None).work(agent())

    assert not telemetry.ok
    assert "timed out" in telemetry.ended


@pytest.mark.parametrize("name", ["nexau-good.log", "nexau-responses.log"])
def test_its_pieces_become_steps(name: str) -> None:
    """One step an answer, with its words, its calls, what came of them, and its tokens; cached ones are among them."""
    trajectory = agent().trajectory(RECORDINGS / name)

    assert trajectory is not None
    assert problems(dump(trajectory)) == []
    assert [step.source for step in trajectory.steps] == ["user", "agent", "agent", "agent", "agent"]
    first, second = trajectory.steps[1:3]
    assert first.message == "I look at the repository."
    assert [(call.function_name, call.arguments) for call in first.tool_calls or ()] == [
        ("run_shell_command", {"command": "pwd"})
    ]
    assert first.observation is not None
    assert "/researchenv/w" in (first.observation.results[0].content or "")
    assert first.model_name == "stand-in-model"
    assert first.timestamp is not None
    assert second.metrics == Metrics(prompt_tokens=1300, completion_tokens=40, cached_tokens=1200)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b'{"jsonrpc":"2.0-stream","id":"1","result":null}', 0),
        (b'{"jsonrpc":"2.0-stream","id":"1","error":{"code":-32000,"message":"no"}}', 1),
        (b'{"jsonrpc":"2.0-stream","id":"1","event":{"type":"RUN_FINISHED","result":"x"}}', None),
        (b"Server ready", None),
        (b'["jsonrpc"]', None),
    ],
)
def test_the_runner_tells_an_answer_from_an_event(line: bytes, code: int | None) -> None:
    """Only an answer to the request ends the work."""
    script = resources.files("pytest_researchenv.agents") / "inside" / "nexau_runner.py"

    assert runpy.run_path(str(script))["answer_code"](line) == code
