"""Root in an agent's container reaches nothing of the engine's host: each attempt is made, and is refused.

What a single container of ours is like is tested in `sandbox/test_docker.py`, what a probe may use up in
`test_worst_behaviour.py`, what a link that an agent planted leads to in `test_restoration.py`.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_researchenv.agents.protocol import SCRATCH, TOOL_TARGET
from pytest_researchenv.engine import Engine
from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Limits, Termination
from tests.integration.isolation.cells import Cell, at_large
from tests.integration.isolation.conftest import Warder
from tests.integration.isolation.inside.escapes import ATTEMPTS


if TYPE_CHECKING:
    from docker import DockerClient

MB = 1024**2

#: How the kernel refuses, or says that there is no such thing in the container. `EINVAL` is no refusal.
REFUSALS = {"EPERM", "EACCES", "EROFS", "EBUSY", "ENOENT", "ENOSYS", "ENXIO", "ESRCH", "EAFNOSUPPORT"}

#: File systems that an agent's container is made of, beside the engine's few files.
OWN = {"overlay", "proc", "sysfs", "tmpfs", "devpts", "mqueue", "cgroup", "cgroup2"}

#: The engine's files that it mounts into every container, and what it has as the first process.
ENGINES = {"/etc/hosts", "/etc/hostname", "/etc/resolv.conf"}
FIRST = ("/sbin/docker-init", "/usr/sbin/docker-init", "/dev/init", "/run/podman-init")


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of every attempt, and what was seen from outside before and afterwards."""

    outcomes: dict[str, str]
    before: dict[str, Any]
    after: dict[str, Any]


@pytest.fixture(scope="module")
def tried(cell: Cell, warder: Warder) -> Tried:
    """Every attempt, made in one container."""
    host = min(warder.container.host_pids())
    before = warder.look()
    said = cell.module("escapes", TOOL_TARGET, str(host), timeout_s=120)
    return Tried(json.loads(said), before, warder.look())


@pytest.mark.parametrize("name", list(ATTEMPTS))
def test_root_cannot(tried: Tried, name: str) -> None:
    """The kernel refuses, and for everybody else everything is as it was: tunables, modules, clock, name, tools."""
    assert tried.outcomes[name] in REFUSALS
    assert tried.after == tried.before


def test_every_attempt_was_made(tried: Tried) -> None:
    """None ended the others."""
    assert tried.outcomes.keys() == ATTEMPTS.keys()


def test_nothing_of_the_host_is_mounted(cell: Cell) -> None:
    """Its own file system, memory, and volumes that nothing can write to; no folder of the host, and no device."""
    lines = [line.split() for line in cell.run("cat", "/proc/self/mountinfo").output.text().splitlines()]
    mounts = {fields[4]: (fields[5].split(","), fields[fields.index("-") + 1]) for fields in lines}
    others = {place: options for place, (options, kind) in mounts.items() if kind not in OWN}
    facts = cell.facts
    host = facts["HostConfig"]

    assert ENGINES <= others.keys() <= {*ENGINES, *FIRST, TOOL_TARGET, "/researchenv/host"}
    assert all("ro" in others[place] for place in others.keys() - ENGINES)
    assert [(mount["Type"], mount["RW"]) for mount in facts["Mounts"]] == [("volume", False)] * 2
    assert not host["Binds"]
    assert not host["Devices"]
    assert not host["DeviceRequests"]
    assert not host["VolumesFrom"]
    assert set(host["Tmpfs"]) == {SCRATCH}


def test_the_engine_keeps_it_apart(cell: Cell) -> None:
    """No privileges, none of the host's namespaces, a filter of system calls, bounded memory and processes."""
    facts = cell.facts
    host = facts["HostConfig"]
    status = dict(
        line.split(":\t", 1)
        for line in cell.run("cat", "/proc/self/status").output.text().splitlines()
        if ":\t" in line
    )

    assert not host["Privileged"]
    assert [host["PidMode"], host["UTSMode"], host["UsernsMode"], host["CgroupParent"]] == [""] * 4
    assert host["IpcMode"] in ("private", "shareable")
    assert host["CapDrop"] == ["ALL"]
    assert not {"SYS_ADMIN", "MKNOD", "NET_RAW", "NET_ADMIN", "SYS_PTRACE", "SYS_MODULE"} & set(host["CapAdd"])
    assert "no-new-privileges" in host["SecurityOpt"]
    assert not [option for option in host["SecurityOpt"] if "unconfined" in option]
    assert facts["AppArmorProfile"] != "unconfined"
    assert (status["Seccomp"], status["NoNewPrivs"]) == ("2", "1")
    assert host["Memory"] == host["MemorySwap"] == 512 * MB
    assert host["PidsLimit"] == 256


def test_no_socket_of_the_engine_is_there(cell: Cell) -> None:
    """No socket lies in the file system, none is in the abstract name space, and no variable names one."""
    found = cell.run("find", "/", "-xdev", "-type", "s").output.text()
    bound = cell.run("sh", "-c", "tail -n +2 /proc/net/unix | awk '{print $8}'").output.text().split()
    variables = cell.run("env").output.text()

    assert found == ""
    assert bound == []
    assert "DOCKER" not in variables
    assert "socket" not in " ".join(mount["Source"] for mount in cell.facts["Mounts"])


@pytest.mark.parametrize("path", ["/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware", "/proc/acpi"])
def test_what_tells_of_the_host_is_hidden(cell: Cell, path: str) -> None:
    """Nothing can be read there, or nothing is there."""
    said = cell.run("sh", "-c", f"if [ -d {path} ]; then ls -A {path}; else head -c 100 {path}; fi 2>/dev/null | wc -c")

    assert said.output.text().strip() == "0"


def test_only_its_own_processes_are_there(cell: Cell, warder: Warder) -> None:
    """It sees what the engine says that it has, under numbers of its own."""
    seen = cell.python("import os; print(*[name for name in os.listdir('/proc') if name.isdigit()])").split()
    there = cell.task.container.host_pids()  # type: ignore[attr-defined,unused-ignore]

    assert len(seen) == len(there) + 1, "itself, and what idles"
    assert not set(map(int, seen)) & warder.container.host_pids()


def test_no_program_gives_more_rights(cell: Cell) -> None:
    """A program that is set-uid root, run as nobody, stays nobody; none can be given capabilities of its own."""
    script = (
        "cp /usr/bin/id /usr/local/bin/id-root && chmod 4755 /usr/local/bin/id-root && "
        "python3 -c \"import os; os.setgid(65534); os.setuid(65534); os.execv('/usr/local/bin/id-root', ['id', '-u'])\""
    )
    given = "import os; os.setxattr('/usr/local/bin/id-root', 'security.capability', bytes([1,0,0,2]+[255]*16))"

    assert cell.run("sh", "-c", script).output.text() == "65534\n"
    assert "Operation not permitted" in cell.run("python3", "-c", given).output.text()


# --- using up what is everybody's -------------------------------------------------------------------------


SMALL = Limits(memory_bytes=256 * MB, pids=64, shm_bytes=16 * MB, disk_bytes=100 * MB)


@pytest.fixture
def small(docker_client: DockerClient, engine: Engine, repository: Repository, tmp_path: Path) -> Iterator[Cell]:
    """An attempt at work that may use little."""
    with at_large(docker_client, engine, repository, tmp_path, limits=SMALL) as cell:
        yield cell


@pytest.mark.parametrize(
    "script",
    [
        "fallocate -l 300M /big && sleep 600",
        "head -c 150000000 /dev/zero > /etc/hosts && sleep 600",
        "mkdir /many && cd /many && head -c 200000000 /dev/zero | split -b 100000 -a 4 && sleep 600",
    ],
    ids=["at once", "in the engine's own file", "many files"],
)
def test_the_hosts_disk_cannot_be_filled(small: Cell, script: str) -> None:
    """Whoever writes more than it may is ended within seconds, wherever it writes, and all of it goes with it."""
    began = time.monotonic()
    done = small.run("sh", "-c", script, timeout_s=120)

    assert done.termination is Termination.DISK_FULL
    assert time.monotonic() - began < 60
    assert SMALL.disk_bytes < small.task.container.written() < 4 * SMALL.disk_bytes


def test_memory_that_looks_like_a_disk_is_bounded(small: Cell, cell: Cell) -> None:
    """What is in memory has a size below the container's own memory, or takes no file's content."""
    script = 'head -c 2000000000 /dev/zero > "$0/big"; rm -f "$0/big"'
    said = {
        folder: there.run("sh", "-c", script, folder).output.text()
        for there, folder in ((small, "/dev/shm"), (small, "/dev"), (small, "/dev/mqueue"), (cell, SCRATCH))  # noqa: S108 - that is the test
    }

    assert "Invalid argument" in said.pop("/dev/mqueue")
    assert all("No space left on device" in text for text in said.values()), said
    assert small.task.container.written() < MB


BOMB = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.05)
"""


def test_a_fork_bomb_stays_in_its_container(docker_client: DockerClient, small: Cell) -> None:
    """Its processes never exceed the limit, the engine answers all the while, and they end at the deadline."""
    counts: list[int] = []
    delays: list[float] = []

    def look() -> None:
        while not over.wait(0.3):
            began = time.monotonic()
            counts.append(len(small.task.container.host_pids()))  # type: ignore[attr-defined,unused-ignore]
            docker_client.ping()
            delays.append(time.monotonic() - began)

    over = threading.Event()
    thread = threading.Thread(target=look)
    thread.start()
    try:
        done = small.run("python3", "-c", BOMB, timeout_s=5)
    finally:
        over.set()
        thread.join()

    assert done.termination is Termination.TIMED_OUT
    assert SMALL.pids // 2 < max(counts) <= SMALL.pids
    assert max(delays) < 10
    assert len(small.task.container.host_pids()) <= 3  # type: ignore[attr-defined,unused-ignore]


RAISE = """
import resource
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard + 1))
except (ValueError, OSError):
    print("refused")
"""


def test_limits_cannot_be_raised_and_memory_of_others_cannot_be_found(cell: Cell) -> None:
    """What the engine set stays, and shared memory of other containers is not there."""
    shared = cell.run("sh", "-c", "tail -n +2 /proc/sysvipc/shm").output.text()

    assert cell.python(RAISE) == "refused\n"
    assert shared == ""
