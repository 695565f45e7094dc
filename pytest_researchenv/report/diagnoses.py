"""Diagnoses as lines, as a table and as JSON; and the tables of `docs/diagnosis.md`."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich.table import Column, Table

from pytest_researchenv.diagnosis import Category, Rule
from pytest_researchenv.diagnosis.stored import Diagnosed


__all__ = [
    "categories_markdown",
    "diagnoses_table",
    "diagnosis_document",
    "diagnosis_lines",
    "rules_document",
    "rules_markdown",
]


def diagnosis_lines(one: Diagnosed) -> Iterator[str]:
    """Say what is wrong with one tier, which line shows it, and what to do."""
    found, key = one.diagnosis, one.key
    sure = "" if found.category is Category.UNKNOWN else f" ({found.confidence})"
    yield f"{key.agent} {key.repository} attempt-{key.attempt:03d} {one.result.tier}: {found.category}{sure}"
    if found.line:
        yield f"  > {found.line}"
    yield f"  next: {found.next}"
    yield f"  log:  {os.path.relpath(one.log)}"


def diagnoses_table(found: Iterable[Diagnosed]) -> Table:
    """Count them by category and agent; the most frequent first."""
    every = list(found)
    agents = sorted({one.key.agent for one in every})
    counts = Counter((one.diagnosis.category, one.key.agent) for one in every)
    totals = Counter(one.diagnosis.category for one in every)
    # Categories are wrapped first, so that a usual terminal has room for several agents.
    columns = [Column(agent.replace("-", "-\n"), no_wrap=True) for agent in agents]
    totals_columns = (Column("all", no_wrap=True), Column("share", no_wrap=True))
    table = Table("category", *columns, *totals_columns, box=None, pad_edge=False)
    for category, total in totals.most_common():
        by_agent = [str(counts[category, agent]) for agent in agents]
        table.add_row(category, *by_agent, str(total), f"{total / len(every):.1%}")
    return table


def diagnosis_document(one: Diagnosed) -> dict[str, object]:
    """Return it as JSON has it."""
    found, key = one.diagnosis, one.key
    return {
        "agent": key.agent,
        "repository": key.repository,
        "attempt": key.attempt,
        "tier": str(one.result.tier),
        "verdict": str(one.result.verdict),
        "cause": str(one.result.cause),
        "rule": found.rule,
        "category": str(found.category),
        "confidence": str(found.confidence),
        "line": found.line,
        "next": found.next,
        "log": str(one.log),
    }


def categories_markdown() -> str:
    """The table of categories."""
    rows = [f"| {category} | {category.meaning} |" for category in Category]
    return "\n".join(("| category | what counts as it |", "| --- | --- |", *rows))


def rules_document(rules: Sequence[Rule]) -> dict[str, object]:
    """Return both tables as JSON has them."""
    return {
        "categories": {str(category): category.meaning for category in Category},
        "rules": [
            {
                "rule": rule.name,
                "category": str(rule.category),
                "confidence": str(rule.confidence),
                "next": rule.next,
            }
            for rule in rules
        ],
    }


def rules_markdown(rules: Sequence[Rule]) -> str:
    """The table of rules, in their order."""
    rows = [
        f"| {number} | `{rule.name}` | {rule.category} | {rule.confidence} | {rule.next} |"
        for number, rule in enumerate(rules, 1)
    ]
    return "\n".join(("| | rule | category | confidence | what to do next |", "| --: | --- | --- | --- | --- |", *rows))
