"""The command that prints logs, however they lie."""

from __future__ import annotations

import argparse
import codecs
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO, final

from pytest_researchenv._choice import one_of
from pytest_researchenv._json import add_json, print_json
from pytest_researchenv._place import add_results
from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.model import Examination, Tier
from pytest_researchenv.packedlogs import log_place, open_log, plain_name
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.report.html.text import visible, without_terminal
from pytest_researchenv.runs.folders import ATTEMPT, RESULT
from pytest_researchenv.verifying.attempts import Chosen, attempts_of


__all__ = ["add_command"]

_TRANSCRIPT, _REQUESTS = "transcript.log", "requests.jsonl"

#: How often a log that grows is looked at, and how long one that is complete may still take to be closed, in seconds.
_LOOK_S, _CLOSING_S = 0.2, 1.0

_BLOCK = 64 * 1024

#: A line that is longer is shown in pieces.
_LONGEST_LINE = 64 * 1024


@dataclass(frozen=True, slots=True)
class _Log:
    """A log, by the path that it was written to."""

    path: Path

    @property
    def shown(self) -> str:
        """Where it lies, as it is told to people."""
        place = log_place(self.path)
        relative = os.path.relpath(place)
        return str(place) if relative.startswith("..") else relative

    @property
    def complete(self) -> bool:
        """Whether what it is about has been recorded, so that it is closed, or is being closed."""
        if log_place(self.path) != self.path:
            return True
        if self.path.name in {_TRANSCRIPT, _REQUESTS}:
            return any((self.path.parent / name).exists() for name in ("environment.json", "error.txt"))
        return self.path.with_suffix(".json").exists()


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    logs = commands.add_parser(
        "logs",
        description="Where none is named by --tier, --transcript or --requests, list what there is. On a "
        "terminal, what a log would do to it is left out or written out; elsewhere its bytes come as they are.",
    )
    logs.add_argument(
        "target",
        metavar="RUN|ATTEMPT|LOG",
        nargs="?",
        default="default",
        help="name of a run, or an attempt's folder or a log as a failure message names it (default: default)",
    )
    add_results(logs)
    logs.add_argument("--agent", action="append", metavar="NAME", help="only this agent's; may be repeated")
    logs.add_argument("--repository", action="append", metavar="NAME", help="only this repository; may be repeated")
    logs.add_argument(
        "--tier",
        action="append",
        type=one_of(*Tier, *Examination),
        metavar="TIER",
        help="the newest log of this: C0 to C5, or integrity; may be repeated",
    )
    logs.add_argument("--transcript", action="store_true", help="what the agent printed")
    logs.add_argument("--requests", action="store_true", help="what was asked of the model and of the outside")
    logs.add_argument("--tail", type=_lines, metavar="N", help="only the last N lines")
    logs.add_argument("--follow", action="store_true", help="go on until the log is complete")
    logs.add_argument("--raw", action="store_true", help="print the bytes as they are, on a terminal, too")
    add_json(logs)
    logs.set_defaults(run=_logs)


def _lines(argument: str) -> int:
    if not argument.isdecimal():
        raise argparse.ArgumentTypeError(f"{argument!r} is no number of lines")
    return int(argument)


def _logs(arguments: argparse.Namespace) -> int:
    logs, named = _found(arguments)
    if not logs:
        raise ConfigurationError(f"{arguments.target} has no such log: list what there is by researchenv logs")
    if arguments.json:
        print_json([_document(log) for log in logs])
        return 0
    if not named:
        for log in logs:
            print(f"{log_place(log.path).stat().st_size:>12,}  {printable(log.shown, 1000)}")
        return 0
    if arguments.follow and len(logs) > 1:
        raise ConfigurationError(f"{len(logs)} logs cannot be followed at once: name one of {_listed(logs)}")
    try:
        _print(logs, arguments)
    except BrokenPipeError:
        # Whoever reads has seen enough, and the interpreter must not try once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _print(logs: Sequence[_Log], arguments: argparse.Namespace) -> None:
    for number, log in enumerate(logs):
        if len(logs) > 1:
            print(f"{'' if number == 0 else chr(10)}==> {printable(log.shown, 1000)} <==", flush=True)
        with _printing(sys.stdout, raw=arguments.raw) as output:
            for block in _blocks(log, arguments.tail, follow=arguments.follow):
                output.write(block)


def _document(log: _Log) -> dict[str, object]:
    place = log_place(log.path)
    packed = place != log.path
    return {"log": log.path.name, "path": str(place), "bytes": place.stat().st_size, "packed": packed}


def _listed(logs: Sequence[_Log]) -> str:
    return ", ".join(printable(log.shown, 1000) for log in logs[:5]) + (", …" if len(logs) > 5 else "")  # noqa: PLR2004 - enough to choose


# --- which ------------------------------------------------------------------------------------------------


def _found(arguments: argparse.Namespace) -> tuple[list[_Log], bool]:
    """Return the chosen logs, and whether they were named one by one or by what they are about."""
    target = Path(arguments.target)
    subjects: list[str] = [*(arguments.tier or ())]
    subjects += [name for name, wanted in _OTHERS.items() if getattr(arguments, wanted)]
    # The folder that one is in has no name.
    if target.name and log_place(plain := target.with_name(plain_name(target.name))).is_file():
        return [_Log(plain)], True
    folders = [target]
    if not ATTEMPT.fullmatch(target.resolve().name):
        chosen = Chosen(arguments.agent or (), arguments.repository or ())
        folders = [attempt.folder for attempt in attempts_of(arguments.results, arguments.target, chosen)]
    return [log for folder in folders for log in _logs_of(folder, subjects)], bool(subjects)


#: Log → the option that names it.
_OTHERS = {_TRANSCRIPT: "transcript", _REQUESTS: "requests"}


def _logs_of(folder: Path, subjects: Sequence[str]) -> Iterator[_Log]:
    try:
        names = sorted({plain_name(path.name) for path in folder.iterdir() if path.is_file()})
    except OSError as error:
        raise ConfigurationError(f"{folder} cannot be listed: {error}; name a run or an attempt's folder") from error
    results = [match for name in names if (match := RESULT.fullmatch(name)) and match[3] == "log"]
    results.sort(key=lambda match: (match[1], int(match[2])))
    newest = {match[1]: match[0] for match in results}
    wanted = [newest.get(subject, subject) for subject in subjects]
    every = [match[0] for match in results] + [name for name in _OTHERS if name in names]
    yield from (_Log(folder / name) for name in every if not subjects or name in wanted)


# --- what is in them --------------------------------------------------------------------------------------


def _blocks(log: _Log, tail: int | None, *, follow: bool) -> Iterator[bytes]:
    try:
        with open_log(log.path) as file:
            if tail is not None:
                pieces = deque(iter(lambda: file.readline(_BLOCK), b""), maxlen=tail)
                yield b"".join(pieces)
            yield from _rest(file)
            quiet = 0.0
            while follow and quiet < _CLOSING_S:
                time.sleep(_LOOK_S)
                block = file.read(_BLOCK)
                quiet = 0.0 if block or not log.complete else quiet + _LOOK_S
                yield block
    except OSError as error:
        raise StoreError(f"cannot read {log.shown}: {error}") from error


def _rest(file: IO[bytes]) -> Iterator[bytes]:
    while block := file.read(_BLOCK):
        yield block


@final
class _Printer:
    """Prints what comes in pieces, in whole lines as a page would show them."""

    def __init__(self, output: TextIO) -> None:
        self._output = output
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._rest = ""

    def write(self, block: bytes) -> None:
        """Print the lines that are whole."""
        lines, end, self._rest = (self._rest + self._decoder.decode(block)).rpartition("\n")
        self._show(lines + end)
        if len(self._rest) > _LONGEST_LINE:
            self._show(self._rest)
            self._rest = ""

    def end(self) -> None:
        """Print what is left."""
        self._show(self._rest + self._decoder.decode(b"", final=True))

    def _show(self, text: str) -> None:
        clean = visible(without_terminal(text))
        # A terminal may not know every letter.
        encoding = self._output.encoding or "utf-8"
        self._output.write(clean.encode(encoding, "backslashreplace").decode(encoding))
        self._output.flush()


@final
class _Raw:
    """Prints bytes as they are."""

    def __init__(self, output: IO[bytes]) -> None:
        self._output = output

    def write(self, block: bytes) -> None:
        """Print it."""
        self._output.write(block)
        self._output.flush()


@contextlib.contextmanager
def _printing(output: TextIO, *, raw: bool) -> Iterator[_Printer | _Raw]:
    if raw or not output.isatty():
        output.flush()
        yield _Raw(output.buffer)
        return
    printer = _Printer(output)
    yield printer
    printer.end()
