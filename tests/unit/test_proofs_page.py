"""The page on which the long proofs are written down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


SCRIPT = Path(__file__).parents[2] / "benchmarks/proofs.py"


def test_outcomes_and_figures_stand_on_the_page(tmp_path: Path) -> None:
    """What a proof has measured stands there as it recorded it; without any there is no list."""
    results, page = tmp_path / "results.xml", tmp_path / "page.md"
    case = '<testcase classname="tests.test_kills" name="test_many" time="3.0">{}</testcase>'
    properties = '<properties><property name="records lost" value="0"/></properties>'
    document = f"<testsuites><testsuite>{case}</testsuite></testsuites>"

    written = []
    for inside in (properties, "<failure/>"):
        results.write_text(document.format(inside))
        subprocess.run([sys.executable, SCRIPT, results, page], check=True)
        written.append(page.read_text())

    assert "| `test_kills::test_many` | passed | 3.0 |" in written[0]
    assert "What was measured:\n\n- `test_many`: records lost: 0\n" in written[0]
    assert "| `test_kills::test_many` | failure | 3.0 |" in written[1]
    assert "What was measured" not in written[1]
