"""How many names each pinned tree imports, beside the published number, as a page."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


__all__ = ["ImportCount", "imports_page"]

_HEAD = """\
# Imports counted by C0

The distinct imported top-level names of each pinned tree, as published (arXiv 2603.06739) and as counted here.
`researchenv validate --imports` fetches the trees, counts, and writes this page. † stands where a folder was counted: a
copy of the pinned tree without large files that are no Python, which the mirror that could be reached lacked.
"""


@dataclass(frozen=True, slots=True)
class ImportCount:
    """What was counted in one tree.

    Attributes:
        repository: its name.
        published: the published total.
        found: the total found; 0 when the tree could not be read.
        unparsable: files that are no valid Python, and left out.
        copied: whether a folder was counted, and not a commit.
        problem: why the tree could not be read; empty when it could.
    """

    repository: str
    published: int
    found: int = 0
    unparsable: int = 0
    copied: bool = False
    problem: str = ""

    @property
    def same(self) -> bool:
        """Whether both totals agree."""
        return not self.problem and self.found == self.published

    def __str__(self) -> str:
        found = f"not read: {self.problem}" if self.problem else f"{self.found} found"
        return f"{self.repository}: {self.published} published, {found}"


def imports_page(counts: Iterable[ImportCount]) -> str:
    """Return the page, in Markdown."""
    rows = list(counts)
    read = [row for row in rows if not row.problem]
    same = sum(row.same for row in read)
    found, published = sum(row.found for row in read), sum(row.published for row in rows)
    lines = [
        _HEAD,
        f"{same} of the {len(read)} trees that could be read have the published total.",
        f"Together they have {found} of the {published} published names.\n",
        "| repository | published | found | files left out |",
        "| --- | --- | --- | --- |",
        *(f"| {row.repository}{_mark(row)} | {row.published} | {row.found} | {row.unparsable} |" for row in read),
        *(f"| {row.repository} | {row.published} | not read | |" for row in rows if row.problem),
    ]
    return "\n".join(lines) + "\n"


def _mark(row: ImportCount) -> str:
    return " †" if row.copied else ""
