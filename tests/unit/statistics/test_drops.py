"""Where the pyramid is lost, by hand."""

from __future__ import annotations

import pytest

from pytest_researchenv.model import Tier
from pytest_researchenv.statistics.drops import drop, drops
from pytest_researchenv.statistics.rates import Rate
from tests.unit.statistics.made import attempt, part, verdicts


AGENT = part(
    *(
        attempt(f"s/{number}", letters)
        for number, letters in enumerate(("ppppp", "pfppf", "ffpfs", "p-pfe", "pppp-", "f-f--"))
    )
)


def test_of_those_that_passed_a_tier_so_many_pass_the_next() -> None:
    """C2 was passed by five; of these three passed C3 and two failed it."""
    found = drop(AGENT, Tier.C2, Tier.C3)

    assert (found.passed_lower, found.rate, found.unjudged) == (5, Rate(3, 5), 0)
    assert found.rate.share == pytest.approx(0.6)


def test_those_without_a_verdict_are_counted_apart() -> None:
    """C3 was passed by three; one of them has no C4."""
    found = drop(AGENT, Tier.C3, Tier.C4)

    assert (found.passed_lower, found.rate, found.unjudged) == (3, Rate(1, 2), 1)


def test_every_step_of_the_pyramid_is_told() -> None:
    """C0 to C4; C5 is no step."""
    assert [(one.lower, one.upper) for one in drops(AGENT)] == [
        (Tier.C0, Tier.C1),
        (Tier.C1, Tier.C2),
        (Tier.C2, Tier.C3),
        (Tier.C3, Tier.C4),
    ]


def test_emulated_verdicts_of_the_upper_tier_are_marked() -> None:
    """One of two here."""
    found = drop(part(attempt("s/1", "pp"), attempt("s/2", verdicts("pf", emulated=True))), Tier.C0, Tier.C1)

    assert found.rate == Rate(1, 2, emulated=1)
