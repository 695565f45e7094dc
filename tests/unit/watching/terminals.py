"""A process in a terminal of its own, of any size."""

from __future__ import annotations

import errno
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import final

from rich.cells import cell_len


__all__ = ["Terminal"]

_DEADLINE_S = 60
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_HOME = "\x1b[H"

#: What a view may send: home, colours, the other screen, the cursor, and wrapping on and off.
_ALLOWED = re.compile(r"\x1b\[(?:H|[0-9;]*m|\?1049[hl]|\?25[hl]|\?7[hl])")


@final
class Terminal:
    """A terminal with a process in it; what it prints is kept as it comes."""

    def __init__(
        self, command: Sequence[str], *, folder: Path, environment: Mapping[str, str], rows: int, columns: int
    ) -> None:
        self._controller, self._terminal = pty.openpty()
        self.resize(rows, columns)
        self.settings = termios.tcgetattr(self._terminal)
        self.process = subprocess.Popen(
            # Makes it the terminal that signals come from.
            ["setsid", "--ctty", *command],
            cwd=folder,
            stdin=self._terminal,
            stdout=self._terminal,
            stderr=self._terminal,
            env={**environment, "TERM": "xterm-256color"},
        )
        self.raw = ""

    def resize(self, rows: int, columns: int) -> None:
        """Give it another size."""
        fcntl.ioctl(self._controller, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def press(self, keys: str) -> None:
        """Press keys."""
        os.write(self._controller, keys.encode())

    def read(self, seconds: float) -> str:
        """Take what is printed for so long; return what is new."""
        deadline, new = time.monotonic() + seconds, b""
        while (left := deadline - time.monotonic()) > 0:
            ready, _, _ = select.select([self._controller], [], [], left)
            if ready:
                try:
                    new += os.read(self._controller, 65536)
                except OSError as error:
                    # What Linux answers when nobody holds the other end any more.
                    if error.errno != errno.EIO:
                        raise
                    break
        text = new.decode("utf-8", "replace")
        self.raw += text
        return text

    def await_text(self, wanted: str) -> None:
        """Wait until something is shown."""
        deadline = time.monotonic() + _DEADLINE_S
        while wanted not in _CONTROL.sub("", "".join(self.frames()[-1:])):
            assert time.monotonic() < deadline, f"{wanted!r} was not shown, but:\n{self.raw[-3000:]}"
            assert self.process.poll() is None, self.raw[-3000:]
            self.read(0.2)

    def await_size(self, rows: int, columns: int) -> None:
        """Wait until what is shown fits such a terminal, and fills it."""
        deadline = time.monotonic() + _DEADLINE_S
        while not ((last := self.frames()[-1]) and self.widths(last) <= columns and len(self.lines(last)) == rows):
            assert time.monotonic() < deadline, last
            self.read(0.2)

    def frames(self) -> list[str]:
        """Every picture that was drawn."""
        return self.raw.split(_HOME)[2:]

    @property
    def text(self) -> str:
        """All that was printed, without colours."""
        return _CONTROL.sub("", self.raw)

    def lines(self, frame: str) -> list[str]:
        """The lines of a picture, without colours."""
        return _CONTROL.sub("", frame).split("\r\n")

    def widths(self, frame: str) -> int:
        """The width of its widest line."""
        return max(cell_len(line) for line in self.lines(frame))

    def foreign(self) -> str:
        """What of all that was printed is neither text nor a control sequence of ours."""
        return re.sub(r"[\r\n]", "", "".join(c for c in _ALLOWED.sub("", self.raw) if not c.isprintable()))

    def end(self) -> int:
        """Wait for the process; return its exit code."""
        deadline = time.monotonic() + _DEADLINE_S
        while self.process.poll() is None:
            assert time.monotonic() < deadline
            self.read(0.1)
        self.read(0.2)
        return self.process.returncode

    @property
    def restored(self) -> bool:
        """Whether the terminal is as it was before."""
        modes = [self.raw.rfind(f"\x1b[?{mode}h") > self.raw.rfind(f"\x1b[?{mode}l") for mode in (25, 7)]
        left = self.raw.rfind("\x1b[?1049l") > self.raw.rfind("\x1b[?1049h")
        return all(modes) and left and termios.tcgetattr(self._terminal) == self.settings

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
        os.close(self._terminal)
        os.close(self._controller)
