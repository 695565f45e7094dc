"""From what an evaluation measured to what a sub-task came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.model import Verdict
from pytest_researchenv.research.cells import Reading, Run
from pytest_researchenv.research.metrics import Direction
from pytest_researchenv.research.result import ResearchCause, ResearchFinding, ResearchResult
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Task
from pytest_researchenv.research.verdict import Evaluated, Measured, concluded
from pytest_researchenv.suite import find_suite


TASK = next(one for one in load_research_suite(find_suite("researchgym")).tasks if one.name == "digits-continual")
SUBTASK = "steps2"
_BASELINE = {0: 94.0, 1: 95.0, 2: 96.0, 3: 95.0, 4: 95.0}


def readings(values: Mapping[int, object]) -> tuple[Reading, ...]:
    """Values of seeds."""
    return tuple(Reading(Run(seed=seed), value) for seed, value in values.items())


def evaluated(own: Mapping[int, object], baseline: Mapping[int, object] | None = _BASELINE) -> Evaluated:
    """What an evaluation found that measured the score that decides, and no other."""
    beside = None if baseline is None else Measured("lda", {"Acc": readings(baseline)})
    return Evaluated(Measured("own", {"Acc": readings(own)}), beside)


def came(own: Mapping[int, object], *, task: Task = TASK, **more: Mapping[int, object] | None) -> ResearchResult:
    """What came of the values of a score."""
    return concluded(task, SUBTASK, evaluated(own, **more))


def test_strictly_better_than_the_baseline_beside_passes() -> None:
    """The baseline on the same hidden data counts, and not the number that the task states (95.16)."""
    result = came(_BASELINE | {0: 94.1})

    assert (result.verdict, result.cause, result.completed) == (Verdict.PASSED, ResearchCause.NONE, True)
    assert result.deciding
    assert result.deciding.mean < TASK.subtasks[SUBTASK].deciding.to_beat
    assert result.deciding.above


def test_as_good_as_the_baseline_does_not_pass_and_is_complete() -> None:
    """Completed is an outcome of its own."""
    result = came(_BASELINE)

    assert (result.verdict, result.cause, result.completed) == (Verdict.FAILED, ResearchCause.NO_IMPROVEMENT, True)
    assert "Acc 95 ± 0.32 is no better than the best baseline, lda's 95, run beside on the same data" in result.reason


def test_without_a_baseline_beside_the_stated_number_is_compared_with() -> None:
    """So it is where an evaluation only measures what was handed in."""
    stated = TASK.subtasks[SUBTASK].deciding.to_beat

    assert came(dict.fromkeys(range(5), stated), baseline=None).verdict is Verdict.FAILED
    passed = came(dict.fromkeys(range(5), stated) | {0: stated + 0.01}, baseline=None)
    assert passed.verdict is Verdict.PASSED
    assert passed.deciding
    assert (passed.deciding.baseline.method, passed.deciding.baseline.beside) == ("lda", False)


def test_where_lower_is_better_so_it_is() -> None:
    """The direction of the measure decides."""
    measure = replace(TASK.measures["Acc"], better=Direction.LOWER)
    task = replace(TASK, measures=TASK.measures | {"Acc": measure})

    assert came(_BASELINE | {0: 93.9}, task=task).verdict is Verdict.PASSED
    assert came(_BASELINE | {0: 94.1}, task=task).verdict is Verdict.FAILED


def test_uncertainty_and_shares_are_recorded() -> None:
    """Standard error and interval over seeds, the share of the withheld method's score, and that of the baseline's."""
    found = came(dict.fromkeys(range(5), 97.98) | {0: 98.98, 1: 96.98}).deciding

    assert found
    assert found.error == pytest.approx(0.31623, abs=1e-5)
    assert found.interval == pytest.approx((97.102, 98.858), abs=1e-3)
    assert (found.clear, found.no_share) == (True, "")
    assert found.share == pytest.approx(1.0)
    assert found.gain == pytest.approx(97.98 / 95)


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({0: 99.0, 1: 99.0}, "seed 2"),
        (_BASELINE | {5: 99.0}, "seed 5"),
        (_BASELINE | {0: 100.5}, "100.5 is not within 0 and 100"),
        (_BASELINE | {0: float("nan")}, "nan is no finite number"),
        (_BASELINE | {0: True}, "True is no number"),
        ({}, "seed 0"),
    ],
    ids=["missing", "extra", "out-of-range", "nan", "bool", "nothing"],
)
def test_not_exactly_the_required_runs_or_no_values_of_the_measure_is_no_result(
    own: Mapping[int, object], says: str
) -> None:
    """The list of what is wrong is told; nothing is completed, and there is no score."""
    result = came(own)

    assert (result.verdict, result.cause, result.completed) == (Verdict.FAILED, ResearchCause.INVALID_RESULTS, False)
    assert says in " ".join(one.what for one in result.findings)
    assert result.scores == {}


def test_a_run_that_is_there_twice_is_no_result() -> None:
    """Duplicates are not averaged."""
    twice = Evaluated(Measured("own", {"Acc": (*readings(_BASELINE), *readings({0: 99.0}))}))

    assert concluded(TASK, SUBTASK, twice).cause is ResearchCause.INVALID_RESULTS


def test_findings_fail_whatever_was_measured() -> None:
    """A confirmed violation fails the sub-task, says why, and comes before what else is wrong."""
    found = (
        ResearchFinding("crash", "it ended with 1", ResearchCause.CRASH),
        ResearchFinding("network", "used the network"),
    )
    result = concluded(TASK, SUBTASK, replace(evaluated(_BASELINE | {0: 99.0}), findings=found))

    assert (result.verdict, result.cause, result.completed) == (Verdict.FAILED, ResearchCause.VIOLATION, False)
    assert result.reason == "network: used the network; crash: it ended with 1"
    assert result.scores == {}


def test_a_baseline_that_was_not_measured_is_nobodys_failure() -> None:
    """What the evaluation itself owes is an error."""
    with pytest.raises(InfrastructureError, match="did not measure the baseline beside"):
        came(_BASELINE, baseline={0: 95.0})


def test_scores_that_do_not_decide_may_be_left_out_and_have_to_be_right() -> None:
    """Where they are, they are exactly the required runs, too."""
    own = Measured("own", {"Acc": readings(_BASELINE | {0: 99.0}), "AAA": readings({0: 99.0})})

    assert concluded(TASK, SUBTASK, Evaluated(own)).cause is ResearchCause.INVALID_RESULTS
