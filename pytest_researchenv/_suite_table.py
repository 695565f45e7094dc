"""What a suite holds, as a table for a person."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from rich import box
from rich.table import Table
from rich.text import Text

from pytest_researchenv.model import Cause, Tier
from pytest_researchenv.suite import Suite


__all__ = ["suite_counts", "suite_document", "suite_table"]

_WORDS = {
    Cause.NONE: "yes",
    Cause.NOT_APPLICABLE: "-",
    Cause.NO_PROBE: "todo",
    Cause.DEFECTIVE_UPSTREAM: "flaw",
}


def suite_table(suite: Suite) -> Table:
    """Return a table with a line for each repository: Python, tiers, known-good recipe.

    A tier is `yes` where it is probed, `todo` where it applies and has no probe yet, `flaw` where it applies by the
    published count and no environment can pass, and `-` where it does not apply.
    """
    count = len(suite.repositories)
    table = Table(
        title=Text(f"{suite.name}: {suite.description}" if suite.description else suite.name),
        caption=f"{count} {'repository' if count == 1 else 'repositories'}, {_tiers(suite)} applicable tiers",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column("repository", no_wrap=True)
    for heading in ("python", *Tier, "oracle"):
        table.add_column(heading, overflow="fold")
    for repository in suite.repositories:
        oracle = Path(repository.folder, "oracle.sh").is_file()
        table.add_row(
            Text(repository.slug),
            Text(repository.python or "any"),
            *(_WORDS[repository.spec(tier).idle[0]] for tier in Tier),
            "yes" if oracle else "-",
        )
    return table


def suite_counts(suite: Suite) -> str:
    """Return the denominators, as published and corrected, as text.

    Published: the tiers that apply. Corrected: those without what no environment can pass. Probed: those that this
    version can judge.
    """
    lines = [f"{'tier':<6}{'published':>10}{'corrected':>10}{'probed':>8}"]
    for tier in Tier:
        published, corrected, probed = _denominators(suite, tier)
        lines.append(f"{tier:<6}{published:>10}{corrected:>10}{probed:>8}")
    totals = [repository.imports.published_total or 0 for repository in suite.repositories]
    if any(totals):
        exempt = sum(len(repository.imports.unsatisfiable) for repository in suite.repositories)
        lines.append(f"imports: {sum(totals)} published; {exempt} exempt, since no environment can or need have them")
    return "\n".join(lines)


def suite_document(suite: Suite) -> dict[str, object]:
    """Return what both say as JSON has it."""
    return {
        "name": suite.name,
        "description": suite.description,
        "repositories": [
            {
                "name": repository.name,
                "slug": repository.slug,
                "python": repository.python or None,
                "tiers": {str(tier): str(repository.spec(tier).idle[0]) for tier in Tier},
                "oracle": Path(repository.folder, "oracle.sh").is_file(),
            }
            for repository in suite.repositories
        ],
        "counts": {str(tier): _denominators(suite, tier)._asdict() for tier in Tier},
    }


class _Denominators(NamedTuple):
    """How many repositories a tier is of."""

    published: int
    corrected: int
    probed: int


def _denominators(suite: Suite, tier: Tier) -> _Denominators:
    causes = [repository.spec(tier).idle[0] for repository in suite.repositories]
    published = len(causes) - causes.count(Cause.NOT_APPLICABLE)
    return _Denominators(published, published - causes.count(Cause.DEFECTIVE_UPSTREAM), causes.count(Cause.NONE))


def _tiers(suite: Suite) -> int:
    return sum(repository.spec(tier).supported for repository in suite.repositories for tier in Tier)
