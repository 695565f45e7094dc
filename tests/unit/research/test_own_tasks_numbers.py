"""The numbers of our own research tasks: measured, the same wherever they stand, and far enough apart."""

from __future__ import annotations

import json
import math
import statistics
import sys

import pytest

from benchmarks.research_baselines import TASKS, OwnTask, Recorded, best_baseline, mean_and_error, measured
from fixtures.agents.research.corpus import TASKS as NAMES
from tests.unit.research.own_tasks import SUITE, described


_CANARY = "researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7"
_EACH = pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)


def _recorded(task: OwnTask) -> Recorded:
    recorded: Recorded = json.loads((SUITE / task.name / "evaluation" / "recorded.json").read_text(encoding="utf-8"))
    return recorded


def test_both_tasks_are_measured() -> None:
    """The benchmark and the corpus know the same tasks."""
    assert tuple(task.name for task in TASKS) == NAMES


@_EACH
def test_descriptions_hold_what_was_measured(task: OwnTask) -> None:
    """Means, standard errors and the best baseline, of every method, for each score; and so does the agents' page."""
    page = (SUITE / task.name / "code" / "README.md").read_text(encoding="utf-8")
    said = described(task.name)["subtasks"]
    for subtask, methods in _recorded(task).items():
        for name, score in said[subtask]["scores"].items():
            found = {method: mean_and_error([one[name] for one in seeds.values()]) for method, seeds in methods.items()}
            withheld = found.pop("withheld")
            assert score["baselines"] == {method: pytest.approx(one[0], abs=0.0051) for method, one in found.items()}
            assert score["spreads"] == {method: pytest.approx(one[1], abs=0.0051) for method, one in found.items()}
            assert (score["withheld"], score["withheld_spread"]) == pytest.approx(withheld, abs=0.0051)
            assert score["best"] == [max(found, key=lambda method: found[method][0])]
            assert all(f"{mean:.2f} ± {error:.2f}" in page for mean, error in found.values())


@_EACH
def test_the_withheld_method_is_better_by_far(task: OwnTask) -> None:
    """Than the best baseline on the same seeds: by more than three standard errors of the difference, five seeds."""
    for subtask, methods in _recorded(task).items():
        best = methods[best_baseline(task, methods)]
        gains = [methods["withheld"][seed][task.primary] - values[task.primary] for seed, values in best.items()]

        assert sorted(best) == [str(seed) for seed in described(task.name)["subtasks"][subtask]["required"]["seeds"]]
        assert len(gains) == 5
        assert statistics.fmean(gains) > 3 * statistics.stdev(gains) / math.sqrt(len(gains))


@pytest.mark.slow
@_EACH
def test_the_same_numbers_come_out_again(task: OwnTask) -> None:
    """Of all methods; on another machine the last digits may differ."""
    for subtask, methods in measured(task, range(5), sys.executable).items():
        for method, seeds in methods.items():
            for seed, values in seeds.items():
                assert values == pytest.approx(_recorded(task)[subtask][method][seed], abs=0.5)


@_EACH
def test_agents_get_neither_canary_nor_withheld_method(task: OwnTask) -> None:
    """What they do not get holds the canary; what they get does not, and does not name the withheld method."""
    folder = SUITE / task.name
    said = described(task.name)["withheld"]
    telling = [said["paper"].split(",")[0], said["address"].rpartition("/")[2], "unigram", "principal component"]
    ours = [*folder.glob("evaluation/*.py"), *folder.glob("withheld/*.py"), *SUITE.glob("_shared/judging/*.py")]
    theirs = [path for path in folder.glob("code/**/*") if path.suffix in {".py", ".md", ".txt"}]

    assert len(ours) > 5
    assert [path.name for path in ours if _CANARY not in path.read_text(encoding="utf-8")] == []
    assert len(theirs) > 8
    assert [path.name for path in theirs if "canary" in path.read_text(encoding="utf-8")] == []
    texts = [path.read_text(encoding="utf-8").lower() for path in theirs]
    assert [words for words in telling if any(words.lower() in text for text in texts)] == []
