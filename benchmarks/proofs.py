"""Write what the long proofs gave: `python benchmarks/proofs.py RESULTS.xml PROOFS.txt PAGE.md`, by `./dev proofs`.

The results are those of all or of some; PROOFS.txt has the id of every long proof, one a line, as
`pytest --collect-only -q` prints them. What the page says of proofs that were not run now stays there with its date;
what it says of tests that are no more goes.
"""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from junitparser import JUnitXml, Properties, TestCase


_HEAD = """\
# What the long proofs gave

Written by `./dev proofs`, which runs the tests that are marked `slow`; they take too long for every change. Arguments
choose some of them (`./dev proofs tests/integration/research`): rows of the others stay as they are, each with the day
it is of. Each row is one test; its docstring says the rule that it proves.

{passed} of {total} passed, {failed} did not, {left} were not run; {seconds:.0f} s of test time. The last run was on
{system}, {cores} cores.

| test | outcome | seconds | run | measured |
| --- | --- | --- | --- | --- |
"""

_NOT_RUN = "not run"

#: Of a row of the table.
_CELLS = 5


@dataclass(frozen=True, slots=True)
class _Came:
    """What a proof came to.

    Attributes:
        outcome: in a word.
        seconds: how long it took.
        run: on which day.
        measured: what it recorded.
    """

    outcome: str
    seconds: str
    run: str
    measured: str


def main(results: Path, proofs: Path, page: Path) -> None:
    """Bring the page up to date."""
    known = _earlier(page.read_text(encoding="utf-8")) if page.exists() else {}
    came = known | {_id(case): _came(case, day) for case, day in _cases(results)}
    every = sorted(_cell(line.removeprefix("tests/")) for line in proofs.read_text().splitlines() if "::" in line)
    page.write_text(_page(every, came), encoding="utf-8")


def _cases(results: Path) -> Iterable[tuple[TestCase, str]]:
    for suite in JUnitXml.fromfile(str(results)):
        for case in suite:
            yield case, str(suite.timestamp or "").partition("T")[0]


def _id(case: TestCase) -> str:
    """The id of a test, as pytest writes it, below the folder of all tests."""
    return _cell(f"{str(case.classname).removeprefix('tests.').replace('.', '/')}.py::{case.name}")


def _came(case: TestCase, day: str) -> _Came:
    outcome = case.result[0]._tag if case.result else "passed"  # noqa: SLF001 - no public name
    figures = [f"{item.name}: {item.value}" for group in case.iterchildren(Properties) for item in group]
    return _Came(outcome, f"{case.time or 0:.1f}", day, _cell("; ".join(figures)))


def _earlier(page: str) -> dict[str, _Came]:
    rows = (line.strip("|").split(" | ") for line in page.splitlines() if line.startswith("| `"))
    split = ([cell.strip() for cell in row] for row in rows)
    return {name.strip("`"): _Came(*rest) for name, *rest in split if len(rest) + 1 == _CELLS and rest[0] != _NOT_RUN}


def _cell(text: str) -> str:
    return text.replace("|", "¦")


def _page(every: list[str], came: Mapping[str, _Came]) -> str:
    run = [came[name] for name in every if name in came]
    passed = sum(one.outcome == "passed" for one in run)
    head = _HEAD.format(
        system=f"{platform.system()} {platform.release().partition('-')[0]}",
        cores=os.cpu_count(),
        passed=passed,
        total=len(every),
        failed=len(run) - passed,
        left=len(every) - len(run),
        seconds=sum(float(one.seconds) for one in run),
    )
    return head + "".join(_row(name, came.get(name, _Came(_NOT_RUN, "", "", ""))) for name in every)


def _row(name: str, one: _Came) -> str:
    return f"| `{name}` | {one.outcome} | {one.seconds} | {one.run} | {one.measured} |\n"


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
