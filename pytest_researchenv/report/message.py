"""What a failed tier says: short, with the way to more."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_researchenv.packedlogs import log_place


if TYPE_CHECKING:
    from pytest_researchenv.harness import Judged

__all__ = ["failure_message", "places", "printable_line"]

#: Characters of a log line that are shown; the log has the rest.
_LINE = 300


def failure_message(judged: Judged) -> str:
    """Return tier, cause, decisive log line, diagnosis, path of the log, and the command that opens a shell."""
    result = judged.result
    where = ", emulated on the CPU" if result.emulated else ""
    lines = [f"{result.tier} {result.tier.heading} failed{where}: {result.cause}: {printable_line(result.reason)}"]
    if result.decisive:
        lines.append(f"  > {printable_line(result.decisive)}")
    lines += _diagnosis(judged)
    if judged.folder:
        lines += places(judged.folder, result.log)
    return "\n".join(lines)


def places(folder: Path, log: str) -> list[str]:
    """Return where the log is, and the command that opens a shell, a line each."""
    return [
        f"  log:   {_short(log_place(folder / log))}",
        f"  shell: researchenv shell {shlex.quote(_short(folder))}",
    ]


def _diagnosis(judged: Judged) -> list[str]:
    found = judged.diagnosis
    if found is None or not found.rule:
        return []
    told = judged.result.decisive or judged.result.reason
    line = [f"  > {printable_line(found.line)}"] if found.line and found.line not in told else []
    return [*line, f"  why:   {found.category} ({found.confidence})", f"  next:  {found.next}"]


def _short(path: Path) -> str:
    relative = os.path.relpath(path)
    return str(path) if relative.startswith("..") else relative


def printable_line(text: str) -> str:
    """Return text as one line of bearable length: terminal control sequences in it must not be obeyed."""
    clean = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)
    return clean if len(clean) <= _LINE else clean[: _LINE - 1] + "…"
