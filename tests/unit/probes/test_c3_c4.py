"""Rules of C3 and C4 on a fake driver: what counts as work on devices, and what is skipped or emulated. No Docker."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from pytest_researchenv.errors import InfrastructureError, SuiteError
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Device, Hardware
from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    Evidence,
    Parallel,
    PathSource,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.c3 import C3Probe
from pytest_researchenv.probes.c4 import C4Probe
from pytest_researchenv.probes.protocol import Probe, ProbeTask, Tree
from pytest_researchenv.sandbox.fake import FakeDriver, FakeFiles, FakeSandbox
from pytest_researchenv.sandbox.protocol import Mount


PYTHON = "/opt/venv/bin/python"
MIB = 1024**2
DEVICES = tuple(Device(i, f"GPU-{i}", "NVIDIA A100-SXM4-40GB", 40960 * MIB, (8, 0)) for i in range(3))
CUDA = Hardware(Accelerator.CUDA, DEVICES, "535.129.03", (12, 2))
C3 = TierSpec(
    argv=("{python}", "{observer}", "train.py", "{device}", "{nproc}"),
    timeout_s=20,
    memory_gb=2.5,
    evidence=Evidence(output=("^trained$",)),
)
PROBES: dict[Tier, Probe] = {Tier.C3: C3Probe(), Tier.C4: C4Probe()}

Program = Callable[[FakeFiles, tuple[str, ...], Mapping[str, str]], tuple[int, bytes]]


def c4(kind: Parallel | None) -> TierSpec:
    """How C4 is run."""
    return dataclasses.replace(C3, evidence=Evidence(output=("^trained$",), parallel=kind))


class World:
    """An engine with a driver, a base image and a snapshot."""

    def __init__(self, folder: Path) -> None:
        self.driver = FakeDriver(DEVICES)
        self.sandbox = FakeSandbox(self.driver)
        self.base = self.sandbox.add_image("base", {"/bin/sh": b""})
        self.sandbox.program("/bin/sh", lambda _files, _argv, _environment: (0, b""))
        self.log = b""
        self.folder = folder
        self.runs: list[tuple[tuple[str, ...], Mapping[str, str]]] = []
        self.memory_bytes = 0

    def judge(
        self,
        tier: Tier,
        program: Program,
        *,
        spec: TierSpec = C3,
        hardware: Hardware = CUDA,
        lease: Callable[[int], AbstractContextManager[Hardware]] | None = None,
    ) -> TierResult:
        """Judge a snapshot in which the interpreter does what the program does."""

        def run(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
            self.runs.append((argv, environment))
            self.memory_bytes = self._container.spec.limits.memory_bytes
            return program(files, argv, environment)

        image = self.sandbox.add_image("snapshot", {PYTHON: b"", "/opt/venv/pyvenv.cfg": b""})
        self.sandbox.program(PYTHON, run)
        environment = Environment(
            EnvironmentKey("run", "agent", "project", 1),
            image=image,
            base_image=self.base,
            workdir="/workspace/project",
            report=SelfReport(python_path=PYTHON),
            report_problem="",
            changed=(),
            inputs={},
            telemetry={},
            ended="",
            created="",
        )
        repository = Repository("someone/project", PathSource("."), tiers={tier: spec}, folder=str(self.folder))
        tree = Tree(self.folder, (), "digest")
        task = ProbeTask(
            environment, repository, tree, self.sandbox, Mount("tools", "/tools"), self._feed, {}, hardware=hardware
        )
        return PROBES[tier].judge(dataclasses.replace(task, lease=lease))

    @property
    def _container(self):  # type: ignore[no-untyped-def] # noqa: ANN202 - a fake's
        return next(one for one in self.sandbox.containers.values() if (one.spec.argv or ("",))[0] == PYTHON)

    def hold(self, *sizes: int) -> None:
        """Let the running probe hold so much of each of its devices."""
        (pid,) = self._container.host_pids()
        for device, size in zip(self._container.spec.devices, sizes, strict=False):
            self.driver.hold(pid, device, size)

    def _feed(self, chunk: bytes) -> None:
        self.log += chunk


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world whose containers are all removed in the end."""
    made = World(tmp_path)
    yield made
    assert not made.sandbox.containers


def wait_for_release(files: FakeFiles, environment: Mapping[str, str]) -> bool:
    """Do what the observer does at a process's end; whether somebody released it."""
    deadline = time.monotonic() + 3
    while files.node(environment["RESEARCHENV_OBSERVER"].replace("observer.py", "release")) is None:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def record(files: FakeFiles, environment: Mapping[str, str], number: int = 0, **changes: object) -> None:
    """Write what the observer writes."""
    raw = {
        "nonce": environment["RESEARCHENV_NONCE"],
        "pid": 100 + number,
        "hostname": "localhost",
        "rank": number,
        "world_size": 2,
        "backend": "gloo",
        "token": f"token {number}",
        "gathered": ["token 0", "token 1"],
        "calls": {"all_reduce": 1},
        "allocated": {"0": 20 * MIB},
        "torch": True,
        "problem": "",
    }
    folder = environment["RESEARCHENV_OBSERVER"].replace("observer.py", "records")
    files.write(f"{folder}/rank-{number}.{raw['pid']}.json", json.dumps({**raw, **changes}).encode())


def holding(world: World, *sizes: int, **changes: object) -> Program:
    """A program that holds memory until it was seen, as every one does that runs under the observer."""

    def program(files: FakeFiles, _argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        world.hold(*sizes)
        record(files, environment, **changes)  # type: ignore[arg-type] # one name per field
        released = wait_for_release(files, environment)
        world.hold(*[0] * len(sizes))
        return 0, b"trained\n" if released else b"trained\nnot released\n"

    return program


def idle(files: FakeFiles, _argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
    """A program under the observer that never touches its device."""
    record(files, environment, allocated={}, torch=False)
    time.sleep(0.6)
    return 0, b"trained\n"


class TestC3:
    """One device, and the driver saw the probe's processes on it."""

    def test_work_on_the_device_passes(self, world: World) -> None:
        """It got one device, was released at once, and the figures are on record."""
        result = world.judge(Tier.C3, holding(world, 540 * MIB))

        assert (result.verdict, result.emulated) == (Verdict.PASSED, False), result
        assert result.evidence["device_memory"] == ["GPU-0: 540 MiB (held by the container's processes)"]
        assert result.evidence["torch_allocated_mib"] == 20
        assert result.evidence["device_samples"]
        assert b"not released" not in world.log
        ((argv, environment),) = world.runs
        assert argv[1:] == (environment["RESEARCHENV_OBSERVER"], "train.py", "cuda", "1")
        assert "CUDA_VISIBLE_DEVICES" not in environment
        assert world.memory_bytes == int(2.5 * 1024**3)

    @pytest.mark.parametrize("size", [0, 31 * MIB])
    def test_an_entry_point_that_never_touches_the_device_fails(self, world: World, size: int) -> None:
        """Exit code 0 and the suite's evidence are not enough; drivers list some MiB for a mere look."""

        def program(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
            world.hold(size)
            return idle(files, argv, environment)

        result = world.judge(Tier.C3, program)

        assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.NO_EVIDENCE)
        assert result.reason == "its processes held no memory on the device it was given"
        assert len(world.runs) == 1

    def test_memory_that_others_hold_does_not_count(self, world: World) -> None:
        """Another job on the same device is not the probe's work."""
        world.driver.hold(1, "GPU-0", 20_000 * MIB)

        assert world.judge(Tier.C3, idle).cause is Cause.NO_EVIDENCE

    def test_a_device_that_was_opened_and_not_used_fails(self, world: World) -> None:
        """A context alone takes hundreds of MiB; torch's own account says that nothing was put there."""
        result = world.judge(Tier.C3, holding(world, 420 * MIB, allocated={}))

        assert result.cause is Cause.NO_EVIDENCE
        assert result.reason == "its processes opened the device, but allocated nothing on it"

    def test_without_the_observer_the_drivers_word_is_enough(self, world: World) -> None:
        """Not every entry point is a Python script."""

        def program(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
            world.hold(540 * MIB)
            time.sleep(0.8)
            world.hold(0)
            return 0, b"trained\n"

        assert world.judge(Tier.C3, program).verdict is Verdict.PASSED

    def test_what_was_too_fast_to_be_seen_is_run_once_more(self, world: World) -> None:
        """A working environment must not fail for being fast; what nobody saw does not pass either."""
        result = world.judge(Tier.C3, lambda _files, _argv, _environment: (0, b"trained\n"))

        assert (len(world.runs), result.cause) == (2, Cause.NO_EVIDENCE)
        assert "start it through {observer}" in result.reason
        assert b"running it once more" in world.log

    def test_a_failure_keeps_its_own_cause(self, world: World) -> None:
        """And is not run again."""
        result = world.judge(Tier.C3, lambda _files, _argv, _environment: (1, b"CUDA error\n"))

        assert (len(world.runs), result.cause, result.decisive) == (1, Cause.EXIT_CODE, "CUDA error")

    def test_without_a_device_it_is_skipped(self, world: World) -> None:
        """With how many were found and are needed, and nothing is started."""
        result = world.judge(Tier.C3, idle, hardware=Hardware(Accelerator.CUDA, reason="no driver"))

        assert (result.verdict, result.cause) == (Verdict.SKIPPED, Cause.INSUFFICIENT_HARDWARE)
        assert result.reason == "0 devices found, 1 needed: no driver"
        assert world.sandbox.created == 0

    def test_what_runs_on_cuda_alone_is_skipped_on_the_cpu(self, world: World) -> None:
        """A working environment must not fail there, and nothing was shown that could pass."""
        spec = dataclasses.replace(C3, needs_cuda=True)
        result = world.judge(Tier.C3, idle, spec=spec, hardware=CPU_ONLY)

        assert (result.verdict, result.cause) == (Verdict.SKIPPED, Cause.INSUFFICIENT_HARDWARE)
        assert "runs on CUDA alone" in result.reason

    def test_on_the_cpu_it_is_emulated(self, world: World) -> None:
        """The same command with another device, and every accelerator hidden; pass or failure are marked."""
        result = world.judge(Tier.C3, lambda _files, _argv, _environment: (0, b"trained\n"), hardware=CPU_ONLY)
        failed = world.judge(Tier.C3, lambda _files, _argv, _environment: (1, b""), hardware=CPU_ONLY)

        assert (result.verdict, result.emulated) == (Verdict.PASSED, True)
        assert (failed.verdict, failed.emulated) == (Verdict.FAILED, True)
        argv, environment = world.runs[0]
        assert argv[3:] == ("cpu", "1")
        assert environment["CUDA_VISIBLE_DEVICES"] == ""
        assert "RESEARCHENV_HOLD_S" not in environment

    def test_a_driver_that_stops_answering_is_nobodys_failure(self, world: World) -> None:
        """A low figure would mean nothing."""

        def program(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
            world.driver.broken = (9, "NVIDIA-SMI has failed")
            time.sleep(0.6)
            return 0, b"trained\n"

        with pytest.raises(InfrastructureError, match="NVIDIA-SMI has failed"):
            world.judge(Tier.C3, program)

    def test_devices_that_the_base_image_does_not_get_either_are_nobodys_failure(self, world: World) -> None:
        """An engine that cannot give devices must not be held against the environment."""

        def program(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
            raise AssertionError("it never starts")

        world.driver.refusal = "nvidia-container-cli: mount error"
        with pytest.raises(InfrastructureError, match="mount error"):
            world.judge(Tier.C3, program)

    def test_a_probe_script_goes_through_the_observer(self, world: World) -> None:
        """So that it is held until it was seen."""
        (world.folder / "probe.py").write_text("")
        spec = dataclasses.replace(C3, argv=(), probe="probe.py")

        assert world.judge(Tier.C3, holding(world, 540 * MIB), spec=spec).verdict is Verdict.PASSED
        ((argv, environment),) = world.runs
        assert argv[1] == environment["RESEARCHENV_OBSERVER"]
        assert argv[2].endswith("/script/probe.py")


def ranks(world: World, *sizes: int, **changes: object) -> Program:
    """A program that is two ranks."""

    def program(files: FakeFiles, _argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        record(files, environment, 0)
        record(files, environment, 1, **changes)
        if sizes:
            world.hold(*sizes)
            wait_for_release(files, environment)
        return 0, b"trained\n"

    return program


class TestC4:
    """Two devices or processes, and the declared kind of parallel work."""

    def test_ranks_that_met_on_two_devices_pass(self, world: World) -> None:
        """Two devices are taken though there are three; both held memory."""
        result = world.judge(Tier.C4, ranks(world, 600 * MIB, 610 * MIB), spec=c4(Parallel.COLLECTIVE))

        assert (result.verdict, result.emulated) == (Verdict.PASSED, False), result
        assert result.evidence["device_memory"] == [
            "GPU-0: 600 MiB (held by the container's processes)",
            "GPU-1: 610 MiB (held by the container's processes)",
        ]
        assert result.evidence["ranks"] == [
            "rank 0 (process 100) of 2 over gloo, calls: all_reduce 1",
            "rank 1 (process 101) of 2 over gloo, calls: all_reduce 1",
        ]
        assert world.runs[0][0][3:] == ("cuda", "2")

    @pytest.mark.parametrize("kind", list(Parallel))
    def test_work_on_one_of_two_devices_fails(self, world: World, kind: Parallel) -> None:
        """Whatever the kind."""
        result = world.judge(Tier.C4, ranks(world, 600 * MIB), spec=c4(kind))

        assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.NO_EVIDENCE)
        assert result.reason == "its processes held memory on 1 device, and 2 are needed"

    def test_on_the_cpu_ranks_must_meet_all_the_same(self, world: World) -> None:
        """Emulated, and as strict."""
        spec = c4(Parallel.COLLECTIVE)
        met = world.judge(Tier.C4, ranks(world), spec=spec, hardware=CPU_ONLY)
        alone = world.judge(Tier.C4, ranks(world, world_size=1), spec=spec, hardware=CPU_ONLY)

        assert (met.verdict, met.emulated) == (Verdict.PASSED, True)
        assert (alone.verdict, alone.cause, alone.emulated) == (Verdict.FAILED, Cause.NO_EVIDENCE, True)
        assert alone.reason == "rank 1 (process 101) is in a process group of 1, not 2"
        assert world.runs[0][0][3:] == ("cpu", "2")

    def test_records_of_another_launch_do_not_count(self, world: World) -> None:
        """Nothing that was laid out beforehand proves anything."""
        result = world.judge(Tier.C4, ranks(world, nonce="guessed"), spec=c4(Parallel.COLLECTIVE), hardware=CPU_ONLY)

        assert result.cause is Cause.NO_EVIDENCE
        assert "not of this launch" in result.reason

    def test_independent_ranks_need_not_meet(self, world: World) -> None:
        """But each must be there."""
        spec = c4(Parallel.INDEPENDENT)
        apart = world.judge(Tier.C4, ranks(world, world_size=0, gathered=[]), spec=spec, hardware=CPU_ONLY)
        same = world.judge(Tier.C4, ranks(world, rank=0), spec=spec, hardware=CPU_ONLY)

        assert apart.verdict is Verdict.PASSED
        assert (same.cause, same.reason) == (Cause.NO_EVIDENCE, "2 processes say that they are rank 0")

    def test_placement_is_one_process_on_several_devices(self, world: World) -> None:
        """Where the CPU stands in, running is all that can be seen."""
        spec = c4(Parallel.PLACEMENT)
        placed = world.judge(Tier.C4, holding(world, 600 * MIB, 600 * MIB), spec=spec)
        emulated = world.judge(
            Tier.C4, lambda _files, _argv, _environment: (0, b"trained\n"), spec=spec, hardware=CPU_ONLY
        )

        assert (placed.verdict, placed.emulated) == (Verdict.PASSED, False)
        assert (emulated.verdict, emulated.emulated) == (Verdict.PASSED, True)
        assert [argv[4] for argv, _ in world.runs] == ["1", "1"]

    def test_one_device_is_too_few(self, world: World) -> None:
        """A skip that says so."""
        result = world.judge(
            Tier.C4, idle, spec=c4(Parallel.COLLECTIVE), hardware=dataclasses.replace(CUDA, devices=DEVICES[:1])
        )

        assert (result.verdict, result.reason) == (Verdict.SKIPPED, "1 device found, 2 needed")

    def test_a_suite_must_say_what_kind(self, world: World) -> None:
        """It is the suite's fault, never the agent's."""
        with pytest.raises(SuiteError, match=r"parallel is missing"):
            world.judge(Tier.C4, idle, spec=c4(None))


# --- leases -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("tier", "count"), [(Tier.C3, 1), (Tier.C4, 2)])
def test_a_tier_runs_on_the_devices_that_it_leased(world: World, tier: Tier, count: int) -> None:
    """C3 takes one and C4 two, whichever they are; while it runs it holds them, and afterwards no more."""
    asked: list[int] = []
    holds: list[bool] = [False]
    given: list[tuple[str, ...]] = []

    @contextmanager
    def lease(devices: int) -> Iterator[Hardware]:
        asked.append(devices)
        holds[0] = True
        yield dataclasses.replace(CUDA, devices=DEVICES[3 - devices :])
        holds[0] = False

    def program(files: FakeFiles, _argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        assert holds[0]
        given.append(world._container.spec.devices)
        world.hold(*[500 * MIB] * count)
        record(files, environment)
        assert wait_for_release(files, environment)
        return 0, b"trained\n"

    spec = C3 if tier is Tier.C3 else c4(Parallel.PLACEMENT)
    result = world.judge(tier, program, spec=spec, lease=lease)

    assert result.verdict is Verdict.PASSED, result.reason
    assert asked == [count]
    assert given == [tuple(device.uuid for device in DEVICES[3 - count :])]
    assert holds == [False]


def test_a_tier_that_is_skipped_leases_nothing(world: World) -> None:
    """There is one device, and two are needed."""

    def lease(_devices: int) -> AbstractContextManager[Hardware]:
        pytest.fail("nothing is needed")

    few = dataclasses.replace(CUDA, devices=DEVICES[:1])
    result = world.judge(Tier.C4, lambda *_: (0, b""), spec=c4(Parallel.COLLECTIVE), hardware=few, lease=lease)

    assert result.verdict is Verdict.SKIPPED
