"""Looks at one thing after another; what gives no answer in time holds up nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pytest_researchenv.doctor.values import Check, Finding, State
from pytest_researchenv.errors import ResearchEnvError


__all__ = ["Looked", "look"]


@dataclass(frozen=True, slots=True)
class Looked:
    """What a check came to.

    Attributes:
        findings: what it found.
        seconds: how long it took.
    """

    findings: tuple[Finding, ...]
    seconds: float


def look(checks: Iterable[Check]) -> Iterator[Looked]:
    """Carry out checks, one after another."""
    for check in checks:
        started = time.monotonic()
        findings = _in_time(check)
        yield Looked(findings, time.monotonic() - started)


def _in_time(check: Check) -> tuple[Finding, ...]:
    answers: list[tuple[Finding, ...]] = []
    # What hangs in a call of the system cannot be ended. It is left behind, and ends with this process.
    looking = threading.Thread(
        target=lambda: answers.append(_answer(check)), name=f"researchenv-doctor {check.name}", daemon=True
    )
    looking.start()
    looking.join(check.deadline_s)
    if answers:
        return answers[0]
    if looking.is_alive():
        late = f"no answer in {check.deadline_s:g} s"
        return (
            Finding(check.name, State.PROBLEM, late, "find out what hangs there, and run `researchenv doctor` again"),
        )
    raise RuntimeError(f"the check of {check.name} ended without an answer; its error is above")


def _answer(check: Check) -> tuple[Finding, ...]:
    try:
        return check.look()
    except ResearchEnvError as error:
        # Its message says what happened and what to do; the first line is what there is.
        value, _, fix = str(error).partition("\n")
        return (Finding(check.name, State.PROBLEM, value, fix),)
