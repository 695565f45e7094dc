"""Places at which a probe finds something else than the frozen image has."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import final

from pytest_researchenv.integrity.protocol import Entry
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["Unsteady"]

#: Written by engines into every container that runs; in an image they are empty.
_ENGINES = frozenset(
    {"/.dockerenv", "/etc/hostname", "/etc/hosts", "/etc/mtab", "/etc/resolv.conf", "/run/.containerenv"}
)


@final
class Unsteady:
    """Tells such places: what the engine writes, tracked files that are put back, and folders of bytecode.

    Args:
        task: what is judged.
    """

    def __init__(self, task: ProbeTask) -> None:
        home, tree = PurePosixPath(task.environment.workdir), task.tree
        files = [home / path for path in tree.to_restore(task.environment.changed)]
        # `launch.restored` puts a file in the place of each.
        bytecode = {(home / path).parent / "__pycache__" for path in tree.files if path.endswith(".py")}
        self._others = _ENGINES.union(map(str, files), map(str, bytecode))
        self._folders = frozenset(
            str(folder) for file in files for folder in file.parents if folder.is_relative_to(home)
        )

    def __call__(self, path: str, entry: Entry | None) -> bool:
        """Whether something else is at a path then.

        Args:
            path: absolute, without links in it.
            entry: what the image has there; None for nothing.
        """
        return path in self._others or (path in self._folders and not (entry is not None and entry.is_folder))
