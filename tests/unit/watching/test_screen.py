"""The view in a real terminal: it fits, leaves no trace, and what is printed in a run does not get through it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_researchenv.recording.activity import Working
from tests.simulated import ROOT
from tests.unit.watching.made import NOW, MadeRun
from tests.unit.watching.terminals import Terminal


SIZES = ((15, 40), (24, 80), (50, 200))


@pytest.fixture
def made(tmp_path: Path) -> MadeRun:
    """A run that goes on, with two workers and hostile output."""
    made = MadeRun(tmp_path / "nightly")
    made.opened(limit=5.0)
    made.collected(9)
    for worker, repository in (("gw0", "kvpress"), ("gw1", "b" * 300)):
        made.opened(worker)
        made.began(repository[:60], "C0", worker=worker)
        attempt = made.attempt(repository[:60])
        made.asked(attempt)
        attempt.transcript.write_bytes(
            b"\x1b[2J\x1b[1;1Hgone\x1b]0;owned\x07\x1bP1$r\x1b\\\x9b31m\x00\x1b[?1049l\n"
            + b"wide \xe4\xb8\xad\xe6\x96\x87 " * 80
            + b"\n\xe2\x80\xaeturned\n" * 3
            + b"last \x1b[6n\x05\n"
        )
        name = "agent at work" + "\x1b[2J\n\x07" * 20
        made.activity(Working(NOW, "codex", repository, name, 3600.0), worker)
    return made


def _terminal(run: Path, rows: int, columns: int, *arguments: str, **extra: str) -> Terminal:
    command = [sys.executable, "-m", "pytest_researchenv.cli", "watch", run.name, *arguments]
    environment = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    return Terminal(
        [*command, "--results", str(run.parent)],
        folder=run.parent,
        environment={**environment, "PYTHONPATH": str(ROOT), **extra},
        rows=rows,
        columns=columns,
    )


@pytest.mark.parametrize(("rows", "columns", "key"), [(15, 40, "q"), (24, 80, "\x03"), (50, 200, "Q")])
def test_it_fits_and_leaves_no_trace(made: MadeRun, rows: int, columns: int, key: str) -> None:
    """No line is too wide, no character but ours controls the terminal, which is as it was before."""
    with _terminal(made.folder, rows, columns) as terminal:
        terminal.await_text("kvpress")
        terminal.await_text("last \\x05")
        terminal.read(1.2)
        terminal.press(key)

        assert terminal.end() == 0
        frames = terminal.frames()
        assert len(frames) >= 2
        assert all(terminal.widths(frame) <= columns for frame in frames)
        assert all(len(terminal.lines(frame)) == rows for frame in frames)
        assert terminal.foreign() == ""
        assert terminal.raw.count("\x1b[?1049l") == 1
        assert terminal.raw.rstrip("\r\n").endswith("\x1b[?1049l\x1b[?7h")
        assert terminal.restored


def test_it_follows_the_size_of_the_terminal(made: MadeRun) -> None:
    """At once, in both directions."""
    with _terminal(made.folder, 24, 80) as terminal:
        terminal.await_text("kvpress")
        for rows, columns in (*SIZES, *reversed(SIZES)):
            terminal.resize(rows, columns)
            terminal.await_size(rows, columns)
            # And stays so.
            terminal.read(1.2)
            last = terminal.frames()[-1]
            assert terminal.widths(last) <= columns
            assert len(terminal.lines(last)) <= rows
        terminal.press("q")

        assert terminal.end() == 0
        assert terminal.restored


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_ends_it_and_the_terminal_is_as_before(made: MadeRun, number: signal.Signals) -> None:
    """Whoever ends it, no shell is left without a cursor or on another screen."""
    with _terminal(made.folder, 24, 80) as terminal:
        terminal.await_text("kvpress")
        terminal.process.send_signal(number)

        assert terminal.end() == 0
        assert terminal.restored


def test_keys_that_mean_nothing_do_nothing(made: MadeRun) -> None:
    """Arrows, Ctrl-Z, Ctrl-S, letters: neither seen nor obeyed."""
    with _terminal(made.folder, 24, 80) as terminal:
        terminal.await_text("kvpress")
        terminal.press("\x1b[A\x1b[B\x1axyzzy\r")
        terminal.read(1.5)
        assert terminal.process.poll() is None
        assert "xyzzy" not in terminal.raw
        terminal.press("Q")

        assert terminal.end() == 0


def test_without_colours_nothing_is_coloured(made: MadeRun) -> None:
    """As NO_COLOR asks; all is there all the same."""
    with _terminal(made.folder, 24, 80, NO_COLOR="1") as terminal:
        terminal.await_text("at work")
        terminal.press("q")
        terminal.end()

        assert "\x1b[3" not in terminal.raw.replace("\x1b[?", "")


def test_it_ends_with_the_run_and_leaves_how_it_stood(made: MadeRun) -> None:
    """On the usual screen, where it can be read later."""
    with _terminal(made.folder, 24, 80) as terminal:
        terminal.await_text("kvpress")
        made.end(1, failed=3)

        assert terminal.end() == 0
        after = terminal.raw.rpartition("\x1b[?7h")[2]
        assert "ended, exit status 1" in after
        assert "closes this view" not in after
        assert terminal.restored


def test_it_waits_for_a_run_and_goes_on_after_it_where_asked(tmp_path: Path) -> None:
    """Opened before there is anything, with --follow, through two sessions."""
    with _terminal(tmp_path / "late", 24, 80, "--follow") as terminal:
        terminal.await_text("waiting: no session has begun yet")
        first = MadeRun(tmp_path / "late", "s1")
        first.opened()
        terminal.await_text("at work")
        first.end(0)
        terminal.await_text("ended, exit status 0")
        MadeRun(tmp_path / "late", "s2").opened()
        terminal.await_text("at work")
        terminal.press("q")
        assert terminal.end() == 0


def test_a_terminal_that_can_do_nothing_gets_lines(made: MadeRun) -> None:
    """Where it cannot be drawn on, as in an editor's console."""
    made.end(0)
    command = [sys.executable, "-m", "pytest_researchenv.cli", "watch", "nightly", "--results", str(made.folder.parent)]
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "TERM": "dumb"}, timeout=60
    )

    assert done.returncode == 0
    assert "\x1b" not in done.stdout
    assert " session ended: " in done.stdout


def test_a_reader_that_has_seen_enough_is_no_error(made: MadeRun) -> None:
    """`researchenv watch --plain | head -1` prints one line and nothing about a broken pipe."""
    for number in range(3000):
        made.finished(f"test_C0[codex-r{number}-1]")
    made.end(0)
    command = (
        f"{sys.executable} -m pytest_researchenv.cli watch nightly --plain --results {made.folder.parent} | head -1"
    )
    done = subprocess.run(["bash", "-c", command], check=False, capture_output=True, text=True, timeout=60)

    assert len(done.stdout.splitlines()) == 1
    assert done.stderr == ""


def test_an_ascii_terminal_is_not_broken_by_what_agents_print(made: MadeRun) -> None:
    """What it cannot show is replaced."""
    command = [sys.executable, "-m", "pytest_researchenv.cli", "watch", "nightly", "--results", str(made.folder.parent)]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "COLUMNS": "100"}
    done = subprocess.run([*command, "--once"], check=False, capture_output=True, env=environment, timeout=60)

    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert b"wide ??" in done.stdout
