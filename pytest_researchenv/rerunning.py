"""The command that runs some of a run again, as it was run before."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from pytest_researchenv._json import add_json, print_json
from pytest_researchenv._place import add_results, no_run, run_folder
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.manifest import Manifest
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.recording.manifest import load_manifest, sessions_in
from pytest_researchenv.rerun import parse_rerun
from pytest_researchenv.sandbox.labels import Owner


__all__ = ["add_command", "rerun_arguments"]

_DEFAULT = ("infra", "missing")

#: What a rerun says itself: option → whether a value follows it.
_REPLACED = {
    "--researchenv-run": True,
    "--researchenv-rerun": True,
    "--researchenv-results": True,
    "--researchenv-rebuild": False,
    "--collect-only": False,
    "--collectonly": False,
    "--co": False,
}

#: What stands in a record in the place of a secret: `[redacted]`, or `[redacted NAME]`.
_REDACTED = "[redacted"


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    again = commands.add_parser(
        "rerun",
        usage="researchenv rerun [RUN] [WHAT ...] [--results FOLDER] [--session ID] [--dry-run] [--json] [-- …]",
    )
    again.add_argument("name", metavar="RUN", nargs="?", default="default", help="name of the run (default: default)")
    again.add_argument(
        "what",
        metavar="WHAT",
        nargs="*",
        help="infra, missing, failed, or a tier such as tier:C3, as for pytest's --researchenv-rerun "
        "(default: infra missing)",
    )
    add_results(again)
    again.add_argument(
        "--session", default="", metavar="ID", help="with the command line of this session (default: the newest)"
    )
    again.add_argument("--dry-run", action="store_true", help="print the command, and start nothing")
    add_json(again)
    again.set_defaults(run=_rerun)


def rerun_arguments(
    recorded: Sequence[str], *, results: Path, run: str, what: Sequence[str], further: Sequence[str] = ()
) -> list[str]:
    """Return pytest's arguments for a rerun.

    Args:
        recorded: those of an earlier session, without secrets.
        results: the results folder.
        run: name of the run.
        what: what is run again.
        further: arguments that come on top.

    Raises:
        ConfigurationError: a value that is needed was a secret, and is not among the further ones.
    """
    options, paths = _parted(recorded)
    more_options, more_paths = _parted(further)
    again = {argument.partition("=")[0] for argument in more_options}
    kept = [*_without_secrets_of(again, list(_without_replaced(options))), *more_options]
    every_path = [*_without_secrets_of(again, paths), *more_paths]
    return [
        f"--researchenv-results={results}",
        f"--researchenv-run={run}",
        *(f"--researchenv-rerun={word}" for word in what),
        *kept,
        *(["--", *every_path] if every_path else []),
    ]


def _parted(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """What stands before and after the first `--`."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:end]), list(arguments[end + 1 :])


def _without_replaced(arguments: Sequence[str]) -> Iterator[str]:
    waiting = iter(arguments)
    for argument in waiting:
        option, equals, _ = argument.partition("=")
        if option not in _REPLACED:
            yield argument
        elif _REPLACED[option] and not equals:
            next(waiting, None)


def _without_secrets_of(again: Collection[str], arguments: Sequence[str]) -> list[str]:
    """Leave out secrets that were not kept, and are given again."""
    kept: list[str] = []
    for argument in arguments:
        if "\0" in argument:
            raise ConfigurationError(
                f"the recorded command line holds {printable(argument)!r}, which no program can be given: the record "
                "was edited; name another session by --session"
            )
        if _REDACTED not in argument:
            kept.append(argument)
            continue
        apart = not argument.startswith("-")
        option = kept[-1] if apart and kept else argument.partition("=")[0]
        if option not in again:
            raise ConfigurationError(
                f"the recorded command line holds {printable(argument)!r} in the place of a secret, which is kept "
                f"nowhere: give it again, as in `researchenv rerun RUN -- {printable(option)}=…`"
            )
        if apart:
            kept.pop()
    return kept


def _rerun(arguments: argparse.Namespace) -> int:
    what = arguments.what or list(_DEFAULT)
    parse_rerun(what)
    folder = run_folder(arguments.results, arguments.name)
    sessions = sessions_in(folder)
    session = _session(arguments.session, sessions, folder)
    manifest = load_manifest(folder, session)
    command = rerun_arguments(
        manifest.command[1:], results=arguments.results, run=arguments.name, what=what, further=arguments.further
    )
    notes = list(_notes(manifest, sessions))
    if arguments.json:
        print_json({"run": arguments.name, "session": session, "notes": notes, "command": ["pytest", *command]})
        return 0
    for note in notes:
        print(f"researchenv: {note}", file=sys.stderr)
    line = shlex.join(["pytest", *command])
    # A character takes ten at most where it is written out.
    print(printable(line, 10 * len(line)), flush=True)
    if not arguments.dry_run:
        _become_pytest(command)
    return 0


def _become_pytest(arguments: Sequence[str]) -> NoReturn:
    """Start pytest in the place of this process: keys, signals and the exit code are its own."""
    program = Path(sys.executable).with_name("pytest")
    start = [str(program)] if program.is_file() else [sys.executable, "-m", "pytest"]
    os.execv(start[0], [*start, *arguments])  # noqa: S606 - no shell is wanted


def _session(wanted: str, sessions: Sequence[str], folder: Path) -> str:
    if not folder.is_dir():
        raise no_run(folder)
    if not sessions:
        raise ConfigurationError(
            f"{folder} holds no manifest: no session of pytest has recorded its command line there"
        )
    if wanted and wanted not in sessions:
        raise ConfigurationError(f"{folder} has no session {wanted!r}; it has: {', '.join(sessions)}")
    return wanted or sessions[-1]


def _notes(manifest: Manifest, sessions: Sequence[str]) -> Iterator[str]:
    others = [session for session in sessions if session != manifest.session]
    if others:
        yield (
            f"the run has {len(sessions)} sessions, whose command lines may differ; this is that of "
            f"{manifest.session}{', the newest' if manifest.session == sessions[-1] else ''}. Others, for --session: "
            f"{', '.join(others)}"
        )
    if not manifest.ended:
        yield f"the session {manifest.session} has no end: it goes on, or was killed"
    if manifest.host.id != Owner.current(manifest.run).host:
        yield f"the session {manifest.session} was on another machine: paths on its command line may not be here"
