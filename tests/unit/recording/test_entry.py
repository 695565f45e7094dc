"""What a test came to, from the reports on it."""

from __future__ import annotations

from typing import Literal

import pytest

from pytest_researchenv.recording.entry import Entry, Finishing, Outcome


def report(
    when: str, outcome: str = "passed", text: object = None, *, name: str = "test_x", printed: str = ""
) -> pytest.TestReport:
    """A report as pytest makes it."""
    known: Literal["passed", "failed", "skipped"] = outcome  # type: ignore[assignment] # or pytest-rerunfailures' own
    stage: Literal["setup", "call", "teardown"] = when  # type: ignore[assignment] # or xdist's own
    sections = [("Captured stdout call", printed)] if printed else []
    return pytest.TestReport(name, ("f.py", 1, name), {}, known, text, stage, sections=sections, duration=0.5, start=7)  # type: ignore[arg-type] # as pytest has them


def finish(*reports: pytest.TestReport) -> list[Entry]:
    """The entries that come of some reports."""
    finishing = Finishing()
    return [entry for one in reports if (entry := finishing.feed(one))]


@pytest.mark.parametrize(
    ("reports", "outcome", "message"),
    [
        ([report("setup"), report("call"), report("teardown")], Outcome.PASSED, ""),
        ([report("setup"), report("call", "failed", "\nboom\nx"), report("teardown")], Outcome.FAILED, "boom"),
        ([report("setup", "failed", "no engine"), report("teardown")], Outcome.ERROR, "no engine"),
        ([report("setup"), report("call"), report("teardown", "failed", "torn")], Outcome.ERROR, "torn"),
        (
            [report("setup"), report("call", "failed", "boom"), report("teardown", "failed", "torn")],
            Outcome.FAILED,
            "boom",
        ),
        (
            [report("setup"), report("call", "skipped", ("f", 1, "Skipped: needs a robot")), report("teardown")],
            Outcome.SKIPPED,
            "needs a robot",
        ),
        ([report("setup"), report("???", "failed", "worker 'gw0' crashed")], Outcome.ERROR, "worker 'gw0' crashed"),
        ([report("call", "failed", "")], None, ""),
    ],
)
def test_reports_come_to_one_outcome(reports: list[pytest.TestReport], outcome: Outcome | None, message: str) -> None:
    """What failed first decides: no teardown turns a failure into an error."""
    entries = finish(*reports)

    assert [(entry.outcome, entry.message) for entry in entries] == ([(outcome, message)] if outcome else [])
    assert [entry.crashed for entry in entries] == [str(one.when) == "???" for one in reports[-1:] if outcome]


def test_a_run_that_is_to_be_repeated_counts_for_nothing() -> None:
    """As pytest-rerunfailures reports it: its set-up and its failure are forgotten."""
    again = [report("setup"), report("call", "rerun", "boom")]
    last = [report("setup"), report("call", printed="fine\n"), report("teardown", printed="fine\n")]

    (entry,) = finish(*again, *last)

    assert (entry.outcome, entry.duration_s, entry.started) == (Outcome.PASSED, 1.5, 7)
    assert entry.output == "--- Captured stdout call ---\nfine"


def test_tests_of_several_workers_do_not_mix() -> None:
    """Their reports come in any order."""
    entries = finish(
        report("setup", name="a"),
        report("setup", name="b"),
        report("call", "failed", "boom", name="a"),
        report("call", name="b"),
        report("teardown", name="b"),
        report("teardown", name="a"),
    )

    assert [(entry.test, entry.outcome) for entry in entries] == [("b", Outcome.PASSED), ("a", Outcome.FAILED)]


def test_long_texts_are_cut_from_the_front() -> None:
    """The end of an error is what tells."""
    (entry,) = finish(report("setup", "failed", "x" * 10_000 + "end"), report("teardown"))

    assert entry.details.startswith("[... 6003 characters before it ...]")
    assert entry.details.endswith("end")
