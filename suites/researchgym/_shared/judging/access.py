"""What handed-in code went to while it ran: read from the log of `child.py`, and compared with what it may."""
# researchgym canary 564fea92-6bd3-44ab-ae3a-f8fefb7db5c7

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


__all__ = ["Allowed", "Trespass", "trespasses"]

_PROGRAMS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "os.fork",
    "os.forkpty",
    "pty.spawn",
    "subprocess.Popen",
)
_NETWORK = ("socket.",)
_MEMORY = ("gc.get_objects", "gc.get_referrers", "ctypes.dlopen", "os.kill", "os.killpg")
_WRITING = (
    "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir", "os.symlink", "os.truncate",
    "os.utime", "shutil.",
)  # fmt: skip
_SYSTEM = (
    "/dev/null", "/dev/random", "/dev/urandom", "/etc", "/lib", "/lib64", "/proc/cpuinfo", "/proc/filesystems",
    "/proc/meminfo", "/proc/self/cgroup", "/proc/self/maps", "/proc/self/mountinfo", "/proc/self/stat",
    "/proc/self/status", "/proc/stat", "/sys", "/usr",
)  # fmt: skip
_ENVIRONMENT = re.compile(r"/(site-packages|dist-packages|lib-dynload|python3[.\d]*(\.zip)?)$")
_DATA = {".arff", ".csv", ".gz", ".h5", ".joblib", ".mat", ".npy", ".npz", ".parquet", ".pickle", ".pkl"}


@dataclass(frozen=True, slots=True)
class Allowed:
    """Where code may read and write.

    Attributes:
        folder: what it is run in; relative paths begin there.
        read: files and folders that it may read.
        write: folders that it may write to.
    """

    folder: str
    read: tuple[str, ...]
    write: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trespass:
    """One thing that handed-in code may not do.

    Attributes:
        check: name of the check that it comes under.
        what: what was seen.
    """

    check: str
    what: str


def trespasses(log: bytes, allowed: Allowed, *, ended: bool) -> list[Trespass]:
    """Return what a log says that is not allowed.

    Args:
        log: lines of JSON: a number, an event, and its arguments.
        allowed: where the code may read and write.
        ended: whether the code came to its end, so that the log must, too.
    """
    found: dict[str, Trespass] = {}
    roots: tuple[str, ...] = ()
    finished = False
    for expected, line in enumerate(log.decode("utf-8", "replace").splitlines()):
        try:
            number, event, arguments = json.loads(line)
        except ValueError:
            return [Trespass("access", f"the log of its file accesses was written to: {line[:80]!r}")]
        if number != expected:
            return [Trespass("access", f"the log of its file accesses lacks lines before number {number}")]
        if event == "roots":
            # What is no environment is no root, whatever path files of the environment add.
            roots = tuple(one for one in arguments if _ENVIRONMENT.search(one))
        elif event == "os.researchgym.end":
            finished = True
        elif one := _judged(event, arguments, allowed, roots):
            found.setdefault(one.what, one)
    if ended and not finished:
        found["end"] = Trespass("access", "the log of its file accesses was cut off")
    return list(found.values())


def _judged(event: str, arguments: list[object], allowed: Allowed, roots: tuple[str, ...]) -> Trespass | None:
    if event.startswith(_PROGRAMS):
        return Trespass("program", f"started a program: {event} {_shown(arguments)}")
    if event.startswith(_NETWORK):
        return Trespass("network", f"used the network: {event} {_shown(arguments)}")
    path = arguments[0] if arguments else None
    if event.startswith(_MEMORY):
        # `ctypes` opens the interpreter itself when it is imported; packages open libraries of their own.
        own = event == "ctypes.dlopen" and (path is None or _below(os.path.realpath(str(path)), roots))
        return None if own else Trespass("memory", f"reached beyond its own objects: {event} {_shown(arguments)}")
    return _path_judged(event, path, arguments, allowed, roots) if isinstance(path, str) else None


def _path_judged(
    event: str, path: str, arguments: list[object], allowed: Allowed, roots: tuple[str, ...]
) -> Trespass | None:
    full = os.path.normpath(Path(allowed.folder) / path)
    # `self` would lead to this process.
    full = full if full.startswith("/proc/self/") else os.path.realpath(full)
    if event.startswith(_WRITING) or (event == "open" and _writes(arguments)):
        wrong = full != "/dev/null" and not _below(full, allowed.write)
        return Trespass("access", f"wrote to {path[:200]!r}") if wrong else None
    if _below(full, allowed.read) or _below(full, allowed.write):
        return None
    if not _below(full, (*roots, *_SYSTEM)) and not _listed(event, full, roots):
        return Trespass("access", f"read {path[:200]!r}")
    if PurePosixPath(full).suffix in _DATA:
        return Trespass("access", f"read data that came with a package: {path[:200]!r}")
    return None


def _listed(event: str, full: str, roots: tuple[str, ...]) -> bool:
    """Whether the interpreter itself lists a folder on the way to its own files."""
    return event in {"os.listdir", "os.scandir"} and any(root.startswith(full.rstrip("/") + "/") for root in roots)


def _writes(arguments: list[object]) -> bool:
    mode, flags = (*arguments[1:], None, None)[:2]
    by_mode = isinstance(mode, str) and bool(set(mode) & set("wax+"))
    by_flags = isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC))
    return by_mode or by_flags


def _below(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _shown(arguments: list[object]) -> str:
    return json.dumps(arguments)[:200]
