"""Which tests of a run are run again."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Examination, Tier, Verdict
from pytest_researchenv.rerun import NOTHING, parse_rerun
from tests.unit.lab import Lab


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["infra"], {Verdict.ERROR}),
        (["failed"], {Verdict.FAILED}),
        (["missing"], {None}),
        (["missing", "infra"], {None, Verdict.ERROR}),
        (["tier:C3"], set()),
        (["TIER:c1"], {None, *Verdict}),
        ([], set()),
    ],
)
def test_words_choose_by_what_is_stored_or_by_tier(words: list[str], wanted: set[Verdict | None]) -> None:
    """Several words choose all that one of them does."""
    rerun = parse_rerun(words)

    assert {verdict for verdict in (None, *Verdict) if rerun.wants(Tier.C1, verdict)} == wanted
    assert bool(rerun) is bool(words)


def test_the_audit_is_chosen_like_a_tier() -> None:
    """And nothing is chosen by default."""
    assert parse_rerun(["tier:integrity"]).wants(Examination.INTEGRITY, Verdict.PASSED)
    assert not NOTHING.wants(Examination.INTEGRITY, None)


@pytest.mark.parametrize("word", ["tier:C9", "tier:", "all", "", "passed"])
def test_an_unknown_word_is_told_with_those_that_there_are(word: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(ConfigurationError, match="give one of infra, missing, failed, tier:C0"):
        parse_rerun([word])


def test_what_is_stored_is_told_from_what_is_not(tmp_path: Path) -> None:
    """An attempt that could not be built is an error of each of its tests; one that was cut short is nothing."""
    lab = Lab(tmp_path)
    assert lab.session().environments.stored("fake", lab.repository, Tier.C1) is None

    lab.agent.breaks = True
    with pytest.raises(RuntimeError):
        lab.session().judge("fake", lab.repository, Tier.C1)
    assert lab.session().environments.stored("fake", lab.repository, Tier.C1) is Verdict.ERROR

    (lab.folder / "attempt-001/error.txt").unlink()
    assert lab.session().environments.stored("fake", lab.repository, Tier.C1) is None

    lab.agent.breaks = False
    harness = lab.session()
    harness.judge("fake", lab.repository, Tier.C1)
    assert harness.environments.stored("fake", lab.repository, Tier.C1) is None
    assert lab.session().environments.stored("fake", lab.repository, Tier.C1) is Verdict.PASSED
    assert lab.session().environments.stored("fake", lab.repository, Examination.INTEGRITY) is Verdict.PASSED
