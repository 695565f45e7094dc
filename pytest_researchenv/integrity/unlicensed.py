"""Packages of the system that its publisher never made: each of those says who may copy it."""

from __future__ import annotations

import posixpath

from pytest_researchenv.integrity.installed import Style
from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.integrity.stubs import Satisfied
from pytest_researchenv.probes.lookup import printable


__all__ = ["unlicensed_packages"]

_DPKG = "/var/lib/dpkg/info"
#: Every package of Debian has this; images that save room keep it.
_COPYRIGHT = "/usr/share/doc/{}/copyright"
_CERTAIN = "base-files"


def unlicensed_packages(snapshot: Snapshot, found: Satisfied) -> dict[str, str]:
    """Imported names that a package of the system has, which is nobody's but the agent's → why."""
    paths = {
        found.places[name].path: name
        for name, owners in found.owners.items()
        if any(one.style is Style.DEBIAN for one in owners) and not any(one.tags for one in owners)
    }
    if not paths or snapshot.entry(_COPYRIGHT.format(_CERTAIN)) is None:
        return {}
    strange: dict[str, str] = {}
    for entry in snapshot.tree(_DPKG, lambda path: path.endswith(".list")):
        package = posixpath.basename(entry.path).removesuffix(".list").partition(":")[0]
        names = [paths[path] for path in entry.text.splitlines() if path in paths]
        if names and snapshot.entry(_COPYRIGHT.format(package)) is None:
            why = f"the package {printable(package)} has no copyright file, which all of the system's have"
            strange |= dict.fromkeys(names, why)
    return strange
