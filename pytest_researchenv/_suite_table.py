"""What a suite holds, as a table for a person."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from pytest_researchenv.model import GitSource, PathSource, PypiSource, Repository, Source, Tier
from pytest_researchenv.suite import Suite


__all__ = ["suite_table"]


def suite_table(suite: Suite) -> Table:
    """Return a table with a line for each repository: source, Python, tiers, known-good recipe."""
    supported = sum(_supported(repository, tier) for repository in suite.repositories for tier in Tier)
    count = len(suite.repositories)
    table = Table(
        title=Text(f"{suite.name}: {suite.description}" if suite.description else suite.name),
        caption=f"{count} {'repository' if count == 1 else 'repositories'}, {supported} applicable tiers",
    )
    for heading in ("repository", "source", "python", *Tier, "oracle"):
        table.add_column(heading, overflow="fold")
    for repository in suite.repositories:
        oracle = Path(repository.folder, "oracle.sh").is_file()
        table.add_row(
            Text(repository.name),
            Text(_source(repository.source)),
            Text(repository.python or "any"),
            *("yes" if _supported(repository, tier) else "-" for tier in Tier),
            "yes" if oracle else "-",
        )
    return table


def _supported(repository: Repository, tier: Tier) -> bool:
    spec = repository.tiers.get(tier)
    return spec is not None and spec.supported


def _source(source: Source) -> str:
    match source:
        case GitSource():
            return f"{source.git} @ {source.commit[:12]}"
        case PypiSource():
            return f"{source.pypi} {source.version}"
        case PathSource():
            return source.path
