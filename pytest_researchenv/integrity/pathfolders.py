"""The folders in which programs are looked for by their names."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Collection

from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.reported import Unreported, reported_python
from pytest_researchenv.probes.world import SYSTEM_PATH


__all__ = ["probe_folders", "touched_in"]


def probe_folders(task: ProbeTask) -> tuple[str, ...]:
    """The folders of `PATH` in the probe's world, as they are named there, the first before the others."""
    python = reported_python(task.environment)
    own = () if isinstance(python, Unreported) else (posixpath.dirname(python),)
    return (*own, *SYSTEM_PATH.split(":"))


def touched_in(snapshot: Snapshot, folders: Collection[str]) -> list[str]:
    """Paths that an agent added or changed right in some folders; links on the way are followed.

    Raises:
        SandboxError: the engine refuses to read.
    """
    real = {folder for folder in map(snapshot.resolved, folders) if folder}
    # What was touched is told without bytes that are no UTF-8; all of it is read at once, since there can be millions.
    told = {os.fsencode(folder).decode(errors="replace"): folder for folder in sorted(real)}
    touched = snapshot.touched(*told) if told else {}
    split = ((*posixpath.split(path), kind) for path, kind in touched.items())
    return [f"{told[folder]}/{name}" for folder, name, kind in split if kind != "D" and folder in told]
