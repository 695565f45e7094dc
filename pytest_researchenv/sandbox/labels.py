"""Who made a thing in the container engine, and until when it can be in use.

Importing this module imports nothing but the standard library.
"""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


__all__ = ["KIND", "LIFETIME_S", "PREFIX", "Owner", "alive", "boot", "expired"]

#: All our labels start with it.
PREFIX = "researchenv."

#: The label that says what a thing is for: `container`, `snapshot`, `base-image`, `tool-volume`, ….
KIND = f"{PREFIX}kind"

#: How long a thing may be in use, in seconds. An idle container ends by itself after it.
LIFETIME_S = 7 * 24 * 3600

_PROC = Path("/proc")

#: In the place of a start time: the process is somebody else's, and /proc does not show those (`hidepid`).
_HIDDEN = "hidden"


@dataclass(frozen=True, slots=True)
class Owner:
    """The process on whose behalf things are made.

    Attributes:
        run: name of the run.
        host: hash of this machine's identity.
        process: boot, process-id namespace, process id and start time, so that a recycled process id is never mistaken
            for a live owner.
    """

    run: str
    host: str
    process: str

    @classmethod
    def current(cls, run: str) -> Owner:
        """The process that calls this."""
        return cls(run, _host(), _process(os.getpid()))

    @classmethod
    def of(cls, run: str, pid: int) -> Owner:
        """Another process of this host."""
        return cls(run, _host(), _process(pid))

    def labels(self, kind: str, *, lifetime_s: float = LIFETIME_S, **extra: str) -> dict[str, str]:
        """Labels for a thing that is made now.

        Args:
            kind: what it is for.
            lifetime_s: seconds after which nothing can still be using it, not even from another host.
            extra: further labels, without prefix; `_` becomes `-`.
        """
        labels = {f"{PREFIX}{name.replace('_', '-')}": value for name, value in extra.items()}
        return labels | {
            KIND: kind,
            f"{PREFIX}run": self.run,
            f"{PREFIX}host": self.host,
            f"{PREFIX}process": self.process,
            f"{PREFIX}expires": str(int(time.time() + lifetime_s)),
        }


def alive(process: str) -> bool | None:
    """Whether the process of this host that `Owner.process` names still runs; None when that cannot be told."""
    started, _, rest = process.partition("/")
    namespace, _, rest = rest.partition("/")
    pid, _, _start = rest.partition("/")
    if not pid.isdecimal():
        return None
    if started != boot():
        return False
    # A process in another container of this host: its id means nothing here.
    if namespace != _namespace():
        return None
    now = _process(int(pid))
    return None if now.endswith(f"/{_HIDDEN}") else now == process


def expired(labels: Mapping[str, str], *, now: float) -> bool:
    """Whether nothing can still be using a thing with these labels; no or a malformed time never expires."""
    expires = labels.get(f"{PREFIX}expires", "")
    return expires.isdecimal() and int(expires) < now


def _host() -> str:
    # Nodes that boot from one disk image share a machine id; their names differ.
    identity = f"{_read(Path('/etc/machine-id'))}\n{socket.gethostname()}"
    return hashlib.sha256(identity.encode()).hexdigest()[:16]


def _process(pid: int) -> str:
    # The command in field 2 may hold spaces and parentheses; field 22, the start time, is the 20th after it.
    fields = _read(_PROC / str(pid) / "stat").rpartition(")")[2].split()
    # A zombie holds nothing any more.
    start = fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""  # noqa: PLR2004
    return f"{boot()}/{_namespace()}/{pid}/{start or _seen(pid, told=bool(fields))}"


def _seen(pid: int, *, told: bool) -> str:
    """What stands for the start time of a process where there is none to be read, or it is a zombie's."""
    if told:
        return "gone"
    shown = (_PROC / "self").exists()
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return "gone"
    except PermissionError:
        return _HIDDEN if shown else "unknown"
    # Without /proc, as on macOS, only whether the id is in use can be told; with it, it has just ended.
    return "gone" if shown else "unknown"


def boot() -> str:
    """What tells this start of the host from all others."""
    return _read(_PROC / "sys/kernel/random/boot_id") or "unknown"


def _namespace() -> str:
    try:
        return str((_PROC / "self/ns/pid").stat().st_ino)
    except OSError:
        return "unknown"


def _read(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""
