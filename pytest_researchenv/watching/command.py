"""The command that watches a run."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pytest_researchenv._place import add_results, run_folder
from pytest_researchenv.errors import ConfigurationError


if TYPE_CHECKING:
    from rich.console import Console

    from pytest_researchenv.watching.events import Event
    from pytest_researchenv.watching.watched import WatchedRun

__all__ = ["add_command"]

_INTERVAL_S = 1.0

#: Phases are written so much later than they begin, in seconds, and records at once.
_HOLD_S = 2.0

_MORE = """\
Where the output is no terminal, lines are printed. The run is only read: the
command may be started and ended at any time, also on another machine that sees the folder. It ends when all sessions of
the run have ended; its exit code is 1 where the newest of them was cut off.
"""


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    watch = commands.add_parser(
        "watch",
        description=_MORE,
    )
    watch.add_argument("name", metavar="RUN", nargs="?", default="default", help="name of the run (default: default)")
    add_results(watch)
    form = watch.add_mutually_exclusive_group()
    form.add_argument("--plain", action="store_true", help="print one line for each thing that happens")
    form.add_argument("--json", action="store_true", help="print one line of JSON for each thing that happens")
    watch.add_argument("--once", action="store_true", help="print how the run stands, or what has happened, and end")
    watch.add_argument("--follow", action="store_true", help="go on when all sessions have ended: another may begin")
    watch.add_argument("--tail", type=_count, metavar="N", help="of what happened before, print only the last N lines")
    watch.set_defaults(run=_watch)


def _count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number of lines")
    return int(text)


def _watch(arguments: argparse.Namespace) -> int:
    # What reads and draws is not for the other commands.
    from rich.console import Console  # noqa: PLC0415 - see above

    from pytest_researchenv.watching.watched import WatchedRun  # noqa: PLC0415 - see above

    # What agents print may be written in any language, and the terminal may know none of it.
    if hasattr(sys.stdout, "reconfigure"):
        sys.stdout.reconfigure(errors="replace")
    console = Console(highlight=False, markup=False, emoji=False)
    watched = WatchedRun(run_folder(arguments.results, arguments.name))
    if arguments.plain or arguments.json or not (arguments.once or (console.is_terminal and not _dumb(console))):
        return _log(watched, arguments)
    if arguments.once:
        watched.look()
        _require_begun(watched)
        _print(watched, console)
        return 0
    from pytest_researchenv.watching.screen import show  # noqa: PLC0415 - needs a terminal

    if not show(watched, console, follow=arguments.follow):
        return 0
    _print(watched, console)
    return int(watched.cut_off)


def _dumb(console: Console) -> bool:
    return console.is_dumb_terminal


def _require_begun(watched: WatchedRun) -> None:
    if not watched.begun:
        raise ConfigurationError(
            f"no session of a run has begun in {watched.folder}: name the run, and its folder by --results"
        )


def _print(watched: WatchedRun, console: Console) -> None:
    from pytest_researchenv.watching.drawing import drawn  # noqa: PLC0415 - see above

    ascii_only = not console.encoding.lower().startswith("utf")
    console.print(drawn(watched.picture(), width=console.width, ascii_only=ascii_only))


def _log(watched: WatchedRun, arguments: argparse.Namespace) -> int:
    from pytest_researchenv.watching.events import json_line, plain_line  # noqa: PLC0415 - see above

    line = json_line if arguments.json else plain_line
    try:
        return _logged(watched, arguments, line)
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        # Whoever read it has seen enough; the interpreter must not fail at it when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _logged(watched: WatchedRun, arguments: argparse.Namespace, line: Callable[[Event], str]) -> int:
    hold_s = 0.0 if arguments.once else _HOLD_S
    events = watched.look(hold_s=hold_s)
    if arguments.once:
        _require_begun(watched)
    elif not watched.begun:
        print(f"researchenv: waiting for a session in {watched.folder}", file=sys.stderr, flush=True)
    if arguments.tail is not None:
        events = events[-arguments.tail :] if arguments.tail else []
    while True:
        for event in events:
            print(line(event))
        sys.stdout.flush()
        if arguments.once:
            return 0
        if watched.over and not arguments.follow:
            return int(watched.cut_off)
        time.sleep(_INTERVAL_S)
        events = watched.look(hold_s=hold_s)
