"""The paper's figures: recomputed from outcomes with its totals, and kept away from what is not comparable."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Tier
from pytest_researchenv.runs.values import AttemptRecord
from pytest_researchenv.statistics.baseline import BesidePaper, beside_paper, published
from pytest_researchenv.statistics.claims import false_claims
from pytest_researchenv.statistics.imports import published_ratio
from pytest_researchenv.statistics.judged import who_was_judged
from pytest_researchenv.statistics.tries import AgentRun, agent_runs
from tests.unit.statistics.made import attempt, result, run
from tests.unit.statistics.papers import as_published, benchmark


#: Agent → percentages of C0 (missing imports) and of C1 to C4 (passed), and the hallucinations of C5, worked out by
#: hand from the totals of the paper's main table.
PERCENT = {
    "codex": (23.6, 58.6, 79.5, 44.2, 34.4, 4),
    "claude-code-glm": (26.6, 55.2, 90.9, 48.8, 37.5, 18),
    "claude-code-sonnet": (25.5, 51.7, 93.2, 41.9, 37.5, 20),
    "nexau": (25.3, 55.2, 93.2, 48.8, 34.4, 16),
}

#: Tier → agents, best first; those in one group are level.
ORDER = {
    Tier.C0: [{"codex"}, {"nexau"}, {"claude-code-sonnet"}, {"claude-code-glm"}],
    Tier.C1: [{"codex"}, {"claude-code-glm", "nexau"}, {"claude-code-sonnet"}],
    Tier.C2: [{"claude-code-sonnet", "nexau"}, {"claude-code-glm"}, {"codex"}],
    Tier.C3: [{"claude-code-glm", "nexau"}, {"codex"}, {"claude-code-sonnet"}],
    Tier.C4: [{"claude-code-glm", "claude-code-sonnet"}, {"codex", "nexau"}],
    Tier.C5: [{"codex"}, {"nexau"}, {"claude-code-glm"}, {"claude-code-sonnet"}],
}


def part(attempts: list[AttemptRecord]) -> AgentRun:
    """The part of the one agent whose attempts these are."""
    (only,) = agent_runs(run(attempts), benchmark())
    return only


def figures(one: AgentRun) -> dict[Tier, float]:
    """Our figure of each tier, as the paper has it."""
    rates = {row.subject: row.rate.share for row in who_was_judged(one) if row.rate.share is not None}
    found = {tier: rates[tier] for tier in (Tier.C1, Tier.C2, Tier.C3, Tier.C4)}
    ratio = published_ratio(one).ratio
    assert ratio is not None
    return {Tier.C0: ratio, **found, Tier.C5: float(false_claims(one).total)}


# --- the figures ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize("name", PERCENT)
def test_the_papers_percentages_come_out_of_its_totals(name: str, seed: int) -> None:
    """Whichever repositories they were: 44 attempts, judged one by one, counted again."""
    found = figures(part(as_published(name, seed=seed)))

    *percents, hallucinations = PERCENT[name]
    assert [round(100 * found[tier], 1) for tier in tuple(Tier)[:5]] == percents
    assert found[Tier.C5] == hallucinations


def test_the_papers_order_of_agents_comes_out_of_its_totals() -> None:
    """In every tier; of C0 and C5 less is better."""
    found = {name: figures(part(as_published(name))) for name in PERCENT}

    for tier, groups in ORDER.items():
        sign = 1 if tier in {Tier.C0, Tier.C5} else -1
        by_figure: dict[float, set[str]] = {}
        for name, one in found.items():
            by_figure.setdefault(round(sign * one[tier], 6), set()).add(name)
        assert [by_figure[figure] for figure in sorted(by_figure)] == groups


def test_the_denominators_are_those_of_the_suite() -> None:
    """As published: 2858 imports, 29, 44, 43 and 32 repositories, 44 in all."""
    baseline = published()
    counted = {tier: sum(one.spec(tier).supported for one in benchmark().values()) for tier in baseline.denominators}
    counted[Tier.C0] = sum(one.imports.published_total or 0 for one in benchmark().values())

    assert counted == baseline.denominators
    assert baseline.denominators == {Tier.C0: 2858, Tier.C1: 29, Tier.C2: 44, Tier.C3: 43, Tier.C4: 32}
    assert len(benchmark()) == baseline.repositories == 44


def test_the_one_published_number_of_missing_imports_has_the_published_ratio() -> None:
    """675 of 2858; of the others only the ratio was published, and no number is made up."""
    numbers = {name: one.missing_imports for name, one in published().agents.items()}

    assert numbers == {"codex": 675, "claude-code-glm": None, "claude-code-sonnet": None, "nexau": None}
    assert round(675 / 2858, 3) == published().agents["codex"].import_ratio


def test_every_tier_says_whether_it_can_be_compared() -> None:
    """And every agent has a figure for those that are rates."""
    baseline = published()

    assert set(baseline.caveats) == set(Tier)
    for name in baseline.agents:
        assert [baseline.rate(name, tier) is not None for tier in Tier] == [False, True, True, True, True, False]


# --- a run beside them ------------------------------------------------------------------------------------


def beside(attempts: list[AttemptRecord], name: str = "codex", tiers: tuple[Tier, ...] = tuple(Tier)) -> BesidePaper:
    """These attempts beside a published agent."""
    return beside_paper(part(attempts), name, repositories=benchmark(), tiers=tiers)


def test_a_run_with_the_papers_totals_does_not_differ_from_it() -> None:
    """In no tier; the interval of each difference of rates holds 0."""
    found = beside(as_published("codex"))

    assert [one.lacking for one in found.figures] == [""] * 6
    assert [one.difference for one in found.figures] == pytest.approx([0, 0, 0, 0, 0, 0], abs=5e-4)
    for one in found.figures[1:5]:
        assert one.interval is not None
        assert one.interval[0] < 0 < one.interval[1]
    assert found.figures[0].interval is None
    assert found.figures[5].interval is None


def test_two_agents_differ_by_what_the_paper_says() -> None:
    """NexAU's totals beside Codex's: C2 41 and 35 of 44."""
    found = beside(as_published("nexau")).figures

    assert found[2].difference == pytest.approx(6 / 44)
    assert found[5].difference == 12


def test_emulated_verdicts_are_refused() -> None:
    """They say nothing of CUDA; the message says how many there are, and what to do."""
    attempts = as_published("codex")
    emulated = {
        tier: replace(one, emulated=True) if tier in {Tier.C2, Tier.C3} else one
        for tier, one in attempts[0].results.items()
    }
    attempts[0] = replace(attempts[0], results=emulated)

    with pytest.raises(ConfigurationError, match=r"cannot be compared .* emulated on the CPU \(C2 1, .*=cuda"):
        beside(attempts)
    assert len(beside(attempts, tiers=(Tier.C0, Tier.C1)).figures) == 2


def test_other_repositories_are_refused() -> None:
    """Named, with how many of the paper's were judged."""
    quickstart = [attempt(f"quickstart/{name}", "pp") for name in ("a", "b", "c", "d")]

    with pytest.raises(ConfigurationError) as caught:
        beside(quickstart)

    said = str(caught.value)
    assert "4 repositories that are none of the paper's (quickstart/a, quickstart/b, quickstart/c, …)" in said
    assert "0 of the paper's 44 repositories were judged" in said


def test_some_of_the_papers_repositories_are_refused() -> None:
    """With how many there are: an attempt that ended in an error is not judged."""
    attempts = as_published("codex")
    attempts[0] = attempt(attempts[0].key.repository, inputs=None, error="x", agent="codex")

    with pytest.raises(ConfigurationError, match="43 of the paper's 44 repositories were judged"):
        beside(attempts)


def test_a_tier_without_all_its_verdicts_has_no_difference() -> None:
    """The others have one: what is left out is said, and never folded in."""
    attempts = as_published("codex")
    results = attempts[0].results
    attempts[0] = replace(attempts[0], results={**results, Tier.C2: result(Tier.C2, "e")})

    found = {one.tier: one for one in beside(attempts).figures}

    assert found[Tier.C2].lacking == "43 of 44 were judged"
    assert (found[Tier.C2].difference, found[Tier.C2].interval) == (None, None)
    assert found[Tier.C4].difference == 0


def test_uncounted_imports_and_claims_leave_no_difference() -> None:
    """Nobody knows the sum."""
    attempts = as_published("codex")
    bare = {tier: replace(one, evidence={}) for tier, one in attempts[0].results.items()}
    attempts[0] = replace(attempts[0], results=bare)

    found = beside(attempts).figures

    assert "of 2858 imports were counted" in found[0].lacking
    assert found[5].lacking == "known of 43 of 44 reports"


def test_an_agent_that_was_not_published_is_said() -> None:
    """With those that were."""
    with pytest.raises(ConfigurationError, match="paper:gemini; known: paper:codex, paper:claude-code-glm"):
        beside(as_published("codex"), "gemini")
