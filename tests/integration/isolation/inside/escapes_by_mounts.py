"""Attempts to reach the host's disk, and to change the tools, which a container has mounted."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
import sys
from pathlib import Path

from tests.integration.isolation.inside.escaping import attempt, call, each, host_disk, write


MS_REMOUNT, MS_BIND, MNT_DETACH = 32, 4096, 2


def volume() -> str:
    """Where a tool volume is mounted."""
    return sys.argv[1]


# --- the host's disk --------------------------------------------------------------------------------------


@attempt("make a node of the host's disk")
def _() -> None:
    os.mknod("/disk", 0o600 | stat.S_IFBLK, host_disk()[0])


@attempt("make a node of the host's memory")
def _() -> None:
    os.mknod("/memory", 0o600 | stat.S_IFCHR, os.makedev(1, 1))


@attempt("make a node in /dev")
def _() -> None:
    os.mknod("/dev/kmsg", 0o600 | stat.S_IFCHR, os.makedev(1, 11))


@attempt("open a node of a disk")
def _() -> None:
    names = [host_disk()[1], "/dev/sda", "/dev/vda", "/dev/xvda", "/dev/nvme0n1", "/dev/loop0", "/dev/dm-0"]
    open_any(names)


@attempt("open a node that leads to the kernel")
def _() -> None:
    open_any(
        [f"/dev/{name}" for name in ("mem", "kmem", "port", "kmsg", "kvm", "fuse", "net/tun", "vsock", "btrfs-control")]
    )


def open_any(names: list[str]) -> None:
    """Open one of several files; raise what the last one said."""
    last: OSError | None = None
    for name in names:
        try:
            os.close(os.open(name, os.O_RDONLY))
        except OSError as error:
            last = error
        else:
            return
    assert last is not None
    raise last


@attempt("read the host's disk by a file handle")
def _() -> None:
    # As `shocker` did: inode 2 is the root of an ext4 file system, whatever is mounted of it.
    handle = struct.pack("Ii", 8, 1) + struct.pack("II", 2, 0)
    near = os.open("/etc/hosts", os.O_RDONLY)
    call("open_by_handle_at", near, ctypes.create_string_buffer(handle), os.O_RDONLY)


@attempt("mount the host's disk")
def _() -> None:
    call("mount", host_disk()[1].encode(), b"/mnt", b"ext4", 0, None)


each(
    "mount",
    ("tmpfs", "proc", "sysfs", "debugfs", "cgroup", "cgroup2", "devtmpfs", "overlay"),
    lambda kind: call("mount", b"none", b"/mnt", kind.encode(), 0, None),
)


@attempt("mount a control group with a release agent")
def _() -> None:
    call("mount", b"none", b"/mnt", b"cgroup", 0, b"rdma")


@attempt("bind a folder")
def _() -> None:
    call("mount", b"/etc", b"/mnt", None, MS_BIND, None)


each(
    "remount",
    ("/", "/sys", "/proc/sys", "/sys/fs/cgroup/memory", "/etc/hosts"),
    lambda place: call("mount", None, place.encode(), None, MS_REMOUNT | MS_BIND, None),
)
each(
    "unmount",
    ("/proc/sys", "/proc/keys", "/sys/firmware", "/etc/hosts", "/dev/mqueue"),
    lambda place: call("umount2", place.encode(), MNT_DETACH),
)


@attempt("open a file system")
def _() -> None:
    call("fsopen", b"tmpfs", 0)


@attempt("clone a mount")
def _() -> None:
    call("open_tree", -100, b"/etc", 1)


@attempt("move a mount")
def _() -> None:
    call("move_mount", -100, b"/etc/hosts", -100, b"/mnt", 0)


@attempt("change a mount")
def _() -> None:
    call("mount_setattr", -100, b"/proc/sys", 0, ctypes.create_string_buffer(32), 32)


@attempt("change the root")
def _() -> None:
    call("chroot", b"/mnt")


@attempt("exchange the root")
def _() -> None:
    call("pivot_root", b"/mnt", b"/mnt")


# --- the tool volume --------------------------------------------------------------------------------------


@attempt("write to a tool")
def _() -> None:
    write(f"{volume()}/tool", "spoiled")


@attempt("add to the tools")
def _() -> None:
    Path(volume(), "more").write_text("spoiled")


@attempt("remove a tool")
def _() -> None:
    os.unlink(f"{volume()}/tool")  # noqa: PTH108 - as it is called


@attempt("give a tool other rights")
def _() -> None:
    os.chmod(f"{volume()}/tool", 0o777)  # noqa: PTH101, S103 - likewise


@attempt("remount the tools")
def _() -> None:
    call("mount", None, volume().encode(), None, MS_REMOUNT | MS_BIND, None)


@attempt("unmount the tools")
def _() -> None:
    call("umount2", volume().encode(), MNT_DETACH)


@attempt("mount over the tools")
def _() -> None:
    call("mount", b"/tmp", volume().encode(), None, MS_BIND, None)


@attempt("move the tools away")
def _() -> None:
    os.rename(volume(), "/elsewhere")  # noqa: PTH104 - as it is called
