"""Write what the scripted adversaries came to: `python benchmarks/security.py RESULTS.xml… docs/security.md`.

The results are those of `pytest tests/integration/integrity/test_adversaries.py --junitxml=RESULTS.xml`, of all or of
some; of several that ran a script the last counts. The table goes between two comments of the page. What it says of
scripts that were not run now, and are what they were then, stays there with its date; so does the rest of the page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from junitparser import JUnitXml, Properties, TestCase

from fixtures.agents.adversaries.corpus import Adversary, adversaries


__all__ = ["BEGIN", "END", "Came", "earlier", "results", "table", "written"]

BEGIN = "<!-- adversaries: written by benchmarks/security.py -->"
END = "<!-- adversaries: end -->"

#: What stands in rows that were written before there were dates.
_BEFORE = "earlier"

_HEAD = """\
{held} of {total} held.

| agent | trick | expected | came | held | run |
| --- | --- | --- | --- | --- | --- |
"""


@dataclass(frozen=True, slots=True)
class Came:
    """What an adversary came to.

    Attributes:
        words: every verdict with what was found.
        held: whether it was as expected.
        run: on which day.
    """

    words: str
    held: bool
    run: str = ""


def results(path: Path) -> dict[str, Came]:
    """Read which adversary came to what: name → what came."""
    found: dict[str, Came] = {}
    for suite in JUnitXml.fromfile(str(path)):
        for case in suite:
            name = re.fullmatch(r"test_no_trick\w*\[(.+)\]", str(case.name))
            if name:
                day = str(suite.timestamp or "").partition("T")[0]
                found[name[1]] = Came(_came(case), held=not case.result, run=day)
    return found


def _came(case: TestCase) -> str:
    properties = case.child(Properties) or ()  # type: ignore[no-untyped-call] # junitparser is typed in part
    return next((str(one.value) for one in properties if one.name == "came"), "not judged")


def table(came: Mapping[str, Came]) -> str:
    """The table: a row for every script, run or not."""
    every = adversaries()
    held = sum(came[one.name].held for one in every if one.name in came)
    rows = [
        f"{_begin(one)} {_cell(_words(came, one.name))} | {_answer(came, one.name)} | {_day(came, one.name)} |\n"
        for one in every
    ]
    return _HEAD.format(held=held, total=len(every)) + "".join(rows)


def _begin(one: Adversary) -> str:
    """What a row says of a script itself."""
    return f"| `{one.name}` | {_cell(one.trick)} | {_cell(one.expect)} |"


def earlier(page: str) -> dict[str, Came]:
    """What a page says of scripts that are still what they were: name → what came."""
    found: dict[str, Came] = {}
    rows = page.partition(BEGIN)[2].partition(END)[0].splitlines()
    for one in adversaries():
        row = next((row for row in rows if row.startswith(f"{_begin(one)} ")), "")
        words, held, *run = row.removeprefix(_begin(one)).strip("| ").split(" | ") if row else ("", "-")
        if held != "-":
            found[one.name] = Came(words, held=held == "yes", run=run[0] if run else _BEFORE)
    return found


def _words(came: Mapping[str, Came], name: str) -> str:
    return came[name].words if name in came else "not run"


def _answer(came: Mapping[str, Came], name: str) -> str:
    return ("yes" if came[name].held else "no") if name in came else "-"


def _day(came: Mapping[str, Came], name: str) -> str:
    return came[name].run or "-" if name in came else "-"


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
    return f"{before}{BEGIN}\n\n{table({**earlier(page), **came})}\n{END}{after}"


if __name__ == "__main__":
    *files, place = map(Path, sys.argv[1:])
    came_now: dict[str, Came] = {}
    for file in files:
        came_now |= results(file)
    place.write_text(written(place.read_text(encoding="utf-8"), came_now), encoding="utf-8")
