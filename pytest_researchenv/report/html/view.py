"""What the page of a run shows: values only, wherever they come from.

Everything is text or numbers; texts may be anybody's words, and are made harmless where they are put into a page.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pytest_researchenv.report.html.drawing import Drawing
from pytest_researchenv.report.html.matrix_view import Matrix
from pytest_researchenv.report.tables import Table


__all__ = [
    "Figure",
    "Grid",
    "GridCell",
    "Headline",
    "RunPage",
    "Section",
    "Tier",
]


@dataclass(frozen=True, slots=True)
class Tier:
    """What was judged: its name, and what it verifies in words."""

    name: str
    title: str


@dataclass(frozen=True, slots=True)
class GridCell:
    """One cell of a grid.

    Attributes:
        text: what stands in it.
        bar: a drawing below.
        small: lines below that, smaller.
        strong: whether it stands out.
    """

    text: str
    bar: Drawing | None = None
    small: tuple[str, ...] = ()
    strong: bool = True


@dataclass(frozen=True, slots=True)
class Grid:
    """A table of figures with drawings in its cells.

    Attributes:
        caption: what it shows.
        columns: headings, that of the row headings first.
        rows: heading of the row, and its cells.
        note: what stands below.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[GridCell, ...]], ...]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of small panels.

    Attributes:
        name: of its file, and its anchor.
        title: what it shows.
        panels: drawings side by side, each with its title; as many columns as fit.
        caption: how to read it.
        legend: class of a mark → what it stands for.
    """

    name: str
    title: str
    panels: tuple[tuple[str, Drawing], ...]
    caption: str = ""
    legend: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Section:
    """Part of a page: a grid, figures, the matrix, tables.

    Attributes:
        name: its anchor.
        title: the question that it answers.
        lead: what to know first.
        grid: numbers with drawings.
        figures: drawings.
        grids: more numbers, below.
        tables: always open.
        folded: what is opened on demand: title → tables.
        matrix: the matrix, in the section that has it.
    """

    name: str
    title: str
    lead: tuple[str, ...] = ()
    grid: Grid | None = None
    figures: tuple[Figure, ...] = ()
    grids: tuple[Grid, ...] = ()
    tables: tuple[Table, ...] = ()
    folded: tuple[tuple[str, tuple[Table, ...]], ...] = ()
    matrix: Matrix | None = None


@dataclass(frozen=True, slots=True)
class Headline:
    """One of the figures at the top: what it is, how much, and what it is out of."""

    label: str
    value: str
    small: str = ""


@dataclass(frozen=True, slots=True)
class RunPage:
    """Everything.

    Attributes:
        title: name of the run, or of the runs.
        facts: what was run, when, on what: name → value.
        warnings: what must be known before anything is believed.
        headlines: the figures at the top.
        answers: what it comes to, in sentences.
        agents: their labels, in the order of the columns.
        tiers: what was judged.
        sections: in order.
        version: of this package.
        badges: for each agent a small drawing of its rates.
    """

    title: str
    facts: tuple[tuple[str, str], ...]
    warnings: tuple[str, ...]
    headlines: tuple[Headline, ...]
    answers: tuple[str, ...]
    agents: tuple[str, ...]
    tiers: tuple[Tier, ...]
    sections: tuple[Section, ...]
    version: str = ""
    badges: tuple[tuple[str, Drawing], ...] = ()

    @property
    def matrix(self) -> Matrix | None:
        """The matrix, where there is one."""
        return next((section.matrix for section in self.sections if section.matrix), None)
