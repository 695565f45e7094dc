"""Whose code is that no distribution lists: the base image's, the repository's, a project's, or the system's."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from functools import cached_property
from typing import final

from pytest_researchenv.integrity.archives import Archives
from pytest_researchenv.integrity.installed import Distribution, Installed, Style
from pytest_researchenv.integrity.outside import fetched_code
from pytest_researchenv.integrity.packages import Packages
from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.integrity.untracked import LEFT, PROJECT, Untracked
from pytest_researchenv.integrity.upgrades import Claims
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["Vouching", "lists"]

#: Folders above a module that are searched for its project.
_LEVELS = 6


@final
class Vouching:
    """Looks for somebody who has what no distribution lists.

    Args:
        task: what is audited.
        snapshot: the frozen image.
        installed: what is installed.
        untracked: what the agent left in the repository.
        archives: whom to ask of the system's packages; None: nobody.
    """

    def __init__(
        self,
        task: ProbeTask,
        snapshot: Snapshot,
        installed: Installed,
        untracked: Untracked,
        archives: Archives | None,
    ) -> None:
        self._task = task
        self._snapshot = snapshot
        self._installed = installed
        self._untracked = untracked
        self._claims = Claims(task, snapshot, archives)

    def editable(self, path: str) -> Iterator[Distribution]:
        """The editable installs of the folder that a file is in."""
        for one in self._installed.distributions:
            if one.direct and one.direct.editable and path.startswith(f"{self._snapshot.resolved(one.direct.folder)}/"):
                yield one

    def vouches(self, path: str) -> bool:
        """Whether a file that no distribution lists is the base image's, the repository's, a project's or Debian's."""
        real = self._snapshot.resolved(path)
        workdir = self._untracked.workdir
        if not real or any(real.startswith(f"{site}/") for site in self._installed.sites):
            untouched = real and not self._installed.is_touched(path) and real not in self._installed.touched
            return bool(untouched or any(lists(one, real) for one in self._installed.owners(real)))
        if real.startswith(f"{workdir}/"):
            return self._untracked.explained(real.removeprefix(f"{workdir}/"))
        if real not in self._snapshot.touched(posixpath.dirname(real)) or self._is_of_project(real):
            return True
        return any(map(self._claims.vouches, Packages(self._task, self._snapshot).judged([real])))

    def _is_of_project(self, path: str) -> bool:
        """Whether a file is in a project that has an author, or is installed as such."""
        folder = self._project(path)
        left = bool(folder) and any(self._snapshot.link(f"{folder}/{name}") for name in LEFT)
        # What nobody fetched is the agent's own, whatever lies beside it.
        left = left and (self._fetched is not False or self._snapshot.base(folder) is not None)
        return left or (bool(folder) and any(self.editable(path)))

    @cached_property
    def _fetched(self) -> bool | None:
        return fetched_code(self._task)

    def _project(self, path: str) -> str:
        """The folder of the project that a file is in; empty when it is in none."""
        folder = posixpath.dirname(path)
        for _ in range(_LEVELS):
            if folder.count("/") < 1 or folder == "/":
                break
            if any(self._snapshot.link(f"{folder}/{name}") for name in PROJECT):
                return folder
            folder = posixpath.dirname(folder)
        return ""


def lists(one: Distribution, path: str) -> bool:
    """Whether a distribution that lists a file says what is in it, or says so of no file."""
    return one.style is not Style.WHEEL or bool(one.files[path]) or not one.has_digests
