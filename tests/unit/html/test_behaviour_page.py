"""The page of a research task's attempt: what came of it, how the agent went about it, and what a model said."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import TypeAdapter

from pytest_researchenv.model import EnvironmentKey, Verdict
from pytest_researchenv.report.html.of_attempt import attempt_page
from pytest_researchenv.report.html.places import Places
from pytest_researchenv.report.html.rendering import render_environment
from pytest_researchenv.research.inspection import Category, Inspection, InspectorVerdict, Quote, Violation
from pytest_researchenv.research.result import ResearchCause, ResearchResult
from pytest_researchenv.runs.reading import read_runs
from pytest_researchenv.runs.values import AttemptRecord
from tests.unit.html.made import attempt, environment
from tests.unit.html.reading import read
from tests.unit.html.test_in_browser import PHONE, open_page, violations
from tests.unit.research.test_behaviour import DAY, result, step


if TYPE_CHECKING:
    from selenium.webdriver import Chrome


HOSTILE = "</svg><script>alert(1)</script><img src=x onerror=alert(2)>\u202e"
INSPECTION = Inspection(
    InspectorVerdict.SUSPICIOUS,
    "The numbers stand in the script.",
    (Violation(Category.HARD_CODED, "They are constants.", (Quote("run.py", "print('Acc: 91.2')"),)),),
    voided=("fabricated results: it quotes nothing",),
    model="some-model",
)


def researched(folder: Path, *steps: dict[str, Any], words: str = "") -> AttemptRecord:
    """An attempt at a research task, its trajectory written down."""
    made = [
        *(steps or DAY),
        step(55, "nohup python own.py > lost.log &"),
        step(58, message=f"steps2: Acc is 99.9 {words}"),
    ]
    (folder / "trajectory.json").write_text(json.dumps({"steps": made}))
    plain = attempt(folder=folder, repository="researchgym/digits-continual")
    assert plain.environment is not None
    kept = replace(plain.environment, telemetry={"wall_s": 3600.0}, inputs={"agent_timeout_s": "7200"})
    bad = ResearchResult("steps5", Verdict.FAILED, ResearchCause.VIOLATION, f"reported: made up {words}", decides="Acc")
    results = {"steps2": replace(result(90.0), claimed={"Acc": 91.2}), "steps5": bad}
    return replace(plain, environment=kept, research=results, inspections={"steps2": INSPECTION})


def page_of(one: AttemptRecord) -> str:
    """The page, as HTML."""
    return render_environment(attempt_page(one, results=Path("results"), places=Places(), reasons={}, version="1"))


def test_it_says_what_came_of_the_research(tmp_path: Path) -> None:
    """Each sub-task with its verdict, score, baseline and what was reported; and what a model said, with its quotes."""
    text = read(page_of(researched(tmp_path))).text
    for words in ("What the research came to", "Acc 90", "lda 95", "91.2", "reported: made up"):
        assert words in text
    for words in ("What some-model said of steps2: suspicious", "hard-coded results", "run.py: print('Acc: 91.2')"):
        assert words in text
    assert "Said without proof, and struck out: 1" in text
    assert "word alone decides nothing" in text


def test_it_says_how_the_agent_went_about_it(tmp_path: Path) -> None:
    """The figures that were worked out by hand, as a drawing and as a table, and claims beside what was found."""
    html = page_of(researched(tmp_path))
    text = read(html).text
    for words in (
        "60 min, 50 % of 2.0 h",
        "after 16 min",
        "after 41 min",
        "10 min, 17 %",
        "1, of which 1 nobody looked at again",
        "1 run",
        "nohup python own.py > lost.log &",
        "steps2: Acc is 99.9",
    ):
        assert words in text, words
    assert 'aria-label="Time line of 60 min: reading 3 %' in html
    assert html.count('class="phase running"><title>') >= 3
    assert "running: 31 min to 50 min" in html


def test_pages_of_other_work_have_no_such_part(tmp_path: Path) -> None:
    """An environment that was built for a repository has no research in it."""
    assert "How the agent went about it" not in page_of(attempt(folder=tmp_path))


def test_without_times_it_says_that_nothing_is_known(tmp_path: Path) -> None:
    """No trajectory, or one that cannot be read: the results are still shown."""
    one = researched(tmp_path)
    for content in (None, "{", "[" * 100_000, '{"steps": []}', '{"steps": [{"source": "agent"}]}'):
        (tmp_path / "trajectory.json").unlink(missing_ok=True)
        if content is not None:
            (tmp_path / "trajectory.json").write_text(content)
        text = read(page_of(one)).text
        assert "nothing is known of it" in text
        assert "lda 95" in text


def test_words_of_an_agent_do_nothing(tmp_path: Path) -> None:
    """Commands, messages and reasons are text, in the drawing's titles, too."""
    one = researched(tmp_path, step(0, f"nohup x > a.log & # {HOSTILE}", output=f"Acc: 5 {HOSTILE}"), words=HOSTILE)
    html = page_of(one)
    assert "<script>alert" not in html
    assert "<img src=x" not in html
    assert "\u202e" not in html


def test_records_of_research_are_read_with_a_run(tmp_path: Path) -> None:
    """The newest record of each sub-task, with what a model said of that one; a damaged one is told."""
    key = EnvironmentKey("default", "codex", "researchgym/digits-continual", 1)
    folder = tmp_path / str(key)
    folder.mkdir(parents=True)
    write(folder / "attempt.json", {"session": "s", "created": "", "trial": 1, "schema": 1})
    (folder / "environment.json").write_bytes(TypeAdapter(type(environment(key))).dump_json(environment(key)))
    for number, mean in ((1, 80.0), (2, 90.0)):
        record = TypeAdapter(ResearchResult).dump_json(result(mean))
        (folder / f"research-steps2-{number:03}.json").write_bytes(record)
    (folder / "inspection-steps2-001.json").write_bytes(TypeAdapter(Inspection).dump_json(INSPECTION))
    (folder / "research-steps5-001.json").write_text("{")

    (found,) = read_runs(tmp_path, ["default"])[0].attempts

    assert list(found.research) == ["steps2"]
    assert found.research["steps2"].scores["Acc"].mean == 90.0
    assert found.inspections == {}
    assert [damage.path.name for damage in found.damage] == ["research-steps5-001.json"]
    (folder / "inspection-steps2-002.json").write_bytes(TypeAdapter(Inspection).dump_json(INSPECTION))
    assert read_runs(tmp_path, ["default"])[0].attempts[0].inspections == {"steps2": INSPECTION}


def write(path: Path, values: Mapping[str, object]) -> None:
    """Write a JSON file."""
    path.write_text(json.dumps(values))


# --- in a browser -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("screen", [(1280, 900), PHONE])
def test_everybody_can_read_it(chrome: Chrome, tmp_path: Path, scheme: str, screen: tuple[int, int]) -> None:
    """By the rules of WCAG 2.1 AA, by day and by night; and no wider than a phone."""
    (tmp_path / "page.html").write_text(page_of(researched(tmp_path)))
    open_page(chrome, tmp_path / "page.html", screen=screen, scheme=scheme)
    assert violations(chrome) == []
    assert chrome.execute_script("return document.documentElement.scrollWidth") <= screen[0]


def test_phases_differ_from_their_grounds(chrome: Chrome, tmp_path: Path) -> None:
    """A stretch has a contrast of 3 at least with the ground of the time line, by day and by night."""
    from tests.unit.html.test_in_browser import luminance  # noqa: PLC0415 - here alone

    (tmp_path / "page.html").write_text(page_of(researched(tmp_path)))
    for scheme in ("light", "dark"):
        open_page(chrome, tmp_path / "page.html", scheme=scheme)
        ground, *fills = chrome.execute_script(
            "return [getComputedStyle(document.querySelector('.timeline')).backgroundColor, "
            "...[...document.querySelectorAll('.timeline .phase')].map(one => getComputedStyle(one).fill)]"
        )
        assert len(set(fills)) == 6
        for fill in set(fills):
            light, dark = sorted((luminance(fill), luminance(ground)), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 3, (scheme, fill)
