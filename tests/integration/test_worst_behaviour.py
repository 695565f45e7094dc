"""The worst that a probe's program can do ends with the right cause, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    Evidence,
    PathSource,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.c1 import C1Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.docker import DockerContainer, DockerSandbox
from pytest_researchenv.sandbox.protocol import ContainerSpec, Image, Limits, Mount, Termination


if TYPE_CHECKING:
    from docker import DockerClient


MB = 1024**2
SMALL = Limits(memory_bytes=256 * MB, pids=64, shm_bytes=16 * MB, disk_bytes=200 * MB)

#: Prints so many MB of lines.
FLOOD = "import sys\nfor _ in range({}): sys.stdout.write(('x' * 99 + '\\n') * 10486)"


@dataclass(frozen=True, slots=True)
class Limited:
    """A sandbox that makes every container with the same limits."""

    sandbox: DockerSandbox
    limits: Limits

    def create(self, spec: ContainerSpec) -> DockerContainer:
        """Create a container."""
        return self.sandbox.create(replace(spec, limits=self.limits))

    @contextlib.contextmanager
    def opened(self, spec: ContainerSpec) -> Iterator[DockerContainer]:
        """Create a container that is removed at the end of the block."""
        with self.sandbox.opened(replace(spec, limits=self.limits)) as container:
            yield container

    def private_network(self, *, outward: bool, labels: Mapping[str, str]) -> AbstractContextManager[str]:
        """Make a network."""
        return self.sandbox.private_network(outward=outward, labels=labels)

    def image_exists(self, image: str) -> bool:
        """Whether the image is there."""
        return self.sandbox.image_exists(image)

    def find_image(self, image: str) -> Image | None:
        """What is known of the image."""
        return self.sandbox.find_image(image)

    def image_size(self, image: str) -> int:
        """Size of an image."""
        return self.sandbox.image_size(image)

    def remove_image(self, image: str) -> None:
        """Remove an image."""
        self.sandbox.remove_image(image)


Judge = Callable[..., TierResult]


@pytest.fixture
def mark() -> str:
    """What tells the processes of one test from all others."""
    return uuid4().hex


@pytest.fixture
def judge(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str, tmp_path: Path, mark: str
) -> Iterator[Judge]:
    """Lets a Python program be the probe on the bare image; afterwards nothing of it may be left."""

    def run(
        code: str, *, timeout_s: float = 30, limits: Limits = SMALL, evidence: Evidence | None = None
    ) -> TierResult:
        tier = TierSpec(
            argv=("{python}", "-c", f"{code}\n# {mark}"), timeout_s=timeout_s, evidence=evidence or Evidence()
        )
        environment = Environment(
            key=EnvironmentKey("run", mark, "project", 1),
            image=base_image,
            base_image=base_image,
            workdir="/workspace/project",
            report=SelfReport(python_path="/usr/bin/python3"),
            report_problem="",
            changed=(),
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
        )
        task = ProbeTask(
            environment=environment,
            repository=Repository("project", PathSource("."), tiers={Tier.C1: tier}),
            tree=Tree(tmp_path, (), "digest"),
            sandbox=Limited(docker_sandbox, limits),
            tools=Mount("unused", "/unused"),
            log=len,
            settings={},
        )
        return C1Probe().judge(task)

    yield run
    assert not docker_client.containers.list(
        all=True, filters={"label": f"researchenv.attempt=run/{mark}/project/attempt-001"}
    )
    # Where the engine's host is this machine.
    deadline = time.monotonic() + 10
    while (left := _processes(mark)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left


def _processes(mark: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                found.append(path.parent.name)
    return found


@contextlib.contextmanager
def _peak() -> Iterator[Callable[[], int]]:
    """Tell how far this process's memory rises in the block above what it had at its start, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")  # Forgets the peak until now.
    before = _memory("VmRSS")
    yield lambda: _memory("VmHWM") - before


def _memory(name: str) -> int:
    lines = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(lines[name].split()[0]) * 1024


@pytest.mark.parametrize("megabytes", [100, pytest.param(1024, marks=pytest.mark.slow)])
def test_a_flood_of_output_is_bounded(judge: Judge, megabytes: int) -> None:
    """Head and tail are kept, what is left out is counted, and pytest's memory does not follow."""
    with _peak() as peak:
        result = judge(FLOOD.format(megabytes), timeout_s=120)

    assert (result.verdict, result.cause) == (Verdict.PASSED, Cause.NONE), result
    assert result.evidence["output_bytes"] == megabytes * 10486 * 100
    assert peak() < 64 * MB
    print(f"{megabytes} MB printed in {result.duration_s:.1f} s; memory rose by {peak() / MB:.0f} MB")  # noqa: T201 - quoted in the documentation


def test_any_bytes_may_be_printed(judge: Judge) -> None:
    """Bytes that are no text end up as replacement characters; evidence is still found among them."""
    code = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 40 + b'\\nloss 0.5\\n' + bytes(range(256)))"

    result = judge(code + "; raise SystemExit(3)")

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.EXIT_CODE)
    assert judge(code, evidence=Evidence(output=(r"^loss 0\.5$",))).verdict is Verdict.PASSED


def test_a_fork_bomb_is_bounded_and_ended(judge: Judge) -> None:
    """Processes cannot exceed their limit, and the deadline ends them all."""
    bomb = """
import os, time
while True:
    try:
        os.fork()
    except OSError:
        time.sleep(0.1)
"""
    result = judge(bomb, timeout_s=5)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.TIMEOUT)


def test_sleeping_past_the_deadline_is_a_timeout(judge: Judge) -> None:
    """Whatever signals are ignored."""
    code = "import signal, time\nfor n in (1, 2, 3, 15): signal.signal(n, signal.SIG_IGN)\ntime.sleep(600)"

    result = judge(code, timeout_s=2)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.TIMEOUT)
    assert result.duration_s < 30


@pytest.mark.parametrize(
    "code",
    [
        "held = []\nwhile True: held.append(bytearray(b'1' * 2**20))",
        # A child is killed, and the parent fails over it.
        """
import subprocess, sys
subprocess.run([sys.executable, "-c", "held = [bytearray(2**20) for _ in range(1000)]"], check=True)
""",
    ],
    ids=["itself", "child"],
)
def test_eating_all_memory_is_said_to_be_that(judge: Judge, code: str) -> None:
    """The kernel's kill is told from any other, whichever process it hits."""
    result = judge(code)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.OUT_OF_MEMORY)


@pytest.mark.parametrize(
    "code",
    [
        """
import time
with open("/big", "wb") as file:
    for _ in range(300): file.write(bytes(2**20))
time.sleep(600)
""",
        "import time\nfor n in range(300): open(f'/tmp/{n}', 'wb').write(bytes(2**20))\ntime.sleep(600)",
    ],
    ids=["one file", "many files"],
)
def test_filling_the_disk_is_ended_at_the_limit(judge: Judge, code: str) -> None:
    """What is written is watched from outside where the engine has no quotas."""
    result = judge(code, timeout_s=120)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.DISK_FULL), result
    assert result.duration_s < 60


def test_writing_less_than_the_limit_is_nobodys_business(judge: Judge) -> None:
    """A program that stays below it, for longer than a look at it takes, passes."""
    code = "import time\nwith open('/big', 'wb') as file: file.write(bytes(100 * 2**20))\ntime.sleep(7)"

    assert judge(code).verdict is Verdict.PASSED


def test_a_command_of_an_agent_is_held_to_the_limit_too(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """It ends, says why, and the container can be used on."""
    with docker_sandbox.opened(ContainerSpec(base_image, limits=SMALL)) as container:
        container.start()
        done = container.exec(["sh", "-c", "head -c 300000000 /dev/zero > /big; sleep 600"], timeout_s=120)

        assert (done.termination, done.how) == (Termination.DISK_FULL, "killed: wrote more than its disk limit")
        assert container.exec(["rm", "/big"], timeout_s=30).ok
        assert container.written() < 1_000_000


def test_children_that_are_left_behind_are_ended(judge: Judge) -> None:
    """A verdict does not wait for them, although they hold its output open, and none survives it."""
    code = """
import os, time
for _ in range(5):
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(600)
        os._exit(0)
print("done")
"""
    result = judge(code, timeout_s=60, evidence=Evidence(output=("^done$",)))

    assert (result.verdict, result.cause) == (Verdict.PASSED, Cause.NONE)
    assert result.duration_s < 30
