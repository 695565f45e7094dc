"""What is told of a run, one line for each thing that happens: each once, in order, whatever a record holds."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.recording.activity import Closed, Working
from pytest_researchenv.recording.entry import Entry, Outcome
from pytest_researchenv.recording.journal import Finished
from pytest_researchenv.watching.events import Event, Kind, duration, json_line, plain_line
from pytest_researchenv.watching.watched import WatchedRun
from tests.unit.watching.made import NOW, MadeRun, dead_process


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    """A run in which nothing has happened yet."""
    return MadeRun(tmp_path / "nightly")


def _told(run: WatchedRun) -> list[str]:
    """What has happened, without when, and without what happens in each run."""
    return [f"{event.kind}: {event.words}" for event in run.look()]


def test_what_happens_is_told_once(made: MadeRun) -> None:
    """From the first test to the end; what was told is not told again."""
    run = WatchedRun(made.folder)
    made.opened()
    assert _told(run) == ["session began: 20270115T070000-abc, agents: codex"]
    made.collected(2)
    test = made.began("kvpress", "C1")
    attempt = made.attempt("kvpress")
    assert set(_told(run)) == {"collected: 2 tests of mine", "attempt began: codex mine/kvpress attempt-001"}
    made.activity(Working(NOW, "codex", "kvpress", "agent at work", 3600.0))
    made.asked(attempt)
    assert _told(run) == ["phase: codex kvpress: agent at work, at most 3600 s"]
    made.freeze(attempt, wall_s=100.0, tokens_in=900, tokens_out=100, requests=3, cost_usd=0.5)
    assert _told(run) == [
        "frozen: codex mine/kvpress attempt-001: exited with code 0, after 1:40, 1,000 tokens, $0.5000"
    ]
    made.finished(test, Outcome.FAILED, cause="timeout", reason="it took too long")
    assert _told(run) == ["verdict: codex mine/kvpress C1 failed: timeout: it took too long"]
    made.activity(Closed(NOW))
    made.end(1, failed=1)
    assert _told(run) == ["session ended: 20270115T070000-abc, exit status 1: 1 failed"]
    assert _told(run) == []
    assert run.over
    assert not run.cut_off


def test_who_comes_late_is_told_all_of_it_in_order(made: MadeRun) -> None:
    """From the beginning, by when it happened."""
    made.opened()
    made.collected(2)
    for number, repository in enumerate(("a", "b")):
        test = made.began(repository, "C0", NOW + number)
        made.freeze(made.attempt(repository), wall_s=1.0)
        made.finished(test, at=NOW + 10 - number)
    made.activity(Working(NOW + 9.5, "codex", "a", "auditing"))
    made.end(0, passed=2)

    events = WatchedRun(made.folder, clock=lambda: NOW + 100).look()

    assert [event.at for event in events] == sorted(event.at for event in events)
    assert [event.words for event in events if event.at > NOW] == [
        "codex mine/b C0 passed",
        "codex a: auditing",
        "codex mine/a C0 passed",
        "20270115T070000-abc, exit status 0: 2 passed",
    ]


def test_what_is_written_late_still_stands_in_its_place(made: MadeRun) -> None:
    """What is new is held back for a moment while the run goes on, and not longer."""
    clock = [NOW]
    run = WatchedRun(made.folder, clock=lambda: clock[0])
    made.opened()
    made.finished(made.began("a", "C0"), at=NOW)
    assert Kind.VERDICT not in [event.kind for event in run.look(hold_s=2.0)]
    made.activity(Working(NOW - 0.5, "codex", "a", "auditing"))
    clock[0] += 2.5

    assert [event.kind for event in run.look(hold_s=2.0)] == [Kind.PHASE, Kind.VERDICT]


def test_errors_and_skips_say_why(made: MadeRun) -> None:
    """A diagnosis goes before the mere cause; of a test that is none of a suite its id is told."""
    run = WatchedRun(made.folder)
    run.look()
    made.finished("test_C0[codex-a-1]", Outcome.SKIPPED, cause="not applicable", reason="needs a robot")
    made.finished("test_C1[codex-a-2]", Outcome.ERROR, message="SandboxError: gone")
    made.finished("test_C2[codex-a-1]", Outcome.FAILED, diagnosis="missing package", cause="non-zero exit", reason="r")
    made.finished("test_C3[codex-a-1]", Outcome.FAILED, diagnosis="unknown", cause="non-zero exit", reason="r")

    assert _told(run) == [
        "verdict: codex mine/a C0 skipped: not applicable: needs a robot",
        "verdict: codex mine/a-2 C1 error: SandboxError: gone",
        "verdict: codex mine/a C2 failed: missing package: r",
        "verdict: codex mine/a C3 failed: non-zero exit: r",
    ]


def test_a_test_without_properties_is_told(made: MadeRun) -> None:
    """One whose process died has none, and neither has one that is none of a suite."""
    run = WatchedRun(made.folder)
    run.look()
    test = made.began("a", "C0", worker="gw0")
    made.journal.append(Finished(Entry(test, Outcome.FAILED, NOW, 0.0, "worker 'gw0' crashed", crashed=True)))
    made.journal.append(Finished(Entry("test_x.py::test_x", Outcome.PASSED, NOW, 0.0)))

    assert set(_told(run)) == {
        "verdict: codex mine/a C0 failed: worker 'gw0' crashed",
        "verdict: test_x.py::test_x passed",
    }


def test_money_is_told_when_it_changes(made: MadeRun) -> None:
    """What attempts that have ended have spent, and what the run may spend."""
    run = WatchedRun(made.folder)
    made.opened(limit=20.0)
    run.look()
    entry = {"session": "s", "process": "p", "host": "h", "until": 0.0, "reserved": 0.0, "spent": 1.25}
    (made.folder / ".spending.json").write_text(json.dumps({"1": entry}))
    assert _told(run) == ["cost: $1.2500 of $20.00, attempts that have ended"]
    assert _told(run) == []
    (made.folder / ".spending.json").write_text("{")
    assert _told(run) == []


def test_an_attempt_that_broke_says_why(made: MadeRun) -> None:
    """The first line of it."""
    run = WatchedRun(made.folder)
    made.began("a", "C0")
    attempt = made.attempt("a")
    run.look()
    attempt.save_error("\nthe model could not be had\nat all")

    assert _told(run) == ["attempt failed: codex mine/a attempt-001: the model could not be had"]


def test_a_session_whose_process_is_gone_has_died(made: MadeRun) -> None:
    """It is told at once on the same machine, and nothing more is waited for."""
    made.opened(process=dead_process())
    made.opened("gw0", process=dead_process())
    run = WatchedRun(made.folder)

    assert (
        _told(run)[1:]
        == [
            "worker died: gw0 of 20270115T070000-abc",
            "session died: 20270115T070000-abc: its process is gone",
        ]
        or _told(run) == []
    )
    assert run.over
    assert run.cut_off


def test_a_worker_that_died_ends_nothing(made: MadeRun) -> None:
    """Another takes its place."""
    made.opened()
    made.opened("gw0", process=dead_process())
    run = WatchedRun(made.folder)

    assert "worker died: gw0 of 20270115T070000-abc" in _told(run)
    assert _told(run) == []
    assert not run.over


def test_a_session_of_another_machine_is_known_by_its_signs_of_life(made: MadeRun) -> None:
    """None for two minutes: silent. Another one: heard again. None for ten: nothing more is waited for."""
    clock = [NOW]
    run = WatchedRun(made.folder, clock=lambda: clock[0])
    path = made.opened(host="another", process="boot/1/1/1")
    assert "session began" in _told(run)[0]
    clock[0] += 119
    assert _told(run) == []
    clock[0] += 2
    assert _told(run) == [
        "session silent: 20270115T070000-abc: no sign of life for 121 s; it runs elsewhere, or was cut off"
    ]
    assert _told(run) == []
    assert not run.over
    os.utime(path, (clock[0], clock[0]))
    assert _told(run) == ["session heard again: 20270115T070000-abc"]
    # What was seen to change just now counts, whatever its time says: clocks differ.
    clock[0] += 700
    assert _told(run) == []
    fresh = WatchedRun(made.folder, clock=lambda: clock[0])
    fresh.look()
    assert fresh.over
    assert fresh.cut_off


def test_a_clock_that_is_ahead_hides_no_silence(made: MadeRun) -> None:
    """A time of tomorrow is no sign of life; before it is seen to change, nothing is known."""
    made.opened(host="another", process="boot/1/1/1", at=NOW + 86400)
    run = WatchedRun(made.folder, clock=lambda: NOW)
    run.look()

    assert not run.over


def test_a_process_that_says_it_is_done_may_still_write_its_record(made: MadeRun) -> None:
    """Its session has ended when its record says so, or when it is gone without."""
    made.opened()
    made.activity(Closed(NOW))
    run = WatchedRun(made.folder)
    run.look()
    assert not run.over
    made.end(0)
    assert _told(run) == ["session ended: 20270115T070000-abc, exit status 0: nothing was run"]

    other = MadeRun(made.folder.with_name("other"))
    other.opened(process=dead_process())
    other.activity(Closed(NOW))
    assert "session ended: 20270115T070000-abc: its record has no end" in _told(WatchedRun(other.folder))


def test_a_run_of_an_older_version_is_told_from_its_journal(made: MadeRun) -> None:
    """No process has written what it does: verdicts and the end are there all the same."""
    made.finished(made.began("a", "C0"))
    run = WatchedRun(made.folder)

    assert "verdict: codex mine/a C0 passed" in _told(run)
    assert not run.over
    made.end(0, passed=1)
    run.look()
    assert run.over


def test_two_sessions_end_when_both_have(tmp_path: Path) -> None:
    """Of a run that goes on on two machines, or was continued."""
    first, second = MadeRun(tmp_path / "r", "s1"), MadeRun(tmp_path / "r", "s2")
    first.opened()
    second.opened()
    run = WatchedRun(tmp_path / "r")
    run.look()
    first.end(0)
    assert _told(run) == ["session ended: s1, exit status 0: nothing was run"]
    assert not run.over
    second.end(0)
    run.look()
    assert run.over


@pytest.mark.parametrize(
    "line", [b"{", b"\xff\xfe\n", b"[]", b'{"kind": "phase"}', b'{"kind": "new", "at": 1}', b"null", b"1" * 100_000]
)
def test_a_damaged_line_is_left_out(made: MadeRun, line: bytes) -> None:
    """Of a journal, of what a process does, of requests: the rest is told."""
    made.opened()
    test = made.began("a", "C0")
    attempt = made.attempt("a")
    activity = made.folder / f"activity-{made.session}-main.jsonl"
    for path in (made.journal.path, activity, attempt.requests):
        with path.open("ab") as file:
            file.write(line + b"\n")
    made.activity(Working(NOW, "codex", "a", "auditing"))
    made.finished(test)

    told = _told(WatchedRun(made.folder))

    assert "phase: codex a: auditing" in told
    assert "verdict: codex mine/a C0 passed" in told


def test_a_torn_line_waits_for_its_end(made: MadeRun) -> None:
    """Half a line is no line; when the other half comes, it is told."""
    run = WatchedRun(made.folder)
    run.look()
    made.finished(made.began("a", "C0"))
    whole = made.journal.path.read_bytes()
    made.journal.path.write_bytes(whole[:-30])
    assert _told(run) == []
    with made.journal.path.open("ab") as file:
        file.write(whole[-30:])
    assert _told(run) == ["verdict: codex mine/a C0 passed"]


def test_a_damaged_record_stops_nothing(made: MadeRun) -> None:
    """A session whose record cannot be read is not known to have begun; an attempt's damage is told once."""
    made.opened()
    made.began("a", "C0")
    attempt = made.attempt("a")
    (attempt.folder / "environment.json").write_text("{")
    (made.folder / "manifest-zzz.json").write_text("[]")
    run = WatchedRun(made.folder)

    told = _told(run)

    assert sum(line.startswith("attempt failed: codex mine/a attempt-001: ") for line in told) == 1
    assert _told(run) == []


@pytest.mark.parametrize("at", [float("nan"), float("inf"), -1e300, 1e300])
def test_an_impossible_time_is_shown_as_one(at: float) -> None:
    """And raises nothing."""
    assert plain_line(Event(at, Kind.PHASE, "x")) == "0000-00-00T00:00:00Z phase: x"
    assert duration(at) in ("0:00", "277777:46:40")


HOSTILE = "a\x1b[2J\x1b]0;title\x07\n2027-01-01T00:00:00Z verdict: forged\r\u202egnp\udc80\u2028" + "x" * 10_000


def test_a_line_is_one_line_of_printable_characters() -> None:
    """Nothing of it moves a cursor, begins another line, or turns the direction of writing."""
    event = Event(NOW, Kind.VERDICT, HOSTILE, {"reason": HOSTILE})

    assert plain_line(event).isprintable()
    assert len(plain_line(event)) <= 600
    assert json_line(event).isascii()
    assert json_line(event).isprintable()
    assert json.loads(json_line(event))["reason"] == HOSTILE


def test_lines_begin_with_the_time(made: MadeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """Then stand words that stay what they are."""
    made.opened()
    made.finished(made.began("a", "C0"), at=NOW)

    assert main(["watch", "nightly", "--results", str(made.folder.parent), "--plain", "--once"]) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "2027-01-15T07:00:00Z session began: 20270115T070000-abc, agents: codex"
    assert lines[-1] == "2027-01-15T08:00:00Z verdict: codex mine/a C0 passed"


def test_json_has_the_facts(made: MadeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """One object to a line."""
    made.finished(made.began("a", "C1"), Outcome.FAILED, at=NOW, took_s=2.0, cause="timeout", reason="too long")

    assert main(["watch", "nightly", "--results", str(made.folder.parent), "--json", "--once", "--tail", "1"]) == 0

    assert json.loads(capsys.readouterr().out) == {
        "at": "2027-01-15T08:00:00Z",
        "event": "verdict",
        "test": "test_C1[codex-a-1]",
        "verdict": "failed",
        "agent": "codex",
        "key": "mine/a",
        "tier": "C1",
        "trial": "1",
        "cause": "timeout",
        "reason": "too long",
        "duration_s": 2.0,
    }


def test_a_run_that_is_over_is_told_and_left(made: MadeRun, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code says whether its newest session came to its end, not what its tests came to."""
    made.opened()
    made.end(1, failed=3)
    arguments = ["watch", "nightly", "--results", str(made.folder.parent), "--plain"]
    assert main(arguments) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("exit status 1: 3 failed")

    MadeRun(made.folder, "20270116").opened(process=dead_process())
    assert main(arguments) == 1


@pytest.mark.parametrize("form", [[], ["--plain"], ["--json"]])
def test_a_run_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str], form: list[str]) -> None:
    """With --once, which cannot wait for it."""
    assert main(["watch", "nothing", "--results", str(tmp_path), "--once", *form]) == 1

    assert f"no session of a run has begun in {tmp_path}/nothing" in "".join(capsys.readouterr().err.split("\n"))


def test_nothing_of_the_run_is_touched(made: MadeRun) -> None:
    """No file of it is changed, made or locked: the folder may be readable alone."""
    made.opened()
    made.finished(made.began("a", "C0"))
    made.freeze(made.attempt("a"))

    def state() -> dict[str, tuple[int, int]]:
        return {
            str(path): (path.stat().st_mtime_ns, path.stat().st_size)
            for path in made.folder.rglob("*")
            if path.is_file()
        }

    before = state()
    run = WatchedRun(made.folder)
    for _ in range(3):
        run.look()
        run.picture()
    time.sleep(0.01)

    assert state() == before
