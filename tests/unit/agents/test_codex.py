"""Codex: how it is started, how its end is told, and how its transcript is read. The recordings are its own."""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.agents.codex import VERSION, CodexAgent
from pytest_researchenv.agents.protocol import SCRATCH, Needs
from pytest_researchenv.agents.trajectory import Trajectory, dump, problems
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Api, Auth, ModelService, Reach
from tests.unit.agents.bench import RECORDINGS, REPOSITORY, Bench


SERVICE = ModelService(Api.RESPONSES, "https://api.example.org/v1", Auth.BEARER, "EXAMPLE_KEY", "a-model")
WORK = RECORDINGS / "codex_work.jsonl"
UNAUTHORIZED = RECORDINGS / "codex_unauthorized.jsonl"


def agent(service: ModelService = SERVICE, reach: Reach = Reach.OPEN, **options: Any) -> CodexAgent:  # noqa: ANN401 - what it takes
    """One that asks this service."""
    return CodexAgent(name="codex", needs=Needs(service=service, reach=reach), **options)


def trajectory(path: Path) -> Trajectory:
    """What a transcript tells; it is sound."""
    read = agent().trajectory(path)
    assert read is not None
    assert problems(dump(read)) == []
    return read


def settings(bench: Bench) -> dict[str, Any]:
    """What the tool was told to set, as it reads it: of one name, the last."""
    pairs = [bench.argv[at + 1].partition("=") for at, part in enumerate(bench.argv) if part == "-c" and at > 2]
    return {name: tomllib.loads(f"value = {value}")["value"] for name, _, value in pairs}


def test_the_prompt_comes_by_stdin() -> None:
    """Its last argument tells it to read there; the prompt stands in none."""
    bench = Bench(WORK.read_bytes())

    bench.work(agent(), "Build it.")

    assert bench.prompt == "Build it."
    assert bench.argv[-1] == "-"
    assert "Build it." not in " ".join(bench.argv)


def test_it_is_started_by_its_path_with_its_state_where_nothing_is_frozen() -> None:
    """In a folder that is there when it starts; what it builds goes to root's home."""
    bench = Bench(WORK.read_bytes())

    bench.work(agent())

    home = bench.environment["CODEX_HOME"]
    assert home.startswith(SCRATCH)
    assert bench.argv[:2] == ("/bin/sh", "-c")
    assert f"mkdir -p {home} " in bench.argv[2]
    assert "/researchenv/agent/bin/codex" in bench.argv
    assert bench.environment["HOME"] == "/root"


def test_it_asks_the_gateway_with_the_token_which_its_commands_do_not_see() -> None:
    """By a provider of its own, since its built-in one goes to the public endpoint whatever variables say."""
    bench = Bench(WORK.read_bytes())

    bench.work(agent())

    told = settings(bench)
    provider = f"model_providers.{told['model_provider']}"
    variable = told[f"{provider}.env_key"]
    assert told[f"{provider}.base_url"] == "http://gateway:4000"
    assert told[f"{provider}.wire_api"] == "responses"
    assert [name for name, value in bench.environment.items() if value == "the-token"] == [variable]
    assert told["shell_environment_policy.exclude"] == [variable]
    assert "the-token" not in " ".join(bench.argv)
    assert bench.argv[bench.argv.index("--model") + 1] == "a-model"


def test_a_profile_may_change_limits_and_not_where_it_asks() -> None:
    """Its arguments win over the defaults, and lose against what the gateway is for."""
    bench = Bench(WORK.read_bytes())
    retries, provider = "model_providers.researchenv.request_max_retries", "model_provider"

    bench.work(
        agent(
            arguments=("-c", f"{retries}=1", "-c", f'{provider}="openai"'), environment={"CODEX_HOME": "/root/.codex"}
        )
    )

    assert settings(bench)[retries] == 1
    assert settings(bench)[provider] == "researchenv"
    assert bench.environment["CODEX_HOME"].startswith(SCRATCH)


@pytest.mark.parametrize(
    ("reach", "told"), [(Reach.OPEN, None), (Reach.ALLOWLIST, "disabled"), (Reach.NONE, "disabled")]
)
def test_what_it_may_not_reach_it_may_not_have_searched_for_it(reach: Reach, told: str | None) -> None:
    """The model's service reaches the web by itself, past everything around the container."""
    bench = Bench(WORK.read_bytes())

    bench.work(agent(reach=reach))

    assert settings(bench).get("web_search") == told


def test_good_work_ends_well() -> None:
    """All that it printed was handed on."""
    bench = Bench(WORK.read_bytes())

    telemetry = bench.work(agent())

    assert (telemetry.ok, telemetry.ended) == (True, "finished")
    assert telemetry.numbers["wall_s"] >= 0
    assert bench.transcript == WORK.read_bytes()


def test_trouble_with_its_model_is_told() -> None:
    """In the service's words."""
    telemetry = Bench(UNAUTHORIZED.read_bytes(), code=1).work(agent())

    assert not telemetry.ok
    assert "401 Unauthorized: Incorrect API key provided" in telemetry.ended


@pytest.mark.parametrize("code", [0, 1])
def test_either_sign_of_an_error_is_one(code: int) -> None:
    """A good exit code does not outweigh a failed turn, nor a completed one an exit code."""
    recording = UNAUTHORIZED if code == 0 else WORK

    assert not Bench(recording.read_bytes(), code=code).work(agent()).ok


def test_trouble_that_was_overcome_is_none() -> None:
    """It says that it connects again, and goes on."""
    again = b'{"type":"error","message":"Reconnecting... 1/6"}\n'

    assert Bench(again + WORK.read_bytes()).work(agent()).ok


def test_without_an_end_what_was_printed_last_is_told() -> None:
    """As when the program cannot run at all."""
    telemetry = Bench(b"first\nlibrary not found\n", code=127).work(agent())

    assert not telemetry.ok
    assert "127" in telemetry.ended
    assert "library not found" in telemetry.ended


def test_the_deadline_is_told_as_such() -> None:
    """Whatever it printed before."""
    telemetry = Bench(None).work(agent())

    assert not telemetry.ok
    assert "timed out" in telemetry.ended


def test_a_profile_must_name_a_model_that_it_can_ask() -> None:
    """In the one protocol that it speaks."""
    with pytest.raises(ConfigurationError, match="anthropic-messages"):
        agent(replace(SERVICE, api=Api.MESSAGES))


@pytest.mark.parametrize(
    "other",
    [
        agent(version="0.170.0"),
        agent(arguments=("-c", "model_reasoning_effort=low")),
        agent(environment={"A": "b"}),
        agent(reach=Reach.NONE),
        agent(replace(SERVICE, model="another")),
        agent(replace(SERVICE, endpoint="https://another.example.org/v1")),
    ],
)
def test_all_that_shapes_its_work_is_in_its_inputs(other: CodexAgent) -> None:
    """Each of it makes another agent; made again it is the same."""
    assert agent().inputs(REPOSITORY) == agent().inputs(REPOSITORY)
    assert other.inputs(REPOSITORY) != agent().inputs(REPOSITORY)


def test_its_tool_has_all_that_runs_commands() -> None:
    """Newer models call their tools by JavaScript, which a program of its own runs: without it, none runs a command."""
    tool = agent().needs.tool

    assert tool is not None
    assert tool.key.startswith(f"codex-{VERSION}-")
    for package in tool.packages.values():  # type: ignore[attr-defined] # It is an NpmTool.
        assert set(package.programs.values()) == {"bin/codex", "bin/codex-code-mode-host"}


def test_a_trajectory_tells_who_worked() -> None:
    """The tool's version and the model as the profile has them, since it prints neither; session and tokens."""
    read = trajectory(WORK)

    assert (read.agent.name, read.agent.version, read.agent.model_name) == ("codex", VERSION, "a-model")
    assert read.session_id == json.loads(WORK.read_bytes().splitlines()[0])["thread_id"]
    assert read.final_metrics is not None
    assert (read.final_metrics.total_prompt_tokens, read.final_metrics.total_cached_tokens) == (600, 120)
    assert read.final_metrics.total_completion_tokens == 160


def test_a_step_is_what_was_thought_and_said_and_the_calls_after_it() -> None:
    """Each call stands with what came of it, and with its exit code where that is not 0."""
    first, second, last = trajectory(WORK).steps

    assert (first.reasoning_content, first.message) == ("First I look around.", "I look at the repository.")
    assert first.tool_calls is not None
    assert first.observation is not None
    assert [call.arguments["command"] for call in first.tool_calls] == [
        "/bin/bash -lc 'echo hello; pwd'",
        "/bin/bash -lc 'cat no-such-file; exit 3'",
    ]
    assert [result.content for result in first.observation.results] == [
        "hello\n/work\n",
        "cat: no-such-file: No such file or directory\n\n[exit code 3]",
    ]
    assert second.tool_calls is not None
    assert second.tool_calls[0].function_name == "file_change"
    assert second.tool_calls[0].arguments == {"changes": [{"path": "/workspace/note.txt", "kind": "add"}]}
    assert (last.message, last.tool_calls) == ("The environment is ready.", None)


def test_trouble_is_said_by_the_system() -> None:
    """Once, at its end; the tries before it are not the model's work."""
    steps = trajectory(UNAUTHORIZED).steps

    assert [step.source for step in steps] == ["agent", "system"]
    assert "401" in steps[-1].message


def test_a_call_that_was_cut_off_has_no_result(tmp_path: Path) -> None:
    """As when the deadline came while a command ran."""
    path = tmp_path / "transcript"
    lines = WORK.read_bytes().splitlines()
    path.write_bytes(b"\n".join(lines[:5]))

    (step,) = trajectory(path).steps

    assert step.tool_calls is not None
    assert step.observation is None


def test_junk_in_a_transcript_is_passed_over(tmp_path: Path) -> None:
    """Whatever stands between the lines, or before one."""
    path = tmp_path / "transcript"
    lines = WORK.read_bytes().splitlines()
    path.write_bytes(b"\n".join(part for line in lines for part in (b"\xff junk", b"[1]", b"ERROR x: " + line)))

    assert trajectory(path) == trajectory(WORK)
