"""Attempts to leave the namespaces, and to reach processes and the network of others."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import socket
import struct
import sys

from tests.integration.isolation.inside.escaping import attempt, call, each


NEW = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000}
NEW |= {"pid": 0x20000000, "net": 0x40000000}

# --- namespaces -------------------------------------------------------------------------------------------

each("leave the namespace:", NEW, lambda kind: call("unshare", NEW[kind]))


@attempt("begin a process in namespaces of its own")
def _() -> None:
    if call("clone", NEW["user"] | NEW["mount"] | signal.SIGCHLD, None, None, None, None) == 0:
        os._exit(0)


@attempt("enter the namespace of the first process")
def _() -> None:
    call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)


# --- processes of others ----------------------------------------------------------------------------------


@attempt("signal a process of the host")
def _() -> None:
    os.kill(int(sys.argv[2]), 0)


@attempt("trace a process of the host")
def _() -> None:
    call("ptrace", 16, int(sys.argv[2]), None, None)


@attempt("look into a process of the host")
def _() -> None:
    os.readlink(f"/proc/{sys.argv[2]}/exe")  # noqa: PTH115 - as it is called


@attempt("go back where the first process came from")
def _() -> None:
    root = os.stat("/proc/1/root/").st_ino, os.stat("/proc/1/root/").st_dev  # noqa: PTH116 - both numbers
    own = os.stat("/").st_ino, os.stat("/").st_dev  # noqa: PTH116 - likewise
    if root == own:
        raise PermissionError(errno.EPERM, "it is its own root")


# --- the network ------------------------------------------------------------------------------------------


@attempt("send raw packets")
def _() -> None:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)


@attempt("send raw frames")
def _() -> None:
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)


@attempt("speak to the machine below")
def _() -> None:
    # No network namespace holds these. It is only made: nothing is sent.
    socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)


@attempt("have the kernel compute")
def _() -> None:
    # Read-only files have been changed through it, those of shared layers, too (CVE-2026-31431).
    socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)


@attempt("go past the routes")
def _() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        any_socket.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)


@attempt("send a message past the routes")
def _() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        any_socket.sendto(b"", socket.MSG_DONTROUTE, ("127.0.0.1", 9))


@attempt("add a route")
def _() -> None:
    # struct rtentry: a default route by an address that is nobody's.
    def address(text: str) -> bytes:
        return struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton(text))

    entry = struct.pack("Q", 0) + address("0.0.0.0") + address("192.0.2.1") + address("0.0.0.0")  # noqa: S104
    entry += struct.pack("H", 3)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x890B, entry.ljust(120, b"\0"))


@attempt("give itself another address")
def _() -> None:
    request = struct.pack("16sHH4s8x", b"lo", socket.AF_INET, 0, socket.inet_aton("192.0.2.7"))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, 0x8916, request.ljust(40, b"\0"))
