"""What the resolver runs of a suite's recipes found, as a page."""

from __future__ import annotations

from collections.abc import Iterable

from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.resolving.recipe import Resolved


__all__ = ["resolution_line", "resolution_page"]

#: How many characters of a line are shown.
_MOST = 4000

_HEAD = """\
# Recipes resolved for the target

Each recipe ran with everything that installs replaced by a resolver, for Linux on x86_64 with the C library and the
Python of Ubuntu 22.04, and with an `nvidia-smi`, so that it took its branch for a GPU. `researchenv resolve` does this,
and writes this page. That a set of packages resolves says that it is consistent and that its files exist: not that it
builds, and not that it works. What comes from Git, what only a build tells the dependencies of, and whatever a system's
own tools install is not looked at, and listed. Where the pinned tree could not be had (†), neither could what it asks
for.
"""


def resolution_line(found: Resolved) -> str:
    """Return what is printed of one recipe."""
    counts = (
        f"{len(found.installs)} commands, {len(found.packages)} packages resolved for Python "
        f"{', '.join(found.python) or 'of the system'}, {len(found.unresolved)} not resolved, "
        f"{len(found.problems)} conflicts, {len(found.replaced)} replaced"
    )
    lines = [f"{found.repository}{' (no tree)' if found.tree else ''}: {counts}"]
    lines += [f"  conflict: {_printable(problem)}" for problem in found.problems]
    lines += [f"  not resolved: {_printable(one)}" for one in found.unresolved]
    return "\n".join(lines)


def resolution_page(found: Iterable[Resolved]) -> str:
    """Return the page, in Markdown."""
    rows = list(found)
    good = sum(not row.problems for row in rows)
    early = sum(bool(row.ended) for row in rows)
    sections = {
        "Conflicts": [f"- {row.repository}: {_inline(one)}" for row in rows for one in row.problems],
        "Not resolved": [f"- {row.repository}: {_inline(one)}" for row in rows for one in row.unresolved],
        "Called, and did nothing": [
            f"- {row.repository}: {', '.join(map(_inline, dict.fromkeys(row.others)))}" for row in rows if row.others
        ],
        "Replaced by a later command": [
            f"- {row.repository}: {', '.join(row.replaced)}" for row in rows if row.replaced
        ],
    }
    lines = [
        _HEAD,
        f"{good} of {len(rows)} recipes have no conflict{f'; {early} ended before their end' if early else ''}.\n",
        "| repository | Python | commands | packages | not resolved | conflicts |",
        "| --- | --- | --- | --- | --- | --- |",
        *map(_row, rows),
    ]
    for title, items in sections.items():
        if items:
            lines += [f"\n## {title}\n", *items]
    return "\n".join(lines) + "\n"


def _row(row: Resolved) -> str:
    counts = (len(row.installs), len(row.packages), len(row.unresolved), len(row.problems))
    python = ", ".join(row.python) or "the system's"
    return f"| {row.repository}{' †' if row.tree else ''} | {python} | {' | '.join(map(str, counts))} |"


def _inline(text: str) -> str:
    return printable(" ".join(text.split()), _MOST)


def _printable(text: str) -> str:
    """What commands of a recipe say, line by line: no control characters, and nothing that cannot be encoded."""
    return "\n".join(printable(line, _MOST) for line in text.splitlines())
