"""Every published format is read: small files of each lie in `samples`, with figures that we made up."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from pytest_researchenv.research.cells import Run
from pytest_researchenv.research.outputs import continual, explanation, replay, retrieval, tokenization
from pytest_researchenv.research.outputs.found import Found
from pytest_researchenv.research.problems import OutputError
from tests.unit.research.made import (
    frame,
    generation,
    log,
    real_row,
    real_tables,
    record,
    retrieval_run,
    synthetic_row,
    training_logs,
    write,
)


SAMPLES = Path(__file__).parent / "samples"


def values(found: Found) -> dict[tuple[str, str, str], object]:
    """All that was found: sub-task, metric and run → value; nothing is there twice, and nothing was passed over."""
    assert not found.unread
    every = [(subtask, metric, one) for (subtask, metric), readings in found.readings.items() for one in readings]
    taken = {(subtask, metric, str(one.run)): one.value for subtask, metric, one in every}
    assert len(taken) == len(every)
    return taken


def why(found: Found) -> str:
    """Why the only file, or part of one, that was passed over was."""
    assert not found.readings
    (problem,) = found.unread
    return problem.what


# --- the samples --------------------------------------------------------------------------------------------


def test_a_training_log_is_read() -> None:
    """Accuracy after the last step, and the mean over all steps."""
    assert values(continual.read_logs(SAMPLES / "continual")) == {
        ("cl-imagenet-r-n5", "Acc", "seed 1992"): 77.75,
        ("cl-imagenet-r-n5", "AAA", "seed 1992"): 83.4,
    }


def test_retrieval_results_are_read() -> None:
    """By their settings: a corruption at its severity, and persons."""
    assert values(retrieval.read_runs(SAMPLES / "retrieval")) == {
        ("cmr-qs-image-cococ", "B16:Fog", "severity 5"): 71.25,
        ("cmr-reid", "CUHK2ICFG T2IR@1", "the run"): 36.5,
    }


def test_returns_are_read() -> None:
    """Pixels and states apart."""
    assert values(replay.read_records(SAMPLES / "replay")) == {
        ("irb-pixel-cheetah-run", "Average return", "seed 0, steps 100000"): 431.5,
        ("irb-cheetah-run", "Average return", "seed 0, steps 100000"): 702.25,
    }


def test_tables_of_attributions_are_read() -> None:
    """Those of the named explainer; of synthetic data, those with averages in the place of masked points."""
    assert values(explanation.read_tables(SAMPLES / "explanation", "Ours")) == {
        ("tim-pam", "CPD-Avg", "fold 0"): 0.4512,
        ("tim-pam", "CPD-Zero", "fold 0"): 0.5807,
        ("tim-state", "CPD", "fold 0"): 0.1623,
        ("tim-state", "AUP", "fold 0"): 0.9211,
        ("tim-state", "AUR", "fold 0"): 0.3553,
    }


def test_predictions_are_read() -> None:
    """In percent, as in the tables; a frame's columns are the seeds in their order."""
    found = values(tokenization.read_predictions(SAMPLES / "tokenization/preds"))

    assert found["mdt-gen-ner", "Micro-F1", "seed 33"] == 81.24
    assert found["mdt-cls-pc", "Accuracy", "seed 44"] == 95.33
    assert found["mdt-cls-sofc-ner", "Macro-F1", "seed 43, fold 1"] == 82.84
    assert len(found) == 2 * 7 + 3 + 2 * 3


def test_every_sub_task_has_a_plan() -> None:
    """39 of them, in five tasks."""
    counts = [len(one.PLANS) for one in (continual, retrieval, replay, tokenization, explanation)]

    assert counts == [6, 5, 9, 12, 7]


# --- complete hand-ins --------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", ["logs/ours/cifar224/0/10", "c100_ours", "anywhere"])
def test_either_layout_of_logs_makes_cells(tmp_path: Path, folder: str) -> None:
    """The stock folders, names of our own, and none: the log says its settings itself."""
    training_logs(tmp_path, folder)

    cells = continual.read_logs(tmp_path).cells("cl-cifar100-n10", continual.PLANS["cl-cifar100-n10"])

    assert (cells["Acc"].mean, cells["AAA"].mean) == (86.0, 92.0)


def test_logs_may_leave_the_setting_to_their_path(tmp_path: Path) -> None:
    """A trainer of the agent's own that prints only seeds and accuracies, in either layout."""
    text = log(1992, [80.0] * 10).replace("dataset: ", "data: ")
    write(tmp_path / "ours/imageneta/0/20/a.log", text)
    write(tmp_path / "ina_ours.log", text.replace("seed: 1992", "seed: 1993"))
    write(tmp_path / "inr_vit16_t10.log", text)

    assert set(values(continual.read_logs(tmp_path))) == {
        ("cl-imagenet-a-n10", metric, f"seed {seed}") for metric in ("Acc", "AAA") for seed in (1992, 1993)
    } | {("cl-imagenet-r-n10", metric, "seed 1992") for metric in ("Acc", "AAA")}


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("ours/cub/0/20/a.log", log(1992), "contradict each other: CIFAR-100 in 10 steps and CUB-200 in 10 steps"),
        ("inr_t7.log", log(1992).replace("dataset: ", "data: "), "ImageNet-R in 7 steps is no sub-task"),
        ("a.log", log(1992).replace("dataset: ", "data: "), "neither the settings nor the path say"),
        ("a.log", log(1992, [90.0] * 9), "holds the accuracy after 9 steps, and not after 10"),
        ("a.log", log(1992, average=99.0), "the logged average is 99, that of its accuracies 92.00"),
        (
            "a.log",
            log(1992).replace("curve: [np.float64(98.5), np", "curve: [np.float64(99.5), np"),
            "the logged curve",
        ),
        ("a.log", "no log at all\n", "names no seed"),
        ("a.log", "x => seed: 1e99\n", "a.log, seed 1e99: is no seed"),
    ],
)
def test_a_log_must_agree_with_itself(tmp_path: Path, name: str, text: str, said: str) -> None:
    """Settings, path, accuracies, curve and average; what was cut short is no run."""
    write(tmp_path / name, text)

    assert said in why(continual.read_logs(tmp_path))


@pytest.mark.parametrize("value", ["188.0", "-1.0", "nan", "'90'", "True", "__import__('os')"])
def test_an_accuracy_is_one(tmp_path: Path, value: str) -> None:
    """Out of range, or no number: named with its seed, for both metrics."""
    training_logs(tmp_path)
    path = tmp_path / "ours/cifar224/0/10/ours_1993_vit_base.log"
    path.write_text(path.read_text().replace("'total': np.float64(86.0)", f"'total': {value}"))

    with pytest.raises(OutputError, match=r"invalid \(2\): AAA: seed 1993: .*; Acc: seed 1993: "):
        continual.read_logs(tmp_path).cells("cl-cifar100-n10", continual.PLANS["cl-cifar100-n10"])


def test_all_corruptions_make_averages(tmp_path: Path) -> None:
    """Sixteen of each of two models, and their means."""
    for size, recall in (("base", 50.0), ("large", 60.0)):
        for number, name in enumerate(retrieval.IMAGE_SHIFTS):
            path = f"./dataset/coco-IP/COCO_IP_{name}_5"
            retrieval_run(
                tmp_path / f"{size}/{name}", (recall + number, 0.02), dataset="coco", vit=size, image_root=path
            )

    cells = retrieval.read_runs(tmp_path).cells("cmr-qs-image-cococ", retrieval.PLANS["cmr-qs-image-cococ"])

    assert {name: cell.mean for name, cell in retrieval.averages(cells).items()} == {"B16:Avg.": 57.5, "L16:Avg.": 67.5}


def test_all_text_corruptions_have_their_largest_severity(tmp_path: Path) -> None:
    """7, and 1 of whole sentences, which are rewritten in one way only."""
    for size in ("base", "large"):
        for name, column in retrieval.TEXT_SHIFTS.items():
            severity = 1 if column in {"Formal", "Casual", "Passive", "Active", "Backtrans"} else 7
            path = f"./dataset/coco-TP/{name}/{severity}/"
            retrieval_run(tmp_path / f"{size}/{name}", (0.02, 40.0), dataset="coco", vit=size, ann_root=path)

    cells = retrieval.read_runs(tmp_path).cells("cmr-qs-text-cococ", retrieval.PLANS["cmr-qs-text-cococ"])

    assert len(cells) == 30
    assert set(retrieval.averages(cells)) == {"B16:Avg.", "L16:Avg."}


def test_all_galleries_make_an_average(tmp_path: Path) -> None:
    """Both directions of six, each from a run of its own, whose other direction is about 0."""
    names = ("flickr", "coco", "fashion_gen", "nocaps_in_domain", "nocaps_near_domain", "nocaps_out_domain")
    for name in names:
        retrieval_run(tmp_path / f"i2t/{name}", (60.0, 0.1), dataset=name)
        retrieval_run(tmp_path / f"t2i/{name}", (0.1, 40.0), dataset=name)

    cells = retrieval.read_runs(tmp_path).cells("cmr-qgs-blip-b16", retrieval.PLANS["cmr-qgs-blip-b16"])

    assert len(cells) == 12
    assert retrieval.averages(cells)["Avg."].mean == 50.0


def test_a_second_result_in_a_folder_is_a_second_run(tmp_path: Path) -> None:
    """The script appends to its file; only the last line counts there."""
    retrieval_run(tmp_path / "i2t", (80.0, 0.1))
    path = tmp_path / "i2t/evaluate.txt"
    path.write_text(path.read_text() * 2)

    assert len(retrieval.read_runs(tmp_path).readings["cmr-qgs-blip-b16", "Base2Flickr I2TR@1"]) == 2


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"pretrained": "./weights/blip/model_base_retrieval_flickr.pth"}, "belongs to no table"),
        ({"vit": "large"}, "belongs to no table"),
        ({"dataset": "nocaps_entire_domain"}, "belongs to no table"),
        ({"backbone": "resnet\x1b[2J"}, "belongs to no table: backbone resnet\\x1b[2J"),
    ],
)
def test_runs_of_no_table_are_told(tmp_path: Path, settings: dict[str, str], said: str) -> None:
    """Weights that have seen the gallery, the large model, other data."""
    retrieval_run(tmp_path / "i2t", (80.0, 0.1), **settings)

    assert said in why(retrieval.read_runs(tmp_path))


@pytest.mark.parametrize("recalls", [(0.1, 0.2), ("80", 60.0), (180.0, 0.1)])
def test_a_direction_must_be_told(tmp_path: Path, recalls: tuple[float, float]) -> None:
    """By the path, or by one recall that is more than chance."""
    retrieval_run(tmp_path / "run", recalls)

    assert not retrieval.read_runs(tmp_path).readings
    assert retrieval.read_runs(tmp_path).unread


def test_settings_stand_beside_results(tmp_path: Path) -> None:
    """Results without settings are of nothing."""
    write(tmp_path / "i2t/evaluate.txt", '{"txt_r1": 80.0, "img_r1": 0.1}\n')

    assert why(retrieval.read_runs(tmp_path)) == "i2t/evaluate.txt: cannot be opened: No such file or directory"


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (record("cheetah-run-pixel", "dmc_state", 0, 1.0), "of no environment of the task"),
        (record("walker-walk", "dmc_state", 0, 1.0), "of no environment of the task"),
        (record("pong", "gym", 0, 1.0), "of no environment of the task: 'pong'"),
        (record("hopper", "robots", 0, 1.0), "of an unknown category: 'robots'"),
        ({"environment": "hopper", "seed": 0}, "has no metrics"),
        ({"seed": 0, "metrics": {"average_return": 1.0}}, "names no environment"),
        (record("hopper", "gym", True, 1.0), "its seed is no count: True"),
        (record("hopper", "gym", 0, 1.0, -5), "its env_steps is no count: -5"),
        ([[1]], "holds a list of what are no records"),
        ("text", "holds no record"),
    ],
)
def test_a_record_says_what_it_is_of(tmp_path: Path, made: object, said: str) -> None:
    """Environment, kind, seed, steps and return; what contradicts itself is of nothing."""
    write(tmp_path / "a.json", json.dumps(made))

    assert said in why(replay.read_records(tmp_path))


@pytest.mark.parametrize(
    ("environment", "category", "subtask"),
    [
        ("cheetah-run-pixel", None, "irb-pixel-cheetah-run"),
        ("pixel_cheetah_run", "dmc_pixel", "irb-pixel-cheetah-run"),
        ("Cheetah-Run", "state", "irb-cheetah-run"),
        ("walker-walk-v0", None, "irb-pixel-walker-walk"),
        ("finger_turn_hard", "dmc_state", "irb-finger-turn-hard"),
        ("Walker2d-v2", "gym", "irb-walker2d"),
        ("HalfCheetah-v2", "mujoco", "irb-halfcheetah"),
    ],
)
def test_environments_are_found(tmp_path: Path, environment: str, category: str | None, subtask: str) -> None:
    """By the names in use, below `records` too; what the published grader writes is no record."""
    write(tmp_path / "a/b.json", json.dumps({"records": [record(environment, category, 0, 1.0)]}))
    write(tmp_path / "grading_summary.json", json.dumps(record("hopper", "gym", 0, 1.0)))

    assert [key[0] for key in replay.read_records(tmp_path).readings] == [subtask]


def test_a_return_of_the_suite_is_at_most_1000(tmp_path: Path) -> None:
    """A thousand steps with a reward of at most 1; Gym's returns have no bound."""
    for environment, kind, seeds in (("reacher-hard", "dmc_state", 5), ("hopper", "gym", 3)):
        made = [record(environment, kind, seed, 1000.5) for seed in range(seeds)]
        write(tmp_path / f"{environment}.json", json.dumps(made))
    found = replay.read_records(tmp_path)

    assert found.cells("irb-hopper", replay.PLANS["irb-hopper"])["Average return"].mean == 1000.5
    with pytest.raises(OutputError, match=r"1000\.5 is not within 0 and 1000"):
        found.cells("irb-reacher-hard", replay.PLANS["irb-reacher-hard"])


def test_ranges_are_those_of_the_metrics() -> None:
    """Percent of accuracies, recalls and F1, 0 to 1 of areas, 0 to 1000 of the suite's returns, none of Gym's."""
    ranges = {
        (name.partition("-")[0], plan.metric.least, plan.metric.most)
        for one in (continual, retrieval, tokenization, explanation)
        for name, plans in one.PLANS.items()
        for plan in plans
    }
    returns = {name: (plan.metric.least, plan.metric.most) for name, (plan,) in replay.PLANS.items()}

    assert ranges == {("cl", 0, 100), ("cmr", 0, 100), ("mdt", 0, 100), ("tim", 0, 4), ("tim", 0, 1)}
    assert {name for name, limits in returns.items() if limits == (0, 1000)} == {
        *("irb-quadruped-walk", "irb-cheetah-run", "irb-reacher-hard", "irb-finger-turn-hard"),
        *("irb-pixel-walker-walk", "irb-pixel-cheetah-run"),
    }
    assert {returns[name] for name in ("irb-walker2d", "irb-halfcheetah", "irb-hopper")} == {(-math.inf, math.inf)}


def test_turning_a_finger_takes_three_times_the_steps() -> None:
    """300K, and 100K of all others."""
    assert {name for name, (plan,) in replay.PLANS.items() if plan.runs[0].steps == 300_000} == {"irb-finger-turn-hard"}


@pytest.mark.parametrize("dataset", ["pam", "boiler", "epilepsy", "wafer", "freezer"])
def test_all_folds_make_cells(tmp_path: Path, dataset: str) -> None:
    """Five folds of each of two substitutes."""
    real_tables(tmp_path, dataset)

    cells = explanation.read_tables(tmp_path, "ours").cells(f"tim-{dataset}", explanation.PLANS[f"tim-{dataset}"])

    assert (cells["CPD-Avg"].mean, cells["CPD-Zero"].mean) == (0.43, 0.53)
    assert cells["CPD-Avg"].summary().count == 5


def test_a_table_with_a_header_is_read_by_its_names(tmp_path: Path) -> None:
    """In any order, and whatever stands beside."""
    rows = "".join(f"{0.1 + fold / 100},ours,{fold},x,Average,0.9,0.3\n" for fold in range(5))
    write(tmp_path / "switch_feature.csv", "CPD,Explainer,Fold,Note,Baseline,AUP,AUR\n" + rows)

    subtask = "tim-switch-feature"
    cells = explanation.read_tables(tmp_path, "ours").cells(subtask, explanation.PLANS[subtask])

    assert {name: cell.mean for name, cell in cells.items()} == {"CPD": 0.12, "AUP": 0.9, "AUR": 0.3}


def test_other_shares_of_points_are_of_other_cells(tmp_path: Path) -> None:
    """Of six shares that the script takes by default, the table is of a tenth."""
    write(tmp_path / "pam.csv", "".join(real_row(0, 0.1 + share, topk=share) for share in (0.1, 0.2, 0.3)))

    assert [one.value for one in explanation.read_tables(tmp_path, "ours").readings["tim-pam", "CPD-Avg"]] == [0.2]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("results.csv", real_row(0, 0.4), "its path must name one data set"),
        ("pam/boiler.csv", real_row(0, 0.4), "not boiler, pam"),
        ("pam.csv", "1,2,3\n", "pam.csv:1: has 3 columns, and not 16 or 15"),
        ("pam.csv", "fold,fold\n", "its header names a column twice"),
        ("pam.csv", "fold,cpd\n0,0.4\n", "its first line is no row, and as a header lacks baseline, explainer"),
        ("pam.csv", synthetic_row(0, 0.1, 0.9, 0.3), "pam.csv:1: has no column topk"),
        ("pam.csv", real_row(0, 0.4, substitute="Noise"), "its baseline is 'noise'"),
        ("pam.csv", real_row(0, 0.4).replace("42,0", "42,0.0"), "its fold is '0.0'"),
    ],
)
def test_a_table_says_what_it_is_of(tmp_path: Path, name: str, text: str, said: str) -> None:
    """Data set, columns, fold and substitute."""
    write(tmp_path / name, text)

    assert said in why(explanation.read_tables(tmp_path, "ours"))


@pytest.mark.parametrize("value", ["nan", "inf", "1_0", "0x1", "", "-0.1", "1e3", "\uff14"])
def test_a_cpd_is_a_number_in_range(tmp_path: Path, value: str) -> None:
    """As it is written by the scripts, and not all that Python takes for one."""
    real_tables(tmp_path, folds=[0, 1, 2, 3])
    write(tmp_path / "pam/4.csv", real_row(4, value) + real_row(4, 0.5, substitute="Zeros"))

    with pytest.raises(OutputError, match=r"invalid \(1\): CPD-Avg: fold 4: "):
        explanation.read_tables(tmp_path, "ours").cells("tim-pam", explanation.PLANS["tim-pam"])


def test_generation_takes_five_seeds(tmp_path: Path) -> None:
    """Those that the script has; both measures of each task."""
    generation(tmp_path, {33: 0.81, 44: 0.82, 55: 0.83, 111: 0.84, 222: 0.85})

    cells = tokenization.read_predictions(tmp_path).cells("mdt-gen-sar", tokenization.PLANS["mdt-gen-sar"])

    assert (cells["Micro-F1"].mean, cells["Macro-F1"].mean) == (83.0, 73.0)


@pytest.mark.parametrize("columns", [None, (42, 43, 44)])
def test_frames_of_all_folds_make_cells(tmp_path: Path, columns: tuple[int, ...] | None) -> None:
    """Columns are positions, as the scripts leave them, or the seeds."""
    for fold in tokenization.FOLDS:
        shares = [round(0.8 + fold / 100 + seed / 1000, 3) for seed in (1, 2, 3)]
        frame(tmp_path / f"ner/sofc/cv_{fold}/res_ours_bert-crf.json", shares, [0.7, 0.7, 0.7], columns)
    frame(tmp_path / "relation_classification/res_ours.json", [0.5, 0.5, 0.5], [0.9, 0.9, 0.9], columns)

    found = tokenization.read_predictions(tmp_path)

    cell = found.cells("mdt-cls-sofc-ner", tokenization.PLANS["mdt-cls-sofc-ner"])["Macro-F1"]
    assert (cell.mean, cell.summary().count) == (83.2, 3)
    assert cell.values[Run(seed=43, fold=5)] == 85.2
    assert found.cells("mdt-cls-rc", tokenization.PLANS["mdt-cls-rc"])["Micro-F1"].mean == 90.0


def test_a_second_frame_is_a_second_run(tmp_path: Path) -> None:
    """There, whichever is listed first counts; a fourth column is a seed that nobody asked for."""
    for name in ("res_a.json", "res_b.json"):
        frame(tmp_path / f"relation_classification/{name}", [0.5, 0.5, 0.5, 0.6], [0.9, 0.9, 0.9, 0.9])

    with pytest.raises(OutputError) as caught:
        tokenization.read_predictions(tmp_path).cells("mdt-cls-rc", tokenization.PLANS["mdt-cls-rc"])
    assert "duplicate (6): " in str(caught.value)
    assert "not asked for (2): Macro-F1: seed -3" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "document", "said"),
    [
        ("generation/gen_seed_33.json", {"seed": 44, "metrics": {}}, "is named after seed 33, and says 44"),
        ("generation/gen_seed_1.json", {"seed": True, "metrics": {}}, "says True"),
        ("generation/gen_seed_33.json", {"seed": 33}, "has no metrics"),
        ("generation/gen_summary.json", {"seeds": [33]}, "a summary without gen_seed_33.json"),
        ("cls/pc_summary.json", [], "holds no JSON object"),
        ("relation_classification/res_a.json", {"columns": [0]}, "is no frame"),
        ("relation_classification/res_a.json", {"columns": [0, 0], "index": [], "data": []}, "no different seeds"),
        (
            "relation_classification/res_a.json",
            {"columns": [0], "index": ["a", "a"], "data": [[1], [1]]},
            "one of each",
        ),
        ("relation_classification/res_a.json", {"columns": [0], "index": ["a"], "data": [[1, 2]]}, "not one value"),
        (
            "relation_classification/res_a.json",
            {"columns": [0], "index": ["a"], "data": [[1]]},
            "has no row of the test",
        ),
    ],
)
def test_predictions_have_a_shape(tmp_path: Path, name: str, document: object, said: str) -> None:
    """Names, seeds and lengths go together."""
    write(tmp_path / name, json.dumps(document))

    assert said in why(tokenization.read_predictions(tmp_path))


def test_accuracies_of_paragraphs_have_their_seeds(tmp_path: Path) -> None:
    """One of each."""
    made = {"best_lr": 1, "model_name": "m", "seeds": [42, 43], "val_accuracy_list": [1], "test_accuracy_list": [1, 1]}
    write(tmp_path / "cls/pc_summary.json", json.dumps(made))

    assert why(tokenization.read_predictions(tmp_path)).endswith("has 2 seeds, 2 test and 1 validation accuracies")


def test_a_percentage_is_no_share(tmp_path: Path) -> None:
    """84.4 where the format has 0.844 is 8440 %, and out of range."""
    frame(tmp_path / "relation_classification/res_a.json", [84.4, 0.5, 0.5], [0.9, 10**40, 0.9])

    with pytest.raises(OutputError) as caught:
        tokenization.read_predictions(tmp_path).cells("mdt-cls-rc", tokenization.PLANS["mdt-cls-rc"])
    assert "Macro-F1: seed 42: 8440 is not within 0 and 100" in str(caught.value)
    assert "Micro-F1: seed 43: 1e+40 is not within 0 and 100" in str(caught.value)
