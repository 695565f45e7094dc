"""The journal: what was said in it stays, whatever died meanwhile."""

from __future__ import annotations

import multiprocessing
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_researchenv.recording.entry import Entry, Outcome, plain
from pytest_researchenv.recording.journal import Began, Collected, Finished, Journal, journals_in


def finished(number: int, **changed: object) -> Finished:
    """A line of a finished test."""
    return Finished(Entry(f"test_{number}", Outcome.PASSED, 1.0, 2.0, **changed))  # type: ignore[arg-type] # by name


def test_lines_come_back_as_they_were_written(tmp_path: Path) -> None:
    """In order, each of its kind."""
    journal = Journal(tmp_path / "run", "s1")
    lines: list[Collected | Began | Finished] = [
        Collected(2, {"mine": "digest"}),
        Began("test_1", 1.0, "oracle", "mine/x", "C1", 2, "gw0"),
        finished(1),
    ]

    for line in lines:
        journal.append(line)

    assert list(journal.lines()) == lines
    assert [one.session for one in journals_in(tmp_path / "run")] == ["s1"]


def test_a_torn_line_takes_no_other_with_it(tmp_path: Path) -> None:
    """Who was killed in the midst of a line leaves a part of it; the next line stands on its own."""
    journal = Journal(tmp_path, "s1")
    journal.append(finished(1))
    with journal.path.open("ab") as file:
        file.write(b'{"entry": {"test": "test_2", "outc')

    journal.append(finished(3))

    assert list(journal.lines()) == [finished(1), finished(3)]


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_in_a_journal_stop_a_session(raw: bytes) -> None:
    """Lines that were not written by us count for nothing."""
    last = finished(1, log=plain(raw.decode("utf-8", "surrogateescape")))
    with tempfile.TemporaryDirectory() as folder:
        journal = Journal(Path(folder), "s1")
        journal.path.write_bytes(raw)
        journal.append(last)

        assert list(journal.lines())[-1] == last


def _write(folder: Path, number: int) -> None:
    journal = Journal(folder, "s1")
    for one in range(20):
        journal.append(finished(100 * number + one, output="x" * 5000))


def test_processes_append_to_one_journal(tmp_path: Path) -> None:
    """Workers' lines do not mix, however long they are."""
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_write, args=(tmp_path, number)) for number in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()

    assert len(list(Journal(tmp_path, "s1").lines())) == 60
