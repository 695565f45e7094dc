"""A trajectory may be anything; what can be shown of it is."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_researchenv.agents.trajectory import AgentInfo, Metrics, Steps, ToolCall, Trajectory, dump
from pytest_researchenv.report.html.work import read_work


def test_commands_outputs_and_times_are_told(tmp_path: Path) -> None:
    """What was run, what came of it, when, how long it took, and what it cost."""
    steps = Steps()
    steps.add("user", "make it run", timestamp="2026-11-03T07:00:00Z")
    call = ToolCall("a", "bash", {"command": "pip install torch"})
    steps.add(
        "agent",
        "install",
        calls=(call, ToolCall("b", "edit", {"path": "x"})),
        timestamp="2026-11-03T07:01:00Z",
        metrics=Metrics(prompt_tokens=12_000, completion_tokens=90),
        reasoning_content="hm",
    )
    steps.result("a", "\x1b[32mdone\x1b[0m")
    steps.add("agent", "finish", timestamp="2026-11-03T07:01:42Z")
    (tmp_path / "trajectory.json").write_bytes(dump(Trajectory(AgentInfo("codex", "1"), steps.steps)))

    work = read_work(tmp_path / "trajectory.json")

    turn = work.turns[1]
    assert (turn.after, turn.took, turn.tokens, turn.thought) == ("after 60 s", "42 s", "12.0 k + 90 tokens", "hm")
    assert [(one.command, one.shell, one.output) for one in turn.calls] == [
        ("pip install torch", True, "done"),
        ('{\n "path": "x"\n}', False, ""),
    ]


def test_of_a_long_trajectory_both_ends_are_shown(tmp_path: Path) -> None:
    """How many steps are left out, and where, is told."""
    steps = [{"step_id": number + 1, "source": "agent", "message": str(number)} for number in range(500)]
    (tmp_path / "trajectory.json").write_text(json.dumps({"steps": steps}))

    work = read_work(tmp_path / "trajectory.json")

    assert (len(work.turns), work.omitted, work.split) == (160, 340, 120)
    assert [turn.number for turn in work.turns[119:121]] == [120, 461]


def test_a_long_output_is_cut_in_the_middle(tmp_path: Path) -> None:
    """Both ends of it say more than the beginning alone."""
    step = {
        "tool_calls": [{"tool_call_id": "a", "function_name": "bash", "arguments": {"cmd": "x"}}],
        "observation": {"results": [{"source_call_id": "a", "content": "a" * 5000 + "b" * 5000}]},
    }
    (tmp_path / "trajectory.json").write_text(json.dumps({"steps": [step]}))

    output = read_work(tmp_path / "trajectory.json").turns[0].calls[0].output

    assert output.startswith("aaa")
    assert output.endswith("bbb")
    assert "7,000 characters left out" in output


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "cannot be read"),
        (b"[" * 100_000, "cannot be read"),
        (b"[]", "has no steps"),
        (b'{"steps": 7}', "has no steps"),
        (None, "No trajectory was recorded."),
    ],
)
def test_what_is_no_trajectory_is_said_to_be_none(tmp_path: Path, content: bytes | None, problem: str) -> None:
    """A page never fails for it."""
    if content is not None:
        (tmp_path / "trajectory.json").write_bytes(content)

    assert problem in read_work(tmp_path / "trajectory.json").problem


def test_a_huge_trajectory_is_not_read(tmp_path: Path) -> None:
    """An agent cannot fill the memory of whoever looks at it."""
    with (tmp_path / "trajectory.json").open("wb") as file:
        file.truncate(10 * 1024**3)

    assert "too much for a page" in read_work(tmp_path / "trajectory.json").problem


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3),
    max_leaves=8,
)
STEPS = st.fixed_dictionaries(
    {},
    optional={
        "source": VALUES,
        "message": VALUES,
        "timestamp": VALUES | st.sampled_from(["2026-11-03T07:00:00Z", "2026-11-03T07:00:00"]),
        "metrics": VALUES | st.fixed_dictionaries({"prompt_tokens": VALUES, "completion_tokens": VALUES}),
        "reasoning_content": VALUES,
        "tool_calls": VALUES
        | st.lists(st.fixed_dictionaries({"tool_call_id": VALUES, "function_name": VALUES, "arguments": VALUES})),
        "observation": VALUES
        | st.fixed_dictionaries(
            {"results": VALUES | st.lists(st.fixed_dictionaries({"source_call_id": VALUES, "content": VALUES}))}
        ),
    },
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(STEPS | VALUES, max_size=4))
def test_no_form_of_steps_raises(tmp_path: Path, steps: list[object]) -> None:
    """An agent's tool may write what it likes."""
    (tmp_path / "trajectory.json").write_text(json.dumps({"steps": steps}))

    assert len(read_work(tmp_path / "trajectory.json").turns) == len(steps)
