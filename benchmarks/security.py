"""Write what the scripted adversaries came to: `python benchmarks/security.py RESULTS.xml docs/security.md`.

The results are those of `pytest tests/integration/integrity/test_adversaries.py --junitxml=RESULTS.xml`. The table goes
between two comments of the page; the rest of the page stays as it is.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from junitparser import JUnitXml, Properties, TestCase

from fixtures.agents.adversaries.corpus import adversaries


__all__ = ["BEGIN", "END", "Came", "results", "table", "written"]

BEGIN = "<!-- adversaries: written by benchmarks/security.py -->"
END = "<!-- adversaries: end -->"

_HEAD = """\
{held} of {total} held.

| agent | trick | expected | came | held |
| --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Came:
    """What an adversary came to.

    Attributes:
        words: every verdict with what was found.
        held: whether it was as expected.
    """

    words: str
    held: bool


def results(path: Path) -> dict[str, Came]:
    """Read which adversary came to what: name → what came."""
    found: dict[str, Came] = {}
    for suite in JUnitXml.fromfile(str(path)):
        for case in suite:
            name = re.fullmatch(r"test_no_trick\w*\[(.+)\]", str(case.name))
            if name:
                found[name[1]] = Came(_came(case), held=not case.result)
    return found


def _came(case: TestCase) -> str:
    properties = case.child(Properties) or ()  # type: ignore[no-untyped-call] # junitparser is typed in part
    return next((str(one.value) for one in properties if one.name == "came"), "not judged")


def table(came: Mapping[str, Came]) -> str:
    """The table: a row for every script, run or not."""
    every = adversaries()
    held = sum(came[one.name].held for one in every if one.name in came)
    rows = [
        f"| `{one.name}` | {_cell(one.trick)} | {_cell(one.expect)} | {_cell(_words(came, one.name))} "
        f"| {_answer(came, one.name)} |\n"
        for one in every
    ]
    return _HEAD.format(held=held, total=len(every)) + "".join(rows)


def _words(came: Mapping[str, Came], name: str) -> str:
    return came[name].words if name in came else "not run"


def _answer(came: Mapping[str, Came], name: str) -> str:
    return ("yes" if came[name].held else "no") if name in came else "-"


def _cell(text: str) -> str:
    return text.replace("|", " or ")


def written(page: str, came: Mapping[str, Came]) -> str:
    """The page with the table between its comments.

    Raises:
        ValueError: the page lacks one of them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks the comments {BEGIN} and {END}")
    return f"{before}{BEGIN}\n\n{table(came)}\n{END}{after}"


if __name__ == "__main__":
    place = Path(sys.argv[2])
    place.write_text(written(place.read_text(encoding="utf-8"), results(Path(sys.argv[1]))), encoding="utf-8")
