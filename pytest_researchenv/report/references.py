"""What the probes of a suite mention of each pinned tree, and whether it is there, as a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pytest_researchenv.references.bindings import Seen
from pytest_researchenv.references.check import Reference


__all__ = ["ProbeCheck", "references_page"]

_HEAD = """\
# What the probes mention, looked up in the pinned trees

Files, modules, names, options, settings and keyword arguments that the probed tiers of each repository mention, looked
up in its pinned tree by AST alone: nothing of the tree is imported or run. `researchenv validate --probes` does this,
and writes this page. "Cannot tell" is what only running would show: a name that is made when it is asked for, an
argument that is handed on, an option that a library declares. † stands where a folder was read: a copy of the pinned
tree without large files that are no Python, which the mirror that could be reached lacked.
"""


@dataclass(frozen=True, slots=True)
class ProbeCheck:
    """What was looked up for one repository.

    Attributes:
        repository: its name.
        references: what its probes mention of the tree.
        copied: whether a folder was read, and not a commit.
        problem: why the tree could not be had; empty when it could.
    """

    repository: str
    references: tuple[Reference, ...] = ()
    copied: bool = False
    problem: str = ""

    @property
    def missing(self) -> tuple[Reference, ...]:
        """What is not in the tree."""
        return self.of(Seen.MISSING)

    def of(self, seen: Seen) -> tuple[Reference, ...]:
        """What came out that way."""
        return tuple(reference for reference in self.references if reference.seen is seen)

    def document(self) -> dict[str, object]:
        """As JSON has it."""
        return {
            "repository": self.repository,
            "copied": self.copied,
            "problem": self.problem,
            "references": [{"where": one.where, "text": one.text, "seen": str(one.seen)} for one in self.references],
        }

    def __str__(self) -> str:
        if self.problem:
            return f"{self.repository}: not looked up: {self.problem}"
        found, unknown = len(self.of(Seen.FOUND)), len(self.of(Seen.UNKNOWN))
        counts = f"{len(self.references)} references, {found} found, {len(self.missing)} missing, {unknown} cannot tell"
        return "\n  ".join([f"{self.repository}: {counts}", *map(str, self.missing)])


def references_page(checks: Iterable[ProbeCheck]) -> str:
    """Return the page, in Markdown."""
    rows = list(checks)
    read = [row for row in rows if not row.problem]
    probed = [row for row in read if row.references]
    missing = [f"- {row.repository}: {reference}" for row in read for reference in row.missing]
    unknown = [f"- {row.repository}: {reference}" for row in read for reference in row.of(Seen.UNKNOWN)]
    lines = [
        _HEAD,
        f"{len(read)} of {len(rows)} trees could be had; the probes of {len(probed)} mention something of theirs.\n",
        "| repository | references | found | missing | cannot tell | tree |",
        "| --- | --- | --- | --- | --- | --- |",
        *map(_row, rows),
        *(["\n## Missing\n", *missing] if missing else []),
        *(["\n## Cannot tell\n", *unknown] if unknown else []),
    ]
    return "\n".join(lines) + "\n"


def _row(row: ProbeCheck) -> str:
    if row.problem:
        return f"| {row.repository} | | | | | could not be had |"
    counts = [len(row.references), *(len(row.of(seen)) for seen in (Seen.FOUND, Seen.MISSING, Seen.UNKNOWN))]
    return f"| {row.repository} | {' | '.join(map(str, counts))} | {'copy †' if row.copied else 'pinned'} |"
