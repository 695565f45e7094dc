"""The page on which the long proofs are written down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


SCRIPT = Path(__file__).parents[2] / "benchmarks/proofs.py"


def write(folder: Path, name: str, *, inside: str = "", day: str, every: list[str]) -> str:
    """Have the outcome of one proof written on the page; returns the page."""
    case = f'<testcase classname="tests.faults.test_kills" name="{name}" time="3.0">{inside}</testcase>'
    results, proofs, page = folder / "results.xml", folder / "proofs.txt", folder / "page.md"
    results.write_text(f'<testsuites><testsuite timestamp="{day}T01:02:03">{case}</testsuite></testsuites>')
    proofs.write_text("".join(f"tests/faults/test_kills.py::{one}\n" for one in every) + "\n2 tests collected\n")
    subprocess.run([sys.executable, SCRIPT, results, proofs, page], check=True)
    return page.read_text()


def test_a_page_keeps_what_was_run_before_and_says_what_never_was(tmp_path: Path) -> None:
    """Of each proof its last outcome stands there with its day; a proof that is no more is on it no longer."""
    properties = '<properties><property name="records lost" value="0"/></properties>'
    every = ["test_many", "test_one[a|b]", "test_other"]

    write(tmp_path, "test_many", inside=properties, day="2026-01-01", every=every)
    page = write(tmp_path, "test_one[a|b]", inside="<failure/>", day="2026-01-02", every=every)

    assert "1 of 3 passed, 1 did not, 1 were not run; 6 s" in page
    assert "| `faults/test_kills.py::test_many` | passed | 3.0 | 2026-01-01 | records lost: 0 |" in page
    assert "| `faults/test_kills.py::test_one[a¦b]` | failure | 3.0 | 2026-01-02 |  |" in page
    assert "| `faults/test_kills.py::test_other` | not run |  |  |  |" in page

    page = write(tmp_path, "test_many", inside="<error/>", day="2026-01-03", every=every[:1])

    assert [line for line in page.splitlines() if line.startswith("| `")] == [
        "| `faults/test_kills.py::test_many` | error | 3.0 | 2026-01-03 |  |"
    ]
