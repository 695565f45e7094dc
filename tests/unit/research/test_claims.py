"""What reported values count for: never for more than what was executed again shows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.research.cells import Cell, Run
from pytest_researchenv.research.claims import Executed, Piece, compared, counted, drawn, pieces_of
from pytest_researchenv.research.metrics import Direction
from pytest_researchenv.research.outputs.formats import plans_of, read_as
from pytest_researchenv.research.result import ResearchCause
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Format, Sample, Task
from pytest_researchenv.suite import find_suite
from tests.unit.research.made import generation, log, record, write


TASKS = {task.acronym: task for task in load_research_suite(find_suite("researchgym")).tasks if task.source.git}
CL = TASKS["CL"]
SUBTASK = "cifar100_n10"


def sample_of(task: Task) -> Sample:
    """A task's sample."""
    reported = task.evaluation.reported
    assert reported is not None
    assert reported.sample is not None
    return reported.sample


def claimed(values: Mapping[int, float], *, aaa: float = 90.0) -> dict[str, Cell]:
    """Claims of accuracies, by seed."""
    scores = CL.subtasks[SUBTASK].scores
    metrics = {name: CL.measure(SUBTASK, name).metric(name) for name in scores}
    return {
        "Acc": Cell(metrics["Acc"], {Run(seed): value for seed, value in values.items()}),
        "AAA": Cell(metrics["AAA"], dict.fromkeys(map(Run, values), aaa)),
    }


def ran(seed: int, acc: object, *, fresh: bool = False, aaa: object = 90.0) -> Executed:
    """What came of a seed."""
    return Executed(Piece(Run(seed), fresh=fresh), {"Acc": acc, "AAA": aaa})


@pytest.mark.parametrize("task", TASKS.values(), ids=TASKS)
def test_every_published_task_says_what_is_executed_again(task: Task) -> None:
    """Each of its sub-tasks has something that can be drawn, and a seed that nobody knows where there are seeds."""
    sample = sample_of(task)
    for name, subtask in task.subtasks.items():
        pieces = drawn(task, name, sample, b"secret")
        assert pieces[: sample.count]
        assert set(pieces[: sample.count]) <= set(pieces_of(task, name, sample))
        assert [one.fresh for one in pieces] == [False] * sample.count + [True] * bool(subtask.required.seeds)


@pytest.mark.parametrize("form", Format)
def test_every_format_is_of_a_published_task(form: Format) -> None:
    """The readers, and the descriptions, know the same sub-tasks."""
    task = next(one for one in TASKS.values() if one.evaluation.reported and one.evaluation.reported.format is form)
    assert all(plans_of(form, task.read_as(name)) for name in task.subtasks)


def test_what_is_drawn_is_not_known_before_the_hand_in() -> None:
    """Every run is drawn for some secret, the same for the same one, and the drawn seed is none of the required."""
    sample = sample_of(CL)
    draws = [drawn(CL, SUBTASK, sample, bytes([number])) for number in range(60)]
    assert drawn(CL, SUBTASK, sample, b"\0") == draws[0]
    assert Counter(one[0].run.seed for one in draws).keys() == {1992, 1993, 1994}
    fresh = [one[1].run.seed for one in draws]
    assert len(set(fresh)) == 60
    assert all(seed is not None and 10**6 <= seed < 10**9 for seed in fresh)


def test_readers_take_every_seed_that_may_be_drawn(tmp_path: Path) -> None:
    """The longest one, too: a log of it is read as the run that was asked for."""
    for number in (10**6, 10**9 - 1):
        root = tmp_path / str(number)
        write(root / "logs/cifar224_t10.log", log(number))
        generation(root / "preds", {number: 0.5})
        write(root / "returns/hopper.json", json.dumps(record("Hopper-v2", "gym", number, 1.0)))
        read = {
            Format.CONTINUAL: read_as(Format.CONTINUAL, root / "logs"),
            Format.TOKENIZATION: read_as(Format.TOKENIZATION, root / "preds"),
            Format.REPLAY: read_as(Format.REPLAY, root / "returns"),
        }
        for form, found in read.items():
            seeds = {one.run.seed for readings in found.readings.values() for one in readings}
            assert (form, seeds, found.unread) == (form, {number}, ())


@pytest.mark.parametrize(
    ("reports", "came", "expected"),
    [
        # An honest agent: each run counts for what it reported, where the executed ones are no worse.
        ((80, 81, 82), [ran(1994, 82)], (80, 81, 82)),
        ((80, 81, 82), [ran(1992, 80)], (80, 80, 80)),
        ((80, 81, 82), [ran(1993, 81), ran(7, 80.5, fresh=True)], (80, 80.5, 80.5)),
        # The sample is right, and the rest is made up.
        ((99, 99, 70), [ran(1994, 70)], (70, 70, 70)),
        # What comes out may be better than what was reported: the report stands.
        ((80, 81, 82), [ran(1993, 95), ran(7, 95, fresh=True)], (80, 81, 82)),
        # A table of the known seeds, and something else for others.
        ((99, 99, 99), [ran(1993, 99), ran(7, 40, fresh=True)], (40, 40, 40)),
        # Within the tolerance, the worse of the two.
        ((80, 81, 82), [ran(1994, 81.5)], (80, 81, 81.5)),
    ],
    ids=["best-drawn", "worst-drawn", "fresh", "rest-made-up", "modest", "table", "tolerated"],
)  # fmt: skip
def test_no_run_counts_for_more_than_was_executed(
    reports: tuple[float, ...], came: list[Executed], expected: tuple[float, ...]
) -> None:
    """Hand-worked: the worse of report and execution; of others, at most the worst executed; of all, the drawn seed."""
    claims = claimed(dict(zip((1992, 1993, 1994), reports, strict=True)))

    assert compared(CL, SUBTASK, sample_of(CL), claims, came) == ()
    found = counted(CL, SUBTASK, claims, came)

    assert [one.value for one in found["Acc"]] == list(expected)
    assert [one.run.seed for one in found["Acc"]] == [1992, 1993, 1994]


def test_claims_can_only_lower_a_score() -> None:
    """Whatever is claimed beside it: the mean is no better than that of the executed run alone."""
    for rest in (0.0, 50.0, 69.9, 70.1, 99.0, 100.0):
        found = counted(CL, SUBTASK, claimed({1992: rest, 1993: 70.0, 1994: rest}), [ran(1993, 70.0)])
        values = [one.value for one in found["Acc"] if isinstance(one.value, float)]
        assert (len(values), sum(values) <= 3 * 70.0) == (3, True)


@pytest.mark.parametrize(
    ("came", "cause", "said"),
    [
        (ran(1993, 61.2), ResearchCause.VIOLATION, "seed 1993: Acc was reported as 81, and 61.2 comes out"),
        (ran(1993, 81.0, aaa=80.0), ResearchCause.VIOLATION, "AAA was reported as 90, and 80 comes out"),
        (ran(1993, 101.0), ResearchCause.INVALID_RESULTS, "101 is not within 0 and 100"),
        (ran(1993, "81"), ResearchCause.INVALID_RESULTS, "is no number"),
        (ran(1993, float("nan")), ResearchCause.INVALID_RESULTS, "no finite number"),
        (Executed(Piece(Run(1993)), {"Acc": 81.0}), ResearchCause.INVALID_RESULTS, "no AAA came out"),
        (ran(7, True, fresh=True), ResearchCause.INVALID_RESULTS, "is no number"),
    ],
    ids=["worse", "another-score", "range", "text", "nan", "missing", "fresh"],
)
def test_what_comes_out_otherwise_is_told(came: Executed, cause: ResearchCause, said: str) -> None:
    """A report that is better than what comes out is a violation; what is missing, or no value, makes it invalid."""
    (finding,) = compared(CL, SUBTASK, sample_of(CL), claimed({1992: 80, 1993: 81, 1994: 82}), [came])
    assert (finding.cause, said in finding.what) == (cause, True), finding


def test_where_lower_is_better_everything_is_the_other_way_round() -> None:
    """A made-up error is a low one."""
    measures = {**CL.measures, "Acc": replace(CL.measures["Acc"], better=Direction.LOWER)}
    task = replace(CL, measures=measures)
    claims = claimed({1992: 1, 1993: 20, 1994: 3})
    claims["Acc"] = Cell(task.measure(SUBTASK, "Acc").metric("Acc"), claims["Acc"].values)
    found = counted(task, SUBTASK, claims, [ran(1993, 22)])
    assert [one.value for one in found["Acc"]] == [22, 22, 22]
    assert compared(task, SUBTASK, sample_of(task), claims, [ran(1993, 22)])[0].cause is ResearchCause.VIOLATION


def test_columns_that_were_only_claimed_never_beat_the_baseline() -> None:
    """Retrieval: of sixteen corruptions two are executed; others count for what the best baseline reached in them."""
    task, name = TASKS["CMR"], "qs_image_cococ"
    subtask = task.subtasks[name]
    scores = [score for score, one in subtask.scores.items() if not one.mean_of]
    best = subtask.deciding.best[0]
    claims = {one: Cell(task.measure(name, one).metric(one), {Run(): 99.0}) for one in scores}
    two = [
        Executed(Piece(Run(), one), {one: subtask.scores[one].baselines[best]}) for one in ("B16:Gauss.", "B16:JPEG")
    ]

    found = counted(task, name, claims, two)

    assert found["B16:Snow"][0].value == subtask.scores["B16:Snow"].baselines[best]
    mean = found["B16:Avg."][0].value
    assert isinstance(mean, float)
    # The published mean is rounded to one digit.
    assert mean == pytest.approx(subtask.deciding.to_beat, abs=0.06)
    better = counted(task, name, claims, [replace(two[0], values={"B16:Gauss.": 80.0}), two[1]])["B16:Avg."][0].value
    assert better == pytest.approx(mean + (80.0 - subtask.scores["B16:Gauss."].baselines[best]) / 16)
