"""The view on a terminal: drawn again and again, until it is closed or nothing more happens."""

from __future__ import annotations

import os
import select
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import final

from rich.console import Console
from rich.live import Live

from pytest_researchenv.watching.drawing import drawn
from pytest_researchenv.watching.watched import WatchedRun


__all__ = ["show"]

#: Seconds between two looks.
_INTERVAL_S = 1.0

#: A line that a terminal takes for wider than we do must not move those below it.
_NO_WRAP, _WRAP = "\x1b[?7l", "\x1b[?7h"

_CLOSING = frozenset(b"qQ\x03")


def show(watched: WatchedRun, console: Console, *, follow: bool) -> bool:
    """Show a run until it is over, or somebody closes the view; tell whether it was over.

    Args:
        watched: the run.
        console: the terminal.
        follow: whether to go on when the run is over: another session may begin.
    """
    ascii_only = not console.encoding.lower().startswith("utf")
    with ExitStack() as stack:
        waking = stack.enter_context(_Waking())
        keys = stack.enter_context(_keys())
        stack.enter_context(_unwrapped(console))
        live = stack.enter_context(Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False))
        while True:
            watched.look()
            picture = watched.picture()
            if watched.over and not follow:
                return True
            while True:
                size = console.size
                place = str(watched.folder)
                live.update(
                    drawn(picture, width=size.width, height=size.height, place=place, ascii_only=ascii_only),
                    refresh=True,
                )
                if not (resized := waking.wait(keys)):
                    break
            if resized is None:
                return False


@final
class _Waking:
    """Ends a wait when the terminal has another size, or when the process is to end.

    Signals do no more than write a byte: what they interrupt must leave the terminal as it was.
    """

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        self._former = {
            number: signal.signal(number, self._take)
            for number in (signal.SIGWINCH, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        }

    def _take(self, number: int, _frame: FrameType | None) -> None:
        # A full pipe wakes as well.
        with ExitStack() as stack:
            stack.push(lambda kind, *_: kind is not None and issubclass(kind, BlockingIOError))
            os.write(self._writing, b"r" if number == signal.SIGWINCH else b"e")

    def wait(self, keys: int | None) -> bool | None:
        """Wait for the next look; tell whether the size has changed, or None where the view is to be closed."""
        watched = [self._reading, *([] if keys is None else [keys])]
        ready, _, _ = select.select(watched, [], [], _INTERVAL_S)
        if self._reading in ready:
            return None if b"e" in os.read(self._reading, 4096) else True
        if keys in ready:
            pressed = os.read(keys, 4096) if keys is not None else b""
            # Nothing to be read: the terminal is gone.
            if not pressed or _CLOSING & set(pressed):
                return None
        return False

    def __enter__(self) -> _Waking:
        return self

    def __exit__(self, *_: object) -> None:
        for number, former in self._former.items():
            signal.signal(number, former)
        os.close(self._reading)
        os.close(self._writing)


@contextmanager
def _keys() -> Iterator[int | None]:
    """Have keys come as they are pressed, and unseen; None where nobody can press any."""
    if not sys.stdin.isatty():
        yield None
        return
    descriptor = sys.stdin.fileno()
    former = termios.tcgetattr(descriptor)
    tty.setcbreak(descriptor)
    changed = termios.tcgetattr(descriptor)
    # Ctrl-Z would leave a shell on the view's own screen.
    changed[6][termios.VSUSP] = b"\0"
    termios.tcsetattr(descriptor, termios.TCSANOW, changed)
    try:
        yield descriptor
    finally:
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, former)


@contextmanager
def _unwrapped(console: Console) -> Iterator[None]:
    console.file.write(_NO_WRAP)
    try:
        yield
    finally:
        console.file.write(_WRAP)
        console.file.flush()
