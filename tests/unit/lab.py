"""A harness over a fake engine, with a fake agent and a fake probe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from pytest_researchenv.agents.protocol import REPORT_PATH, AgentTask, Needs, Telemetry
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError, SandboxError
from pytest_researchenv.hardware import CPU_ONLY
from pytest_researchenv.harness import Harness
from pytest_researchenv.integrity.protocol import Check
from pytest_researchenv.leases.sharing import ALONE
from pytest_researchenv.model import (
    PathSource,
    Repository,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox
from pytest_researchenv.sandbox.protocol import Limits, Mount
from pytest_researchenv.settings import Settings


__all__ = ["FakeAgent", "FakeProbe", "Lab"]


@dataclass
class FakeAgent:
    """An agent that writes an empty report; it may break, and it may cost money."""

    free: bool = True
    script: str = "v1"
    breaks: bool = False
    name: str = "fake"
    worked: int = 0
    needs: Needs = field(default_factory=lambda: Needs(prompted=False))

    def inputs(self, repository: Repository) -> Mapping[str, str]:
        """What shapes the environment."""
        return {"agent": f"{self.script} for {repository.slug}"}

    def work(self, task: AgentTask) -> Telemetry:
        """Run one command."""
        self.worked += 1
        if self.breaks:
            raise InfrastructureError("the model's API did not answer")
        task.container.exec(["report"], timeout_s=task.timeout_s)
        return Telemetry(ended="exited with code 0", numbers={"wall_s": 1.0})

    def trajectory(self, transcript: Path) -> None:
        """It prints nothing."""


@dataclass
class FakeProbe:
    """A probe that gives one verdict, or breaks."""

    tier: Tier = Tier.C1
    verdict: Verdict = Verdict.PASSED
    breaks: bool = False
    tasks: list[ProbeTask] = field(default_factory=list)

    def judge(self, task: ProbeTask) -> TierResult:
        """Note the task."""
        self.tasks.append(task)
        task.log(b"probing\n")
        if self.breaks:
            raise SandboxError("the engine went away")
        return TierResult(self.tier, self.verdict)


def _report(files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
    del argv, environment
    files.write(REPORT_PATH, b'{"python_path": "/usr/bin/python3"}')
    return 0, b"reported\n"


class Lab:
    """One results folder, and a new session whenever one is asked for."""

    def __init__(self, folder: Path) -> None:
        (folder / "repo").mkdir()
        (folder / "repo/run.py").write_text("print(1)\n")
        self.sandbox = FakeSandbox()
        self.base = self.sandbox.add_image("base", {"/researchenv/.keep": b"", "/workspace/.keep": b""})
        self.sandbox.program(["report"], _report)
        self.agent = FakeAgent()
        self.probe = FakeProbe()
        self.repository = Repository(
            "owner/thing", PathSource(str(folder / "repo")), tiers={Tier.C1: TierSpec(argv=("x",))}, folder=str(folder)
        )
        self.folder = folder / "results/default/fake/thing"
        self.settings = Settings(
            results=folder / "results",
            run="default",
            continued=False,
            rebuild=False,
            reuse_anyway=False,
            agent_timeout_s=60,
            agent_limits=Limits(),
            c0_max_missing=0,
            cache=folder / "cache",
            session="0",
        )
        self.key = "base-1"
        self.hardware = CPU_ONLY
        self.sharing = ALONE
        self.checks: tuple[Check, ...] = ()
        self._sessions = 0

    def session(self, *, continued: bool = False, rebuild: bool = False, reuse_anyway: bool = False) -> Harness:
        """Begin a new session."""
        self._sessions += 1
        engine = Engine(
            self.sandbox,
            self.base,
            self.key,
            (),
            {},
            Mount("tools", "/researchenv/tools"),
            hardware=self.hardware,
            sharing=self.sharing,
        )
        settings = replace(
            self.settings,
            session=str(self._sessions),
            continued=continued,
            rebuild=rebuild,
            reuse_anyway=reuse_anyway,
        )
        return Harness(
            settings,
            engine=lambda: engine,
            probes={self.probe.tier: self.probe},
            agents=lambda _: self.agent,
            checks=self.checks,
        )

    def attempts(self) -> list[str]:
        """The attempts' folders."""
        return sorted(path.name for path in self.folder.glob("attempt-*"))
