"""How an attempt to reach what is outside a container is named and made, in a process of its own."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import platform
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path


libc = ctypes.CDLL(None, use_errno=True)

ATTEMPTS: dict[str, Callable[[], object]] = {}

#: Numbers of what the C library has no function for: x86_64, aarch64.
NUMBERS = {
    "add_key": (248, 217),
    "bpf": (321, 280),
    "clone": (56, 220),
    "finit_module": (313, 273),
    "fsopen": (430, 430),
    "init_module": (175, 105),
    "io_uring_setup": (425, 425),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pivot_root": (155, 41),
    "quotactl": (179, 60),
    "userfaultfd": (323, 282),
}


def attempt(name: str) -> Callable[[Callable[[], object]], Callable[[], object]]:
    """Name an attempt."""

    def note(function: Callable[[], object]) -> Callable[[], object]:
        ATTEMPTS[name] = function
        return function

    return note


def each(name: str, places: Iterable[str], function: Callable[[str], object]) -> None:
    """Name an attempt for each of some places."""
    for place in places:
        attempt(f"{name} {place}")(partial(function, place))


def call(function: str, *arguments: object) -> int:
    """Call the C library, or the kernel; raise what it says."""
    ctypes.set_errno(0)
    if function in NUMBERS:
        number = NUMBERS[function][platform.machine() == "aarch64"]
        result = libc.syscall(ctypes.c_long(number), *map(word, arguments))
    else:
        result = getattr(libc, function)(*map(word, arguments))
    if result == -1:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return int(result)


def word(value: object) -> object:
    """What the C library takes for a Python value."""
    return ctypes.c_long(value) if isinstance(value, int) else value


def write(path: str, text: str) -> None:
    """Write to a file that is there."""
    with open(path, "r+b", buffering=0) as file:  # noqa: PTH123 - unbuffered, and nothing is made
        file.write(text.encode())


def host_disk() -> tuple[int, str]:
    """Device number and name of the host's disk, which the kernel tells by what the engine mounts from it."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[4] == "/etc/hosts":
            major, minor = map(int, fields[2].split(":"))
            return os.makedev(major, minor), fields[fields.index("-") + 2]
    raise FileNotFoundError(errno.ENOENT, "no mount from the host's disk")


def outcome(function: Callable[[], object]) -> str:
    """What became of an attempt."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            function()
            said = "done"
        except OSError as error:
            said = errno.errorcode.get(error.errno or 0, repr(error))
        except BaseException as error:  # noqa: BLE001 - the test shows it
            said = repr(error)
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with contextlib.closing(os.fdopen(reading, "rb")) as pipe:
        said = pipe.read().decode()
    _, status = os.waitpid(child, 0)
    return said or f"ended with {status}"
