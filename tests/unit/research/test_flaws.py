"""The published graders take all of these (ResearchGym at 148a785, run on a CPU); here none of them passes."""

from __future__ import annotations

import json
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from pytest_researchenv.research.cells import Cell, Plan, Run, mean_cell
from pytest_researchenv.research.metrics import Direction, Metric
from pytest_researchenv.research.outputs import continual, explanation, replay, retrieval, tokenization
from pytest_researchenv.research.outputs.found import Found
from pytest_researchenv.research.problems import OutputError, ProblemKind
from pytest_researchenv.research.scoring import NotComparable, Ratio, improvement, judge, normalised
from tests.unit.research.made import (
    ACCURACIES,
    generation,
    log,
    paragraphs,
    real_row,
    real_tables,
    record,
    retrieval_run,
    synthetic_row,
    training_logs,
    write,
)


CIFAR = "cl-cifar100-n10"


def refused(found: Found, subtask: str, plans: Sequence[Plan]) -> OutputError:
    """What is wrong with a sub-task."""
    with pytest.raises(OutputError) as caught:
        found.cells(subtask, plans)
    return caught.value


def records(root: Path, *every: object) -> Found:
    """Read records that lie in one file."""
    write(root / "logs/results.json", json.dumps(list(every)))
    return replay.read_records(root)


def test_one_seed_is_not_three(tmp_path: Path) -> None:
    """Continual learning takes a single seed, with an error of 0; here the other two are missing."""
    training_logs(tmp_path, seeds=[1992])

    error = refused(continual.read_logs(tmp_path), CIFAR, continual.PLANS[CIFAR])

    assert error.of(ProblemKind.MISSING) == ("AAA: seed 1993", "AAA: seed 1994", "Acc: seed 1993", "Acc: seed 1994")


def test_no_outputs_are_no_success(tmp_path: Path) -> None:
    """Without logs the published graders end with 0."""
    for found, plans in (
        (continual.read_logs(tmp_path), continual.PLANS),
        (retrieval.read_runs(tmp_path), retrieval.PLANS),
        (replay.read_records(tmp_path), replay.PLANS),
        (explanation.read_tables(tmp_path, "ours"), explanation.PLANS),
        (tokenization.read_predictions(tmp_path), tokenization.PLANS),
    ):
        for subtask, every in plans.items():
            assert len(refused(found, subtask, every).of(ProblemKind.MISSING)) == sum(len(one.runs) for one in every)


def test_a_seed_counts_once(tmp_path: Path) -> None:
    """Two logs of a seed are two runs to the published grader, and so are two records of it."""
    training_logs(tmp_path)
    write(tmp_path / "ours/cifar224/0/10/again_1993.log", log(1993, [99.0] * 10))
    hopper = [record("Hopper-v2", "gym", seed, 900.0) for seed in (0, 1, 2)]
    found = records(tmp_path / "irb", *hopper, hopper[0])

    logs = refused(continual.read_logs(tmp_path), CIFAR, continual.PLANS[CIFAR])
    returns = refused(found, "irb-hopper", replay.PLANS["irb-hopper"])

    assert "Acc: seed 1993, 2 times" in logs.of(ProblemKind.DUPLICATE)[1]
    assert [one.split(" (")[0] for one in returns.of(ProblemKind.DUPLICATE)] == [
        "Average return: seed 0, steps 100000, 2 times"
    ]


def test_no_seed_is_added(tmp_path: Path) -> None:
    """Seeds that nobody asked for count as further runs there: the best three of many would."""
    training_logs(tmp_path, seeds=[1992, 1993, 1994, 7])

    error = refused(continual.read_logs(tmp_path), CIFAR, continual.PLANS[CIFAR])

    assert [one.split(" (")[0] for one in error.of(ProblemKind.EXTRA)] == ["AAA: seed 7", "Acc: seed 7"]


@pytest.mark.parametrize(
    ("subtask", "dataset", "increment", "steps"),
    [
        ("cl-imagenet-r-n5", "imagenetr", 40, 5),
        ("cl-imagenet-r-n10", "imagenetr", 20, 10),
        ("cl-imagenet-r-n20", "imagenetr", 10, 20),
        ("cl-imagenet-a-n10", "imageneta", 20, 10),
        ("cl-cifar100-n10", "cifar224", 10, 10),
        ("cl-cub200-n10", "cub", 20, 10),
    ],
)
def test_stock_logs_are_found(tmp_path: Path, subtask: str, dataset: str, increment: int, steps: int) -> None:
    """Four of six sub-tasks have no runs there, and a fifth none either where a process trains one seed."""
    training_logs(
        tmp_path,
        f"ours/{dataset}/0/{increment}",
        accuracies=[90.0 - step for step in range(steps)],
        dataset=dataset,
        increment=increment,
    )

    cells = continual.read_logs(tmp_path).cells(subtask, continual.PLANS[subtask])

    assert cells["Acc"].mean == 91.0 - steps
    assert cells["AAA"].mean == 90.0 - (steps - 1) / 2


def test_ten_classes_a_step_are_twenty_steps(tmp_path: Path) -> None:
    """A folder `inr` with increment 10 counts as ten steps there."""
    accuracies = [80.0] * 20
    training_logs(tmp_path, "ours/inr/0/10", accuracies=accuracies, dataset="imagenetr")

    found = continual.read_logs(tmp_path)

    assert {subtask for subtask, _ in found.readings} == {"cl-imagenet-r-n20"}


def test_vit16_is_no_number_of_steps(tmp_path: Path) -> None:
    """`inr_lora_vit16_t20.log` has sixteen steps there, and is lost."""
    text = log(1992, [70.0] * 20).replace("dataset: cifar224", "dataset_of_ours: R")
    write(tmp_path / "inr_lora_vit16_t20.log", text)

    assert {subtask for subtask, _ in continual.read_logs(tmp_path).readings} == {"cl-imagenet-r-n20"}


def test_all_seeds_of_a_file_count(tmp_path: Path) -> None:
    """The stock trainer logs all seeds to one file; only the last counts there."""
    write(tmp_path / "ours/cifar224/0/10/ours_1992_vit.log", "".join(log(seed) for seed in continual.SEEDS))

    cells = continual.read_logs(tmp_path).cells(CIFAR, continual.PLANS[CIFAR])

    assert {run.seed for run in cells["Acc"].values} == set(continual.SEEDS)
    assert cells["Acc"].mean == ACCURACIES[-1]


def test_severity_1_is_not_the_largest(tmp_path: Path) -> None:
    """The largest severity that is there counts as the largest there is."""
    name = "B16:Fog"
    retrieval_run(
        tmp_path / "i2t", (80.0, 0.1), image_root="./dataset/coco-IP/COCO_IP_fog_1", dataset="coco", ann_root="./coco"
    )
    plans = [plan for plan in retrieval.PLANS["cmr-qs-image-cococ"] if plan.metric.name == name]

    error = refused(retrieval.read_runs(tmp_path), "cmr-qs-image-cococ", plans)

    assert error.of(ProblemKind.MISSING) == ("B16:Fog: severity 5",)
    assert error.of(ProblemKind.EXTRA) == ("B16:Fog: severity 1 (i2t/evaluate.txt:1)",)


def test_the_row_of_clip_fills(tmp_path: Path) -> None:
    """The shipped settings of CLIP name a `vit`, so that its row stays empty there."""
    retrieval_run(tmp_path / "i2t", (82.4, 0.1), backbone="clip", vit="base")

    found = retrieval.read_runs(tmp_path)

    assert [one.value for one in found.readings["cmr-qgs-clip-b16", "Base2Flickr I2TR@1"]] == [82.4]


def test_unchanged_coco_is_a_gallery(tmp_path: Path) -> None:
    """The shipped images of COCO lie below `coco-IP`, and count as corrupted without a severity there."""
    retrieval_run(tmp_path / "t2i", (0.1, 48.9), dataset="coco", image_root="./dataset/coco-IP/coco_image")

    found = retrieval.read_runs(tmp_path)

    assert list(found.readings) == [("cmr-qgs-blip-b16", "Base2COCO T2IR@1")]


@pytest.mark.parametrize("folders", [("i2t", "t2i"), ("first", "second")])
def test_directions_are_not_averaged(tmp_path: Path, folders: tuple[str, str]) -> None:
    """A run of each direction, 80 and 60, became 40.1 and 30.05: each file holds the other direction at about 0."""
    retrieval_run(tmp_path / folders[0], (80.0, 0.1))
    retrieval_run(tmp_path / folders[1], (0.2, 60.0))
    names = ("Base2Flickr I2TR@1", "Base2Flickr T2IR@1")
    plans = [plan for plan in retrieval.PLANS["cmr-qgs-blip-b16"] if plan.metric.name in names]

    cells = retrieval.read_runs(tmp_path).cells("cmr-qgs-blip-b16", plans)

    assert [cells[name].mean for name in names] == [80.0, 60.0]


def test_opposite_directions_have_no_mean() -> None:
    """Nor are metrics of which one is better high and the other low; beside a reference both count their own way."""
    high, low = Metric("accuracy"), Metric("error", Direction.LOWER)
    cells = [Cell(high, {Run(): 0.9}), Cell(low, {Run(): 0.1})]

    with pytest.raises(OutputError, match=r"a mean over both directions: accuracy \(higher\), error \(lower\)"):
        mean_cell(high, cells)
    assert normalised(low, 0.2, withheld=0.1, baseline=0.3) == Ratio(0.5)
    assert normalised(high, 0.2, withheld=0.4, baseline=0.3) == Ratio(0.5)


def test_pixels_and_states_stay_apart(tmp_path: Path) -> None:
    """111 from pixels and 999 from states became 555 of the one Cheetah-Run."""
    pixel = [record("cheetah-run-v0", "dmc_pixel", seed, 111.0) for seed in range(5)]
    state = [record("cheetah-run-v0", "dmc_state", seed, 999.0) for seed in range(5)]

    found = records(tmp_path, *pixel, *state)

    for subtask, mean in (("irb-pixel-cheetah-run", 111.0), ("irb-cheetah-run", 999.0)):
        assert found.cells(subtask, replay.PLANS[subtask])["Average return"].mean == mean


def test_cheetah_without_a_category_is_neither(tmp_path: Path) -> None:
    """There it is the one from states."""
    found = records(tmp_path, record("cheetah-run-v0", None, 0, 111.0))

    assert not found.readings
    assert "does not say whether 'cheetah-run-v0' is from states or pixels" in found.unread[0].what


@pytest.mark.parametrize("steps", [None, 10_000_000])
def test_a_return_needs_its_steps(tmp_path: Path, steps: int | None) -> None:
    """A hand-written 5000 was taken: nothing there looks at how long was trained."""
    found = records(tmp_path, *(record("Hopper-v2", "gym", seed, 5000.0, steps) for seed in range(3)))

    error = refused(found, "irb-hopper", replay.PLANS["irb-hopper"])

    assert len(error.of(ProblemKind.MISSING)) == len(error.of(ProblemKind.EXTRA)) == 3


def test_a_cpd_of_9_9_is_none(tmp_path: Path) -> None:
    """Any finite number is a score there."""
    real_tables(tmp_path)
    path = tmp_path / "pam/state_pam_2_0_results_ours.csv"
    path.write_text(real_row(2, 9.9) + real_row(2, 0.53, substitute="Zeros"))

    error = refused(explanation.read_tables(tmp_path, "ours"), "tim-pam", explanation.PLANS["tim-pam"])

    assert error.of(ProblemKind.INVALID) == (
        "CPD-Avg: fold 2: 9.9 is not within 0 and 4 (pam/state_pam_2_0_results_ours.csv:1)",
    )


def test_a_row_is_not_five_folds(tmp_path: Path) -> None:
    """One row of each cell fills the table there."""
    real_tables(tmp_path, folds=[3])
    write(tmp_path / "hmm/hmm_0_results.csv", synthetic_row(0, 0.1, 0.9, 0.3))

    found = explanation.read_tables(tmp_path, "ours")

    assert len(refused(found, "tim-pam", explanation.PLANS["tim-pam"]).of(ProblemKind.MISSING)) == 8
    assert len(refused(found, "tim-state", explanation.PLANS["tim-state"]).of(ProblemKind.MISSING)) == 12


def test_a_run_that_was_appended_again_shows(tmp_path: Path) -> None:
    """The scripts append to their table, so that a second start doubles its rows; there both count."""
    real_tables(tmp_path)
    path = tmp_path / "pam/state_pam_4_0_results_ours.csv"
    path.write_text(path.read_text() * 2)

    error = refused(explanation.read_tables(tmp_path, "ours"), "tim-pam", explanation.PLANS["tim-pam"])

    assert len(error.of(ProblemKind.DUPLICATE)) == 2
    assert "CPD-Avg: fold 4, 2 times" in str(error)


def test_two_files_by_hand_are_no_results(tmp_path: Path) -> None:
    """Two summaries, of one task each, gave 99.0 and 100.0 there."""
    write(tmp_path / "cls/pc_summary.json", json.dumps({"val_accuracy_list": [1.0], "test_accuracy_list": [1.0]}))
    summary = {"micro": {"NER": [0.99]}, "macro": {"NER": [0.99]}}
    write(tmp_path / "generation/gen_summary.json", json.dumps(summary))

    found = tokenization.read_predictions(tmp_path)

    assert not found.readings
    assert [one.what for one in found.unread] == [
        "cls/pc_summary.json: lacks best_lr, model_name, seeds",
        "generation/gen_summary.json: names no seeds",
    ]


def test_a_summary_follows_from_its_seeds(tmp_path: Path) -> None:
    """There it need not: only the summary is read."""
    generation(tmp_path, dict.fromkeys(tokenization.GENERATION_SEEDS, 0.5))
    path = tmp_path / "generation/gen_summary.json"
    path.write_text(path.read_text().replace("[0.5, 0.5", "[0.99, 0.5", 1))

    assert [one.what for one in tokenization.read_predictions(tmp_path).unread] == [
        "generation/gen_summary.json: its micro of NER is not that of its seeds' files"
    ]


def test_one_task_is_not_overall(tmp_path: Path) -> None:
    """`Overall` is the mean of what is there, there; here the other sub-tasks have no score."""
    paragraphs(tmp_path, [0.99, 0.99, 0.99])

    found = tokenization.read_predictions(tmp_path)

    assert found.cells("mdt-cls-pc", tokenization.PLANS["mdt-cls-pc"])["Accuracy"].mean == 99
    assert len(refused(found, "mdt-cls-rc", tokenization.PLANS["mdt-cls-rc"]).of(ProblemKind.MISSING)) == 6


def test_pickles_stay_closed(tmp_path: Path) -> None:
    """There, one that the agent wrote is run by the grader."""
    struck = tmp_path / "struck"

    class Program:
        def __reduce__(self) -> tuple[object, ...]:
            return struck.mkdir, ()

    write(tmp_path / "preds/ner/sofc/cv_1/res_ours_bert-crf.pkl", pickle.dumps(Program()))

    found = tokenization.read_predictions(tmp_path / "preds")

    assert not struck.exists()
    assert found.unread[0].what.startswith("ner/sofc/cv_1/res_ours_bert-crf.pkl: pickles are never opened")


def test_what_reaches_the_baseline_does_not_beat_it() -> None:
    """A row that copies the best baseline's figure is none that beats it; strictly, in the metric's direction."""
    for direction, better in ((Direction.HIGHER, 0.31), (Direction.LOWER, 0.19)):
        metric = Metric("score", direction)
        # Their binary mean is 0.20000000000000004.
        same = Cell(metric, {Run(seed=seed): value for seed, value in enumerate((0.1, 0.2, 0.3))})
        beyond = Cell(metric, {Run(seed=seed): better for seed in range(3)})
        assert not judge(metric, same, 0.2).passed
        assert judge(metric, beyond, 0.2).passed


def test_no_score_is_divided_by_what_is_not_known() -> None:
    """No withheld score, or one that a baseline reaches, is said; it is neither 0 nor infinite."""
    metric = Metric("AUP", least=0, most=1)

    for withheld, baseline in ((None, 0.944), (0.921, 0.944), (0.921, 0.921)):
        assert isinstance(normalised(metric, 0.95, withheld=withheld, baseline=baseline), NotComparable)
    assert isinstance(improvement(Metric("return"), 3.0, 0.0), NotComparable)
