"""Tries, as root in a container, to reach what is outside it; prints name → what became of each attempt, as JSON.

What became of it is the name of the error that refused it, or `done`.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import json
import os
import platform
import signal
import socket
import stat
import struct
import sys
import time
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

MS_REMOUNT, MS_BIND, MS_MOVE, MNT_DETACH = 32, 4096, 8192, 2
NEW = {"mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000}
NEW |= {"pid": 0x20000000, "net": 0x40000000}


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


# --- namespaces -------------------------------------------------------------------------------------------

each("leave the namespace:", NEW, lambda kind: call("unshare", NEW[kind]))


@attempt("begin a process in namespaces of its own")
def _() -> None:
    if call("clone", NEW["user"] | NEW["mount"] | signal.SIGCHLD, None, None, None, None) == 0:
        os._exit(0)


@attempt("enter the namespace of the first process")
def _() -> None:
    call("setns", os.open("/proc/1/ns/mnt", os.O_RDONLY), 0)


# --- the kernel -------------------------------------------------------------------------------------------

#: Were one of them taken, little would come of it.
TUNABLES = {
    "/proc/sys/kernel/core_pattern": "core.attempt",
    "/proc/sys/kernel/modprobe": "/sbin/modprobe",
    "/proc/sys/kernel/randomize_va_space": "1",
    "/proc/sys/kernel/sysrq": "0",
    "/proc/sys/kernel/panic": "600",
    "/proc/sys/kernel/ns_last_pid": "300",
    "/proc/sys/kernel/hostname": "elsewhere",
    "/proc/sys/vm/overcommit_memory": "0",
    "/proc/sys/vm/drop_caches": "1",
    "/proc/sys/fs/file-max": "1000000",
    "/proc/sys/net/ipv4/ip_forward": "1",
    "/proc/sysrq-trigger": "h",
    "/proc/irq/default_smp_affinity": "1",
    "/sys/kernel/uevent_helper": "",
    "/sys/kernel/mm/transparent_hugepage/enabled": "madvise",
    "/sys/power/state": "nothing",
    "/sys/module/kernel/parameters/consoleblank": "0",
}

each("write", TUNABLES, lambda path: write(path, TUNABLES[path]))


@attempt("write a limit of its control group")
def _() -> None:
    old = ["/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/pids/pids.max"]
    new = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids.max"]
    for path in old if Path(old[0]).exists() else new:
        write(path, "9223372036854771712")


@attempt("let itself have every device")
def _() -> None:
    write("/sys/fs/cgroup/devices/devices.allow", "a")


@attempt("set a release agent")
def _() -> None:
    write("/sys/fs/cgroup/devices/release_agent", "/bin/sh")


@attempt("make a control group")
def _() -> None:
    os.mkdir("/sys/fs/cgroup/memory/mine" if Path("/sys/fs/cgroup/memory").is_dir() else "/sys/fs/cgroup/mine")  # noqa: PTH102


@attempt("load a module")
def _() -> None:
    call("init_module", b"\x7fELF", 4, b"")


@attempt("load a module from a file")
def _() -> None:
    call("finit_module", os.open("/bin/true", os.O_RDONLY), b"", 0)


@attempt("remove a module")
def _() -> None:
    call("delete_module", b"overlay", os.O_NONBLOCK)


@attempt("load a kernel")
def _() -> None:
    call("kexec_load", 0, 0, None, 0)


@attempt("load a program into the kernel")
def _() -> None:
    call("bpf", 0, ctypes.create_string_buffer(struct.pack("IIII", 1, 4, 4, 1).ljust(128, b"\0")), 128)


@attempt("watch the kernel's events")
def _() -> None:
    attribute = ctypes.create_string_buffer(struct.pack("IIQ", 1, 112, 0).ljust(112, b"\0"))
    call("perf_event_open", attribute, 0, -1, -1, 0)


@attempt("handle faults of memory")
def _() -> None:
    call("userfaultfd", 0)


@attempt("add a key")
def _() -> None:
    call("add_key", b"user", b"mine", b"x", 1, -5)


@attempt("read the keys")
def _() -> None:
    call("keyctl", 0, -3, 0, 0, 0)


@attempt("read the kernel's log")
def _() -> None:
    call("klogctl", 3, ctypes.create_string_buffer(4096), 4096)


@attempt("set a quota")
def _() -> None:
    call("quotactl", 0x800002 << 8, host_disk()[1].encode(), 0, None)


@attempt("swap")
def _() -> None:
    Path("/swap").write_bytes(bytes(65536))
    call("swapon", b"/swap", 0)


@attempt("account for processes")
def _() -> None:
    Path("/account").touch()
    call("acct", b"/account")


@attempt("restart the machine")
def _() -> None:
    call("reboot", 0)  # Ctrl-Alt-Del is to be off: harmless, and as privileged as the rest.


@attempt("set the clock")
def _() -> None:
    time.clock_settime(time.CLOCK_REALTIME, time.time() + 20)


@attempt("let the clock run otherwise")
def _() -> None:
    # `modes` is the first field, ADJ_TICK: ten per mill faster.
    timex = ctypes.create_string_buffer(208)
    struct.pack_into("I", timex, 0, 0x4000)
    struct.pack_into("q", timex, 88, 10010)
    call("adjtimex", timex)


@attempt("give the host another name")
def _() -> None:
    call("sethostname", b"elsewhere", 9)


@attempt("go before everybody")
def _() -> None:
    os.setpriority(os.PRIO_PROCESS, 0, -20)


@attempt("run in real time")
def _() -> None:
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))


@attempt("get at the ports of the machine")
def _() -> None:
    if platform.machine() != "x86_64":
        raise PermissionError(errno.EPERM, "there are none")
    call("iopl", 3)


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


def main() -> None:
    """Make every attempt, each in a process of its own."""
    found = {name: outcome(function) for name, function in ATTEMPTS.items()}
    print(json.dumps(found))


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


if __name__ == "__main__":
    main()
