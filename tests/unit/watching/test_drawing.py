"""How a run stands, drawn: what matters is there in every size, and nothing in it can reach the terminal."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console

from pytest_researchenv.recording.activity import Working
from pytest_researchenv.recording.entry import Outcome
from pytest_researchenv.watching.attempts import Output, Used
from pytest_researchenv.watching.drawing import drawn
from pytest_researchenv.watching.processes import Life
from pytest_researchenv.watching.tailing import last_lines
from pytest_researchenv.watching.watched import Picture, Row, SessionLine, WatchedRun
from tests.unit.watching.made import NOW, MadeRun, dead_process


ROWS = (
    Row("gw0", "claude-sonnet", "kvpress", "agent at work", 754.0, 3600.0, Used(12, 1_234_567, 0.4321, 0.5)),
    Row("gw1", "codex", "long-context-attention", "probing C3", 590.0, 600.0, None),
    Row("gw2", "", "", "nothing", 0.0, None, None),
    Row("gw3", "codex", "tinyddp", "agent at work", 10.0, None, None, silent_s=130.0),
)

PICTURE = Picture(
    run="nightly",
    now=NOW,
    sessions=(SessionLine("20270115T070000-abc", NOW - 3723, Life.AT_WORK, 0.0, False, None),),
    others=2,
    agents=("claude-sonnet", "codex"),
    tests=264,
    counts=Counter({Outcome.PASSED: 60, Outcome.FAILED: 11, Outcome.ERROR: 2, Outcome.SKIPPED: 7}),
    rows=ROWS,
    dead=1,
    remaining_s=7384.0,
    spent_usd=12.3456,
    limit_usd=20.0,
    output=("codex kvpress", Output(Path("/x/transcript.log"), NOW - 3)),
    lines=tuple(f"line {number}" for number in range(60)),
)


def _lines(picture: Picture, width: int, height: int | None = None, *, ascii_only: bool = False) -> list[str]:
    console = Console(width=width, height=height or 25, force_terminal=False, color_system=None, emoji=False)
    with console.capture() as capture:
        console.print(drawn(picture, width=width, height=height, place="/results", ascii_only=ascii_only))
    return capture.get().splitlines()


def _words(picture: Picture, width: int, height: int | None = None) -> str:
    return " ".join(" ".join(_lines(picture, width, height)).split())


@pytest.mark.parametrize(("width", "height"), [*itertools.product((20, 40, 71, 72, 80, 110, 200), (5, 10, 15, 24, 50))])
def test_it_fits(width: int, height: int) -> None:
    """No line is wider than the terminal; and from 15 lines on the whole of it is filled, and no more."""
    lines = _lines(PICTURE, width, height)

    assert max(map(cell_len, lines)) <= width
    if height >= 15:
        assert len(lines) == height


@pytest.mark.parametrize(("width", "height"), [(40, 15), (80, 24), (200, 50), (80, None)])
def test_what_matters_is_there_in_every_size(width: int, height: int | None) -> None:
    """Verdicts with errors and skips apart, time and money, who does what, what was printed last."""
    words = _words(PICTURE, width, height)

    for wanted in (
        "run nightly",
        "80 of 264 tests: 60 passed, 11 failed",
        "2 errors, 7 skipped | 1 worker died",
        "30%, about 2:03:04 left",
        "$12.35 of $20.00 spent",
        "2 other sessions are over",
        "1:02:03",
        "at work",
        "kvpress",
        "12:34 / 1:00:00",
        "$0.4321",
        "codex kvpress: transcript.log",
        "line 59",
    ):
        assert wanted in words, wanted


def test_a_wide_terminal_shows_bars_and_tokens() -> None:
    """How much of its time a phase has used, per worker."""
    lines = _lines(PICTURE, 130, 30)
    (kvpress,) = [line for line in lines if "kvpress" in line and "transcript" not in line]
    (attention,) = [line for line in lines if "long-context" in line]

    assert kvpress.count("█") == 3
    assert "1,234,567" in kvpress
    assert attention.count("█") == 12
    assert any("no sign of life for 2:10" in line for line in lines)


def test_more_workers_than_lines_are_counted() -> None:
    """Those that do not fit are not dropped in silence."""
    rows = tuple(replace(ROWS[0], worker=f"gw{number}") for number in range(40))
    lines = _lines(replace(PICTURE, rows=rows), 80, 24)
    shown = sum("kvpress" in line and "transcript" not in line for line in lines)

    assert f"and {40 - shown} more" in " ".join(lines)
    assert "line 59" in " ".join(lines)
    assert len(lines) == 24


def test_a_run_that_is_not_there_is_waited_for() -> None:
    """And where it is looked for is told."""
    assert "waiting: no session has begun yet in /results" in _words(Picture("r", NOW), 80, 24)


@pytest.mark.parametrize(
    ("session", "words"),
    [
        (SessionLine("s", NOW, Life.ENDED, 0, False, 1), "ended, exit status 1"),
        (SessionLine("s", NOW, Life.ENDED, 0, False, None), "ended, exit status unknown"),
        (SessionLine("s", NOW, Life.DIED, 0, False, None), "died: its process is gone"),
        (SessionLine("s", NOW, Life.SILENT, 150, True, None), "no sign of life for 2:30 on another machine"),
        (SessionLine("s", NOW, Life.AT_WORK, 0, True, None), "at work on another machine"),
    ],
)
def test_how_a_session_stands_is_told_in_words(session: SessionLine, words: str) -> None:
    """Colours say nothing that is not written."""
    assert words in _words(replace(PICTURE, sessions=(session,)), 100)


def test_a_terminal_without_unicode_gets_none_of_ours() -> None:
    """Bars and lines are made of other characters."""
    assert "".join(_lines(PICTURE, 100, ascii_only=True)).replace("…", "").isascii()


HOSTILE = "a\x1b[2J\x1b]0;t\x07\x9b31m\n\r\u202e\udc80\u2028[bold]b[/bold] :smile: \u4e2d\u6587" + "\u0301" * 500


@pytest.mark.parametrize("width", [40, 80, 130])
def test_names_and_phases_cannot_reach_the_terminal(width: int) -> None:
    """Whoever chose them: no control character is left, no markup works, no line wraps."""
    row = Row(HOSTILE, HOSTILE, HOSTILE, HOSTILE, 1.0, 2.0, None)
    session = SessionLine(HOSTILE, NOW, Life.AT_WORK, 0, False, None)
    output = (HOSTILE, Output(Path("/x") / HOSTILE.replace("\0", ""), NOW))
    picture = replace(PICTURE, run=HOSTILE, agents=(HOSTILE,), rows=(row,), sessions=(session,), output=output)

    lines = _lines(picture, width, 24)

    assert "".join(lines).isprintable()
    assert len(lines) == 24
    assert max(map(cell_len, lines)) <= width


def test_the_last_lines_are_what_a_terminal_would_show_without_its_controls(tmp_path: Path) -> None:
    """Colours are left out, a progress bar is shown in its last form, and the rest is written out."""
    log = tmp_path / "transcript.log"
    raw = b"old\n\n\x1b[31mred\x1b[0m\n 10%\r 50%\r100%\r\n\x00\xff\tx\x1b_y\x07\n\x1b]8;;http://x\x1b\\link\xe2\x80\xae\n"
    log.write_bytes(raw)

    assert last_lines(log, 4) == ["red", "100%", "\\x00\\xff   x\\x1b_y\\x07", "link\\u202e"]
    assert last_lines(tmp_path / "none", 4) == []
    assert last_lines(tmp_path, 4) == []


def test_of_a_huge_log_only_the_end_is_read(tmp_path: Path) -> None:
    """However large it is, sparse or one line."""
    log = tmp_path / "x.log"
    with log.open("wb") as file:
        file.truncate(50 * 1024**3)
        file.seek(0, 2)
        file.write(b"\nlast\n")

    assert last_lines(log, 1) == ["last"]
    log.write_bytes(b"x" * 10**6)
    assert [len(line) for line in last_lines(log, 3)] == [1000]


def test_a_picture_of_a_run_that_goes_on(tmp_path: Path) -> None:
    """Each worker's phase, the tokens and money of its attempt so far, and the newest output of all."""
    made = MadeRun(tmp_path / "nightly")
    clock = NOW + 100
    run = WatchedRun(made.folder, clock=lambda: clock)
    made.opened(limit=5.0)
    for worker, repository in (("gw0", "a"), ("gw1", "b")):
        made.opened(worker)
        made.began(repository, "C0", worker=worker)
        attempt = made.attempt(repository)
        attempt.transcript.write_text(f"said of {repository}\n")
        made.asked(attempt, tokens=5000, usd=0.25)
        made.asked(attempt, tokens=1000, usd=0.05)
    made.opened("gw2", process=dead_process())
    made.activity(Working(NOW + 40, "codex", "a", "agent at work", 3600.0), "gw0")
    run.look()

    picture = run.picture()

    assert picture.rows == (
        Row("gw0", "codex", "a", "agent at work", 60.0, 3600.0, Used(2, 6000, 0.3, 0.3)),
        # Where no phase was written, the test that runs is told.
        Row("gw1", "codex", "b", "judging C0", 100.0, None, Used(2, 6000, 0.3, 0.3)),
    )
    assert picture.dead == 1
    assert (picture.spent_usd, picture.limit_usd) == (0.6, 5.0)
    assert picture.lines == ("said of b",)
    assert picture.output
    assert picture.output[0] == "codex b"


def test_money_of_attempts_that_are_over_is_counted_once(tmp_path: Path) -> None:
    """What is written down of them is what counts, not what they asked."""
    made = MadeRun(tmp_path / "nightly")
    run = WatchedRun(made.folder)
    made.began("a", "C0")
    attempt = made.attempt("a")
    made.asked(attempt, usd=0.5)
    run.look()
    assert run.picture().spent_usd == 0.5
    made.freeze(attempt, requests=1, tokens_in=1, cost_usd=0.5)
    (made.folder / ".spending.json").write_text(
        '{"1": {"session": "s", "process": "p", "host": "h", "until": 0, "reserved": 0, "spent": 0.5}}'
    )
    run.look()

    assert run.picture().spent_usd == 0.5
    assert run.picture().rows[0].used == Used(1, 1.0, 0.5, 0.5) if run.picture().rows else True
