"""Whether something lies where the harness puts its own things: probes, what they write, tools, assets.

What a probe writes goes into a folder of a random name there, made when its container is, and what it is asked for is
read from there alone. Whatever else an agent keeps beside its report is its own.
"""

from __future__ import annotations

from collections.abc import Iterator

from pytest_researchenv.integrity.protocol import Entry, Signs, Snapshot
from pytest_researchenv.model import Finding, Sign
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["places"]

_TOP = "/researchenv"

#: What the harness mounts or makes there, in containers of agents and of probes.
_OURS = frozenset(("agent", "assets", "gateway", "host", "probes", "proxy", "scratch", "tools"))

#: Where something was mounted while the agent worked, or in the base image: the mount points are frozen, empty.
_MOUNT_POINTS = frozenset(f"{_TOP}/{name}" for name in ("agent", "host", "scratch", "tools"))

#: What is named one by one; of more only the number is told.
_NAMED = 20


def places(task: ProbeTask, snapshot: Snapshot) -> Signs:
    """Look for what an agent left in the harness's folders."""
    del task
    found = _planted(snapshot)
    named = [_finding(entry.path, f"there is a {entry.kind}") for _, entry in zip(range(_NAMED), found, strict=False)]
    if rest := sum(1 for _ in found):
        named.append(_finding(_TOP, f"there are {rest} more files"))
    return Signs(tuple(named))


def _planted(snapshot: Snapshot) -> Iterator[Entry]:
    top = snapshot.link(_TOP)
    if top is not None and not top.is_folder:
        yield top
        return
    for entry in snapshot.tree(_TOP):
        if entry.path in _MOUNT_POINTS and entry.is_folder:
            continue
        if entry.path.split("/")[2] in _OURS:
            yield entry


def _finding(path: str, what: str) -> Finding:
    return Finding(Sign.PLACE, printable(path), "nothing of the agent's", what)
