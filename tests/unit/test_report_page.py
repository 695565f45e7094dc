"""`docs/report.md` is executed, from its file to its last command."""

from __future__ import annotations

import re
from pathlib import Path

from pytest_researchenv.report.html.matrix_view import State
from tests.pages import DOCS, blocks_of, repeat, write_file


PAGE = (DOCS / "report.md").read_text()


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """Its file is written, and its commands print what is shown."""
    for block in blocks_of(PAGE):
        where = f"report.md:{block.line}"
        if block.kind == "console":
            repeat(block, tmp_path, where)
        else:
            write_file(block, tmp_path, where)


def test_every_image_is_there() -> None:
    """As `benchmarks/screenshots.py` takes them."""
    shown = set(re.findall(r"\((images/[\w-]+\.png)\)", PAGE))

    assert shown
    assert all((DOCS / name).read_bytes().startswith(b"\x89PNG") for name in shown)


def test_every_mark_of_the_matrix_is_explained() -> None:
    """Those of verdicts, of several attempts, and of what was emulated."""
    marks = " ".join(re.findall(r"^\| (\S+(?: \S+)?) \| ", PAGE, re.MULTILINE))

    assert {state.symbol for state in State} - {State.MIXED.symbol} <= set(marks)
    assert "2/3" in marks
    assert "*" in marks
