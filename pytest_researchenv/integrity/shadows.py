"""Commands that are not what they are called: stand-ins for nvidia-smi, wrappers of Python, scripts for torchrun."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from itertools import islice

from pytest_researchenv.integrity._commands import known
from pytest_researchenv.integrity.blanking import place_of, without_place
from pytest_researchenv.integrity.commandfiles import CommandFiles
from pytest_researchenv.integrity.pathfolders import probe_folders, touched_in
from pytest_researchenv.integrity.profiles import profile_folders
from pytest_researchenv.integrity.protocol import Signs, Snapshot
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python


__all__ = ["shadows"]

#: Files that are judged; there are some twenty commands, and some ten folders.
_MOST = 200


def shadows(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look for such files on the path of probes, and where shell profiles let people look.

    On the path of probes they are empty files there, but for the reported interpreter, so that whoever looks along it
    goes on.
    """
    files = CommandFiles(task, snapshot)
    findings = []
    blanked = {}
    folders = probe_folders(task)
    called = {folder for folder in map(snapshot.resolved, folders) if folder}
    python = reported_python(task.environment)
    own = "" if isinstance(python, Unreported) else snapshot.resolved(python)
    paths = list(islice(_commands(snapshot, (*folders, *profile_folders(task, snapshot))), _MOST + 1))
    if len(paths) > _MOST:
        more = Finding(
            Sign.UNREADABLE, printable(paths[-1]), "few files with the names of commands", f"more than {_MOST}"
        )
        findings.append(more)
    for path in paths[:_MOST]:
        command = known(posixpath.basename(path))
        if command is not None and (why := files.doubt(command, path)):
            findings.append(Finding(Sign.SHADOW, printable(path), str(command.made), why))
            if posixpath.dirname(path) not in called or snapshot.resolved(path) == own:
                continue
            if place := place_of(snapshot, path):
                blanked[place] = ""
            else:
                findings.append(without_place(path))
    return Signs(tuple(findings), blanked)


def _commands(snapshot: Snapshot, folders: tuple[str, ...]) -> Iterator[str]:
    """Paths that an agent added or changed and that have a command's name; each once."""
    return (path for path in touched_in(snapshot, folders) if known(posixpath.basename(path)))
