"""Tables: the same values in every form, and no name that does anything there."""

from __future__ import annotations

import csv
import io
import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from rich.console import Console

from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.report.showing import (
    difference,
    figure,
    interval,
    p_value,
    percent,
    points,
    share_or_count,
    usd,
)
from pytest_researchenv.report.tables import Column, Format, Table, as_csv, as_latex, as_markdown, as_rich, document


NAME = Column("name", "name", numeric=False)
COLUMNS = (NAME, Column("share", "share\nof all", percent), Column("interval", "95 %", interval))
HOSTILE = (
    "=cmd|' /C calc'!A0",
    "@SUM(1)",
    "a,b\"c'd",
    "a|b\\|c",
    "**bold** _x_ `code`",
    "[red]rich[/red]",
    "[link](javascript:alert(1))",
    "<script>alert(1)</script>&amp;",
    "https://example.org www.example.org",
    "\\input{/etc/passwd} $x^2$ 50% #1 ~ &",
    "two\nlines\r\nand \x1b[31m red\t|",
    "| --- |",
    "~~gone~~",
    "\udcff no text",
    "",
    " spaces ",
    "*starred",
    "[1] --option ,,quoted",
)
NAMES = st.one_of(st.sampled_from(HOSTILE), st.text(max_size=30))


def table(*names: str) -> Table:
    """A table with these names, and two figures beside each."""
    return Table("names", "Names & figures", COLUMNS, tuple((name, 0.25, (0.1, 0.4)) for name in names), ("50% of it",))


# --- values -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (percent(17 / 29), "58.6%"),
        (points(-0.0225), "-2.2"),
        (interval((0.4074, 0.7449)), "41 to 74"),
        (interval((-0.05, 0.1), sign="+"), "-5 to +10"),
        (p_value(0.0004), "< 0.001"),
        (p_value(0.03125), "0.031"),
        (figure(1234567.8), "1,234,568"),
        (figure(12.3456), "12.35"),
        (figure(3.0), "3"),
        (usd(1.5), "$1.5000"),
        (share_or_count(4), "4"),
        (share_or_count(0.236), "23.6%"),
        (difference(-3), "-3"),
        (difference(0.125), "+12.5 points"),
    ],
)
def test_figures_are_short_for_people(shown: str, text: str) -> None:
    """Shares in percent, p-values no smaller than is useful, large figures without decimals."""
    assert shown == text


def test_json_has_the_values_as_they_are() -> None:
    """By the columns' keys."""
    found = document(Table("x", "X", COLUMNS, (("a", 0.25, (0.1, 0.4)), ("b", None, None)), ("n",)))

    assert json.loads(json.dumps(found)) == {
        "table": "x",
        "title": "X",
        "rows": [
            {"name": "a", "share": 0.25, "interval": [0.1, 0.4]},
            {"name": "b", "share": None, "interval": None},
        ],
        "notes": ["n"],
    }


def test_a_file_is_called_by_its_kind() -> None:
    """As programs expect it."""
    assert [one.suffix for one in Format] == [".csv", ".md", ".tex"]


# --- forms ------------------------------------------------------------------------------------------------


@given(st.lists(NAMES, max_size=5))
def test_csv_is_read_back_and_starts_no_formula(names: list[str]) -> None:
    """Keys first; an interval is two columns; a name that a spreadsheet would run gets an apostrophe."""
    header, *rows = csv.reader(io.StringIO(as_csv(table(*names)), newline=""), strict=True)

    assert header == (["name", "share", "interval_low", "interval_high"] if names else ["name", "share", "interval"])
    assert [row[1:] for row in rows] == [["0.25", "0.1", "0.4"]] * len(names)
    for name, (cell, *_) in zip(names, rows, strict=True):
        assert cell in {printable(name), f"'{printable(name)}"}
        assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))


def test_what_is_not_there_is_empty_in_csv() -> None:
    """Both columns of an interval are."""
    found = as_csv(Table("x", "X", COLUMNS, (("a", 1, (0.0, 1.0)), ("b", None, None))))

    assert found == "name,share,interval_low,interval_high\r\na,1,0.0,1.0\r\nb,,,\r\n"


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_markdown_shows_names_as_they_are(names: list[str]) -> None:
    """A reader of tables finds the same cells, and nothing but text in them."""
    tokens = MarkdownIt("gfm-like", {"linkify": False, "html": True}).parse(as_markdown(table(*names)))

    cells = [token for before, token in pairwise(tokens) if before.type in {"td_open", "th_open"}]
    texts = ["".join(child.content for child in cell.children or []) for cell in cells]
    assert texts[:3] == ["name", "share of all", "95 %"]
    assert [text.strip() for text in texts[3::3]] == [printable(name).strip() for name in names]
    assert texts[4::3] == ["25.0%"] * len(names)
    kinds = {child.type for cell in cells for child in cell.children or []}
    assert kinds <= {"text", "text_special"}


LATEX_ESCAPES = re.compile(r"\\[{}$&#%_]|\\text[a-z]+\{\}|\{[\[\]*]\}|(?<=[-,])\{\}")


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_latex_holds_nothing_that_means_anything(names: list[str]) -> None:
    """Once the escapes are taken away, no active character is left in a name; each row has its cells."""
    lines = as_latex(table(*names)).splitlines()

    begin, end = lines.index(r"\midrule"), lines.index(r"\bottomrule")
    rows = lines[begin + 1 : end]
    assert len(rows) == len(names)
    for row in rows:
        plain = LATEX_ESCAPES.sub("", row.removesuffix(r" \\"))
        assert plain.count("&") == len(COLUMNS) - 1
        assert not set(plain.replace("&", "")) & set("\\{}$#%_^~<>|\"'`[]*")
        assert not re.search("--|,,", row)


def test_latex_is_a_table_with_the_rules_of_booktabs() -> None:
    """Whole, by hand."""
    assert as_latex(table("a_b")) == (
        "\\begin{table}\n"
        "\\caption{Names \\& figures}\n"
        "\\label{tab:names}\n"
        "\\centering\n"
        "\\begin{tabular}{lrr}\n"
        "\\toprule\n"
        "name & share of all & 95 \\% \\\\\n"
        "\\midrule\n"
        "a\\_b & 25.0\\% & 10 to 40 \\\\\n"
        "\\bottomrule\n"
        "\\end{tabular}\n"
        "\\par\\footnotesize 50\\% of it\n"
        "\\end{table}\n"
    )


@pytest.mark.parametrize(
    ("name", "escaped"), [("www.a.org", "www\\.a.org"), ("$x$", "\\$x\\$"), ("a@b.c", "a\\@b.c"), ("v1.2-b", "v1.2-b")]
)
def test_github_makes_neither_links_nor_formulas_of_names(name: str, escaped: str) -> None:
    """It would, of some that Markdown itself leaves alone."""
    assert f"| {escaped} |" in as_markdown(table(name))


def test_markdown_by_hand() -> None:
    """Figures are aligned to the right, notes stand below."""
    assert as_markdown(table("a_b")) == (
        "**Names \\& figures**\n\n"
        "| name | share of all | 95 % |\n"
        "| --- | ---: | ---: |\n"
        "| a\\_b | 25.0% | 10 to 40 |\n\n"
        "50% of it\n"
    )


@given(NAMES)
def test_a_terminal_shows_names_as_they_are(name: str) -> None:
    """Neither rich's markup nor escape sequences of terminals."""
    console = Console(width=400, no_color=True, file=io.StringIO())
    with console.capture() as capture:
        console.print(as_rich(table(name)))

    shown = capture.get()
    assert printable(name).strip() in shown
    assert "\x1b" not in shown
    assert "50% of it" in shown
