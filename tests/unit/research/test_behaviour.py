"""Figures of how an agent went about its work: each from a made trajectory, with the answer worked out by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from pytest_researchenv.model import Verdict
from pytest_researchenv.research.behaviour import Behaviour, analysed
from pytest_researchenv.research.metrics import Direction
from pytest_researchenv.research.result import BesideBaseline, ResearchResult, ScoreResult
from pytest_researchenv.research.worked import Phase, phase_of, worked_steps


def step(minute: float, *commands: str, output: str = "", message: str = "", tokens: int = 0) -> dict[str, Any]:
    """A step of the agent, so many minutes after noon."""
    calls = [
        {"tool_call_id": str(n), "function_name": "Bash", "arguments": {"command": c}} for n, c in enumerate(commands)
    ]
    seconds = round(minute * 60)
    made: dict[str, Any] = {
        "source": "agent",
        "timestamp": f"2026-01-01T{12 + seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z",
        "message": message,
    }
    if calls:
        made |= {"tool_calls": calls, "observation": {"results": [{"source_call_id": "0", "content": output}]}}
    return made | ({"metrics": {"prompt_tokens": tokens, "completion_tokens": 0}} if tokens else {})


def result(
    mean: float | None,
    *,
    subtask: str = "steps2",
    error: float | None = None,
    better: Direction = Direction.HIGHER,
) -> ResearchResult:
    """What an evaluation found; None: nothing valid."""
    if mean is None:
        return ResearchResult(subtask, Verdict.FAILED, decides="Acc")
    score = ScoreResult(
        measure="Acc", better=better, values={"seed 0": mean}, mean=mean, count=1, error=error, interval=None,
        baseline=BesideBaseline("lda", 95.0), above=False, clear=None, withheld=None, share=None, no_share="",
        gain=None,
    )  # fmt: skip
    return ResearchResult(subtask, Verdict.FAILED, completed=True, decides="Acc", scores={"Acc": score})


def behaviour(
    *steps: dict[str, Any],
    results: Sequence[ResearchResult] = (),
    wall_s: float = 0,
    limit_s: float | None = None,
) -> Behaviour:
    """Analyse a trajectory of an agent."""
    found = worked_steps({"steps": list(steps)}, wall_s=wall_s)
    return analysed(found, {one.subtask: one for one in results or [result(90.0)]}, limit_s=limit_s)


DAY = (
    step(0, "cat README.md && ls", tokens=100),
    step(2, "pip install numpy", tokens=100),
    step(5, "cat > own.py <<'EOF'\nimport numpy\nEOF", tokens=300),
    step(6, "python run.py --seed 0", output="step 1\nAcc: 80.5\n", tokens=100),
    step(16, "sleep 600", tokens=50),
    step(26, "python run.py --seed 0", output="'Acc': 80.5", tokens=50),
    step(30, "sed -i s/1/2/ own.py", tokens=100),
    step(31, "python run.py --seed 0", output="Acc = 91.2 %", tokens=100),
    step(41, "python run.py --seed 1", output="Acc | 90.0 |", tokens=100),
    step(50, message="Acc is 91.2."),
)


def test_a_days_work_in_figures() -> None:
    """Hand-worked: an hour in ten steps, of which ten minutes are slept and one run is done twice for nothing."""
    found = behaviour(*DAY, wall_s=3600, limit_s=7200)

    assert (found.steps, found.work_s, found.used_time) == (10, 3600, 0.5)
    # The first run ends when the next step begins: minute 16. The best value comes at the end of minute 31's: 41.
    assert (found.first_result_s, found.last_improvement_s) == (16 * 60, 41 * 60)
    assert [(point.at / 60, point.value) for point in found.points] == [(16, 80.5), (30, 80.5), (41, 91.2), (50, 90.0)]
    assert found.idle_s == 600
    assert found.repeated == 1
    assert {share.phase: round(share.time * 60, 6) for share in found.shares} == {
        Phase.READING: 2,
        Phase.INSTALLING: 3,
        Phase.WRITING: 1 + 1,
        Phase.RUNNING: 10 + 4 + 10 + 9,
        Phase.WAITING: 10,
        Phase.THINKING: 10,
    }
    assert {share.phase: round(share.tokens, 6) for share in found.shares} == {
        Phase.READING: 0.1,
        Phase.INSTALLING: 0.1,
        Phase.WRITING: 0.4,
        Phase.RUNNING: 0.35,
        Phase.WAITING: 0.05,
        Phase.THINKING: 0,
    }
    assert sum(share.steps for share in found.shares) == pytest.approx(1)


def test_nothing_is_known_of_an_empty_trajectory() -> None:
    """No steps, no times, or no trajectory at all: figures of nothing, and no error."""
    documents: list[object] = [None, [], {}, {"steps": None}, {"steps": [1, {"source": "agent"}]}]
    for document in (*documents, {"steps": [{"timestamp": "x"}]}):
        assert worked_steps(document) == ()
    found = analysed((), {}, limit_s=None)
    assert (found.work_s, found.first_result_s, found.last_improvement_s, found.idle_s) == (0, None, None, 0)
    assert (found.jobs, found.points, found.over_claims, found.used_time, found.repeated) == ((), (), (), None, 0)
    assert [share.time for share in found.shares] == [0] * len(Phase)


def test_hostile_trajectories_cost_little_and_break_nothing() -> None:
    """Whatever stands in the place of a text: it is read as none; clocks that run backwards give no negative time."""
    odd = {
        "source": "agent", "timestamp": "2026-01-01T12:30:00", "message": {"a": 1}, "tool_calls": [1, {"arguments": 3},
        {"function_name": None, "arguments": {"command": "python '"}}],
        "observation": {"results": [None, {"content": 7}]},
        "metrics": {"prompt_tokens": True, "completion_tokens": "9"},
    }  # fmt: skip
    long = step(3, "python " + "x" * 10**6, output="Acc: " * 10**5 + "\nAcc: 1e9999\nAcc: 55")
    found = behaviour(odd, step(10), long, {**step(0), "timestamp": "2026-01-01T10:00:00+02:00"})
    assert found.work_s >= 0
    assert all(share.time >= 0 for share in found.shares)
    assert [point.value for point in found.points] == [55]


@pytest.mark.parametrize(
    ("command", "phase"),
    [
        ("ls -la && cat a.py | head -3", Phase.READING),
        ("cd /w && python train.py", Phase.RUNNING),
        ("OMP_NUM_THREADS=2 timeout 600 python train.py", Phase.RUNNING),
        ("nohup bash run.sh > log.txt 2>&1 &", Phase.RUNNING),
        ("/opt/venv/bin/python -m pip install torch", Phase.INSTALLING),
        ("python3 -m venv /opt/venv", Phase.INSTALLING),
        ("uv pip install numpy", Phase.INSTALLING),
        ("cat > a.py <<'EOF'\nimport os\nos.system('python train.py')\nEOF", Phase.WRITING),
        ("cat > a.py <<EOF\nx\nEOF\npython a.py", Phase.RUNNING),
        ("sed -i 's/a/b/' a.py", Phase.WRITING),
        ("sed -n 1,20p a.py", Phase.READING),
        ("sleep 60 && tail -n 3 log.txt", Phase.WAITING),
        ("sleep 60", Phase.WAITING),
        ("grep -rn 'a && b; python' .", Phase.READING),
        ("", Phase.THINKING),
        ("echo 'unbalanced", Phase.READING),
    ],
)  # fmt: skip
def test_what_a_command_is_for(command: str, phase: Phase) -> None:
    """The strongest part decides: who changes a folder and runs a script runs a script."""
    assert phase_of(command) is phase


@pytest.mark.parametrize(
    ("start", "later", "checked"),
    [
        ("nohup python a.py > a.log 2>&1 &", "tail -n 5 a.log", True),
        ("nohup python a.py > /w/runs/a.log 2>&1 &", "cat runs/a.log", True),
        ("python a.py > a.log &", "cat b.log", False),
        ("python a.py --output-dir out1 &", "ls out1", True),
        ("python a.py &\nsleep 1", "wait", True),
        ("setsid python a.py", "ps aux | grep python", True),
        ("tmux new-session -d 'python a.py'", "tmux capture-pane -p", True),
        ("python a.py &", "python b.py", False),
        ("python a.py > a.log &", "", False),
        ("make a && make b", "ls", None),
        ("python a.py 2>&1 | tee log", "ls", None),
        ("python a.py &> a.log", "ls", None),
    ],
)
def test_jobs_that_nobody_looked_at_again(start: str, later: str, checked: bool | None) -> None:  # noqa: FBT001
    """A job is looked at where its file is named, or where somebody waits or lists processes; None: it is no job."""
    found = behaviour(step(0, start), step(5, later) if later else step(5))
    assert [job.checked for job in found.jobs] == ([] if checked is None else [checked])
    assert len(found.unchecked) == (checked is False)


def test_a_change_makes_a_run_another_one() -> None:
    """Equal runs count as repeated only where no file was changed between them; another seed is another run."""
    run, other = "python run.py  --seed 0", "python run.py --seed 1"
    assert behaviour(step(0, run), step(1, run), step(2, run)).repeated == 2
    assert behaviour(step(0, run), step(1, other), step(2, run)).repeated == 1
    assert behaviour(step(0, run), step(1, "sed -i s/a/b/ x.py"), step(2, run)).repeated == 0
    assert behaviour(step(0, "ls"), step(1, "ls")).repeated == 0


def test_improvement_goes_by_the_direction_of_the_measure() -> None:
    """Where lower is better, the last improvement is the last smaller value."""
    steps = [step(at, "python a.py", output=f"Acc: {value}") for at, value in enumerate((3.0, 1.0, 2.0))] + [step(3)]
    assert behaviour(*steps, results=[result(1.0)]).last_improvement_s == 60
    assert behaviour(*steps, results=[result(1.0, better=Direction.LOWER)]).last_improvement_s == 120


BOTH = [("steps2", 95.0, 90.0)]


@pytest.mark.parametrize(
    ("report", "results", "expected"),
    [
        ("Acc: 95.0", [result(90.0)], [("steps2", 95.0, 90.0)]),
        ("Final Acc is 90.0", [result(90.0)], []),
        ("**Acc** | 90 |", [result(89.6)], []),
        ("Acc: 90.0", [result(89.6)], [("steps2", 90.0, 89.6)]),
        ("Acc: 91.5", [result(90.0, error=1.0)], []),
        ("Acc: 92.5", [result(90.0, error=1.0)], [("steps2", 92.5, 90.0)]),
        ("Acc: 80", [result(90.0)], []),
        ("Acc: 80", [result(90.0, better=Direction.LOWER)], [("steps2", 80.0, 90.0)]),
        ("Acc: 95.0", [result(None)], [("steps2", 95.0, None)]),
        ("Accuracy: 95.0, myAcc 96, Acc-like 97", [result(90.0)], []),
        ("steps2: Acc 95\nsteps 5 Acc 99\nAcc 100", [result(90.0), result(90.0, subtask="steps5")], BOTH),
        ("On steps_b-1 Acc 95", [result(90.0, subtask="steps_b_1"), result(1.0)], [("steps_b_1", 95.0, 90.0)]),
        ("I got Acc 95 at first, which was a mistake.\nAcc: 90.0", [result(90.0)], [("steps2", 95.0, 90.0)]),
    ],
    ids=[
        "better", "equal", "rounded", "not-rounded", "within-error", "beyond-error", "modest", "lower-is-better",
        "nothing-valid", "other-words", "by-sub-task", "spelling", "each-line",
    ],
)  # fmt: skip
def test_a_final_report_beside_what_was_found(
    report: str, results: list[ResearchResult], expected: list[tuple[str, float, float | None]]
) -> None:
    """A number says too much where it is better than the mean by more than its rounding and two standard errors."""
    found = behaviour(step(0, "ls"), step(1, message=report), step(2, message=" "), results=results)
    assert [(one.subtask, one.claimed, one.evaluated) for one in found.over_claims] == expected
