"""Whether the repository is as it was pinned: its tracked files, and what its Git would run."""

from __future__ import annotations

import os

from pytest_researchenv.integrity.gitcode import git_code
from pytest_researchenv.integrity.protocol import Kind, Signs, Snapshot, merged
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["tracked"]

#: Files that are named one by one; of more only the number is told.
_NAMED = 20

_PINNED = "as it is at the pinned commit"

#: Folder of metadata that a source distribution tracks, and that each build writes anew.
_BUILT = ".egg-info"


def tracked(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look for tracked files that are not as pinned. Untracked ones are nobody's business here."""
    return merged((Signs(tuple(_findings(task, snapshot))), git_code(task, snapshot)))


def _findings(task: ProbeTask, snapshot: Snapshot) -> list[Finding]:
    changed = [path for path in task.environment.changed if not _is_built(path)]
    workdir = task.environment.workdir
    if not changed:
        return []
    folder = snapshot.link(workdir)
    if folder is None or not folder.is_folder:
        what = "it is gone" if folder is None else f"it is a {folder.kind}"
        return [Finding(Sign.TRACKED, printable(workdir), "the repository's folder", what)]
    found = [
        Finding(Sign.TRACKED, printable(path), _PINNED, _difference(task, snapshot, path)) for path in changed[:_NAMED]
    ]
    if len(changed) > _NAMED:
        more = f"{len(changed) - _NAMED} more tracked files are not: {len(changed)} of {len(task.tree.files)} in all"
        found.append(Finding(Sign.TRACKED, printable(workdir), _PINNED, more))
    return found


def _is_built(path: str) -> bool:
    return any(folder.endswith(_BUILT) for folder in path.split("/")[:-1])


def _difference(task: ProbeTask, snapshot: Snapshot, path: str) -> str:
    entry = snapshot.link(f"{task.environment.workdir}/{path}")
    if entry is None:
        return "removed"
    pinned = task.tree.root / path
    expected = Kind.LINK if pinned.is_symlink() else Kind.FILE
    if entry.kind is not expected:
        return f"changed: it is a {entry.kind}, not a {expected}"
    if entry.kind is Kind.LINK:
        return f"changed: it leads to {printable(entry.link)}"
    if pinned.is_file() and bool(entry.mode & 0o100) != os.access(pinned, os.X_OK):
        return "changed: it can be executed" if entry.mode & 0o100 else "changed: it cannot be executed any more"
    return "changed"
