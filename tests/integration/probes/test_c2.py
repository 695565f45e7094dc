"""C2 in real containers, on the CPU: with torch, without it, and with one that was broken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from pytest_researchenv.errors import DevicesUnavailableError
from pytest_researchenv.hardware import Accelerator, Device, Hardware
from pytest_researchenv.model import (
    Cause,
    Environment,
    EnvironmentKey,
    Repository,
    SelfReport,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.c2 import C2Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.gpu import detect
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount


PYTHON = "/opt/venv/tinyddp/bin/python"
TORCH = "/opt/venv/tinyddp/lib/python3.11/site-packages/torch"
DEVICE = Device(0, "GPU-0", "NVIDIA A100-SXM4-40GB", 40 * 1024**3, (8, 0))

Judge = Callable[..., TierResult]


@pytest.fixture
def judge(docker_sandbox: DockerSandbox, base_image: str, tinyddp: Repository, tinyddp_tree: Tree) -> Judge:
    """Judges an image."""

    def run(image: str, python: str = PYTHON, hardware: Hardware | None = None) -> TierResult:
        environment = Environment(
            key=EnvironmentKey("run", "agent", "tinyddp", 1),
            image=image,
            base_image=base_image,
            workdir=tinyddp.workdir,
            report=SelfReport(python_path=python),
            report_problem="",
            changed=(),
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
        )
        task = ProbeTask(environment, tinyddp, tinyddp_tree, docker_sandbox, Mount("", ""), lambda _chunk: None, {})
        return C2Probe().judge(replace(task, hardware=hardware) if hardware else task)

    return run


@pytest.fixture
def broken(docker_sandbox: DockerSandbox, tinyddp_environment: str) -> Iterator[Callable[[str], str]]:
    """Freezes the good environment after a shell script has been at it; the image is removed at the end."""
    made: list[str] = []

    def freeze(script: str) -> str:
        with docker_sandbox.opened(ContainerSpec(tinyddp_environment)) as container:
            container.start()
            done = container.exec(["sh", "-ec", script], timeout_s=60)
            assert done.ok, done.output.text()
            container.stop()
            made.append(container.freeze(f"researchenv-test-c2:{len(made)}", labels={}))
        return made[-1]

    yield freeze
    for image in made:
        docker_sandbox.remove_image(image)


def test_real_torch_computes_right_on_the_cpu(judge: Judge, tinyddp_environment: str) -> None:
    """A CPU build passes where the CPU stands in, and the result says that it does."""
    result = judge(tinyddp_environment)

    assert result.verdict is Verdict.PASSED, result.reason
    assert result.emulated
    assert str(result.evidence["torch_version"]).startswith("2.13.0")
    assert result.evidence["torch_devices"] == []


def test_an_environment_without_torch_fails(judge: Judge, base_image: str) -> None:
    """A framework that is not installed is a missing import."""
    result = judge(base_image, "/usr/bin/python3")

    assert (result.verdict, result.cause) == (Verdict.FAILED, Cause.MISSING_IMPORTS)
    assert result.decisive == "ModuleNotFoundError: No module named 'torch'"


@pytest.mark.parametrize(
    ("script", "cause", "reason"),
    [
        (
            f"echo 'raise RuntimeError(\"no luck today\")' > {TORCH}/__init__.py",
            Cause.EXIT_CODE,
            "while it was imported: RuntimeError: no luck today",
        ),
        (
            f"echo 'import os; os.kill(os.getpid(), 4)' > {TORCH}/__init__.py",
            Cause.SIGNAL,
            "illegal instruction: built for another processor",
        ),
        (f"echo 'import os; os._exit(0)' > {TORCH}/__init__.py", Cause.NO_EVIDENCE, "without an answer"),
        (
            f"echo 'Tensor.__matmul__ = lambda a, b: a * 0 + 1' >> {TORCH}/__init__.py",
            Cause.HARDWARE_MISMATCH,
            "computed a wrong value on the CPU",
        ),
    ],
    ids=["import-time crash", "illegal instruction", "quiet exit", "wrong value"],
)
def test_a_broken_torch_fails_with_its_own_cause(
    judge: Judge, broken: Callable[[str], str], script: str, cause: Cause, reason: str
) -> None:
    """What is wrong with an installed framework is told apart."""
    result = judge(broken(script))

    assert (result.verdict, result.cause) == (Verdict.FAILED, cause)
    assert reason in result.reason


def test_an_engine_without_devices_is_to_blame_itself(
    judge: Judge, docker_sandbox: DockerSandbox, base_image: str, tinyddp_environment: str
) -> None:
    """When the same device cannot be given to the base image either, it is no failure of the environment."""
    if detect(docker_sandbox, base_image).devices:
        pytest.skip("this engine has devices")
    hardware = Hardware(Accelerator.CUDA, (DEVICE,), "535.129.03", (12, 2))

    with pytest.raises(DevicesUnavailableError, match="could not select device driver"):
        judge(tinyddp_environment, hardware=hardware)


def test_a_real_device_is_aligned(
    judge: Judge, docker_sandbox: DockerSandbox, base_image: str, tinyddp_environment: str
) -> None:
    """Where there are devices, the framework that the recipe installs fits them, and computes on each."""
    hardware = detect(docker_sandbox, base_image)
    if shortage := hardware.shortage(1):
        pytest.skip(shortage)

    result = judge(tinyddp_environment, hardware=hardware)

    assert (result.verdict, result.emulated) == (Verdict.PASSED, False), result.reason
