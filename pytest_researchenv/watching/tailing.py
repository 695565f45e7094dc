"""Files that grow, read bit by bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import final

from pytest_researchenv.packedlogs import read_ends
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.report.html.text import without_terminal


__all__ = ["NewLines", "last_lines", "stamp_of"]

#: Bytes that are read at once; a longer line is left out.
_BLOCK = 16 * 1024**2

#: Of a log's end, how many bytes are looked at, and how many characters of a line.
_END_BYTES = 32 * 1024
_LONGEST = 1000


def stamp_of(path: Path) -> tuple[int, int] | None:
    """Return what tells whether a file has changed; None where there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


@final
class NewLines:
    """Gives each whole line of a file once; the last one when its end is written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""

    def read(self) -> Iterator[bytes]:
        """What is new, without line ends; nothing where there is no file, or it cannot be read."""
        stamp = stamp_of(self._path)
        # What became shorter was tampered with: none of it is told again.
        if stamp is None or stamp[1] <= self._offset:
            return
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                while block := file.read(_BLOCK):
                    self._offset += len(block)
                    *lines, self._rest = (self._rest + block).split(b"\n")
                    if len(self._rest) > _BLOCK:
                        self._rest = b""
                    yield from lines
        except OSError:
            return


def last_lines(path: Path, most: int) -> list[str]:
    """Return the last lines of a log that say anything, as a terminal would show them but without its controls."""
    try:
        ends = read_ends(path, head=0, tail=_END_BYTES)
    except OSError:
        return []
    text = without_terminal(ends.tail.decode("utf-8", "backslashreplace"))
    lines = text.split("\n")
    if ends.omitted and len(lines) > 1:
        # It began before.
        del lines[0]
    told = [line.expandtabs(4).rstrip() for line in lines]
    return [printable(line, _LONGEST) for line in told if line][-most:]
