"""Our own research tasks: honest agents get what they deserve, and each cheater is named by its check."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.agents.research.corpus import TASKS, Scripted, scripted
from tests.choosing import mostly_slow
from tests.unit.research.own_tasks import SUITE, Bench, Report, bench, checks, described


_AGENTS = {(task, agent.name): agent for task in TASKS for agent in scripted(task)}
_CHEATERS = [agent for agent in _AGENTS.values() if not agent.honest]
# What changes the environment, or waits for a deadline, has a test of its own.
_APART = {"numpy-in-the-environment", "never-ends"}
# One of each kind; the others take a second or two each, and there are many.
_QUICK = {
    "learns-from-test",
    "method-is-a-link",
    "metric-edited",
    "pieces-dropped",
    "results-by-hand",
    "results-improved",
    "results-seed-twice",
    "rows-kept",
    "texts-in-a-file",
}


def _cases() -> list[object]:
    return [
        pytest.param(agent, id=f"{agent.task}-{agent.name}", marks=[] if agent.name in _QUICK else pytest.mark.slow)
        for agent in _CHEATERS
        if agent.name not in _APART
    ]


@pytest.fixture
def benches(tmp_path: Path) -> dict[str, Bench]:
    """Both tasks, with two seeds."""
    return {task: bench(task, tmp_path / task) for task in TASKS}


def test_there_are_enough_cheaters() -> None:
    """At least 15, each with a trick of its own; and those that are run at once are there."""
    tricks = [agent.trick for agent in _CHEATERS]

    assert len(tricks) >= 15
    assert len(set(tricks)) == len(tricks)
    assert {agent.name for agent in _CHEATERS} >= _QUICK | _APART


@pytest.mark.parametrize("task", mostly_slow(TASKS, but={"digits-continual"}))
def test_the_oracle_passes(benches: dict[str, Bench], task: str) -> None:
    """The withheld method is better than the best baseline on the same hidden data, and nothing is found."""
    report = _came_of(benches[task], _AGENTS[task, "oracle"])

    assert report["findings"] == []
    assert report["completed"]
    assert report["passed"]
    assert report["difference"]["mean"] > 0
    assert set(report["scores"][report["primary"]]["seeds"]) == {"0", "1"}


@pytest.mark.parametrize("task", mostly_slow(TASKS, but={"morpheme-tokens"}))
def test_the_baseline_completes_and_does_not_pass(benches: dict[str, Bench], task: str) -> None:
    """It is measured beside itself on the same data, so that it cannot be better by luck."""
    report = _came_of(benches[task], _AGENTS[task, "baseline"])

    assert report["findings"] == []
    assert report["completed"]
    assert not report["passed"]
    assert report["difference"] == {"mean": 0.0, "standard_error": 0.0}


@pytest.mark.parametrize("task", TASKS)
def test_noop_does_not_complete(benches: dict[str, Bench], task: str) -> None:
    """Without results nothing is run."""
    report = _came_of(benches[task], _AGENTS[task, "noop"])

    assert checks(report) == {"results-missing"}
    assert not report["completed"]
    assert not report["passed"]


@pytest.mark.parametrize("agent", _cases())
def test_a_cheater_is_named_by_its_check(benches: dict[str, Bench], agent: Scripted) -> None:
    """And it neither completes nor passes; a trick that brings nothing is a result like others."""
    report = _came_of(benches[agent.task], agent)

    if agent.check == "ordinary":
        assert report["findings"] == []
        assert report["difference"]["mean"] <= 0
        assert not report["passed"]
        return
    assert agent.check in checks(report), report["findings"]
    assert not report["completed"]
    assert not report["passed"]


@pytest.mark.slow
def test_a_call_that_never_ends_is_ended(tmp_path: Path) -> None:
    """The deadline is kept from outside, and it is the agent's failure."""
    place = bench("digits-continual", tmp_path, {"deadline_s = 60.0": "deadline_s = 8.0"})
    report = _came_of(place, _AGENTS["digits-continual", "never-ends"])

    assert checks(report) == {"deadline"}
    assert not report["completed"]


@pytest.mark.slow
def test_an_environment_that_spoils_the_baseline_is_named(tmp_path: Path) -> None:
    """What our own code yields on public data is known; in such an environment it yields something else."""
    place = bench("digits-continual", tmp_path)
    python = _environment(tmp_path / "venv")
    agent = _AGENTS["digits-continual", "numpy-in-the-environment"]

    clean = place.judged(place.worked(_AGENTS["digits-continual", "baseline"], python), "steps2", python)
    spoilt = place.judged(place.worked(agent, python), "steps2", python)

    assert clean["findings"] == []
    assert checks(spoilt) == {"environment"}
    assert not spoilt["passed"]


@pytest.mark.slow
def test_an_interpreter_of_ours_cannot_be_spoiled(tmp_path: Path) -> None:
    """The baseline is then what it always is, and what the agent handed in is not better."""
    place = bench("digits-continual", tmp_path)
    python = _environment(tmp_path / "venv")
    handed_in = place.worked(_AGENTS["digits-continual", "numpy-in-the-environment"], python)

    report = place.judged(handed_in, "steps2", python, f"--our-python={sys.executable}")

    assert report["findings"] == []
    assert report["difference"]["mean"] < 0
    assert not report["passed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "subtask"), [(task, subtask) for task in TASKS for subtask in described(task)["subtasks"]]
)
def test_each_subtask_is_passed_by_the_oracle_alone(tmp_path: Path, task: str, subtask: str) -> None:
    """With all seeds that are required; and one evaluation takes less than a minute of one core."""
    place = bench(task, tmp_path, seeds=range(5))
    reports = {}
    for name in ("oracle", "baseline"):
        agent = replace(_AGENTS[task, name], subtask=subtask)
        folder = place.worked(agent, SEEDS="0 1 2 3 4")
        before = sum(os.times()[:4])
        reports[name] = place.judged(folder, subtask)
        assert sum(os.times()[:4]) - before < 60

    assert [report["findings"] for report in reports.values()] == [[], []]
    assert reports["oracle"]["passed"]
    assert reports["oracle"]["difference"]["mean"] > 2 * reports["oracle"]["difference"]["standard_error"]
    assert reports["baseline"]["completed"]
    assert not reports["baseline"]["passed"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may run code as somebody else")
def test_handed_in_code_runs_as_nobody(tmp_path: Path) -> None:
    """Where it can: a file that only the evaluation's user may read cannot be read."""
    if shutil.which("python3", path="/usr/bin") is None:
        pytest.skip("no interpreter outside of home folders")
    python = "/usr/bin/python3"
    place = bench("morpheme-tokens", tmp_path)
    handed_in = place.worked(_AGENTS["morpheme-tokens", "oracle"], python)
    own = handed_in / "pieces" / "methods" / "own.py"
    own.write_text(own.read_text(encoding="utf-8") + "\nimport os\nassert os.geteuid() == 65534, os.geteuid()\n")

    report = place.judged(handed_in, "pieces100", python)

    assert report["unprivileged"]
    assert report["findings"] == []


@pytest.mark.slow
def test_the_same_secret_yields_the_same_report(tmp_path: Path) -> None:
    """And another one other data."""
    place = bench("morpheme-tokens", tmp_path)
    handed_in = place.worked(_AGENTS["morpheme-tokens", "baseline"])
    one, same, other = (
        place.judged(handed_in, "pieces100", secret=secret)
        for secret in (b"a secret of 16 bytes", b"a secret of 16 bytes", b"another secret of 16")
    )

    assert one["scores"] == same["scores"]
    assert one["scores"] != other["scores"]


@pytest.mark.parametrize("content", [None, "", "#!/bin/sh\nexit 0\n", "#!/bin/sh\nexit 1\n"])
def test_an_interpreter_that_is_none_is_the_agents_failure(tmp_path: Path, content: str | None) -> None:
    """And no error of the evaluation: it is not there, cannot be run, or does nothing."""
    place = bench("morpheme-tokens", tmp_path)
    handed_in = place.worked(_AGENTS["morpheme-tokens", "baseline"])
    python = tmp_path / "python"
    if content is not None:
        python.write_text(content, encoding="utf-8")
        python.chmod(0o755)

    report = place.judged(handed_in, "pieces100", str(python))

    assert checks(report) <= {"access", "crash", "environment", "predictions"}
    assert report["findings"]
    assert not report["completed"]
    assert not report["passed"]


def test_a_secret_that_can_be_guessed_is_refused(tmp_path: Path) -> None:
    """An empty one, say, because nothing was given."""
    command = [sys.executable, "-I", str(SUITE / "morpheme-tokens" / "evaluation" / "evaluate.py"), "pieces100"]
    command += ["--handed-in", str(tmp_path), "--python", sys.executable]
    done = subprocess.run(command, input=b"short", capture_output=True, check=False)

    assert done.returncode == 2
    assert b"at least 16" in done.stderr


def _came_of(place: Bench, agent: Scripted) -> Report:
    return place.judged(place.worked(agent), agent.subtask)


def _environment(folder: Path) -> str:
    """Make an environment with NumPy that a test may spoil, and return its interpreter."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    site = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
    (site / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n", encoding="utf-8")
    return str(python)
