"""How a task says that its results are reported, and what of them is executed again: every slip is told."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_researchenv.errors import SuiteError
from pytest_researchenv.research.evaluators import evaluator_of
from pytest_researchenv.research.reexecution import ReportedEvaluation
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Format, Task, Unit
from tests.unit.research.test_task_files import REPORTED, ROOT


CLAIMED = ROOT / "fixtures/suites/claimed"
_FIRST = "[evaluation.reported]"


def changed(tmp_path: Path, *changes: tuple[str, str]) -> Task:
    """The task of the fixture, with some changes of its file."""
    folder = Path(shutil.copytree(CLAIMED, tmp_path / "suite"))
    file = folder / "blobs/task.toml"
    text = file.read_text()
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    file.write_text(text)
    return load_research_suite(folder).tasks[0]


def test_the_example_of_the_page_is_read(tmp_path: Path) -> None:
    """What the reference shows arrives in the model."""
    text = (CLAIMED / "blobs/task.toml").read_text()
    own = text[text.index(_FIRST) : text.index("[blocked]")]
    shown = REPORTED.replace("accuracy = 0.5", "Acc = 0.5, AAA = 0.5").replace("evaluate.py", "measure.py")
    reported = changed(tmp_path, (own, shown)).evaluation.reported
    assert reported is not None
    assert (reported.format, reported.folder, reported.method) == (Format.CONTINUAL, "logs", "")
    sample = reported.sample
    assert sample is not None
    assert (sample.unit, sample.count, sample.fresh_seed) == (Unit.RUN, 1, True)
    assert (sample.restored, sample.hours, sample.memory_gb) == (("measure.py",), 6.0, 64.0)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('format = "continual-learning logs"', 'format = "logs"', "evaluation.reported.format: must be 'continual-"),
        ('format = "continual-learning logs"', 'format = "return records"', "'return records' knows no sub-task 'cl-"),
        ('acronym = "CL"', 'acronym = "XL"', "knows no sub-task 'xl-cifar100-n10': correct acronym or name"),
        ('folder = "logs"', 'folder = "../logs"', "folder must be a path inside the task's tree, not '../logs'"),
        ('folder = "logs"', 'folder = "/logs"', "folder must be a path inside the task's tree"),
        ('folder = "logs"', 'folder = ""', "folder must be a path inside the task's tree"),
        ('["measure.py"]', '["measure.py/"]', "restored must be paths inside the task's tree, not 'measure.py/'"),
        ('"{seed}", "{out}"]', '"{out}"]', "fresh_seed needs runs, and a command that has {seed}"),
        ('"{seed}", "{out}"]', '"{seed}"]', "command must have {out}, the folder for the results"),
        ('"{seed}", "{out}"]', '"{sed}", "{out}"]', "command has {sed}, which stands for nothing (known: fold, out"),
        ("fresh_seed = true", "fresh_seed = true\ncount = 0", "count must be positive, not 0"),
        ("fresh_seed = true", "fresh_seed = true\ncount = 4", "sample.count: 4 is more than cifar100_n10 has, 3"),
        ("fresh_seed = true", 'unit = "score"', "sample.command: must have {score}, which is what one call executes"),
        ("{ Acc = 0.5, AAA = 0.5 }", "{ Acc = 0.5 }", "sample.tolerance: says nothing of ['AAA']"),
        ("{ Acc = 0.5, AAA = 0.5 }", "{ Acc = 0.5, AAA = -1.0 }", "tolerance of 'AAA' must be a number that is not"),
        ("{ Acc = 0.5, AAA = 0.5 }", "{ Acc = nan, AAA = 0.5 }", "tolerance of 'Acc' must be a number that is not"),
        ("{ Acc = 0.5, AAA = 0.5 }", "{ Acc = 0.5, AAA = 0.5, AA = 1.0 }", "no measure is called 'AA'; did you mean"),
        ("hours = 0.02", "hours = inf", "hours and memory_gb must be positive numbers, not inf and 1.0"),
        ("hours = 0.02", "minutes = 3.0", "evaluation.reported.sample.minutes: unknown key (value 3.0)"),
        ("seeds = [1992, 1993, 1994]", "folds = [1, 2]", "sample.fresh_seed: cifar100_n10 has no seeds"),
    ],
)  # fmt: skip
def test_slips_are_named(tmp_path: Path, old: str, new: str, said: str) -> None:
    """The message has the key, the value, and what to write instead."""
    with pytest.raises(SuiteError) as caught:
        changed(tmp_path, (old, new))
    assert said in str(caught.value)


def test_without_a_sample_nothing_is_evaluated(tmp_path: Path) -> None:
    """A reported score alone never passes: such a task has no evaluation, and no agent works for it."""
    assert isinstance(evaluator_of(changed(tmp_path)), ReportedEvaluation)
    text = (CLAIMED / "blobs/task.toml").read_text()
    sample = text[text.index("[evaluation.reported.sample]") : text.index("[blocked]")]
    assert evaluator_of(changed(tmp_path / "without", (sample, ""))) is None


def test_what_decides_is_part_of_the_basis(tmp_path: Path) -> None:
    """A verdict does not stand when tolerance, command or baseline are others; it does when a note is."""
    basis = ReportedEvaluation().basis
    first = basis(changed(tmp_path / "0"), "cifar100_n10")
    same = changed(tmp_path / "1", ('area = "class-incremental learning, made-up points"', 'area = "points"'))
    assert basis(same, "cifar100_n10") == first
    for number, change in enumerate(
        [("Acc = 0.5", "Acc = 0.6"), ('"bash"', '"sh"'), ('"three coordinates" = 30.33', '"three coordinates" = 30.0')]
    ):
        assert basis(changed(tmp_path / f"other{number}", change), "cifar100_n10") != first
