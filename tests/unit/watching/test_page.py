"""`docs/watch.md` does what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from pytest_researchenv.watching.events import Kind
from tests.pages import DOCS, blocks_of, repeat
from tests.simulated import Workplace


PAGE = (DOCS / "watch.md").read_text()


def test_the_page_does_what_it_says(tmp_path: Path) -> None:
    """Its commands print what is shown, in the folder of a run that is over."""
    workplace = Workplace(tmp_path)
    workplace.run("--researchenv-run=nightly")
    for block in blocks_of(PAGE):
        assert block.kind == "console"
        repeat(block, tmp_path, f"watch.md:{block.line}")


def test_every_kind_of_event_is_told() -> None:
    """And no other."""
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    told = {kind for row in rows for kind in re.findall(r"`([a-z ]+)`", row.split("|")[1])}

    assert told == set(map(str, Kind))


def test_the_picture_is_drawn_as_it_is_now(tmp_path: Path) -> None:
    """`python -m benchmarks.watchpicture` writes what stands in the docs, which needs nothing from elsewhere."""
    made = tmp_path / "watch.svg"
    root = DOCS.parent
    subprocess.run([sys.executable, "-m", "benchmarks.watchpicture", str(made)], cwd=root, check=True)

    assert made.read_text() == (DOCS / "images/watch.svg").read_text()
    assert not re.search(r"url\(\"?http|href=\"http", made.read_text())
