"""Leases under load and random deaths: never twice, never overtaken, hardly ever idle; how: `benchmarks/leases.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.leases import Outcome, Plan, Task, ideal_s, simulate


def check(outcome: Outcome) -> None:
    """What holds however busy the machine is."""
    assert not outcome.doubles
    assert outcome.done == outcome.plan.tasks
    assert outcome.overtaken == 0
    assert outcome.left == 0


def test_no_device_is_held_twice_and_nobody_is_overtaken(tmp_path: Path) -> None:
    """Some processes, some of which are killed; each task is done, and nothing is left in the line."""
    outcome = simulate(Plan(processes=8, tasks=80, deaths=8, mean_s=0.05), tmp_path)

    check(outcome)
    assert outcome.died[1] == 8
    assert 0.05 < outcome.used_of_possible <= 1.01


@pytest.mark.slow
def test_two_thousand_tasks_of_24_processes(tmp_path: Path) -> None:
    """Nine tenths of what first come, first served allows, and nobody waits longer than those before him take."""
    outcome = simulate(Plan(mean_s=1.0), tmp_path)

    check(outcome)
    assert outcome.died[1] == 100
    assert outcome.used_of_possible >= 0.9
    assert outcome.late < 5


def test_the_witness_sees_what_is_held_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a line that gives everybody everything, there is something to see."""
    from pytest_researchenv.leases import line  # noqa: PLC0415 - replaced in this test alone

    real = line.Line.settled

    def generous(self: line.Line, **given: object) -> line.Line:
        alone = [line.Line((ticket,), {}, 1) for ticket in self.tickets]
        served = tuple(one.tickets[0] for each in alone if (one := real(each, **given)).tickets)  # type: ignore[arg-type]
        return line.Line(served, {}, self.next_number)

    monkeypatch.setattr(line.Line, "settled", generous)

    assert simulate(Plan(processes=4, tasks=12, deaths=0, mean_s=0.1), tmp_path).doubles


@pytest.mark.parametrize(
    ("work", "seconds"),
    [
        ([[(8, 1.0)], [(1, 1.0)], [(8, 1.0)]], 3.0),
        ([[(1, 1.0), (1, 1.0)], [(2, 2.0)]], 2.0),
        # The one that came last does not slip in before the one that wants all.
        ([[(2, 3.0)], [(8, 1.0)], [(1, 2.0)]], 6.0),
        ([[]], 0.0),
    ],
)
def test_the_replay_is_what_the_rule_says(work: list[list[tuple[int, float]]], seconds: float) -> None:
    """First come, first served, nothing between."""
    assert ideal_s([[Task(*one) for one in tasks] for tasks in work], 8) == seconds
