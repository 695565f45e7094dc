"""Whether the file that a command's name leads to is that command."""

from __future__ import annotations

import posixpath
from typing import final

from pytest_researchenv.integrity._commands import Command, Made, calls_only, is_shim
from pytest_researchenv.integrity.conda import conda_sums, is_conda
from pytest_researchenv.integrity.packages import Packages, Standing
from pytest_researchenv.integrity.protocol import Entry, Kind, Snapshot
from pytest_researchenv.integrity.recorded import recorded
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["CommandFiles"]

_ELF = b"\x7fELF"

#: Minor versions of Python whose site folders are searched for who installed a script.
_MINORS = range(6, 20)


@final
class CommandFiles:
    """Files of commands in an image.

    Args:
        task: what is audited.
        snapshot: its image.
    """

    def __init__(self, task: ProbeTask, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._packages = Packages(task, snapshot)

    def doubt(self, command: Command, path: str) -> str:
        """Why what a path leads to is not the command; empty when it is, and where nothing can be run."""
        entry = self._snapshot.entry(path)
        # Of a file that it mounts, as it does with the driver's, an engine leaves an empty one behind.
        if entry is None or entry.kind is not Kind.FILE or not entry.size or not entry.mode & 0o111:
            return ""
        why = self._why(command, entry)
        return f"it leads to {printable(entry.path)}: {why}" if why and entry.path != path else why

    def _why(self, command: Command, entry: Entry) -> str:
        compiled = entry.head.startswith(_ELF)
        if not command.files.fullmatch(posixpath.basename(entry.path)):
            return "that is another program"
        if compiled and command.made is Made.PROGRAM:
            return ""
        owned = any(one.standing is Standing.GENUINE for one in self._packages.judged([entry.path]))
        if (owned and compiled) or (command.made is not Made.DRIVER and (owned or self._is_brought(command, entry))):
            return ""
        return "it is no file of a package" if compiled else f"it is a script: {_first_lines(entry)}"

    def _is_brought(self, command: Command, entry: Entry) -> bool:
        """Whether a script is one that a package brings, or a manager of Pythons."""
        if is_shim(entry.text) or (command.modules and calls_only(entry, command.modules)):
            return True
        if any(f"/node_modules/{name}/" in entry.path for name in command.modules):
            return True
        prefix = posixpath.dirname(posixpath.dirname(entry.path))
        if is_conda(self._snapshot, prefix) and conda_sums(self._snapshot, prefix).get(entry.path) == entry.sha256:
            return True
        return any(
            entry.sha256 in digests
            for site in self._sites(prefix)
            for digests in recorded(self._snapshot, site, [entry.path]).values()
        )

    def _sites(self, prefix: str) -> list[str]:
        """Site folders of the installation that a script is in, without links."""
        names = (f"python3.{minor}/{kind}" for minor in _MINORS for kind in ("site-packages", "dist-packages"))
        found = dict.fromkeys(self._snapshot.resolved(f"{prefix}/lib/{name}") for name in names)
        return [site for site in found if site]


def _first_lines(entry: Entry) -> str:
    text = entry.head.decode(errors="replace")
    return printable("; ".join(line.strip() for line in text.splitlines() if line.strip()))
