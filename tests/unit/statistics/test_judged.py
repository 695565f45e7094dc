"""Who was judged: nobody is forgotten, and nobody counted twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_researchenv.gateway.protocol import Outcome
from pytest_researchenv.model import Cause, Examination, PathSource, Repository, Tier, TierResult, TierSpec, Verdict
from pytest_researchenv.runs.values import SUBJECTS, AttemptRecord, Damage
from pytest_researchenv.statistics.judged import (
    AttemptCounts,
    ErrorKind,
    TierCounts,
    error_kind,
    every_attempt,
    who_was_judged,
)
from pytest_researchenv.statistics.tries import AgentRun, agent_runs
from tests.unit.statistics.made import attempt, part, result, run


def row(found: AgentRun, tier: Tier) -> TierCounts:
    """The row of a tier."""
    return next(one for one in who_was_judged(found) if one.subject is tier)


def test_every_outcome_has_its_column() -> None:
    """Eight repositories, by hand."""
    found = row(
        part(
            attempt("s/1", "p"),
            attempt("s/2", {Tier.C0: result(Tier.C0, "p", emulated=True)}),
            attempt("s/3", "f"),
            attempt("s/4", "s"),
            attempt("s/5", {Tier.C0: result(Tier.C0, "s", cause=Cause.NOT_APPLICABLE)}),
            attempt("s/6", "e"),
            attempt("s/7", inputs=None, error="disk full"),
            attempt("s/8", "-p"),
        ),
        Tier.C0,
    )

    assert found == TierCounts(
        Tier.C0,
        repositories=8,
        passed=2,
        failed=1,
        skipped={Cause.INSUFFICIENT_HARDWARE: 1},
        not_applicable=1,
        errors={ErrorKind.BUILDING: 1, ErrorKind.JUDGING: 1},
        unjudged=1,
        emulated=1,
    )
    assert (found.applicable, found.run) == (7, 3)
    assert (found.rate.passed, found.rate.judged, found.rate.emulated) == (2, 3, 1)


def description(**tiers: TierSpec) -> Repository:
    """A repository with these tiers."""
    spec = {Tier(name): one for name, one in tiers.items()}
    return Repository(name="o/one", suite="suite", source=PathSource("x"), tiers=spec)


def test_a_description_tells_where_a_tier_does_not_apply() -> None:
    """Skips of that kind are not stored; and an attempt that broke is no error in such a tier."""
    known = description(
        C1=TierSpec(defective_upstream="the launcher starts a file that is not there"),
        C2=TierSpec(pending="not written"),
        C3=TierSpec(probe="c3.py"),
    )
    key = known.key
    for one, c3 in ((attempt(key, inputs=None, error="x"), ErrorKind.BUILDING), (attempt(key), None)):
        (found,) = agent_runs(run([one]), {key: known})

        assert row(found, Tier.C1).defective_upstream == 1
        assert row(found, Tier.C1).applicable == 1
        assert row(found, Tier.C2).skipped == {Cause.NO_PROBE: 1}
        assert row(found, Tier.C4).not_applicable == 1
        assert row(found, Tier.C3).errors == ({c3: 1} if c3 else {})
        assert row(found, Tier.C3).unjudged == (0 if c3 else 1)


def test_what_was_judged_before_a_description_changed_still_counts() -> None:
    """A verdict on record is a verdict."""
    known = description(C1=TierSpec(pending="not written"))
    (found,) = agent_runs(run([attempt(known.key, "-p")]), {known.key: known})

    assert row(found, Tier.C1).passed == 1


@pytest.mark.parametrize("outcome", [one for one in Outcome if one.provider_trouble])
def test_trouble_of_the_provider_is_an_error_of_its_own(outcome: Outcome) -> None:
    """By the words in which it is recorded."""
    said = f"the model could not be had at https://api.example.org: {outcome} (HTTP 500): x; the agent's tool finished"

    assert error_kind(attempt(inputs=None, error=said)) is ErrorKind.PROVIDER


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (attempt(inputs=None, error="https://x is asked no more in this session: quota used up"), ErrorKind.PROVIDER),
        (attempt(inputs=None, error="the pinned tree could not be had"), ErrorKind.BUILDING),
        (attempt(inputs=None), ErrorKind.UNFINISHED),
        (replace(attempt(inputs=None), damage=(Damage(Path("environment.json"), "x"),)), ErrorKind.DAMAGED),
    ],
)
def test_an_attempt_without_an_environment_says_why(record: AttemptRecord, kind: ErrorKind) -> None:
    """Provider, building, never finished, damaged."""
    assert error_kind(record) is kind
    assert row(part(record), Tier.C3).errors == {kind: 1}


def test_a_damaged_result_is_an_error() -> None:
    """The tier was judged, and nobody knows how."""
    found = part(replace(attempt(results="p"), times={Tier.C0: 1, Tier.C1: 2}))

    assert row(found, Tier.C1).errors == {ErrorKind.DAMAGED: 1}
    assert row(found, Tier.C2).unjudged == 1


def test_the_audit_has_a_row_of_its_own() -> None:
    """Beside the six tiers."""
    found = part(attempt(results={Examination.INTEGRITY: TierResult(Examination.INTEGRITY, Verdict.FAILED)}))

    rows = who_was_judged(found)

    assert tuple(one.subject for one in rows) == SUBJECTS
    assert rows[-1].failed == 1


@given(st.lists(st.tuples(st.sampled_from("pfes-"), st.booleans()), min_size=1, max_size=20))
def test_the_columns_add_up_to_the_repositories(outcomes: list[tuple[str, bool]]) -> None:
    """Whatever became of them."""
    found = part(
        *(
            attempt(f"s/{number}", letter if finished else "", inputs="same" if finished else None)
            for number, (letter, finished) in enumerate(outcomes)
        )
    )

    for one in who_was_judged(found):
        apart = (one.not_applicable, one.defective_upstream, one.unjudged)
        counted = one.passed + one.failed + sum(one.skipped.values()) + sum(one.errors.values()) + sum(apart)
        assert counted == one.repositories == len(outcomes)
        assert one.emulated <= one.run <= one.applicable


def test_no_outcome_is_called_as_another_is() -> None:
    """They are counted together, by their words."""
    words = [*Verdict, *Cause, *ErrorKind]

    assert len({str(word) for word in words}) == len(words)


def test_every_attempt_is_counted() -> None:
    """Tries, those that broke, and those that a change made obsolete."""
    found = every_attempt(
        part(
            attempt("s/1", "p", number=1, inputs="old"),
            attempt("s/1", "p", number=2),
            attempt("s/1", number=3, inputs=None, error="disk full"),
            attempt("s/1", "f", number=4),
            attempt("s/2", inputs=None),
        )
    )

    assert found == AttemptCounts(2, 5, 2, {ErrorKind.BUILDING: 1, ErrorKind.UNFINISHED: 1}, 1)
