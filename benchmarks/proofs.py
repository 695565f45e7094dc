"""Write what the long proofs gave: `python benchmarks/proofs.py RESULTS.xml PAGE.md`, called by `./dev proofs`."""

from __future__ import annotations

import os
import platform
import sys
from datetime import UTC, datetime
from pathlib import Path

from junitparser import JUnitXml, Properties, TestCase


HEAD = """\
# What the long proofs gave

Written by `./dev proofs`, which runs the tests that are marked `slow` (`pytest tests -m slow`); they take too long for
every change. Each line is one test and what it came to; its docstring says the rule that it proves.

Run on {date}, {system}, {cores} cores: {passed} of {total} passed, {seconds:.0f} s of test time.

| test | outcome | seconds |
| --- | --- | --- |
"""


def main(results: Path, page: Path) -> None:
    """Turn the results into a page."""
    cases = [case for suite in JUnitXml.fromfile(str(results)) for case in suite]
    outcomes = {case: case.result[0]._tag if case.result else "passed" for case in cases}  # noqa: SLF001 - no public name
    head = HEAD.format(
        date=datetime.now(UTC).date().isoformat(),
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        cores=os.cpu_count(),
        passed=sum(outcome == "passed" for outcome in outcomes.values()),
        total=len(cases),
        seconds=sum(case.time or 0 for case in cases),
    )
    rows = sorted(
        f"| `{str(case.classname).rpartition('.')[2]}::{case.name}` | {outcomes[case]} | {case.time:.1f} |\n"
        for case in cases
    )
    page.write_text(head + "".join(rows) + _figures(cases), encoding="utf-8")


def _figures(cases: list[TestCase]) -> str:
    """What proofs have measured, as they recorded it."""
    measured = [
        f"- `{case.name}`: {item.name}: {item.value}\n"
        for case in cases
        for group in case.iterchildren(Properties)
        for item in group
    ]
    return "\nWhat was measured:\n\n" + "".join(measured) if measured else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
