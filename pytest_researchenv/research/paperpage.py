"""`docs/researchgym-paper.md`: which published figures follow from others, and which do not."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_researchenv.research.paper import Paper
from pytest_researchenv.research.reconcile import Check, checks


__all__ = ["paper_page"]

_INTRODUCTION = """\
# Do ResearchGym's published figures follow from each other?

`python benchmarks/researchgym_paper.py` computes again what {source} prints in tables 3 to 6, from the
figures that it prints beside them (`pytest_researchenv/research/paper.toml`). With `--write docs/researchgym-paper.md`
it writes this page. A computed figure holds where both can be true, whatever was rounded: half a unit of the last
printed digit to either side of every number.

The values of single runs were not published, apart from a few that the text mentions. But mean, deviation and best of
three runs decide the other two, and a mean of three completion rates those rates. "None" says that no two runs that
are neither negative nor better than the best have that mean and that deviation, be it of a sample or of a population.
Which figure is wrong cannot be told. Best runs were continued with more budget: if the best that is printed is of a
continued run, and the mean is not, the three need not fit.

{held} of {all} figures hold.
"""

_LESSONS = """\
## What ours does about it

- Deviations are of samples in some tables and of populations in others. Ours are standard errors of the mean with
  n - 1, and a 95 % interval of Student's t; of one run there is none (`Summary`).
- A primary score that averages unlike things (CMR's I2TR) is no cell here: each column is judged as itself.
- Completion is counted over sub-tasks with an id (`completion_rate`), so that one task cannot have 5 of them in one
  table and 7 in another.
- Best and mean of k take exactly k runs, a missing one as 0 (`best_at_k`, `average_at_k`).
"""


def paper_page(paper: Paper) -> str:
    """The whole page."""
    every = checks(paper)
    failed = [one for one in every if not one.holds]
    parts = [
        _INTRODUCTION.format(source=paper.source, held=len(every) - len(failed), all=len(every)),
        "## What does not follow\n\n" + _table(failed),
        _LESSONS,
        "## What follows\n\n" + _table(one for one in every if one.holds),
    ]
    return "\n".join(parts)


def _table(every: Iterable[Check]) -> str:
    rows = [("Where", "Figure", "Computed", "Published", "Note"), ("---",) * 5]
    rows += [(one.where, one.what, one.computed, one.published, one.note) for one in every]
    return "".join(f"| {' | '.join(row)} |\n".replace("|  |", "| |") for row in rows)
