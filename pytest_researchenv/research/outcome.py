"""How a sub-task of a research task becomes a pytest outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.model import Cause, Verdict


if TYPE_CHECKING:
    from pytest_researchenv.research.task import Subtask

__all__ = ["Outcome", "check", "unrunnable"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a sub-task came to.

    Attributes:
        verdict: passed where the score that decides it beats the best baseline.
        cause: why it did not pass.
        reason: the same in words.
    """

    verdict: Verdict
    cause: Cause = Cause.NONE
    reason: str = ""


def check(outcome: Outcome) -> None:
    """Pass, fail or skip the test as the verdict says."""
    __tracebackhide__ = True
    if outcome.verdict is Verdict.SKIPPED:
        pytest.skip(outcome.reason)
    if outcome.verdict is not Verdict.PASSED:
        pytest.fail(f"{outcome.cause}: {outcome.reason}", pytrace=False)


def unrunnable(subtask: Subtask) -> Outcome:
    """What comes of a sub-task that nothing runs: never a pass, and no failure of the agent's."""
    needs = f"; on this machine it {subtask.not_run_here}" if subtask.not_run_here.startswith("needs ") else ""
    reason = f"cannot be run yet: this version describes research tasks, and does not give them to agents{needs}"
    return Outcome(Verdict.SKIPPED, Cause.NO_RUNNER, reason)
