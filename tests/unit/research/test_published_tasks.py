"""The five published tasks (arXiv 2602.15112): how many sub-tasks, what is in doubt, and what the page says."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest

from pytest_researchenv.agents.registry import AGENTS
from pytest_researchenv.cli import main
from pytest_researchenv.integrity.canaries import OWN_NAMES, canaries_of
from pytest_researchenv.lock import lock_problems
from pytest_researchenv.report.research import research_page
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Confidence, DoubtKind, Fetch, Holds, ResearchSuite, Score
from pytest_researchenv.suite import find_suite


ROOT = Path(__file__).parents[3]
COUNTS = {
    "continual-learning": 6,
    "cross-modal-retrieval": 5,
    "improving-replay-buffers": 9,
    "materials-tokenization": 12,
    "time-series-explanation": 7,
}


@pytest.fixture(scope="module")
def whole() -> ResearchSuite:
    """The suite that comes with this package: published tasks, and those of ours, whose code comes along."""
    return load_research_suite(find_suite("researchgym"))


@pytest.fixture(scope="module")
def suite(whole: ResearchSuite) -> ResearchSuite:
    """What was published of it."""
    return replace(whole, tasks=tuple(task for task in whole.tasks if task.source.git))


def scores(suite: ResearchSuite) -> dict[tuple[str, str], Score]:
    """Every score by the names of its sub-task and its own."""
    return {
        (name, score_name): score
        for task in suite.tasks
        for name, subtask in task.subtasks.items()
        for score_name, score in subtask.scores.items()
    }


def doubted(suite: ResearchSuite, kind: DoubtKind) -> list[tuple[str, str]]:
    """Where there is a doubt of a kind."""
    return [place for place, score in scores(suite).items() if score.doubted(kind)]


def test_there_are_39_subtasks(suite: ResearchSuite, capsys: pytest.CaptureFixture[str]) -> None:
    """6, 5, 9, 12 and 7, as the paper counts them; `validate` shows the same."""
    assert {task.name: len(task.subtasks) for task in suite.tasks} == COUNTS
    assert sum(COUNTS.values()) == 39

    assert main(["validate", "researchgym"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert {line[0]: int(line[1]) for line in lines if line and line[0] in COUNTS} == COUNTS
    assert ["7", "tasks,", "45", "sub-tasks"] in lines


def test_withheld_scores_that_are_not_there_or_no_better_are_told(suite: ResearchSuite) -> None:
    """17 are no better than a baseline, 10 are not known, 7 are where rows look shifted, and of one sources differ."""
    assert len(doubted(suite, DoubtKind.WITHHELD_NOT_ABOVE)) == 17
    missing = doubted(suite, DoubtKind.WITHHELD_MISSING)
    generation = [(f"gen_{name}", "Micro-F1") for name in ("ner", "rc", "eae", "pc", "sar", "sc", "sf")]
    steps = [(name, "Average return") for name in ("finger_turn_hard", "pixel_walker_walk", "pixel_cheetah_run")]
    assert missing == steps + generation
    assert doubted(suite, DoubtKind.SHIFTED_ROWS) == generation
    assert doubted(suite, DoubtKind.SOURCES_DISAGREE) == [("walker2d", "Average return")]
    assert ("state", "CPD") in doubted(suite, DoubtKind.WITHHELD_NOT_ABOVE)  # It decides.


def test_the_check_warns_of_each(suite: ResearchSuite, capsys: pytest.CaptureFixture[str]) -> None:
    """One line for each doubt, with both numbers where there are two."""
    main(["validate", "researchgym"])

    warned = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: ")]
    assert len(warned) == sum(len(score.doubts) for score in scores(suite).values()) == 35
    assert len([line for line in warned if " <= best baseline " in line]) == 17


def test_shifted_rows_may_hold_what_the_agent_is_to_reach(suite: ResearchSuite) -> None:
    """What may be the withheld method's own score stands in the row of a baseline, which the agent is shown."""
    for place in doubted(suite, DoubtKind.SHIFTED_ROWS):
        score = scores(suite)[place]
        doubt = score.doubted(DoubtKind.SHIFTED_ROWS)
        assert doubt is not None
        assert doubt.methods == tuple(score.baselines)
        assert doubt.other == score.baselines["PickyBPE"]


def test_what_third_parties_restate_is_called_so(suite: ResearchSuite) -> None:
    """Most scores of SD-LoRA, and three of PGR; the scores that the benchmark's own paper prints are not among them."""
    confidences = {
        (name, score_name): task.origins[score.withheld_from].confidence
        for task in suite.tasks
        for name, subtask in task.subtasks.items()
        for score_name, score in subtask.scores.items()
        if score.withheld is not None
    }
    restated = {name for (name, _), confidence in confidences.items() if confidence is Confidence.RESTATED}

    assert restated == {
        *("imagenet_r_n5", "imagenet_r_n10", "imagenet_r_n20", "imagenet_a_n10", "cub200_n10"),
        *("quadruped_walk", "state_cheetah_run", "reacher_hard"),
    }
    assert set(confidences.values()) == {Confidence.RESTATED, Confidence.PUBLISHED}


def test_the_paper_sums_tasks_up_by_nine_scores(suite: ResearchSuite) -> None:
    """Table 3, columns of baseline and withheld; that they are the means of ours is checked when the files are read."""
    summed = {
        f"{task.acronym} {primary.name}": (primary.baseline, primary.withheld)
        for task in suite.tasks
        for primary in task.primary
    }

    assert summed == {
        "CL Acc": (86.75, 88.01),
        "CL AAA": (91.72, 92.54),
        "CMR I2TR": (60.65, 63.35),
        "CMR T2IR": (69.9, 70.3),
        "IRB return": (3395.21, 4101.79),
        "MDT Macro": (84.4, 85.35),
        "MDT Micro": (83.5, 84.9),
        "TIM CPD(A)": (0.448, 0.463),
        "TIM CPD(Z)": (0.573, 0.602),
    }


def test_published_means_are_those_of_their_parts(suite: ResearchSuite) -> None:
    """Of every method, as far as one digit behind the point tells."""
    means = [
        (subtask, score)
        for task in suite.tasks
        for subtask in task.subtasks.values()
        for score in subtask.scores.values()
        if score.mean_of
    ]
    assert len(means) == 7

    for subtask, score in means:
        parts = [subtask.scores[part] for part in score.mean_of]
        for method, value in score.baselines.items():
            assert fmean(part.baselines[method] for part in parts) == pytest.approx(value, abs=0.06)
        withheld = [part.withheld for part in parts if part.withheld is not None]
        assert fmean(withheld) == pytest.approx(score.withheld, abs=0.06)
        assert len(withheld) == len(parts)


def test_runs_are_told_apart_that_the_published_grader_merges(suite: ResearchSuite) -> None:
    """Cheetah-Run seen as its state and as pixels are two sub-tasks; every seed, fold and severity is named."""
    tasks = {task.name: task for task in suite.tasks}
    runs = {name: subtask.required for task in suite.tasks for name, subtask in task.subtasks.items()}

    assert runs["state_cheetah_run"].steps == runs["pixel_cheetah_run"].steps == 100_000
    assert runs["finger_turn_hard"].steps == 300_000
    assert runs["cifar100_n10"].seeds == (1992, 1993, 1994)
    assert runs["gen_ner"].seeds == (33, 44, 55, 111, 222)
    assert (runs["cls_sf"].seeds, runs["cls_sf"].folds) == ((42, 43, 44), (1, 2, 3, 4, 5))
    assert runs["pam"].folds == runs["state"].folds == (0, 1, 2, 3, 4)
    assert len(runs["qs_image_cococ"].severities) == 16
    assert len(runs["qs_text_cococ"].severities) == 15
    retrieval = tasks["cross-modal-retrieval"].subtasks
    assert all(required.seeds or required.folds for name, required in runs.items() if name not in retrieval)
    for name in tasks["improving-replay-buffers"].subtasks:
        assert runs[name].chosen_here == ("seeds",)


def test_agents_are_not_given_what_tells_the_answer(suite: ResearchSuite) -> None:
    """Hint, grader and block list; of one task also the method itself, which its published tree still has."""
    for task in suite.tasks:
        assert {Holds.HINT, Holds.GRADING, Holds.BLOCKED} <= {removal.holds for removal in task.removed}
        assert task.blocked.search_until < task.withheld.public_since
    retrieval = next(task for task in suite.tasks if task.name == "cross-modal-retrieval")
    assert "models/tta_baselines/tcr.py" in [removal.path for removal in retrieval.removed]


def test_what_is_bundled_has_a_place_and_a_size(suite: ResearchSuite) -> None:
    """Four data sets lie in the tree, two are made, and the others are fetched."""
    data = [data for task in suite.tasks for data in task.data.values()]

    assert all(one.path and one.size_bytes for one in data if one.fetch is Fetch.BUNDLED)
    assert [one.fetch for one in data].count(Fetch.BUNDLED) == 4
    assert [one.fetch for one in data].count(Fetch.GENERATED) == 2


def test_no_id_is_found_by_an_agents_name_or_a_tiers(whole: ResearchSuite) -> None:
    """As `-k` looks for them, in every part of an id and in the names of scores."""
    for task in whole.tasks:
        for name, subtask in task.subtasks.items():
            for text in (f"test_improvement[{task.slug}-{name}]", *subtask.scores):
                assert not re.search(r"c[0-5]", text, re.IGNORECASE), text
                assert not [agent for agent in AGENTS if agent in text.casefold()], text


def test_each_of_its_files_holds_its_canary(whole: ResearchSuite) -> None:
    """So that whoever shows one had it from here; and its name is refused in addresses, as the others' are."""
    given = {Path(task.folder, task.source.path) for task in whole.tasks if task.source.path}
    every = [file for file in whole.folder.rglob("*") if file.suffix in (".toml", ".py")]
    files = [file for file in every if not given & set(file.parents)]

    assert len(files) > 2 + len(whole.tasks)
    assert len(every) - len(files) > 20
    assert not [file for file in every if file not in files and whole.canary in file.read_text(encoding="utf-8")]
    assert [str(file) for file in files if whole.canary not in file.read_text(encoding="utf-8")] == []
    assert canaries_of()[whole.canary] == "the suite researchgym"
    assert whole.name in OWN_NAMES


def test_it_is_what_its_lock_says() -> None:
    """Whoever changes a task locks the suite anew: `researchenv lock researchgym`."""
    assert lock_problems(find_suite("researchgym")) == []


def test_the_page_is_the_one_that_the_suite_makes(whole: ResearchSuite, tmp_path: Path) -> None:
    """Whoever changes a task writes the page anew: `researchenv document researchgym`."""
    assert (ROOT / "docs" / "researchgym.md").read_text(encoding="utf-8") == research_page(whole)

    assert main(["document", "researchgym", "--docs", str(tmp_path)]) == 0
    assert (tmp_path / "researchgym.md").read_text(encoding="utf-8") == research_page(whole)


def test_the_page_holds_every_score_and_doubt_and_says_what_was_not_run(whole: ResearchSuite) -> None:
    """155 published scores and 12 of ours, 35 doubts, 39 sub-tasks with what each needs, and how they were counted."""
    page = research_page(whole)
    rows = [line for line in page.splitlines() if line.startswith("| ")]

    assert len([row for row in rows if " | higher | " in row or " | lower | " in row]) == len(scores(whole)) == 155 + 12
    assert len([row for row in rows if " | no | " in row]) == 39
    assert "whose grader has 7 rows" in page
    assert page.count("- `materials-tokenization: gen_") == 7 + 7 + 1
