"""Entry points of frameworks in metadata that no installed distribution has.

`importlib.metadata` reads them in any folder that Python looks for modules in, whatever else is there, and whoever put
it there: also what pip leaves of what it removes, in capitals, and beside a script.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import islice

from pytest_researchenv.integrity._metadata import entry_points
from pytest_researchenv.integrity.customize import python_path
from pytest_researchenv.integrity.frameworks import BACKENDS
from pytest_researchenv.integrity.installed import Installed
from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.protocol import Kind, Signs, Snapshot
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["loose_signs"]

_RECORD = re.compile(r"(.*/(?:[^/]+\.(?:dist|egg)-info|EGG-INFO))(?:/.*)?", re.DOTALL | re.IGNORECASE)
#: Folders on the path, and records in them, that are looked at; honest environments have some ten of each.
_MOST_FOLDERS, _MOST = 300, 500


def loose_signs(task: ProbeTask, snapshot: Snapshot, layout: Layout, installed: Installed) -> Signs:
    """Accuse records that have a framework import something when it starts, and that belong to nothing installed.

    Args:
        task: what is audited.
        snapshot: its frozen image.
        layout: where the interpreter looks.
        installed: what is installed for it, which others look at.

    Raises:
        SandboxError: the engine refuses to read.
    """
    findings = []
    records = list(islice(_records(task, snapshot, layout, installed), _MOST + 1))
    if len(records) > _MOST:
        installed.problems.append(f"more than {_MOST} records of distributions lie where none was installed")
    for record in records[:_MOST]:
        entry = snapshot.entry(f"{record}/entry_points.txt")
        if entry is None or entry.kind is not Kind.FILE:
            continue
        points = BACKENDS & entry_points(entry.text).keys()
        if points or entry.content is None:
            said = f"its entry point {min(points)} has code run" if points else f"it has {entry.size} bytes"
            findings.append(Finding(Sign.FRAMEWORK, printable(entry.path), "the framework starts by itself", said))
    return Signs(tuple(findings))


def _records(task: ProbeTask, snapshot: Snapshot, layout: Layout, installed: Installed) -> Iterator[str]:
    known = {path for one in installed.distributions for path in (one.path, f"{one.path}/EGG-INFO")}
    workdir = snapshot.resolved(task.environment.workdir)
    paths = islice(dict.fromkeys((*python_path(task), *layout.path)), _MOST_FOLDERS)
    folders = {real for path in paths if (real := snapshot.resolved(path)) != ""}
    every = sorted({*folders, workdir} - {""})
    found: dict[str, None] = {}
    for path, kind in (snapshot.touched(*every) if every else {}).items():
        match = None if kind == "D" else _RECORD.fullmatch(path)
        if match and match[1] not in known and match[1] not in found:
            folder = posixpath.dirname(match[1])
            if folder in folders or (f"{folder}/".startswith(f"{workdir}/") and "-packages" not in folder):
                found[match[1]] = None
                yield match[1]
