"""Which attempts a figure is of."""

from __future__ import annotations

from pytest_researchenv.model import Tier, Verdict
from pytest_researchenv.statistics.tries import Tries, agent_runs
from tests.unit.statistics.made import attempt, part, run


def test_the_first_try_counts_where_one_outcome_is_wanted() -> None:
    """Not the newest, which may have been made because the first was not liked."""
    found = part(attempt(results="f", number=1), attempt(results="p", number=2))

    assert found.judged(Tier.C0)["suite/one"].verdict is Verdict.FAILED
    assert found.several


def test_what_the_infrastructure_ended_is_no_try() -> None:
    """The first attempt that left an environment is the first try."""
    (tries,) = part(
        attempt(number=1, inputs=None, error="the engine is gone"),
        attempt(results="p", number=2),
        attempt(number=3, inputs=None),
    ).repositories

    assert tries.counted.key.attempt == 2
    assert [one.key.attempt for one in tries.tries] == [2]
    assert [one.key.attempt for one in tries.broken] == [1, 3]


def test_where_nothing_was_left_the_newest_tells_why() -> None:
    """It has no outcome that could be a sample."""
    found = part(attempt(number=1, inputs=None, error="a"), attempt(number=2, inputs=None, error="b"))

    assert found.repositories[0].counted.error == "b"
    assert found.judged(Tier.C0) == {}


def test_attempts_that_other_inputs_shaped_are_superseded() -> None:
    """A new prompt makes another agent of it: what the old one did is no sample of what this one does."""
    attempts = [attempt(results="p", number=number, inputs=inputs) for number, inputs in enumerate("aabab", start=1)]

    tries = Tries.of("suite/one", reversed(attempts))

    assert [one.key.attempt for one in tries.tries] == [3, 5]
    assert [one.key.attempt for one in tries.superseded] == [1, 2, 4]


def test_a_try_without_a_verdict_has_no_outcome() -> None:
    """Errors, skips and tiers that nobody asked for."""
    tries = Tries.of("x", [attempt(results=letters, number=n) for n, letters in enumerate("pfes-", start=1)])

    assert tries.outcomes(Tier.C0) == (True, False)
    assert len(tries.tries) == 5


def test_every_agent_has_its_part() -> None:
    """With the label by which it is named."""
    parts = agent_runs(run([attempt(agent="a"), attempt(agent="b"), attempt("suite/two", agent="a")]))

    assert [one.label for one in parts] == ["run:a", "run:b"]
    assert [len(one.repositories) for one in parts] == [2, 1]
    assert [one.key.repository for one in parts[0].tries] == ["suite/one", "suite/two"]
