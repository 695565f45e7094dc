"""ResearchGym's published tables, computed again from what is printed beside them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_researchenv.research.outputs import continual, explanation, replay, retrieval, tokenization
from pytest_researchenv.research.paper import Paper, Sum, paper
from pytest_researchenv.research.paperpage import paper_page
from pytest_researchenv.research.printed import Span, counts_of_runs, deviation, mean, others_of_three, span_of
from pytest_researchenv.research.reconcile import Check, checks
from tests.pages import DOCS


SCRIPT = Path(__file__).parents[3] / "benchmarks/researchgym_paper.py"
PAGE = (DOCS / "researchgym-paper.md").read_text("utf-8")


def check(what: str, source: Paper | None = None) -> Check:
    """The check of a figure."""
    (found,) = [one for one in checks(source or paper()) if one.what == what]
    return found


# --- the page -----------------------------------------------------------------------------------------------


def test_the_page_is_what_is_computed(tmp_path: Path) -> None:
    """The command that it names writes it, letter by letter, and tells the same on the terminal."""
    page = tmp_path / "page.md"

    command = [sys.executable, str(SCRIPT), "--write", str(page)]
    # Of this checkout, whatever is installed.
    environment = {**os.environ, "PYTHONPATH": str(SCRIPT.parents[1])}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=environment)

    assert page.read_text("utf-8") == PAGE == paper_page(paper())
    lines = ran.stdout.splitlines()
    assert lines[-1] == "87 of 105 hold"
    assert sum(line.startswith("DIFFERS") for line in lines) == 18


@pytest.mark.parametrize(
    ("what", "computed", "published"),
    [
        ("CL: best share of the withheld score", "0.9217", "0.9429"),
        ("CL: mean share of the withheld score", "0.4079", "0.4033"),
        ("verdicts of the inspector: pass, suspicious, review", "46", "48"),
        ("sub-tasks, with the rows that CMR's grader has", "41", "39"),
        ("CMR: one number of sub-tasks for all", "5 fits 80; 7 fits 43, 14", "50, 80, 43, 14"),
        ("CMR: sub-tasks that 3 runs completed, of 5 or 7", "none", "26.18 ± 12.14"),
        ("TIM: deviation of the mean share, as table 5 has it", "0.28", "0.50"),
        ("RG-Hint on IRB: return 71.48, in table 6", "0.017", "0.021"),
    ],
)
def test_what_does_not_follow_is_listed(what: str, computed: str, published: str) -> None:
    """With what was computed and what was published, at the top of the page."""
    one = check(what)

    assert (one.holds, one.computed, one.published) == (False, computed, published)
    assert f"| {what} | {computed} | {published} |" in PAGE.partition("## What follows")[0]


@pytest.mark.parametrize(
    ("what", "published"),
    [
        ("MDT: best share of the withheld score", "0.4939"),
        ("CMR: best share of the withheld score", "0.9630"),
        ("TIM: best share of the withheld score", "1.0721"),
        ("IRB: best share of the withheld score", "0.3430"),
        ("all tasks: best share", "0.7630"),
        ("all tasks: completion", "26.50"),
        ("Codex: mean share, missing as 0", "0.621"),
        ("gain of the best run over the strongest baseline, percent", "11.5"),
        ("runs that beat the strongest baseline, percent", "6.7"),
    ],
)
def test_what_follows_holds(what: str, published: str) -> None:
    """Computed by the formulas that `scoring` has."""
    one = check(what)

    assert one.holds
    assert one.published == published


def test_another_figure_would_not_hold() -> None:
    """Every check can come out either way: of figures that follow, one in the last digit beside no longer does."""
    source = paper()
    task = source.tasks["IRB"]
    wrong = replace(source, tasks={**source.tasks, "IRB": replace(task, score=replace(task.score, best="0.3434"))})
    right = replace(source, sums=[Sum("table 15", "verdicts", ["15", "15", "16"], "46")])

    assert not check("IRB: best share of the withheld score", wrong).holds
    assert check("verdicts", right).holds


def test_the_numbers_of_sub_tasks_are_those_of_our_plans() -> None:
    """6, 5, 9, 12 and 7: what the paper's percentages are of."""
    modules = {"CL": continual, "CMR": retrieval, "IRB": replay, "MDT": tokenization, "TIM": explanation}

    for name, module in modules.items():
        assert len(module.PLANS) == paper().tasks[name].subtasks[0]
    assert sum(len(module.PLANS) for module in modules.values()) == paper().subtasks


# --- arithmetic with printed numbers ------------------------------------------------------------------------


@given(st.fractions(0, 1000), st.integers(1, 4))
def test_a_span_holds_what_was_rounded(value: Fraction, digits: int) -> None:
    """Whatever was printed with so many digits may have been itself."""
    span = span_of(f"{float(value):.{digits}f}")

    assert span.low - Fraction(1, 10**9) <= value <= span.high + Fraction(1, 10**9)


def test_nothing_is_nothing() -> None:
    """A missing score counts as 0, and a printed 0 is one; 17 is anything from 16.5 to 17.5."""
    assert span_of("") == span_of("0") == Span(Fraction(), Fraction())
    assert span_of("17") == Span(Fraction(33, 2), Fraction(35, 2))
    assert mean([span_of("1.0"), span_of("")]).middle == Fraction(1, 2)


hundredths = st.integers(0, 10_000).map(lambda one: Fraction(one, 100))


@given(st.tuples(hundredths, hundredths, hundredths), st.booleans())
def test_three_runs_are_found_again(values: tuple[Fraction, Fraction, Fraction], sample: bool) -> None:  # noqa: FBT001 - drawn
    """From their mean, deviation and best, as they would be printed."""
    best = max(values)
    spread = deviation(values, sample=sample)
    printed = [span_of(f"{float(one):.2f}") for one in (sum(values) / 3, spread, best)]

    others = others_of_three(printed[0], printed[1], printed[2], sample=sample)

    assert others is not None
    assert 0 <= others[0] <= others[1] <= float(best) + 0.02
    again = deviation([Fraction(one) for one in (*others, best)], sample=sample)
    assert again == pytest.approx(spread, abs=0.02)


def test_three_runs_that_cannot_be_are_none() -> None:
    """A mean above the best, or a deviation that only negative runs would have."""
    impossible = [("50.00", "1.00", "40.00"), ("30.75", "37.39", "80.42"), ("10.00", "0.00", "20.00")]
    # The others would have to be 0.035, and the deviation 24.144 at the most.
    for figures in [*impossible, ("13.98", "24.15", "41.85")]:
        for sample in (True, False):
            average, spread, best = map(span_of, figures)
            assert others_of_three(average, spread, best, sample=sample) is None


@given(st.tuples(*(st.integers(0, 7) for _ in range(3))), st.booleans())
def test_counts_of_three_runs_are_found_again(counts: tuple[int, int, int], sample: bool) -> None:  # noqa: FBT001 - drawn
    """From the mean and deviation of their percentages."""
    shares = [Fraction(100 * one, 7) for one in counts]
    average, spread = span_of(f"{float(sum(shares) / 3):.2f}"), span_of(f"{deviation(shares, sample=sample):.2f}")

    found = counts_of_runs(average, spread, [7], 3)

    kind = "sample" if sample else "population"
    assert (", ".join(f"{one}/7" for one in sorted(counts)), kind) in [
        (", ".join(sorted(names.split(", "), key=lambda one: int(one.partition("/")[0]))), of) for names, of in found
    ]
