"""Rules of C2: what a framework says, against what the driver says and what was computed outside. No Docker."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.errors import DevicesUnavailableError, SandboxError
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Device, Hardware
from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    PathSource,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.alignment import expected
from pytest_researchenv.probes.c2 import C2Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.fake import (
    FakeContainer,
    FakeDriver,
    FakeFiles,
    FakeOutOfMemoryError,
    FakeSandbox,
    FakeTimeoutError,
)
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount


PYTHON = "/opt/venv/bin/python"
REPO = "/workspace/project"
REPORT = SelfReport(python_path=PYTHON)
GIB = 1024**3
A100 = "NVIDIA A100-SXM4-40GB"
DEVICES = (Device(0, "GPU-0", A100, 40 * GIB, (8, 0)), Device(1, "GPU-1", A100, 40 * GIB, (8, 0)))
CUDA = Hardware(Accelerator.CUDA, DEVICES, "535.129.03", (12, 2))
ARCHITECTURES = ["sm_70", "sm_80", "sm_90"]

Program = Callable[[FakeFiles, tuple[str, ...], Mapping[str, str]], tuple[int, bytes]]


def framework(
    *,
    count: int | None = None,
    upto: str = "done",
    code: int = 0,
    noise: bytes = b"",
    wrong: int | None = None,
    nonce: str = "",
    **facts: object,
) -> Program:
    """A program that answers as the script does.

    Args:
        count: devices it computes on; None: as many as it sees, or one CPU.
        upto: the last stage it tells.
        code: its exit code.
        noise: printed before each line.
        wrong: the device on which it computes a wrong value.
        nonce: the nonce it uses; empty: the right one.
        facts: what it says it was built for and sees.
    """

    def run(_files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        mark = argv[3]
        said = {"built_cuda": None, "devices": [], "capabilities": [], "architectures": [], **facts}
        seen = said["devices"]
        assert isinstance(seen, list)
        number = count if count is not None else len(seen) if argv[4] == "cuda" else 1
        values: list[list[list[int]]] = [expected(mark, one) for one in range(number)]
        if wrong is not None:
            values[wrong][3][5] += 1
        lines: list[dict[str, object]] = [
            {"stage": "import"},
            {"stage": "look", "version": "2.13.0"},
            {"stage": "compute", **said},
            {"stage": "done", "values": values},
        ]
        last = [one["stage"] for one in lines].index(upto) + 1 if upto else 0
        return code, noise + b"".join(f"\n{nonce or mark} {json.dumps(one)}\n".encode() + noise for one in lines[:last])

    return run


def on_devices(**facts: object) -> Program:
    """A framework that fits the two devices, apart from what is said otherwise."""
    fitting = {
        "built_cuda": "12.6",
        "devices": [A100, A100],
        "capabilities": [[8, 0], [8, 0]],
        "architectures": ARCHITECTURES,
    }
    return framework(**{**fitting, **facts})  # type: ignore[arg-type] # by name


class World:
    """An engine with a base image and a snapshot."""

    def __init__(self, folder: Path, sandbox: FakeSandbox | None = None) -> None:
        self.sandbox = sandbox or FakeSandbox(FakeDriver(DEVICES))
        self.base = self.sandbox.add_image("base", {"/bin/sh": b""})
        self.image = self.sandbox.add_image("snapshot", {PYTHON: b"#!", "/opt/venv/pyvenv.cfg": b"home = /usr/bin"})
        self.sandbox.program("/bin/sh", lambda _files, _argv, _environment: (0, b""))
        self.folder = folder

    def judge(
        self,
        program: Program,
        *,
        hardware: Hardware = CPU_ONLY,
        frameworks: tuple[str, ...] = ("torch",),
        spec: TierSpec | None = None,
        report: SelfReport | None = REPORT,
    ) -> TierResult:
        """Judge a snapshot in which the interpreter does what the program does."""
        self.sandbox.program(PYTHON, program)
        environment = Environment(
            EnvironmentKey("run", "agent", "project", 1),
            image=self.image,
            base_image=self.base,
            workdir=REPO,
            report=report,
            report_problem="" if report else "not JSON",
            changed=(),
            inputs={},
            telemetry={},
            ended="",
            created="",
            devices=len(hardware.devices),
        )
        repository = Repository(
            "someone/project", PathSource("."), frameworks=frameworks, tiers={Tier.C2: spec or TierSpec()}
        )
        tree = Tree(self.folder, (), "digest")
        task = ProbeTask(
            environment, repository, tree, self.sandbox, Mount("", ""), lambda _chunk: None, {}, hardware=hardware
        )
        return C2Probe().judge(task)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A world whose containers are all removed in the end."""
    made = World(tmp_path)
    yield made
    assert not made.sandbox.containers


# --- whether it applies -----------------------------------------------------------------------------------


def test_without_frameworks_it_does_not_apply(world: World) -> None:
    """A repository that declares none has nothing to align."""
    result = world.judge(framework(), frameworks=())

    assert (result.verdict, result.cause) == (Verdict.SKIPPED, Cause.NOT_APPLICABLE)


def test_a_tier_that_is_not_supported_says_why(world: World) -> None:
    """The suite's own words."""
    result = world.judge(framework(), spec=TierSpec(supported=False, skip_reason="TPU only"))

    assert (result.verdict, result.cause, result.reason) == (Verdict.SKIPPED, Cause.NOT_APPLICABLE, "TPU only")


def test_cuda_without_devices_is_insufficient_hardware(world: World) -> None:
    """A skip that says how many there are and need to be, and why; nothing is run."""
    result = world.judge(framework(), hardware=Hardware(Accelerator.CUDA, reason="No devices were found"))

    assert (result.verdict, result.cause) == (Verdict.SKIPPED, Cause.INSUFFICIENT_HARDWARE)
    assert result.reason == "0 devices found, 1 needed: No devices were found"
    assert world.sandbox.created == 0


def test_without_a_usable_report_it_fails(world: World) -> None:
    """There is no interpreter to judge by."""
    assert world.judge(framework(), report=None).cause is Cause.INVALID_REPORT
    assert world.judge(framework(), report=SelfReport(python_path="/no/python")).cause is Cause.BROKEN_ENVIRONMENT


# --- on the CPU -------------------------------------------------------------------------------------------


def test_the_right_value_on_the_cpu_passes_as_emulated(world: World) -> None:
    """The binary runs on this processor; the result says that nothing else was shown."""
    result = world.judge(framework())

    assert (result.verdict, result.emulated) == (Verdict.PASSED, True)
    assert result.reason == "torch 2.13.0 computed right on the CPU"


def test_devices_are_hidden_and_not_given_on_the_cpu(world: World) -> None:
    """What runs on the CPU is the CPU, whatever the machine has."""
    seen: list[tuple[Mapping[str, str], tuple[str, ...]]] = []

    def look(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        (container,) = world.sandbox.containers.values()
        seen.append((environment, container.spec.devices))
        return framework()(files, argv, environment)

    assert world.judge(look).verdict is Verdict.PASSED
    assert seen[0][0]["CUDA_VISIBLE_DEVICES"] == ""
    assert seen[0][1] == ()


@pytest.mark.parametrize(
    "noise", [b"\x00\xff\xfe\r", b'{"stage": "done", "values": [[[1]]]}\n', b"0" * 16 + b' {"a": 1}\n']
)
def test_other_output_does_not_confuse_it(world: World, noise: bytes) -> None:
    """Bytes, prints and lines that look like an answer are passed over."""
    assert world.judge(framework(noise=noise)).verdict is Verdict.PASSED


@pytest.mark.parametrize(
    ("program", "cause", "reason"),
    [
        (framework(wrong=0), Cause.HARDWARE_MISMATCH, "torch 2.13.0 computed a wrong value on the CPU"),
        (framework(count=0), Cause.HARDWARE_MISMATCH, "torch 2.13.0 computed on 0 devices, not on 1"),
        (framework(nonce="f" * 16), Cause.NO_EVIDENCE, "torch ended the process before it was asked anything"),
        (framework(upto="import"), Cause.NO_EVIDENCE, "torch ended the process while it was imported"),
        (
            framework(upto="import", code=1, noise=b"Traceback (most recent call last):\nImportError: libc10.so\n"),
            Cause.EXIT_CODE,
            "torch exited with code 1 while it was imported: ImportError: libc10.so",
        ),
        (
            framework(upto="import", code=1, noise=b"ModuleNotFoundError: No module named 'torch'\n"),
            Cause.MISSING_IMPORTS,
            "torch exited with code 1 while it was imported: ModuleNotFoundError: No module named 'torch'",
        ),
        (framework(upto="import", code=132), Cause.SIGNAL, "illegal instruction: built for another processor"),
        (framework(upto="compute", code=139), Cause.SIGNAL, "torch 2.13.0 ended by signal 11 while it computed"),
        (framework(code=134), Cause.SIGNAL, "torch 2.13.0 ended by signal 6 after it had computed"),
        (
            framework(upto="", code=127, noise=b"[FATAL tini (7)] exec /opt/venv/bin/python failed: No such file\n"),
            Cause.BROKEN_ENVIRONMENT,
            "the interpreter could not be started: [FATAL tini (7)] exec",
        ),
    ],
)
def test_what_does_not_compute_right_fails_with_its_own_cause(
    world: World, program: Program, cause: Cause, reason: str
) -> None:
    """What happened, and what the framework was doing, is told apart."""
    result = world.judge(program)

    assert (result.verdict, result.cause, result.emulated) == (Verdict.FAILED, cause, True)
    assert reason in result.reason


@pytest.mark.parametrize(
    ("error", "cause"), [(FakeOutOfMemoryError, Cause.OUT_OF_MEMORY), (FakeTimeoutError, Cause.TIMEOUT)]
)
def test_limits_fail_with_their_own_cause(world: World, error: type[Exception], cause: Cause) -> None:
    """Memory and time."""

    def program(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        raise error

    assert world.judge(program).cause is cause


def test_every_declared_framework_counts(world: World) -> None:
    """Each is asked in a process of its own; the first fault gives the cause, all are told."""

    def both(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        return framework(wrong=0 if argv[2] == "jax" else None)(files, argv, environment)

    result = world.judge(both, frameworks=("torch", "jax"))

    assert (result.verdict, result.reason) == (Verdict.FAILED, "jax 2.13.0 computed a wrong value on the CPU")
    assert result.evidence["torch_version"] == result.evidence["jax_version"] == "2.13.0"


# --- on devices -------------------------------------------------------------------------------------------


def test_a_framework_that_fits_all_devices_passes(world: World) -> None:
    """It got the leased devices, and what made it fit is recorded."""
    result = world.judge(on_devices(), hardware=CUDA)

    assert (result.verdict, result.emulated) == (Verdict.PASSED, False)
    assert result.reason == f"torch 2.13.0 computed right on 2 x {A100}"
    assert result.evidence["torch_driver_support"] == "minor version compatibility"
    assert result.evidence["torch_kernel_support"] == ["sm_80"]
    assert result.evidence["driver"] == "535.129.03"


def test_only_the_leased_devices_are_given(world: World) -> None:
    """By uuid, and nothing is hidden."""
    seen: list[FakeContainer] = []

    def look(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        seen.extend(world.sandbox.containers.values())
        assert "CUDA_VISIBLE_DEVICES" not in environment
        return on_devices(devices=[A100], capabilities=[[8, 0]])(files, argv, environment)

    result = world.judge(look, hardware=replace(CUDA, devices=DEVICES[1:]))

    assert result.verdict is Verdict.PASSED, result.reason
    assert seen[0].spec.devices == ("GPU-1",)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            on_devices(architectures=["sm_50", "sm_60", "sm_70"]),
            f"has no kernels for {A100} (compute capability 8.0): it is compiled for sm_50 sm_60 sm_70",
        ),
        (
            on_devices(architectures=["sm_50", "sm_60", "sm_70"], upto="compute", code=1, noise=b"no kernel image\n"),
            "has no kernels for",
        ),
        (
            on_devices(built_cuda="13.0", devices=[], architectures=[]),
            "torch 2.13.0 is built for CUDA 13.0; the driver 535.129.03 supports up to 12.2",
        ),
        (on_devices(devices=[]), "torch 2.13.0 sees 0 of 2 devices (none)"),
        (on_devices(devices=[A100]), f"torch 2.13.0 sees 1 of 2 devices ({A100})"),
        (on_devices(devices=[A100] * 3), f"torch 2.13.0 sees 3 of 2 devices (3 x {A100})"),
        (on_devices(devices=[A100, "NVIDIA T4"]), f"sees {A100}, NVIDIA T4; the driver names 2 x {A100}"),
        (on_devices(built_cuda=None, devices=[], architectures=[]), "seems to be built without CUDA"),
        (on_devices(wrong=1), f"computed a wrong value on {A100}"),
        (on_devices(count=1), "computed on 1 devices, not on 2"),
        (on_devices(count=3), "computed on 3 devices, not on 2"),
    ],
    ids=[
        "capability not in the list",
        "no kernel image",
        "driver too old",
        "hidden by the environment",
        "too few",
        "too many",
        "other name",
        "CPU build",
        "wrong value",
        "one device idle",
        "made up",
    ],
)
def test_what_does_not_fit_the_devices_fails(world: World, program: Program, reason: str) -> None:
    """The reason names both sides."""
    result = world.judge(program, hardware=CUDA)

    assert (result.verdict, result.cause, result.emulated) == (Verdict.FAILED, Cause.HARDWARE_MISMATCH, False)
    assert reason in result.reason


def test_names_compare_without_the_makers_name(world: World) -> None:
    """Older drivers leave it out."""
    hardware = replace(CUDA, devices=tuple(replace(device, name="A100-SXM4-40GB") for device in DEVICES))

    assert world.judge(on_devices(), hardware=hardware).verdict is Verdict.PASSED


def test_a_framework_that_tells_no_architectures_is_judged_by_what_it_computes(world: World) -> None:
    """JAX compiles for the device that it finds."""
    result = world.judge(on_devices(architectures=None, built_cuda=None), hardware=CUDA)

    assert result.verdict is Verdict.PASSED, result.reason
    assert result.evidence["torch_driver_support"] is None


def test_right_values_outweigh_an_old_driver(world: World) -> None:
    """A compatibility package may bridge it; that it does is shown by every device's value."""
    result = world.judge(on_devices(built_cuda="13.0"), hardware=CUDA)

    assert (result.verdict, result.evidence["torch_driver_support"]) == (Verdict.PASSED, "")


# --- who is to blame --------------------------------------------------------------------------------------


class Refusing(FakeSandbox):
    """An engine that starts no container with devices, from some images."""

    def __init__(self, *, only_snapshot: bool) -> None:
        super().__init__(FakeDriver(DEVICES))
        self.only_snapshot = only_snapshot

    @contextmanager
    def opened(self, spec: ContainerSpec) -> Iterator[FakeContainer]:
        """Fail where it should."""
        with super().opened(spec) as container:
            snapshot = container.files.node(PYTHON) is not None
            if spec.devices and (snapshot or not self.only_snapshot):
                raise SandboxError("mount error: file creation failed: libcuda.so.1: file exists")
            yield container


def test_an_image_that_keeps_devices_out_is_broken(tmp_path: Path) -> None:
    """The base image gets the same devices, so the snapshot is to blame."""
    result = World(tmp_path, Refusing(only_snapshot=True)).judge(on_devices(), hardware=CUDA)

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.BROKEN_ENVIRONMENT)
    assert "libcuda.so.1: file exists" in result.reason


def test_an_engine_that_gives_no_image_devices_is_to_blame(tmp_path: Path) -> None:
    """The control run asks for the same devices: without them it would work, and the agent would be blamed."""
    with pytest.raises(SandboxError, match="file exists"):
        World(tmp_path, Refusing(only_snapshot=False)).judge(on_devices(), hardware=CUDA)


def test_an_engine_without_a_driver_is_to_blame(tmp_path: Path) -> None:
    """It is an error, never a failure."""
    with pytest.raises(DevicesUnavailableError):
        World(tmp_path, FakeSandbox()).judge(on_devices(), hardware=CUDA)


@pytest.mark.parametrize(("given", "looked_at"), [(0, 1), (1, 1), (2, 2), (8, 2)])
def test_as_many_devices_are_looked_at_as_the_agent_had(given: int, looked_at: int) -> None:
    """One at least, and no more than there are."""
    environment = Environment(
        EnvironmentKey("run", "agent", "project", 1),
        image="snapshot",
        base_image="base",
        workdir=REPO,
        report=REPORT,
        report_problem="",
        changed=(),
        inputs={},
        telemetry={},
        ended="",
        created="",
        devices=given,
    )
    repository, tree = Repository("someone/project", PathSource(".")), Tree(Path(), (), "digest")
    task = ProbeTask(
        environment, repository, tree, FakeSandbox(), Mount("", ""), lambda _chunk: None, {}, hardware=CUDA
    )

    with task.leased(task.devices_then) as held:
        assert len(held.hardware.devices) == looked_at
    assert replace(task, hardware=CPU_ONLY).devices_then == 0
