"""The table of rules: each knows real messages, and the table as a whole leads each message to its rule."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pytest_researchenv.diagnosis import Category, Confidence, diagnose, shipped_rules
from pytest_researchenv.diagnosis.rules import read_rules
from pytest_researchenv.model import Cause, Tier, TierResult, Verdict
from pytest_researchenv.report.diagnoses import categories_markdown, rules_markdown
from tests.unit.diagnosis.messages import Sample, environment, samples


ROOT = Path(__file__).parents[3]
EVERY = samples()

RULE = """
[[rules]]
name = "one"
category = "timeout"
confidence = "likely"
next = "Wait."
"""


@pytest.mark.parametrize("sample", EVERY, ids=[f"{sample.rule}-{number}" for number, sample in enumerate(EVERY)])
def test_the_table_leads_a_message_to_its_rule(sample: Sample) -> None:
    """Not only does the rule know it: no rule before it takes it."""
    found = diagnose(sample.result, sample.log.encode(), sample.environment)

    assert found
    assert found.rule == sample.rule


def test_every_rule_has_three_messages() -> None:
    """What nobody has seen is no rule."""
    counts = Counter(sample.rule for sample in EVERY)

    assert {rule.name: counts[rule.name] for rule in shipped_rules() if counts[rule.name] < 3} == {}


def test_every_message_says_where_it_was_seen() -> None:
    """An issue, or the tool and version that printed it."""
    assert all(sample.source for sample in EVERY)
    assert {sample.rule for sample in EVERY} == {rule.name for rule in shipped_rules()}


def test_every_category_has_a_rule() -> None:
    """But the one for what no rule knows."""
    assert {rule.category for rule in shipped_rules()} == set(Category) - {Category.UNKNOWN}


def test_what_to_do_is_one_sentence() -> None:
    """Each rule's advice ends as a sentence does."""
    assert [rule.name for rule in shipped_rules() if not rule.next.endswith(".") or "\n" in rule.next] == []


def test_no_rule_is_sure_of_nothing() -> None:
    """That is for what no rule knows."""
    assert [rule.name for rule in shipped_rules() if rule.confidence is Confidence.NONE] == []


@pytest.mark.parametrize("cause", [cause for cause in Cause if cause is not Cause.NONE])
def test_every_cause_that_says_it_all_needs_no_log(cause: Cause) -> None:
    """What is certain from the record alone does not depend on what was printed; a bare exit code says nothing."""
    vague = {Cause.EXIT_CODE, Cause.SIGNAL, Cause.MISSING_IMPORTS}
    unjudged = {Cause.NOT_APPLICABLE, Cause.NO_PROBE, Cause.NO_RUNNER, Cause.INSUFFICIENT_HARDWARE}
    verdict = Verdict.SKIPPED if cause in unjudged else Verdict.FAILED

    found = diagnose(TierResult(Tier.C1, verdict, cause, "x"), b"", environment())

    if cause in unjudged:
        assert found is None
    else:
        assert found
        assert (found.category is Category.UNKNOWN) is (cause in vague)


def test_the_page_shows_the_tables_as_they_are() -> None:
    """`docs/diagnosis.md` holds every category and every rule."""
    page = (ROOT / "docs" / "diagnosis.md").read_text()

    assert categories_markdown() in page
    assert rules_markdown(shipped_rules()) in page


def test_two_rules_with_one_name_are_refused() -> None:
    """Names are how people and programs speak of rules."""
    with pytest.raises(ValueError, match="same name: one"):
        read_rules(RULE + RULE)


@pytest.mark.parametrize("wrong", ['cause = ["timeout"]', 'causes = ["boredom"]', 'where = "nowhere"', 'says = ["*"]'])
def test_a_table_that_says_what_it_cannot_mean_is_refused(wrong: str) -> None:
    """A misspelled key, an unknown word, a pattern that fits every line."""
    with pytest.raises(ValueError, match=r"rules|0|fits"):
        read_rules(RULE + wrong)
