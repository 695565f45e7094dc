"""Claude Code: how it is started, how its end is told, and how its transcript is read. The recordings are its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.agents.claude_code import VERSION, ClaudeCodeAgent
from pytest_researchenv.agents.protocol import SCRATCH, Needs
from pytest_researchenv.agents.trajectory import Metrics, Trajectory, dump, problems
from pytest_researchenv.errors import ConfigurationError, SandboxError
from pytest_researchenv.gateway.protocol import Api, Auth, ModelService, Reach
from tests.unit.agents.bench import RECORDINGS, REPOSITORY, Bench


SERVICE = ModelService(Api.MESSAGES, "https://api.example.org", Auth.API_KEY, "EXAMPLE_KEY", "a-model")
WORK = RECORDINGS / "claude_code_work.jsonl"
OVERLOADED = RECORDINGS / "claude_code_overloaded.jsonl"


def agent(service: ModelService = SERVICE, reach: Reach = Reach.OPEN, **options: Any) -> ClaudeCodeAgent:  # noqa: ANN401 - what it takes
    """One that asks this service."""
    return ClaudeCodeAgent(name="claude", needs=Needs(service=service, reach=reach), **options)


def trajectory(path: Path) -> Trajectory:
    """What a transcript tells; it is sound."""
    read = agent().trajectory(path)
    assert read is not None
    assert problems(dump(read)) == []
    return read


def test_the_prompt_comes_by_stdin_whatever_its_length() -> None:
    """It stands in no argument and in no variable of the tool."""
    bench = Bench(WORK.read_bytes())
    prompt = "Büild it. " * 20_000

    bench.work(agent(), prompt)

    assert bench.prompt == prompt
    assert not any("ild it" in text for text in (*bench.argv, *bench.environment.values()))


def test_it_is_started_by_its_path_with_its_state_where_nothing_is_frozen() -> None:
    """What it builds goes to root's home, what it keeps for itself does not."""
    bench = Bench(WORK.read_bytes())

    bench.work(agent())

    assert bench.argv[0] == "/researchenv/agent/bin/claude"
    assert bench.environment["HOME"] == "/root"
    assert bench.environment["PIP_INDEX_URL"] == "https://index"
    assert bench.environment["CLAUDE_CONFIG_DIR"].startswith(SCRATCH)
    assert bench.environment["CLAUDE_CODE_TMPDIR"].startswith(SCRATCH)


@pytest.mark.parametrize(
    ("auth", "variable", "other"),
    [
        (Auth.API_KEY, "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"),
        (Auth.BEARER, "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_API_KEY"),
    ],
)
def test_the_token_takes_the_place_of_the_key(auth: Auth, variable: str, other: str) -> None:
    """In the variable for the service's header and nowhere else, with the gateway in place of the endpoint."""
    bench = Bench(WORK.read_bytes())

    bench.work(agent(replace(SERVICE, auth=auth)))

    assert [name for name, value in bench.environment.items() if value == "the-token"] == [variable]
    assert other not in bench.environment
    assert "the-token" not in " ".join(bench.argv)
    assert bench.environment["ANTHROPIC_BASE_URL"] == "http://gateway:4000"


def test_every_role_of_a_model_is_the_profiles() -> None:
    """Subagents that are to have another model get the one there is; a small one where the profile has one."""
    plain, small = Bench(WORK.read_bytes()), Bench(WORK.read_bytes())

    plain.work(agent())
    small.work(agent(replace(SERVICE, also=("a-small-one",))))

    def models(bench: Bench) -> Mapping[str, str]:
        return {name: value for name, value in bench.environment.items() if name.endswith("_MODEL")}

    roles = {f"ANTHROPIC_DEFAULT_{role}_MODEL" for role in ("OPUS", "SONNET", "HAIKU", "FABLE")}
    assert models(plain).keys() >= roles | {"ANTHROPIC_MODEL", "ANTHROPIC_SMALL_FAST_MODEL"}
    assert set(models(plain).values()) == {"a-model"}
    assert {name for name, value in models(small).items() if value == "a-small-one"} == {
        "ANTHROPIC_DEFAULT_HAIKU_MODEL",
        "ANTHROPIC_SMALL_FAST_MODEL",
    }


def test_a_profile_may_change_limits_and_not_where_things_go() -> None:
    """Its variables win over the defaults, and lose against what keeps the image clean and the key safe."""
    bench = Bench(WORK.read_bytes())
    own = {"API_TIMEOUT_MS": "1", "CLAUDE_CONFIG_DIR": "/root", "ANTHROPIC_BASE_URL": "https://elsewhere", "OWN": "x"}

    bench.work(agent(environment=own, arguments=("--effort=low",)))

    assert bench.environment["API_TIMEOUT_MS"] == "1"
    assert bench.environment["OWN"] == "x"
    assert bench.environment["CLAUDE_CONFIG_DIR"].startswith(SCRATCH)
    assert bench.environment["ANTHROPIC_BASE_URL"] == "http://gateway:4000"
    assert bench.argv[-1] == "--effort=low"


@pytest.mark.parametrize(("reach", "searches"), [(Reach.OPEN, True), (Reach.ALLOWLIST, False), (Reach.NONE, False)])
def test_what_it_may_not_reach_it_may_not_have_searched_for_it(reach: Reach, *, searches: bool) -> None:
    """The model's service reaches the web by itself, past everything around the container."""
    bench = Bench(WORK.read_bytes())

    bench.work(agent(reach=reach))

    assert ("WebSearch" not in bench.argv[1]) is searches


def test_good_work_ends_well() -> None:
    """With its turns, and its wall time; all that it printed was handed on."""
    bench = Bench(WORK.read_bytes())

    telemetry = bench.work(agent())

    assert (telemetry.ok, telemetry.ended) == (True, "finished")
    assert telemetry.numbers["turns"] > 1
    assert telemetry.numbers["wall_s"] >= 0
    assert bench.transcript == WORK.read_bytes()


def test_an_error_that_calls_itself_success_is_an_error() -> None:
    """Its `subtype` says success, its exit code and `is_error` do not; what the service said is told."""
    telemetry = Bench(OVERLOADED.read_bytes(), code=1).work(agent())

    assert json.loads(OVERLOADED.read_bytes().splitlines()[-1])["subtype"] == "success"
    assert not telemetry.ok
    assert telemetry.ended.startswith("api_error: API Error: 529 Overloaded")


@pytest.mark.parametrize("code", [0, 1])
def test_either_sign_of_an_error_is_one(code: int) -> None:
    """A good exit code does not outweigh an error in the result, nor a good result an exit code."""
    recording = OVERLOADED if code == 0 else WORK

    assert not Bench(recording.read_bytes(), code=code).work(agent()).ok


def test_without_a_result_what_was_printed_last_is_told() -> None:
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


def test_a_prompt_that_cannot_be_written_is_nobodys_failure() -> None:
    """It is an error of the engine's; the tool is not started."""
    bench = Bench(fails=True)

    with pytest.raises(SandboxError, match="no room"):
        bench.work(agent())

    assert bench.argv == ()


@pytest.mark.parametrize(
    ("service", "words"), [(None, "names? a model|needs a model"), (replace(SERVICE, api=Api.CHAT), "openai-chat")]
)
def test_a_profile_must_name_a_model_that_it_can_ask(service: ModelService | None, words: str) -> None:
    """Said when the profile is read, not when the container stands."""
    with pytest.raises(ConfigurationError, match=words):
        ClaudeCodeAgent(name="claude", needs=Needs(service=service))


def test_it_works_with_a_gateway_only() -> None:
    """Without one, no real key is ever used in its place."""
    with pytest.raises(ConfigurationError, match="gateway"):
        Bench().work(agent(), model=None)


@pytest.mark.parametrize(
    "other",
    [
        agent(version="2.1.0"),
        agent(arguments=("--effort=low",)),
        agent(environment={"A": "b"}),
        agent(reach=Reach.NONE),
        agent(replace(SERVICE, model="another")),
        agent(replace(SERVICE, endpoint="https://another.example.org")),
        agent(replace(SERVICE, also=("small",))),
    ],
)
def test_all_that_shapes_its_work_is_in_its_inputs(other: ClaudeCodeAgent) -> None:
    """Each of it makes another agent; made again it is the same."""
    assert agent().inputs(REPOSITORY) == agent().inputs(REPOSITORY)
    assert other.inputs(REPOSITORY) != agent().inputs(REPOSITORY)


def test_its_tool_is_the_version_that_its_profile_names() -> None:
    """And the package's digest stands in our table for our own version only."""
    own, other = agent().needs.tool, agent(version="2.1.0").needs.tool

    assert own is not None
    assert other is not None
    assert own.key.startswith(f"claude-code-{VERSION}-")
    assert other.key.startswith("claude-code-2.1.0-")


def test_a_trajectory_tells_who_worked() -> None:
    """The tool's own version and model, and its session."""
    read = trajectory(WORK)

    assert (read.agent.version, read.agent.model_name) == ("2.1.332", "claude-sonnet-4-6")
    assert read.session_id
    assert read.final_metrics is not None
    assert (read.final_metrics.total_prompt_tokens, read.final_metrics.total_completion_tokens) == _whole_usage()


def _whole_usage() -> tuple[int, int]:
    usage = json.loads(WORK.read_bytes().splitlines()[-1])["usage"]
    prompt = usage["input_tokens"] + usage["cache_creation_input_tokens"] + usage["cache_read_input_tokens"]
    return prompt, usage["output_tokens"]


def test_a_message_in_several_lines_is_one_step_and_counts_once() -> None:
    """What was thought, what was said, and what was called."""
    step = trajectory(WORK).steps[0]

    assert (step.reasoning_content, step.message) == ("First I look around.", "I look at the repository.")
    assert step.metrics == Metrics(prompt_tokens=150, cached_tokens=30)
    assert step.tool_calls is not None
    assert [call.arguments["command"] for call in step.tool_calls] == ["echo hello; pwd"]
    assert step.observation is not None
    assert [result.content for result in step.observation.results] == ["hello\n/workspace"]


def test_each_result_stands_with_its_call() -> None:
    """Of two calls in one message, one failed."""
    step = trajectory(WORK).steps[1]

    assert step.tool_calls is not None
    assert step.observation is not None
    assert [call.function_name for call in step.tool_calls] == ["Write", "Bash"]
    assert [result.source_call_id for result in step.observation.results] == [
        call.tool_call_id for call in step.tool_calls
    ]
    assert "Exit code 3" in (step.observation.results[1].content or "")


def test_what_a_subagent_did_is_told_and_its_report_belongs_to_the_call() -> None:
    """Its commands are steps of their own; the call that started it came before them."""
    steps = trajectory(WORK).steps

    asked, inner, last = steps[2:]
    assert asked.tool_calls is not None
    assert asked.tool_calls[0].function_name == "Agent"
    assert asked.observation is not None
    assert "There is a note." in (asked.observation.results[0].content or "")
    assert inner.tool_calls is not None
    assert inner.tool_calls[0].arguments["command"] == "ls"
    assert last.message == "The environment is ready."


def test_what_the_tool_says_itself_is_not_the_models() -> None:
    """That the service was overloaded is said by the system."""
    last = trajectory(OVERLOADED).steps[-1]

    assert last.source == "system"
    assert "529" in last.message


def test_a_message_whose_lines_stand_apart_counts_once(tmp_path: Path) -> None:
    """Two subagents at once print in turn."""

    def line(identity: str, words: str) -> str:
        message = {
            "id": identity,
            "model": "m",
            "content": [{"type": "text", "text": words}],
            "usage": {"input_tokens": 7},
        }
        return json.dumps({"type": "assistant", "message": message})

    path = tmp_path / "transcript"
    path.write_text("\n".join([line("a", "1"), line("b", "2"), line("a", "3")]))

    steps = trajectory(path).steps

    assert [step.message for step in steps] == ["1", "2", "3"]
    assert [step.metrics.prompt_tokens if step.metrics else None for step in steps] == [7, 7, None]


def test_junk_in_a_transcript_is_passed_over(tmp_path: Path) -> None:
    """Whatever stands between the lines, or before one."""
    path = tmp_path / "transcript"
    lines = WORK.read_bytes().splitlines()
    path.write_bytes(b"\n".join(part for line in lines for part in (b"\xff junk", b"[1]", b"warning: " + line)))

    assert trajectory(path) == trajectory(WORK)


def test_a_line_that_no_tool_prints_is_not_held(tmp_path: Path) -> None:
    """A line of more than 32 MiB is passed over, in all its parts; what follows is read."""
    path = tmp_path / "transcript"
    # Its second part alone would be a line of the tool's.
    path.write_bytes(
        b"x" * (32 << 20) + b'{"type": "system", "subtype": "init", "session_id": "false"}\n' + WORK.read_bytes()
    )

    assert trajectory(path) == trajectory(WORK)
