"""What the published runner gets wrong around its graders (ResearchGym at 148a785), and what ours does instead.

Limits, blocked addresses and keys of models are the agent machinery's: `tests/integration/gateway`,
`tests/integration/agents`. Of the inspector, its own tests tell.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pytest_researchenv.errors import SandboxError, StoreError
from pytest_researchenv.model import EnvironmentKey, Verdict
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.research.evaluation import evaluation_files
from pytest_researchenv.research.result import ResearchCause, ResearchFinding, ResearchResult
from pytest_researchenv.research.workplace import workplace_of
from pytest_researchenv.secrets import Secret
from pytest_researchenv.source import fetch
from pytest_researchenv.store import Attempt, research_stem
from tests.unit.lab import Lab
from tests.unit.research.test_reported import report
from tests.unit.research.test_researching import TASK, ResearchLab, without_report


@pytest.fixture
def gym(tmp_path: Path) -> ResearchLab:
    """A lab in which evaluations end well."""
    return ResearchLab(Lab(tmp_path))


def test_who_is_judged_does_not_judge(gym: ResearchLab, tmp_path: Path) -> None:
    """There the agent calls the grader, on files of its own, in a copy that it may change; here it has none at all."""
    files = fetch(workplace_of(TASK), cache=tmp_path / "trees").files
    ours = {name.removeprefix("digits-continual/code/") for name in evaluation_files(TASK)} - set(files)

    assert not [name for name in files if "evaluat" in name or "grad" in name]
    assert "digits-continual/evaluation/evaluate.py" in ours
    assert not [name for name in evaluation_files(TASK) if "withheld" in name or "oracle" in name]
    # A report that the agent wrote is not sealed.
    gym.evaluates = lambda _secret, _argv: (0, json.dumps(report()).encode())
    with pytest.raises(SandboxError, match="no report on the base image either"):
        gym.judge(gym.session())


def test_every_end_of_a_run_has_a_result(gym: ResearchLab) -> None:
    """There nothing says afterwards what a run came to, or that it came to nothing; here a failure says its cause."""
    gym.evaluates = without_report
    with pytest.raises(SandboxError, match="base image"):
        gym.judge(gym.session())

    stored = json.loads(next(gym.lab.settings.results.rglob("research-*.json")).read_text())

    assert (stored["verdict"], stored["cause"]) == ("error", "infrastructure")


def test_no_key_is_written_with_a_result(tmp_path: Path) -> None:
    """There keys stand in plan files; here whatever enters a results folder goes without them."""
    key = "sk-0123456789abcdef0123456789abcdef"
    attempt = Attempt(
        EnvironmentKey("run", "agent", "suite/task", 1), tmp_path, lambda: Redactor((Secret("THE_KEY", key),))
    )
    finding = ResearchFinding("crash", f"it printed {key}", ResearchCause.CRASH)
    result = ResearchResult("x", Verdict.FAILED, ResearchCause.CRASH, f"crash: {key}", method=key, findings=(finding,))

    kept = attempt.save_research(attempt.next_log(research_stem("x")), result)

    written = (tmp_path / "research-x-001.json").read_text()
    assert key not in written
    assert written.count("[redacted THE_KEY]") == 3
    assert kept.verdict is Verdict.FAILED


def test_a_result_that_was_torn_is_none(tmp_path: Path) -> None:
    """There a half-written file counts as one without results; here it is told."""
    attempt = Attempt(EnvironmentKey("run", "agent", "suite/task", 1), tmp_path)
    kept = attempt.save_research(attempt.next_log(research_stem("x")), ResearchResult("x", Verdict.PASSED))
    assert attempt.research("x") == [kept]
    path = tmp_path / "research-x-001.json"
    path.write_bytes(path.read_bytes()[:-20])

    with pytest.raises(StoreError, match="does not hold what was written there"):
        attempt.research("x")


def test_names_of_sub_tasks_are_no_beginnings_of_others(tmp_path: Path) -> None:
    """`steps2` and `steps2_1` have records of their own, and so have tiers."""
    attempt = Attempt(EnvironmentKey("run", "agent", "suite/task", 1), tmp_path)
    for name in ("steps2", "steps20", "steps2_1"):
        attempt.save_research(attempt.next_log(research_stem(name)), ResearchResult(name, Verdict.PASSED))

    assert [one.subtask for one in attempt.research("steps2")] == ["steps2"]
    assert attempt.next_log(research_stem("steps2")).name == "research-steps2-002.log"
