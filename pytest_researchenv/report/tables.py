"""Tables of figures, once as values, and shown as CSV, Markdown, LaTeX, JSON and in a terminal.

Whatever stands in a cell is text of ours or a name that somebody chose: every form escapes it.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from pytest_researchenv.probes.lookup import printable


if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType

__all__ = [
    "Column",
    "Format",
    "Table",
    "Value",
    "as_csv",
    "as_latex",
    "as_markdown",
    "as_rich",
    "document",
    "text_column",
]

#: What a cell holds; None is unknown or not there, and a pair is an interval.
Value: TypeAlias = str | int | float | tuple[float, float] | None

#: How an absent value is shown.
_ABSENT = "-"

_LONGEST = 200

#: Words no longer than this are never broken in a terminal.
_WHOLE = 20


class Format(StrEnum):
    """How tables can be written to a file."""

    CSV = "csv"
    MARKDOWN = "markdown"
    LATEX = "latex"

    @property
    def suffix(self) -> str:
        """What the names of such files end with."""
        return {Format.CSV: ".csv", Format.MARKDOWN: ".md", Format.LATEX: ".tex"}[self]


@dataclass(frozen=True, slots=True)
class Column:
    """A column.

    Attributes:
        key: its name in CSV and JSON, where values stand as they are.
        heading: its name for people.
        show: makes text for people of a value that is there.
        numeric: whether it is aligned to the right.
        optional: whether people are spared it where all its values are 0 or not there.
    """

    key: str
    heading: str
    show: Callable[[Any], str] = str
    numeric: bool = True
    optional: bool = False

    def text(self, value: Value) -> str:
        """Any value, for people: one line."""
        return _ABSENT if value is None else printable(self.show(value), _LONGEST)


def text_column(key: str, heading: str, *, optional: bool = False) -> Column:
    """Return a column of words, which are aligned to the left."""
    return Column(key, heading, numeric=False, optional=optional)


@dataclass(frozen=True, slots=True)
class Table:
    """A table.

    Attributes:
        key: what it is called in file names and by `--table`.
        title: what it shows.
        columns: its columns.
        rows: one value for each column.
        notes: what has to be known to read it.
    """

    key: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def for_people(self) -> Table:
        """The same without optional columns in which nothing stands."""
        kept = [
            index
            for index, column in enumerate(self.columns)
            if not column.optional or any(row[index] for row in self.rows)
        ]
        return replace(
            self,
            columns=tuple(self.columns[index] for index in kept),
            rows=tuple(tuple(row[index] for index in kept) for row in self.rows),
        )

    def texts(self) -> list[list[str]]:
        """The rows, for people."""
        return [[column.text(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]


def document(table: Table) -> dict[str, object]:
    """As JSON has it: rows by the columns' keys, intervals as two numbers."""
    keys = [column.key for column in table.columns]
    return {
        "table": table.key,
        "title": table.title,
        "rows": [dict(zip(keys, row, strict=True)) for row in table.rows],
        "notes": list(table.notes),
    }


# --- CSV --------------------------------------------------------------------------------------------------

#: What makes a spreadsheet take a text for a formula, as OWASP lists it; the characters after a sign are tabs and ends
#: of lines.
_FORMULA = tuple("=+-@\t\r\n")


def as_csv(table: Table) -> str:
    """Return a table as CSV (RFC 4180): keys, then values as they are; an interval is two columns.

    A text that a spreadsheet would take for a formula gets an apostrophe in front.
    """
    spans = [_spans(table, index) for index in range(len(table.columns))]
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\r\n")
    writer.writerow(
        [name for column, span in zip(table.columns, spans, strict=True) for name in _csv_names(column.key, span=span)]
    )
    for row in table.rows:
        writer.writerow([cell for value, span in zip(row, spans, strict=True) for cell in _csv_cells(value, span=span)])
    return out.getvalue()


def _spans(table: Table, index: int) -> bool:
    """Whether a column holds intervals."""
    return any(isinstance(row[index], tuple) for row in table.rows)


def _csv_names(key: str, *, span: bool) -> list[str]:
    return [f"{key}_low", f"{key}_high"] if span else [key]


def _csv_cells(value: Value, *, span: bool) -> list[str | int | float]:
    if value is None:
        return ["", ""] if span else [""]
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, str):
        text = printable(value, _LONGEST)
        return [f"'{text}" if text.startswith(_FORMULA) else text]
    return [value]


# --- Markdown ---------------------------------------------------------------------------------------------

#: Every ASCII sign may stand behind a backslash (CommonMark 0.31.2, section 2.4). GitHub makes links of what begins
#: with `www.`, and formulas of what stands between dollars.
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>()#+!|~&$^\"'=:@/-]|(?<=[wW]{3})\.)")

#: What needs no escape: words and numbers.
_PLAIN = re.compile(r"(?:(?![wW]{3}\.|_)[\w .,%-])*")


def as_markdown(table: Table) -> str:
    """Return a table as GitHub writes it, with its title above and its notes below."""
    shown = table.for_people
    headings = [column.heading.replace("\n", " ") for column in shown.columns]
    lines = [
        f"**{_markdown(table.title)}**",
        "",
        _markdown_row(headings),
        "| " + " | ".join("---:" if column.numeric else "---" for column in shown.columns) + " |",
        *map(_markdown_row, shown.texts()),
    ]
    for note in table.notes:
        lines += ["", _markdown(note)]
    return "\n".join(lines) + "\n"


def _markdown_row(cells: Iterable[str]) -> str:
    return "| " + " | ".join(map(_markdown, cells)) + " |"


def _markdown(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else _MARKDOWN.sub(r"\\\1", text)


# --- LaTeX ------------------------------------------------------------------------------------------------

_LATEX = str.maketrans(
    {
        "\\": r"\textbackslash{}",
        "{": r"\{",
        "}": r"\}",
        "$": r"\$",
        "&": r"\&",
        "#": r"\#",
        "%": r"\%",
        "_": r"\_",
        "^": r"\textasciicircum{}",
        "~": r"\textasciitilde{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "|": r"\textbar{}",
        '"': r"\textquotedbl{}",
        "`": r"\textasciigrave{}",
        "'": r"\textquotesingle{}",
        "[": "{[}",
        "]": "{]}",
        # A star that follows the end of a row belongs to it.
        "*": "{*}",
    }
)


def as_latex(table: Table) -> str:
    """Return a table as a LaTeX `table` with the rules of booktabs; its notes stand below.

    It wants the package booktabs, and for some signs in names textcomp and fontenc with T1.
    """
    shown = table.for_people
    columns = "".join("r" if column.numeric else "l" for column in shown.columns)
    lines = [
        r"\begin{table}",
        rf"\caption{{{_latex(table.title)}}}",
        rf"\label{{tab:{_label(table.key)}}}",
        r"\centering",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        _latex_row(column.heading.replace("\n", " ") for column in shown.columns),
        r"\midrule",
        *map(_latex_row, shown.texts()),
        r"\bottomrule",
        r"\end{tabular}",
        *(rf"\par\footnotesize {_latex(note)}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_row(cells: Iterable[str]) -> str:
    return " & ".join(map(_latex, cells)) + r" \\"


def _latex(text: str) -> str:
    """Escape what could mean something; two dashes or commas would become one sign."""
    return re.sub(r"([-,])(?=\1)", r"\1{}", text.translate(_LATEX))


def _label(key: str) -> str:
    return re.sub(r"[^a-z0-9-]+", "-", key.casefold())


# --- the terminal -----------------------------------------------------------------------------------------


def as_rich(table: Table) -> RenderableType:
    """Return a table for a terminal, with its notes below."""
    from rich import box  # noqa: PLC0415 - not for those who write files
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table as RichTable  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    shown = RichTable(
        title=Text(table.title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    kept = table.for_people
    rows = kept.texts()
    for index, column in enumerate(kept.columns):
        words = [len(word) for text in (column.heading, *(row[index] for row in rows)) for word in text.split()]
        justify: JustifyMethod = "right" if column.numeric else "left"
        shown.add_column(
            column.heading,
            justify=justify,
            overflow="fold",
            no_wrap=column.numeric,
            min_width=min(_WHOLE, max(words, default=0)),
        )
    for row in rows:
        shown.add_row(*map(Text, row))
    return Group(shown, *map(Text, table.notes))
