"""Commands that are not what they are called: stand-ins for nvidia-smi, wrappers of Python, scripts for torchrun."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from itertools import islice

from pytest_researchenv.integrity._commands import known
from pytest_researchenv.integrity.commandfiles import CommandFiles
from pytest_researchenv.integrity.profiles import profile_folders
from pytest_researchenv.integrity.protocol import Signs, Snapshot
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python
from pytest_researchenv.probes.world import SYSTEM_PATH


__all__ = ["shadows"]

#: Files that are judged; there are some twenty commands, and some ten folders.
_MOST = 200


def shadows(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look for such files on the path of probes, and where shell profiles let people look."""
    files = CommandFiles(task, snapshot)
    findings = []
    paths = list(islice(_commands(task, snapshot), _MOST + 1))
    if len(paths) > _MOST:
        more = Finding(Sign.SHADOW, printable(paths[-1]), "few files with the names of commands", f"more than {_MOST}")
        findings.append(more)
    for path in paths[:_MOST]:
        command = known(posixpath.basename(path))
        if command is not None and (why := files.doubt(command, path)):
            findings.append(Finding(Sign.SHADOW, printable(path), str(command.made), why))
    return Signs(tuple(findings))


def _commands(task: ProbeTask, snapshot: Snapshot) -> Iterator[str]:
    """Paths that an agent added or changed and that have a command's name; each once."""
    python = reported_python(task.environment)
    own = () if isinstance(python, Unreported) else (posixpath.dirname(python),)
    folders = (*own, *SYSTEM_PATH.split(":"), *profile_folders(task, snapshot))
    real = {folder for folder in map(snapshot.resolved, folders) if folder}
    # What was touched is told without bytes that are no UTF-8; all of it is read at once, since there can be millions.
    told = {os.fsencode(folder).decode(errors="replace"): folder for folder in sorted(real)}
    for path, kind in snapshot.touched(*told).items() if told else ():
        folder, name = posixpath.split(path)
        if kind != "D" and folder in told and known(name):
            yield f"{told[folder]}/{name}"
