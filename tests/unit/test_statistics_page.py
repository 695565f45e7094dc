"""`docs/statistics.md` is executed, from its first file to its last calculation."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

from pytest_researchenv.model import Tier
from pytest_researchenv.statistics.baseline import published
from tests.pages import DOCS, blocks_of, repeat, write_file


PAGE = (DOCS / "statistics.md").read_text()


def test_the_page_does_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file is written, its commands print what is shown, its calculations come out."""
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    for block in blocks_of(PAGE):
        where = f"statistics.md:{block.line}"
        match block.kind:
            case "console":
                repeat(block, tmp_path, where)
            case "pycon":
                _calculate(block.body, names, where)
            case _:
                write_file(block, tmp_path, where)


def _calculate(session: str, names: dict[str, object], where: str) -> None:
    test = doctest.DocTestParser().get_doctest(session, names, where, where, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner()
    runner.run(test, out=said.append, clear_globs=False)
    names.update(test.globs)
    assert not said, "".join(said)
    assert test.examples


def test_every_published_agent_is_named() -> None:
    """As it is called on the command line."""
    assert set(re.findall(r"`paper:([a-z0-9-]+)`", PAGE)) == set(published().agents)


def test_every_caveat_is_what_the_page_about_comparing_says() -> None:
    """There, too, C5 cannot be compared, and C2 nearly can."""
    rows = dict(re.findall(r"^\| (C\d(?:, C\d)?) \| (.*?)\.? ", (DOCS / "comparability.md").read_text(), re.MULTILINE))

    assert rows["C2"] == "Nearly:"
    assert rows["C5"] == "No"
    assert rows["C1, C3"] == rows["C4"] == "Not"
    words = {tier: caveat.comparable for tier, caveat in published().caveats.items()}
    assert (words[Tier.C2], words[Tier.C5], words[Tier.C4]) == ("nearly", "no", "hardly")
