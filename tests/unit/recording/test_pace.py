"""How often a report is written: soon enough, and for a cost that stays in proportion."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pytest_researchenv.recording.entry import Entry, Outcome
from pytest_researchenv.recording.pace import Pace, Paced
from pytest_researchenv.recording.reports import Reports


def _entries_written(results: int, *, every_s: float, per_entry_s: float = 0.0) -> tuple[int, float]:
    """Simulate a session; return how many entries were written in all, and how long that took."""
    pace, now, written, took = Pace(), 0.0, 0, 0.0
    for number in range(1, results + 1):
        now += every_s
        if pace.due_in(number, now) <= 0:
            cost = number * per_entry_s
            pace.written(number, began=now, ended=now + cost)
            now, written, took = now + cost, written + number, took + cost
    return written, took


@pytest.mark.parametrize("results", [100, 1_000, 10_000])
def test_results_that_come_fast_cost_a_fixed_number_of_entries_each(results: int) -> None:
    """However many there are: the whole cost is linear."""
    assert _entries_written(results, every_s=0)[0] <= 18 * results


def test_results_that_come_slowly_cost_a_small_part_of_the_time() -> None:
    """Half a percent, even where one entry takes a millisecond to write."""
    _, took = _entries_written(5_000, every_s=2.0, per_entry_s=0.001)

    assert took <= 0.01 * 5_000 * 2.0


def test_the_first_results_are_written_at_once() -> None:
    """A short session has its report up to date all the time."""
    assert _entries_written(16, every_s=0)[0] == sum(range(1, 17))


def test_a_result_is_written_soon_although_nothing_else_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that takes hours holds nothing back."""
    monkeypatch.setattr("pytest_researchenv.recording.pace._LEAST_S", 0.05)
    wrote = threading.Event()
    counts = iter((100, 101))

    def write() -> int:
        count = next(counts)
        if count > 100:
            wrote.set()
        return count

    paced = Paced(write)
    paced.write()
    paced.changed(101)

    assert wrote.wait(5)


def test_a_report_holds_all_results_in_the_end(tmp_path: Path) -> None:
    """What was held back is written when the session ends."""
    reports = Reports("r", "s", junit=tmp_path / "x.xml", ctrf=tmp_path / "x.json")
    reports.start()

    for number in range(1_000):
        reports.add(Entry(f"a/test_x.py::test_y[{number}]", Outcome.PASSED, 1e9, 1.0, log="x" * 500))
    reports.finish()

    assert (tmp_path / "x.xml").read_bytes().count(b"<testcase ") == 1_000
    assert (tmp_path / "x.json").read_bytes().count(b"rawStatus") == 1_000


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    """A file that was never put in place is nobody's any more."""
    (tmp_path / f".x.xml.{'a' * 32}").write_text("<torn")
    (tmp_path / ".x.xml.mine").write_text("")

    Reports("r", "s", junit=tmp_path / "x.xml", ctrf=None).start()

    assert sorted(path.name for path in tmp_path.iterdir()) == [".x.xml.mine", "x.xml"]
