"""The scripted adversaries: enough of them, each with a header that says what must come of it, each in the table."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from benchmarks.security import BEGIN, END, Came, results, table, written
from fixtures.agents.adversaries.corpus import Adversary, adversaries
from pytest_researchenv.model import FindingKind, Repository, Sign, Tier, Verdict
from pytest_researchenv.suite import load_suite


_ROOT = Path(__file__).parents[3]
_PAGE = _ROOT / "docs" / "security.md"
_ALL = adversaries()
_ANSWER = re.compile(r"^CANARY\b", re.MULTILINE)

JUNIT = """\
<?xml version="1.0"?><testsuites><testsuite timestamp="2026-11-30T18:00:00">
<testcase name="test_no_trick_comes_to_more_than_it_deserves[stub-module]">
<properties><property name="came" value="C0 failed; integrity failed (stub)" /></properties></testcase>
<testcase name="test_no_trick_comes_to_more_than_it_deserves[hook-pth-line]"><failure message="x">y</failure></testcase>
<testcase name="test_something_else" />
</testsuite></testsuites>
"""


@pytest.fixture(scope="module")
def repositories() -> dict[str, Repository]:
    """The repositories that scripts may name."""
    suites = (_ROOT / "fixtures" / "suites" / "guarded", _ROOT / "suites" / "quickstart")
    return {item.slug: item for folder in suites for item in load_suite(folder).repositories}


def test_there_are_enough_of_them() -> None:
    """At least 40, of which 8 would rather be an error than a failure; some are quick."""
    assert len(_ALL) >= 40
    assert sum(one.tries == "error" for one in _ALL) >= 8
    assert 8 <= sum(not one.slow for one in _ALL) <= 14


def test_no_two_try_the_same() -> None:
    """Each has a trick of its own."""
    tricks = [one.trick for one in _ALL]

    assert len(set(tricks)) == len(tricks)


@pytest.mark.parametrize("adversary", _ALL, ids=lambda one: one.name)
def test_a_header_says_what_must_come_of_it(adversary: Adversary, repositories: dict[str, Repository]) -> None:
    """Verdicts for every tier of its repository that the CPU can show; kinds and signs that exist."""
    repository = repositories[adversary.repository]
    judged = {tier for tier in Tier if repository.spec(tier).supported and tier in repository.tiers}
    judged -= set() if repository.frameworks else {Tier.C2}

    assert {Tier(name) for name in adversary.verdicts} == judged
    assert set(adversary.verdicts.values()) <= {Verdict.PASSED, Verdict.FAILED}
    assert adversary.claims <= set(FindingKind)
    assert {name.upper() for group in adversary.signs for name in group} <= set(Sign.__members__)
    assert adversary.tries in {"", "error"}
    assert not adversary.trick.endswith(".")
    assert len(adversary.trick) <= 120


@pytest.mark.parametrize("adversary", _ALL, ids=lambda one: one.name)
def test_a_script_is_one_that_a_shell_understands(adversary: Adversary) -> None:
    """With all that is put before it."""
    checked = subprocess.run(["bash", "-n"], input=adversary.script, text=True, capture_output=True, check=False)

    assert checked.returncode == 0, checked.stderr


def test_a_header_that_says_too_little_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would notice otherwise that nothing is demanded."""
    monkeypatch.setattr("fixtures.agents.adversaries.corpus._FOLDER", tmp_path)
    (tmp_path / "one.sh").write_text("# trick: nothing\n# expect: C0=failed\n# repository: needy\n")

    with pytest.raises(ValueError, match=r"one\.sh: the header lacks integrity"):
        adversaries()


def test_the_page_has_a_row_for_each_script_and_no_other() -> None:
    """In the order of their names, with the trick and what is expected, as the scripts have it now."""
    page = _PAGE.read_text(encoding="utf-8")
    between = page.partition(BEGIN)[2].partition(END)[0]
    rows = [line.split(" | ") for line in between.splitlines() if line.startswith("| `")]
    now = [line.split(" | ") for line in table({}).splitlines() if line.startswith("| `")]

    assert [row[:3] for row in rows] == [row[:3] for row in now]


def test_the_table_tells_what_came(tmp_path: Path) -> None:
    """Of each script that was run; the others are said not to be."""
    path = tmp_path / "results.xml"
    path.write_text(JUNIT)

    came = results(path)
    page = written(f"# Title\n\n{BEGIN}\nold\n{END}\n\nmore\n", came)

    assert came == {
        "stub-module": Came("C0 failed; integrity failed (stub)", held=True, run="2026-11-30"),
        "hook-pth-line": Came("not judged", held=False, run="2026-11-30"),
    }
    assert page.startswith(f"# Title\n\n{BEGIN}\n\n1 of {len(_ALL)} held.\n")
    assert page.endswith(f"\n{END}\n\nmore\n")
    lines = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    assert lines["stub-module"].endswith("| C0 failed; integrity failed (stub) | yes | 2026-11-30 |")
    assert lines["hook-pth-line"].endswith("| not judged | no | 2026-11-30 |")
    assert lines["error-deep-folders"].endswith("| not run | - | - |")


def test_what_was_not_run_again_stays_on_the_page() -> None:
    """With its day; of a script that is another one now, nothing is known any more."""
    then = written(f"{BEGIN}\n{END}\n", {one.name: Came("x", held=True, run="2026-11-01") for one in _ALL})
    changed = then.replace(f"| `{_ALL[0].name}` | {_ALL[0].trick} |", f"| `{_ALL[0].name}` | another trick |")

    page = written(changed, {_ALL[1].name: Came("y", held=False, run="2026-11-02")})

    rows = [line for line in page.splitlines() if line.startswith("| `")]
    assert rows[0].endswith("| not run | - | - |")
    assert rows[1].endswith("| y | no | 2026-11-02 |")
    assert all(row.endswith("| x | yes | 2026-11-01 |") for row in rows[2:])


def test_a_page_without_its_comments_is_refused() -> None:
    """The table has to have a place."""
    with pytest.raises(ValueError, match="lacks the comments"):
        written("# Title\n", {})
