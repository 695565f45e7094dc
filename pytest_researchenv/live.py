"""What is being done right now, shown while a fixture takes minutes.

On a terminal these are lines below pytest's own, which leave no trace; elsewhere (CI logs, `-s`) a line when a phase
begins and one a minute after. Workers tell the controller through a channel of the connection they have anyway, so
that nothing is polled and a dead worker's phases end with it.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TextIO, final

import pytest

from pytest_researchenv.progress import Phase, Teller


if TYPE_CHECKING:
    from execnet import Channel
    from xdist.workermanage import WorkerController

__all__ = ["LISTENER", "PLUGIN", "Progress", "teller_of"]

#: Name under which `Progress` is registered.
PLUGIN = "researchenv-progress"
_WORKER_KEY = "researchenv_progress"
#: Who else is told what this process does.
LISTENER = pytest.StashKey[Callable[[Phase | None], object]]()
#: Phases that end sooner are not shown: a run that reuses everything would be nothing but such lines.
_NOTEWORTHY_S = 0.5
#: Seconds between two drawings of the lines on a terminal.
_REDRAW_S = 1.0


def teller_of(config: pytest.Config) -> Teller:
    """Return what says things in this process: to the controller, to the terminal, to who watches, or to nobody."""
    listeners: list[Callable[[Phase | None], object]] = []
    if LISTENER in config.stash:
        listeners.append(config.stash[LISTENER])
    worker = getattr(config, "workerinput", None)
    progress = config.pluginmanager.getplugin(PLUGIN)
    if worker is not None and (channel := worker.get(_WORKER_KEY)):
        listeners.append(partial(_send, channel))
    elif worker is None and isinstance(progress, Progress):
        listeners.append(partial(progress.hear, ""))
    return Teller(partial(_tell, listeners))


def _tell(listeners: Sequence[Callable[[Phase | None], object]], phase: Phase | None) -> None:
    for listener in listeners:
        listener(phase)


def _send(channel: Channel, phase: Phase | None) -> None:
    # A controller that is gone is no reason to stop judging: xdist ends the worker itself.
    with suppress(OSError):
        channel.send((phase.agent, phase.repository, phase.name) if phase else None)


@dataclass(slots=True)
class _Shown:
    phase: Phase
    since: float
    due: float
    visible: bool


@final
class Progress:
    """Shows what every process is doing; registered where the terminal is, and only where an agent was chosen.

    Args:
        interval_s: seconds between two lines about the same phase where lines cannot be updated.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._noteworthy_s = min(_NOTEWORTHY_S, interval_s)
        self._screen: _Screen | None = None
        self._shown: dict[str, _Shown] = {}
        # One lock for what is known and what is drawn: pytest's thread, ours and those of workers meet here.
        self._changed = threading.Condition(threading.RLock())
        self._thread: threading.Thread | None = None
        self._ended = False

    def pytest_sessionstart(self, session: pytest.Session) -> None:
        """Take hold of the terminal before tests' output is captured."""
        reporter = session.config.pluginmanager.getplugin("terminalreporter")
        if isinstance(reporter, pytest.TerminalReporter) and reporter.verbosity > -2:  # noqa: PLR2004 - that is -qq
            self._screen = _Screen(reporter, self._changed)

    def pytest_unconfigure(self) -> None:
        """Let go of the terminal."""
        with self._changed:
            self._ended = True
            self._shown.clear()
            self._changed.notify()
        if self._thread:
            self._thread.join()
        if self._screen:
            self._screen.close()

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node: WorkerController) -> None:
        """Give a worker a channel to say things through, which ends when the worker does."""
        channel = node.gateway.newchannel()
        channel.setcallback(partial(self._hear_worker, node.gateway.id), endmarker=None)
        node.workerinput[_WORKER_KEY] = channel

    def _hear_worker(self, worker: str, said: tuple[str, str, str] | None) -> None:
        self.hear(worker, Phase(*said) if said else None)

    def hear(self, process: str, phase: Phase | None) -> None:
        """Take note of what a process does now; None when it does nothing that takes long."""
        with self._changed:
            if self._screen is None or self._ended:
                return
            now = time.monotonic()
            before = self._shown.pop(process, None)
            if phase:
                visible = before is not None and before.visible
                self._shown[process] = _Shown(phase, since=now, due=now + self._noteworthy_s, visible=visible)
            if self._screen.live and before and before.visible:
                self._draw(self._screen, list(self._shown.values()), now)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name=PLUGIN, daemon=True)
                self._thread.start()
            self._changed.notify()

    def _run(self) -> None:
        with self._changed:
            while not self._ended and self._screen:
                due = min((shown.due for shown in self._shown.values()), default=None)
                self._changed.wait(None if due is None else max(0.0, due - time.monotonic()))
                self._tick(self._screen, time.monotonic())

    def _tick(self, screen: _Screen, now: float) -> None:
        late = [shown for shown in self._shown.values() if shown.due <= now]
        for shown in late:
            shown.visible = True
            shown.due = now + (min(_REDRAW_S, self._interval_s) if screen.live else self._interval_s)
        if late:
            self._draw(screen, list(self._shown.values()) if screen.live else late, now)

    def _draw(self, screen: _Screen, among: list[_Shown], now: float) -> None:
        try:
            screen.show([_line(shown, now) for shown in among if shown.visible])
        except (OSError, ValueError):
            # The terminal or the pipe is closed: pytest will say so where it matters.
            self._ended = True


def _line(shown: _Shown, now: float) -> str:
    phase, seconds = shown.phase, int(now - shown.since)
    elapsed = f" ({seconds // 60}:{seconds % 60:02})" if seconds else ""
    line = f"researchenv: {phase.agent} at {phase.repository}: {phase.name}{elapsed}"
    return "".join(char if char.isprintable() else " " for char in line)


@final
class _Screen:
    """The terminal, kept open past the redirection of a running test's output, and guarded while pytest writes.

    pytest's own writer goes through the standard output, which is redirected just when a fixture runs.
    """

    def __init__(self, reporter: pytest.TerminalReporter, lock: threading.Condition) -> None:
        config = reporter.config
        self._reporter = reporter
        self._lock = lock
        self._writer = config.get_terminal_writer()
        self._original = self._writer.write_raw
        self._file = _duplicate(sys.stdout)
        self._lines: list[str] = []
        self._at_start = self._writer.width_of_current_line == 0
        # With -s, tests print past pytest, so that we would not know what to erase.
        captured = config.getoption("capture", "no") != "no"
        self.live = captured and reporter.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        # All that pytest's reporters print goes through this method. pytest's own pastebin plugin takes hold of the
        # writer in the same way.
        self._writer.write_raw = self._guarded  # type: ignore[method-assign] # of this one object only

    def _guarded(self, msg: str, *, flush: bool = False) -> None:
        with self._lock:
            if self._lines:
                self._put(_ERASE)
            # Without a flush, what is drawn could overtake what pytest wrote.
            self._original(msg, flush=flush or self.live)
            if msg:
                self._at_start = msg.endswith("\n")
            if self._lines:
                self._put(_drawing(self._lines))

    def show(self, lines: list[str]) -> None:
        """Show lines instead of those that are shown, or, where nothing can be erased, after all else."""
        if self.live:
            self._lines = [line[: self._size.columns - 1] for line in lines[: max(1, self._size.lines - 2)]]
            self._put(_drawing(self._lines))
            return
        if not self._at_start and self._reporter.showlongtestinfo:
            # Have pytest write the test's name again before its outcome.
            self._reporter.currentfspath = None
        self._put(("" if self._at_start else "\n") + "".join(f"{line}\n" for line in lines))
        self._at_start = True

    def close(self) -> None:
        """Give pytest its writer back."""
        self._writer.write_raw = self._original  # type: ignore[method-assign] # likewise
        if self._file:
            self._file.close()

    @property
    def _size(self) -> os.terminal_size:
        return os.get_terminal_size(self._file.fileno()) if self._file else shutil.get_terminal_size()

    def _put(self, text: str) -> None:
        if self._file is None:
            self._original(text, flush=True)
        else:
            self._file.write(text)
            self._file.flush()


#: From the cursor to the end of the screen; pytest's own line ends at the cursor.
_ERASE = "\x1b[J"


def _drawing(lines: list[str]) -> str:
    """Return what draws lines below the cursor's and leaves the cursor where it is.

    Index (ESC D) makes room without leaving the column, scrolling at the bottom; only then can the place be saved.
    """
    if not lines:
        return _ERASE
    room = "\x1bD" * len(lines) + f"\x1b[{len(lines)}A"
    return _ERASE + room + "\x1b7" + "".join(f"\r\n{line}" for line in lines) + "\x1b8"


def _duplicate(file: TextIO) -> TextIO | None:
    """Return another way to where a file leads now; None when it leads to no descriptor, as inside pytester."""
    try:
        descriptor = os.dup(file.fileno())
    except (OSError, ValueError):
        return None
    return open(descriptor, "w", encoding=file.encoding, errors="backslashreplace", closefd=True)  # noqa: PTH123 - a Path is none
