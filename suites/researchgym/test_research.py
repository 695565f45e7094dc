"""Research, one test per sub-task."""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.research.outcome import check


if TYPE_CHECKING:
    from pytest_researchenv.researching import JudgedResearch


@pytest.mark.research
def test_improvement(improvement: JudgedResearch) -> None:
    """The score that decides the sub-task is strictly better than the best baseline's."""
    check(improvement)
