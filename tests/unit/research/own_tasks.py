"""What the tests of our own research tasks share: a copy of a task with fewer seeds, and its evaluation."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fixtures.agents.research.corpus import Scripted


SUITE = Path(__file__).resolve().parents[3] / "suites" / "researchgym"
SECRET = b"what only evaluations of the tests know"
_ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

# What an evaluation says, as it comes from JSON.
Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Bench:
    """A copy of a task that asks for two seeds.

    Attributes:
        task: the task's folder.
        place: where agents work.
    """

    task: Path
    place: Path

    def worked(self, agent: Scripted, python: str = sys.executable, **variables: str) -> Path:
        """Let an agent work on a new copy of the code, and return what it left."""
        folder = self.place / agent.name / "code"
        shutil.copytree(self.task / "code", folder)
        environment = {**os.environ, **_ONE_THREAD, "PYTHON": python, "SUBTASK": agent.subtask, "SEEDS": "0 1"}
        environment.pop("PYTHONPATH", None)
        subprocess.run(
            ["bash", "-c", agent.script], cwd=folder, env=environment | variables, check=True, capture_output=True
        )
        return folder

    def judged(
        self, handed_in: Path, subtask: str, python: str = sys.executable, *more: str, secret: bytes = SECRET
    ) -> Report:
        """Evaluate what an agent left; `more` are further arguments."""
        command = [sys.executable, "-I", str(self.task / "evaluation" / "evaluate.py"), subtask]
        command += ["--handed-in", str(handed_in), "--python", python, *more]
        done = subprocess.run(command, input=secret, stdout=subprocess.PIPE, check=True)
        report: Report = json.loads(done.stdout)
        return report


def bench(task: str, place: Path, settings: Mapping[str, str] | None = None, seeds: Sequence[int] = (0, 1)) -> Bench:
    """Copy a task; of the five seeds, some are asked for.

    Args:
        task: its folder's name.
        place: where to.
        settings: text of the evaluation -> what stands in the copy instead.
        seeds: the seeds.
    """
    suite = place / "suite"
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(SUITE / "_shared", suite / "_shared", ignore=ignored)
    shutil.copytree(SUITE / task, suite / task, ignore=ignored)
    description = suite / task / "task.toml"
    description.write_text(
        description.read_text(encoding="utf-8").replace("seeds = [0, 1, 2, 3, 4]", f"seeds = {list(seeds)}")
    )
    evaluation = suite / task / "evaluation" / "evaluate.py"
    text = evaluation.read_text(encoding="utf-8")
    for old, new in (settings or {}).items():
        assert old in text
        text = text.replace(old, new)
    evaluation.write_text(text, encoding="utf-8")
    return Bench(suite / task, place / "agents")


def described(task: str) -> dict[str, Any]:
    """Return what `task.toml` says."""
    return tomllib.loads((SUITE / task / "task.toml").read_text(encoding="utf-8"))


def checks(report: Report) -> set[str]:
    """Return the names of the checks that found something."""
    return {found["check"] for found in report["findings"]}
