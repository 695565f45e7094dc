"""Which system calls a container's processes may make, where the engine's own filter lets too much through.

Engines before 23.0 let a container speak to the machine below it (AF_VSOCK), which no network namespace holds, and
those before mid-2026 let it use the kernel's interface to ciphers (AF_ALG), by which files were changed that are only
to be read, those of layers that containers share included (CVE-2026-31431). So ours is used where the engine has its
own default. It differs in what concerns sockets and in io_uring, and lets nothing more through than a recent engine
does for containers with our few capabilities.

In a network without a way out there is no address of the engine's host, and yet the host is in it: asked on the link
for any other address of its own, it answers, and datagrams arrive (tried: a bridge without address, `rp_filter` 0). To
ask so, a process has to go past the routes of its container, which no program needs to.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any


__all__ = ["filter_options"]

#: Engines whose filter takes ours' place, by how they say that it is their default.
_DEFAULTS = ("name=seccomp,profile=default", "name=seccomp,profile=builtin")

#: How Docker calls itself; others take a path of their host where it takes the filter itself.
_DOCKER = "Engine"

#: Architecture of the engine → the kernel's name for it and for those whose programs it can run, too.
_ARCHITECTURES = {
    "amd64": ("SCMP_ARCH_X86_64", ["SCMP_ARCH_X86", "SCMP_ARCH_X32"]),
    "arm64": ("SCMP_ARCH_AARCH64", ["SCMP_ARCH_ARM"]),
}

#: Kinds of sockets that may be made: AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET (which needs a capability).
_SOCKETS = (1, 2, 10, 16, 17)

#: Level and name of the option of a socket by which it goes past the routes, and the flag that does so for one message.
_SOL_SOCKET, _SO_DONTROUTE, _MSG_DONTROUTE = 1, 5, 4

#: What sends messages → which argument has the flags.
_SENDERS = {"send": 3, "sendto": 3, "sendmsg": 2, "sendmmsg": 3}

#: Flags of `clone` that ask for namespaces.
_NAMESPACES = 0x7E020000

#: What `personality` may be asked for: nothing, a 32-bit machine, an old kernel's number, and what it is.
_PERSONALITIES = (0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)

#: `clone3` hides its flags from the filter; told that it is not there, the C library uses `clone`.
_ENOSYS = 38

#: Every system call of x86, x86_64, arm and arm64 up to Linux 6.17, save those for mounts, namespaces, modules, keys,
#: clocks, the machine's name, its log, its ports, other processes' files, memory policy, io_uring, and long-gone ones.
_ALLOWED = resources.files("pytest_researchenv.sandbox").joinpath("syscalls.txt")


def filter_options(version: Mapping[str, Any], info: Mapping[str, Any]) -> list[str]:
    """Return the security option with our filter; none where the engine takes none, or has one that somebody chose.

    Args:
        version: what the engine says of its version.
        info: what it says of itself.
    """
    engines = [component.get("Name") for component in version.get("Components") or []]
    default = any(option in _DEFAULTS for option in info.get("SecurityOptions") or [])
    if _DOCKER not in engines or not default or version.get("Arch") not in _ARCHITECTURES:
        return []
    return [f"seccomp={_profile(version['Arch'])}"]


@cache
def _profile(architecture: str) -> str:
    native, also = _ARCHITECTURES[architecture]
    rules: list[dict[str, Any]] = [
        {"names": _ALLOWED.read_text(encoding="ascii").split(), "action": "SCMP_ACT_ALLOW"},
        {"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": _ENOSYS},
        _rule("clone", _masked(0, _NAMESPACES, 0)),
        *(_rule("socket", _equal(0, family)) for family in _SOCKETS),
        *(_rule("personality", _equal(0, value)) for value in _PERSONALITIES),
        *(_rule(name, _masked(place, _MSG_DONTROUTE, 0)) for name, place in _SENDERS.items()),
        *(_rule("setsockopt", other) for other in _unequal(1, _SOL_SOCKET)),
        *(_rule("setsockopt", other) for other in _unequal(2, _SO_DONTROUTE)),
    ]
    return json.dumps(
        {
            "defaultAction": "SCMP_ACT_ERRNO",
            "defaultErrnoRet": 1,
            "archMap": [{"architecture": native, "subArchitectures": also}],
            "syscalls": rules,
        },
        separators=(",", ":"),
    )


def _rule(name: str, argument: dict[str, Any]) -> dict[str, Any]:
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [argument]}


def _equal(place: int, value: int) -> dict[str, Any]:
    return {"index": place, "value": value, "op": "SCMP_CMP_EQ"}


def _masked(place: int, mask: int, value: int) -> dict[str, Any]:
    return {"index": place, "value": mask, "valueTwo": value, "op": "SCMP_CMP_MASKED_EQ"}


def _unequal(place: int, value: int) -> list[dict[str, Any]]:
    """Conditions of which one holds for every other number. The filter sees 64 bits, the kernel reads 32 of them."""
    bits = [1 << number for number in range(32)]
    return [_masked(place, bit, ~value & bit) for bit in bits]
