"""How a sub-task of a research task becomes a pytest outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.model import Verdict
from pytest_researchenv.report.message import places, printable_line


if TYPE_CHECKING:
    from pytest_researchenv.research.task import Subtask
    from pytest_researchenv.researching import JudgedResearch

__all__ = ["check", "unrunnable"]


def check(judged: JudgedResearch) -> None:
    """Pass, fail or skip the test as the verdict says."""
    __tracebackhide__ = True
    result = judged.result
    if result.verdict is Verdict.SKIPPED:
        pytest.skip(result.reason)
    if result.verdict is not Verdict.PASSED:
        pytest.fail(_message(judged), pytrace=False)


def unrunnable(subtask: Subtask) -> str:
    """Why nothing can run a sub-task: never a pass, and no failure of the agent's."""
    needs = f"; on this machine it {subtask.not_run_here}" if subtask.not_run_here.startswith("needs ") else ""
    return f"cannot be run yet: this version describes the published task, and has no evaluation for it{needs}"


def _message(judged: JudgedResearch) -> str:
    result = judged.result
    completed = "completed" if result.completed else "not completed"
    lines = [f"{result.subtask} failed ({completed}): {result.cause}: {printable_line(result.reason)}"]
    if judged.folder:
        lines += places(judged.folder, result.log)
    return "\n".join(lines)
