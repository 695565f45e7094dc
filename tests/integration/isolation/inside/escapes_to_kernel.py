"""Attempts to change the kernel, which all containers share."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import time
from pathlib import Path

from tests.integration.isolation.inside.escaping import attempt, call, each, host_disk, write


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
