"""Statistics as tables: which rows and columns there are."""

from __future__ import annotations

from pytest_researchenv.model import Claim, Examination, FindingKind, Outcome, Tier, TierResult, Verdict
from pytest_researchenv.report.comparisons import paired_table
from pytest_researchenv.report.figures import (
    calibration_rows,
    judged_table,
    rate_table,
    reliability_table,
    statistics_tables,
)
from pytest_researchenv.report.tables import Table
from pytest_researchenv.runs.values import AttemptRecord, Subject
from pytest_researchenv.statistics.agent import AgentStatistics
from pytest_researchenv.statistics.paired import compare
from pytest_researchenv.statistics.tries import AgentRun
from tests.unit.statistics.made import attempt, part, verdicts


def agent(*attempts: AttemptRecord) -> AgentStatistics:
    """What is said of the one agent whose attempts these are."""
    return AgentStatistics.of(part(*attempts))


def column(table: Table, key: str) -> list[object]:
    """The values of a column."""
    index = [one.key for one in table.columns].index(key)
    return [row[index] for row in table.rows]


def test_tables_without_rows_are_left_out() -> None:
    """An attempt that broke has no figures; that it broke is told."""
    tables = statistics_tables([agent(attempt(inputs=None, error="x"))])

    assert [table.key for table in tables] == ["judged", "attempts"]


def test_what_claims_came_to_is_told_by_category_and_field() -> None:
    """Of every try."""
    cuda = Claim("cuda_available", "true", "", Outcome.FALSE, FindingKind.CAPABILITY)
    path = Claim("python_path", '"/x"', "", Outcome.HOLDS, FindingKind.PATH)
    results: list[dict[Subject, TierResult]] = [
        {Tier.C5: TierResult(Tier.C5, Verdict.FAILED, claims=claims)} for claims in ((cuda, path), (path,))
    ]

    found = calibration_rows([agent(attempt(results=results[0]), attempt(results=results[1], number=2))])

    assert column(found, "claims") == ["all", "path", "python_path", "capability", "cuda_available"]
    assert column(found, "claimed") == [3, 2, 2, 1, 1]
    assert column(found, "held") == [2, 2, 2, 0, 0]


def test_the_audit_is_shown_where_somebody_asked_for_it() -> None:
    """Beside the tiers; an attempt that broke does not ask."""
    audit = TierResult(Examination.INTEGRITY, Verdict.FAILED)
    without = judged_table([agent(attempt("s/1", "p"), attempt("s/2", inputs=None, error="x"))])
    asked = judged_table([agent(attempt(results={Examination.INTEGRITY: audit}))])

    assert column(without, "tier") == list(Tier)
    assert column(asked, "tier") == [*Tier, "integrity"]


def test_agents_of_several_runs_are_named_with_them() -> None:
    """Those of one are not: it would be said again and again."""
    one = agent(attempt(results="p"))
    other = AgentStatistics.of(AgentRun("another", "opus", one.part.repositories))

    assert column(rate_table([one]), "agent") == ["opus"]
    assert column(rate_table([one, other]), "agent") == ["run:opus", "another:opus"]


def test_only_the_tiers_that_are_looked_at_are_shown() -> None:
    """With what is emulated marked."""
    found = rate_table([agent(attempt(results=verdicts("ppp", emulated=True)))], [Tier.C1])

    assert (column(found, "tier"), column(found, "emulated")) == (["C1"], [1])
    assert "What was emulated on the CPU says nothing about CUDA." in found.notes


def test_several_tries_are_told_of_where_there_are_any() -> None:
    """An agent that tried once has no rows."""
    once = agent(attempt(results="p"))
    twice = agent(attempt(results="p"), attempt(results="f", number=2))

    assert reliability_table([once]).rows == ()
    assert reliability_table([once, twice]).rows == (
        ("opus", "C0", 1, 0.5, 0.5, 1, 0),
        ("opus", "C0", 2, 1.0, 0.0, 1, 0),
    )


def test_what_a_comparison_leaves_out_is_explained_where_something_is() -> None:
    """And the columns are shown then."""
    first, second = part(attempt(results="p")), part(attempt(results="f", agent="b"))
    other = part(attempt("suite/two", "p", agent="c"), attempt(results=verdicts("p", emulated=True), agent="c"))

    whole, partly = paired_table(compare(first, second)), paired_table(compare(first, other))

    assert [one.key for one in whole.for_people.columns][-2:] == ["p", "p_holm"]
    assert {"unpaired", "unlike"} <= {one.key for one in partly.for_people.columns}
    assert len(partly.notes) == len(whole.notes) + 2
