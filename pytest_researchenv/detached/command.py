"""The commands for runs that go on by themselves: end their work, and restore what was archived of it."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv.archiving.restoring import restore_to
from pytest_researchenv.detached.record import going_on, keeper_of, request_stop, work_of
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.runs.folders import ATTEMPT
from pytest_researchenv.store import Attempt
from pytest_researchenv.verifying.attempts import Chosen, attempts_of


__all__ = ["add_commands", "at_work_in"]

#: How often an attempt is looked at that is about to end, in seconds.
_POLL_S = 0.5


def add_commands(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the commands."""
    stop = commands.add_parser("stop")
    stop.add_argument(
        "target",
        metavar="RUN|ATTEMPT",
        nargs="?",
        default="default",
        help="name of a run, or an attempt's folder (default: default)",
    )
    stop.add_argument("--results", type=Path, default=Path("researchenv-results"), metavar="FOLDER")
    stop.add_argument("--agent", action="append", metavar="NAME", help="only this agent's; may be repeated")
    stop.add_argument("--repository", action="append", metavar="NAME", help="only this task; may be repeated")
    stop.add_argument("--dry-run", action="store_true", help="only say what is at work")
    stop.add_argument("--wait", action="store_true", help="wait until it has ended and is frozen")
    add_json(stop)
    stop.set_defaults(run=_stop)
    restore = commands.add_parser("restore")
    restore.add_argument("attempt", type=Path, metavar="ATTEMPT", help="an attempt's folder")
    restore.add_argument("folder", type=Path, metavar="FOLDER", help="what is made; it must not exist")
    add_json(restore)
    restore.set_defaults(run=_restore)


def at_work_in(results: Path, run: str, chosen: Chosen | None = None) -> list[Attempt]:
    """Return the attempts of a run that processes of their own are at work for; none where there is no such run."""
    try:
        attempts = attempts_of(results, run, chosen or Chosen())
    except ConfigurationError:
        return []
    return [one for one in attempts if not (one.finished or one.error()) and going_on(one)]


def _stop(arguments: argparse.Namespace) -> int:
    attempts = _chosen(arguments)
    for attempt in () if arguments.dry_run else attempts:
        request_stop(attempt)
    while arguments.wait and not arguments.dry_run and any(map(going_on, attempts)):
        time.sleep(_POLL_S)
    if arguments.json:
        print_json({"stopped": not arguments.dry_run, "attempts": [_facts(attempt) for attempt in attempts]})
        return 0
    if not attempts:
        print("nothing is at work that goes on by itself")
    for attempt in attempts:
        words = "at work" if arguments.dry_run else ("has ended" if arguments.wait else "ends within seconds")
        facts = _facts(attempt)
        print(f"{attempt.key}: {words} (process {facts['pid']}, {facts['seconds']} s of {facts['limit_s']} s)")
    return 0


def _chosen(arguments: argparse.Namespace) -> list[Attempt]:
    folder = Path(arguments.target)
    chosen = Chosen(agents=arguments.agent or (), repositories=arguments.repository or ())
    if ATTEMPT.fullmatch(folder.name) and folder.is_dir():
        # <results>/<run>/<agent>/<suite>/<task>/attempt-001
        run = next((parent for parent in folder.resolve().parents if list(parent.glob("manifest-*.json"))), None)
        if run is None:
            raise ConfigurationError(f"{folder} lies in no run: name the run, and its folder by --results")
        return [one for one in at_work_in(run.parent, run.name) if one.folder.resolve() == folder.resolve()]
    if not (arguments.results / arguments.target).is_dir():
        raise ConfigurationError(
            f"there is no run in {arguments.results / arguments.target}: name it, and its folder by --results"
        )
    return at_work_in(arguments.results, arguments.target, chosen)


def _facts(attempt: Attempt) -> dict[str, object]:
    keeper, work = keeper_of(attempt.folder), work_of(attempt.folder)
    return {
        "attempt": str(attempt.key),
        "folder": str(attempt.folder),
        "pid": keeper.pid if keeper else None,
        "seconds": round(time.time() - work.began) if work else 0,
        "limit_s": round(work.limit_s) if work else None,
    }


def _restore(arguments: argparse.Namespace) -> int:
    index = restore_to(arguments.attempt, arguments.folder)
    if arguments.json:
        facts = {"folder": str(arguments.folder), "archive": index.number, "began": index.began}
        print_json({**facts, "torn": list(index.torn), "left_out": dict(index.left_out)})
        return 0
    files = sum(entry.kind == "file" for entry in index.entries.values())
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(index.began))
    print(f"restored: {files} files of {index.root} as they were at {at}, in {arguments.folder}")
    for path in index.torn:
        print(f"written to while it was read: {path}")
    for path, why in index.left_out.items():
        print(f"not archived: {path}: {why}")
    return 0
