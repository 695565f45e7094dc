"""An environment over the fake engine whose self-report is judged, for tests of C5."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Device, Hardware
from pytest_researchenv.model import (
    Audit,
    Cause,
    Environment,
    EnvironmentKey,
    Examination,
    PathSource,
    Repository,
    SelfReport,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.c5 import C5Probe
from pytest_researchenv.probes.protocol import ProbeTask, Tree
from pytest_researchenv.sandbox.fake import FakeContainer, FakeDriver, FakeFiles, FakeSandbox, FakeTimeoutError
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount


__all__ = ["CUDA", "PYTHON", "SITE", "World", "audited", "on_devices", "torch"]

PYTHON = "/opt/venv/bin/python"
SITE = "/opt/venv/lib/python3.11/site-packages"
DEVICES = tuple(Device(index, f"GPU-{index}", "H200", 10**11, (9, 0)) for index in range(2))
CUDA = Hardware(Accelerator.CUDA, DEVICES, "570.0", (12, 8))


def torch(seen: int = 0, **changes: object) -> dict[str, object]:
    """What a torch answers that sees so many devices."""
    answer: dict[str, object] = {
        "torch_version": "2.13.0+cu128",
        "error": "",
        "cuda_available": seen > 0,
        "gpu_count": seen,
        "file": f"{SITE}/torch/__init__.py",
        "records": [],
    }
    return answer | changes


def audited(*, interpreter: str = "", **modules: str) -> Audit:
    """What an audit found that has something against the interpreter, or against modules."""
    result = TierResult(Examination.INTEGRITY, Verdict.FAILED, Cause.TAMPERED)
    return Audit(result, modules=modules, interpreter=interpreter)


class _UnreadableSandbox(FakeSandbox):
    """An engine that reads nothing out of the snapshot."""

    def create(self, spec: ContainerSpec) -> FakeContainer:
        container = super().create(spec)

        @contextmanager
        def refuse(_path: str) -> Iterator[IO[bytes] | None]:
            raise SandboxError("the archive is too long")
            yield

        if spec.image == self._names["snapshot"]:
            container.get = refuse  # type: ignore[assignment, method-assign] # of this one
        return container


@dataclass
class World:
    """An environment to judge, and what it answers.

    Attributes:
        answers: how often it answers the first question and the second.
        startless: what the engine says when the interpreter cannot be started.
        unreadable: whether the engine reads nothing out of the snapshot.
        prints: what it prints instead of answers; `{first}` is the first question's nonce.
        hangs: whether it runs until its deadline.
    """

    python_version: str = "3.11.2"
    torch: Mapping[str, object] | None = field(default_factory=torch)
    code: int = 0
    answers: tuple[int, int] = (1, 1)
    startless: str = ""
    unreadable: bool = False
    prints: str | None = None
    hangs: bool = False
    hardware: Hardware = CPU_ONLY
    given: int = 0
    frameworks: tuple[str, ...] = ("torch",)
    refusal: str = ""
    c4: TierResult | SandboxError | None = None
    audit: Audit | None = None
    files: dict[str, object] = field(default_factory=lambda: {PYTHON: b"ELF"})

    def judge(self, *, problem: str = "", **claims: object) -> TierResult:
        """Judge a self-report with these claims; with a problem there is none."""
        sandbox = (_UnreadableSandbox if self.unreadable else FakeSandbox)(self.driver())
        base = sandbox.add_image("base")
        image = sandbox.add_image("snapshot", self.files)  # type: ignore[arg-type] # nodes of the fake
        sandbox.program("/bin/sh", lambda _files, _argv, _environment: (0, b""))
        sandbox.program(lambda argv: "claims.py" in "".join(argv), self.answer)
        report = SelfReport(**{"python_path": PYTHON, **claims})  # type: ignore[arg-type] # by name
        environment = Environment(
            key=EnvironmentKey("run", "agent", "project", 1),
            image=image,
            base_image=base,
            workdir="/workspace/project",
            report=None if problem else report,
            report_problem=problem,
            changed=(),
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
            devices=self.given,
        )
        task = ProbeTask(
            environment=environment,
            repository=Repository("project", PathSource("."), frameworks=self.frameworks),
            tree=Tree(Path("/nowhere"), (), "digest"),
            sandbox=sandbox,
            tools=Mount("unused", "/unused"),
            log=len,
            settings={},
            hardware=self.hardware,
            result_of=self.result_of if self.c4 else None,
            audit=self.audit,
        )
        result = C5Probe().judge(task)
        assert not sandbox.containers, "every container is removed"
        return result

    def driver(self) -> FakeDriver | None:
        """What gives containers devices."""
        driver = FakeDriver(self.hardware.devices) if self.hardware.devices else None
        if driver:
            driver.refusal = self.refusal
        return driver

    def answer(self, _files: FakeFiles, argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        """Print the answers to both questions, as the script does."""
        if self.startless:
            raise SandboxError(self.startless)
        if self.hangs:
            raise FakeTimeoutError
        first, second, _python = argv[-3:]
        if self.prints is not None:
            return self.code, self.prints.format(first=first).encode()
        interpreter = f"{first} {json.dumps({'python_version': self.python_version, 'executable': argv[0]})}"
        lines = ["noise", *[interpreter] * self.answers[0]]
        if self.torch is not None:
            lines += [f"{second} {json.dumps(self.torch)}"] * self.answers[1]
        return self.code, "\n".join(lines).encode()

    def result_of(self, tier: Tier) -> TierResult:
        """Only C4 is ever asked for."""
        assert tier is Tier.C4
        if isinstance(self.c4, SandboxError):
            raise self.c4
        assert self.c4
        return self.c4


def on_devices(seen: int, *, given: int = 2, **changes: object) -> World:
    """A world with two devices, in which torch sees so many."""
    return replace(World(torch=torch(seen), hardware=CUDA, given=given), **changes)  # type: ignore[arg-type] # by name
