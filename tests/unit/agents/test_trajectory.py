"""Trajectories follow their format, whatever an agent printed; what does not is told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.agents.trajectory import (
    AgentInfo,
    FinalMetrics,
    Metrics,
    Steps,
    ToolCall,
    Trajectory,
    dump,
    problems,
)
from pytest_researchenv.cli import main


Change = Callable[[dict[str, Any]], object]


def some_trajectory() -> Trajectory:
    """Make a trajectory that uses every field of ours."""
    steps = Steps()
    steps.add("user", "build it", timestamp="2026-01-02T03:04:05Z")
    steps.add(
        "agent",
        "looking around",
        calls=[ToolCall("a", "Bash", {"command": "ls"}), ToolCall("b", "Bash", {"command": None})],
        timestamp="2026-01-02T03:04:06.789+01:00",
        model_name="some-model",
        reasoning_content="hm",
        metrics=Metrics(prompt_tokens=10, completion_tokens=2, cached_tokens=4, cost_usd=0.5),
    )
    steps.result("a", "setup.py")
    steps.add("system", "compacted")
    return Trajectory(
        agent=AgentInfo("some-agent", "1.2.3", "some-model"),
        steps=steps.steps,
        session_id="s",
        final_metrics=FinalMetrics(10, 2, 4, 0.5, 3),
    )


def changed(change: Change) -> bytes:
    """Dump a good trajectory with a change made to it."""
    values = json.loads(dump(some_trajectory()))
    change(values)
    return json.dumps(values).encode()


def test_what_is_collected_follows_the_format() -> None:
    """Results stand with their calls, numbers count from 1, and what is unknown is left out."""
    trajectory = some_trajectory()

    values = json.loads(dump(trajectory))

    assert problems(dump(trajectory)) == []
    assert [step["step_id"] for step in values["steps"]] == [1, 2, 3]
    assert values["steps"][1]["observation"] == {"results": [{"source_call_id": "a", "content": "setup.py"}]}
    assert values["steps"][0] == {
        "step_id": 1,
        "source": "user",
        "message": "build it",
        "timestamp": "2026-01-02T03:04:05Z",
    }
    # What an agent gave as an argument is no unknown of ours.
    assert values["steps"][1]["tool_calls"][1]["arguments"] == {"command": None}


def test_results_find_the_newest_call_of_their_id() -> None:
    """Tools count their calls anew, print results in pieces, and print of calls that nobody saw begin."""
    steps = Steps()
    steps.add("agent", "", calls=[ToolCall("1", "Bash", {}), ToolCall("1", "Bash", {"again": True})])
    steps.result("1", "first")
    steps.add("agent", "", calls=[ToolCall("1", "Bash", {})])
    steps.result("1", "second")
    steps.result("1", "and more")
    steps.result("never seen", "lost")

    one, two = steps.steps

    assert one.observation is not None
    assert two.observation is not None
    assert [result.content for result in one.observation.results] == ["first"]
    assert [result.content for result in two.observation.results] == ["second\nand more"]
    assert one.tool_calls is not None
    assert len(one.tool_calls) == 1


def test_whatever_an_agent_prints_can_be_written() -> None:
    """Half characters, numbers that JSON lacks, depth without end and strange values are written as text."""
    deep: list[object] = []
    for _ in range(900):
        deep = [deep]
    steps = Steps()
    steps.add("agent", "\ud800", calls=[ToolCall("\udfff", "Bash", {"a": float("nan"), "b": deep, "c": {1, 2}})])
    steps.result("\udfff", "\x00\ud800")

    written = dump(Trajectory(AgentInfo("a", ""), steps.steps))

    assert problems(written) == []
    assert json.loads(written)["steps"][0]["tool_calls"][0]["arguments"]["a"] == "nan"
    assert b"[too deep]" in written


BAD: dict[str, tuple[Change, str]] = {
    "no steps": (lambda t: t.update(steps=[], final_metrics=None), "steps: there is none"),
    "a gap": (lambda t: t["steps"][2].update(step_id=4), "steps[2].step_id: is 4, not 3"),
    "another version": (lambda t: t.update(schema_version="ATIF-v2.0"), "schema_version: is 'ATIF-v2.0'"),
    "no agent": (lambda t: t.pop("agent"), "agent: "),
    "no version": (lambda t: t["agent"].pop("version"), "agent.version: "),
    "an unknown field": (lambda t: t.update(surprise=1), "surprise: unknown field"),
    "an unknown field of a step": (lambda t: t["steps"][0].update(note="x"), "steps[0].note: unknown field"),
    "an unknown source": (lambda t: t["steps"][0].update(source="tool"), "steps[0].source: "),
    "a number as text": (lambda t: t["steps"][0].update(step_id="1"), "steps[0].step_id: "),
    "half a token": (lambda t: t["steps"][1]["metrics"].update(prompt_tokens=1.5), "steps[1].metrics.prompt_tokens: "),
    "arguments as text": (
        lambda t: t["steps"][1]["tool_calls"][0].update(arguments="ls"),
        "steps[1].tool_calls[0].arguments: ",
    ),
    "a result of no call": (
        lambda t: t["steps"][1]["observation"]["results"][0].update(source_call_id="z"),
        "steps[1].observation.results[0].source_call_id: 'z' is no call of this step",
    ),
    "a result of another step's call": (
        lambda t: t["steps"][2].update(observation={"results": [{"source_call_id": "a", "content": ""}]}),
        "steps[2].observation.results[0].source_call_id: 'a' is no call of this step",
    ),
    "two calls of one id": (
        lambda t: t["steps"][1]["tool_calls"][1].update(tool_call_id="a"),
        "steps[1].tool_calls: 'a' is the id of several calls",
    ),
    "metrics of a user": (lambda t: t["steps"][0].update(metrics={}), "steps[0].metrics: only steps of the agent"),
    "effort of a user": (
        lambda t: t["steps"][0].update(reasoning_effort="high"),
        "steps[0].reasoning_effort: only steps of the agent",
    ),
    "a day in words": (lambda t: t["steps"][0].update(timestamp="yesterday"), "steps[0].timestamp: 'yesterday'"),
    "a wrong part": (lambda t: t["steps"][0].update(message=[{"type": "text"}]), "steps[0].message: "),
    "a total that is none": (lambda t: t["final_metrics"].update(total_steps=9), "final_metrics.total_steps: is 9"),
    "a nameless subagent": (
        lambda t: t.update(subagent_trajectories=[json.loads(dump(some_trajectory()))]),
        "subagent_trajectories: each must have a trajectory_id",
    ),
    "a wrong subagent": (
        lambda t: t.update(subagent_trajectories=[{"trajectory_id": "x", "steps": []}]),
        "subagent_trajectories[0].agent: ",
    ),
    "no list of subagents": (lambda t: t.update(subagent_trajectories=5), "subagent_trajectories: is no list"),
}


@pytest.mark.parametrize("case", BAD)
def test_each_rule_of_the_format_is_checked(case: str) -> None:
    """A trajectory that breaks one rule is told with the place and what is wrong there, and nothing else."""
    change, expected = BAD[case]

    found = problems(changed(change))

    assert found
    assert all(problem.startswith(expected) for problem in found), found


def test_fields_of_the_format_that_are_not_ours_are_passed_over() -> None:
    """Other tools write them."""

    def change(values: dict[str, Any]) -> None:
        values |= {"trajectory_id": "t", "extra": {"a": 1}, "schema_version": "ATIF-v1.4", "notes": "n"}
        values["agent"] |= {"tool_definitions": [{}], "extra": {}}
        step = values["steps"][1]
        step |= {"reasoning_effort": 0.5, "is_copied_context": False, "llm_call_count": 1, "extra": {}}
        step["message"] = [
            {"type": "text", "text": "see"},
            {"type": "image", "source": {"media_type": "image/png", "path": "a.png"}},
        ]
        step["metrics"] |= {"logprobs": [0.1], "extra": {}}
        step["observation"]["results"][0] |= {"content": [{"type": "text", "text": "x"}], "extra": {}}
        values["subagent_trajectories"] = [{**json.loads(dump(some_trajectory())), "trajectory_id": "inner"}]

    assert problems(changed(change)) == []


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b"[" * 100_000, b"[]", b"null", b'"text"', b'{"steps": 1}'])
def test_what_is_no_trajectory_at_all_is_told(text: bytes) -> None:
    """Any bytes can be asked about."""
    assert problems(text)


def test_the_command_sums_a_good_one_up_and_names_what_is_wrong_with_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The exit code tells them apart."""
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(dump(some_trajectory()))
    bad.write_bytes(changed(BAD["a gap"][0]))

    assert main(["trajectory", str(good)]) == 0
    assert "ATIF-v1.7, 3 steps, 2 calls of tools, by some-agent 1.2.3 with some-model" in capsys.readouterr().out
    assert main(["trajectory", str(bad)]) == 1
    assert "steps[2].step_id: is 4, not 3" in capsys.readouterr().out
    assert main(["trajectory", str(tmp_path / "none.json")]) == 1
