"""How a verdict becomes a pytest outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.model import Verdict
from pytest_researchenv.report.message import failure_message


if TYPE_CHECKING:
    from pytest_researchenv.harness import Judged

__all__ = ["check"]


def check(judged: Judged) -> None:
    """Pass, fail or skip the test as the verdict says."""
    __tracebackhide__ = True
    result = judged.result
    if result.verdict is Verdict.SKIPPED:
        pytest.skip(f"{result.tier} {result.tier.heading}: {result.reason}")
    if result.verdict is not Verdict.PASSED:
        pytest.fail(failure_message(judged), pytrace=False)
