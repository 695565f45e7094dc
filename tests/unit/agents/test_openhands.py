"""OpenHands: how it is started, how its end is told, and how its transcript is read. The recordings are its own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.agents.openhands import OpenHandsAgent
from pytest_researchenv.agents.protocol import SCRATCH, Needs
from pytest_researchenv.agents.trajectory import dump, problems
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api, Auth, ModelService
from tests.unit.agents.bench import RECORDINGS
from tests.unit.agents.desk import PYTHON, Desk


GOOD = RECORDINGS / "openhands-good.log"
UNAUTHORIZED = RECORDINGS / "openhands-unauthorized.log"


def agent(api: Api = Api.CHAT, **options: Any) -> OpenHandsAgent:  # noqa: ANN401 - what it takes
    """One that asks a model in this protocol."""
    service = ModelService(api, "https://api.example.org", Auth.BEARER, "EXAMPLE_KEY", "a-model")
    return OpenHandsAgent(name="openhands", needs=Needs(service=service), **options)


@pytest.mark.parametrize(
    ("api", "model"),
    [(Api.CHAT, "openai/a-model"), (Api.RESPONSES, "openai/a-model"), (Api.MESSAGES, "anthropic/a-model")],
)
def test_it_asks_the_gateway_with_the_token(api: Api, model: str) -> None:
    """By variables, which it only heeds when it is told to; the token stands in no argument."""
    desk = Desk()

    desk.work(agent(api))

    assert desk.environment["LLM_MODEL"] == model
    assert desk.environment["LLM_BASE_URL"] == "http://gateway:4000"
    assert desk.environment["LLM_API_KEY"] == "the-token"
    assert "--override-with-envs" in desk.argv
    assert "the-token" not in " ".join(desk.argv)


def test_the_repository_is_not_where_its_modules_come_from() -> None:
    """It is isolated: a module in the folder that it works in would else take the place of its own."""
    desk = Desk()

    desk.work(agent(arguments=("--always-approve",)), "Do it.")

    assert desk.argv[:2] == (PYTHON, "-I")
    assert desk.argv[-3:] == ("--always-approve", "--task", "Do it.")


def test_its_own_state_is_where_nothing_is_frozen_and_its_commands_are_at_home() -> None:
    """Its shell is told by the file that it reads at its start."""
    desk = Desk()

    desk.work(agent())

    home = desk.environment["HOME"]
    assert home.startswith(SCRATCH)
    assert desk.environment["OPENHANDS_PERSISTENCE_DIR"].startswith(SCRATCH)
    assert "export HOME=/root" in desk.files[f"{home}/.bashrc"]
    assert "unset HISTFILE LLM_API_KEY" in desk.files[f"{home}/.bashrc"]


def test_a_prompt_beyond_a_command_line_is_refused() -> None:
    """The kernel would refuse it with other words."""
    with pytest.raises(ConfigurationError, match="shorten it"):
        Desk().work(agent(), "ü" * 70_000)


def test_a_finished_conversation_is_a_good_end() -> None:
    """It called `finish`."""
    telemetry = Desk(GOOD.read_bytes()).work(agent())

    assert telemetry.ok
    assert telemetry.numbers["turns"] == 4


def test_an_error_is_no_good_end_though_it_exits_with_0() -> None:
    """What it says of the error counts."""
    telemetry = Desk(UNAUTHORIZED.read_bytes(), code=0).work(agent())

    assert not telemetry.ok
    assert telemetry.ended.startswith("AuthenticationError: ")
    assert "Incorrect API key" in telemetry.ended


@pytest.mark.parametrize("kept", [0, 3, 4])
def test_an_end_without_a_word_is_no_good_end(kept: int) -> None:
    """As when it crashed, which it exits from with 0, too."""
    lines = GOOD.read_bytes().splitlines(keepends=True)

    assert not Desk(b"".join(lines[:kept])).work(agent()).ok


def test_a_deadline_is_told_as_such() -> None:
    """And is no good end."""
    telemetry = Desk(None).work(agent())

    assert not telemetry.ok
    assert "timed out" in telemetry.ended


def test_its_events_become_steps() -> None:
    """One step an answer, with what came of its calls, as a person would read it."""
    trajectory = agent().trajectory(GOOD)

    assert trajectory is not None
    assert problems(dump(trajectory)) == []
    assert [step.source for step in trajectory.steps] == ["user", "agent", "agent", "agent", "agent"]
    first, last = trajectory.steps[1], trajectory.steps[-1]
    assert first.message == "I look at the repository."
    assert [(call.function_name, call.arguments["command"]) for call in first.tool_calls or ()] == [("terminal", "pwd")]
    assert first.observation is not None
    assert first.observation.results[0].content == "/researchenv/w\n"
    assert last.message == "The environment is ready and the report is written."


def test_calls_of_one_answer_are_one_step(tmp_path: Path) -> None:
    """They come as events of their own, with the answer's id."""
    path = tmp_path / "transcript.log"
    event: dict[str, Any] = {"kind": "ActionEvent", "source": "agent", "llm_response_id": "r1", "tool_name": "terminal"}
    lines = [
        {**event, "thought": [{"text": "Two."}], "tool_call_id": "a", "tool_call": {"arguments": '{"command": "ls"}'}},
        {**event, "thought": [], "tool_call_id": "b", "tool_call": {"arguments": "no JSON"}},
        {"kind": "AgentErrorEvent", "source": "agent", "tool_call_id": "b", "error": "which arguments?"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)))

    trajectory = agent().trajectory(path)

    assert trajectory is not None
    (step,) = trajectory.steps
    assert [call.arguments for call in step.tool_calls or ()] == [{"command": "ls"}, {"arguments": "no JSON"}]
    assert step.observation is not None
    assert [(result.source_call_id, result.content) for result in step.observation.results] == [
        ("b", "which arguments?")
    ]
