"""Good, bare and broken environments over a fake engine: what is a proof, what is none, and what stops nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from pytest_researchenv.agents.protocol import REPORT_PATH
from pytest_researchenv.engine import Engine
from pytest_researchenv.model import (
    Cause,
    PathSource,
    Repository,
    Sabotage,
    SabotageKind,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.proving import Proof, prove
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox
from pytest_researchenv.sandbox.protocol import Limits, Mount
from pytest_researchenv.settings import Settings


INSTALLED = "/opt/einops"


@dataclass
class Bench:
    """A fake engine, whose probe looks for one package and for work in `run.py`."""

    folder: Path
    sandbox: FakeSandbox
    engine: Engine
    sessions: int = 0
    uninstall: int = 0
    reports: bool = True

    def shell(self, files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        """Do what the script says."""
        script = (files.read("/researchenv/agent.sh") or b"").decode()
        if "uninstall" in script and self.uninstall:
            return self.uninstall, b"no such package\n"
        if " einops\n" in script:
            files.write(INSTALLED, b"removed" if "uninstall" in script else b"there")
        if self.reports or "nothing was installed" not in script:
            files.write(REPORT_PATH, b'{"python_path": "/usr/bin/python3"}')
        return 0, b""

    def judge(self, task: ProbeTask) -> TierResult:
        """Pass where the package is there and the entry point works."""
        if task.environment.report is None:
            return TierResult(Tier.C1, Verdict.FAILED, Cause.NO_REPORT)
        there = self.sandbox.image_files(task.environment.image).read(INSTALLED) == b"there"
        works = "print" in (task.tree.root / "run.py").read_text()
        return TierResult(Tier.C1, Verdict.PASSED if there and works else Verdict.FAILED)

    def repository(self, name: str, target: str = "run.py") -> Repository:
        """A repository that is broken in two ways."""
        (self.folder / name / "tree").mkdir(parents=True)
        (self.folder / name / "tree" / "run.py").write_text("print(1)\n")
        (self.folder / name / "oracle.sh").write_text("pip install einops\n")
        sabotage = {
            SabotageKind.PACKAGE: Sabotage("einops", (Tier.C1,)),
            SabotageKind.ENTRY: Sabotage(target, (Tier.C1,)),
        }
        tiers = {Tier.C1: TierSpec(argv=("x",))}
        return Repository(name, PathSource("tree"), tiers=tiers, sabotage=sabotage, folder=str(self.folder / name))

    def prove(self, *repositories: Repository) -> list[str]:
        """One line for each proof, in a new session."""
        self.sessions += 1
        settings = Settings(
            results=self.folder / "results",
            run="proof",
            continued=True,
            rebuild=False,
            reuse_anyway=False,
            agent_timeout_s=60,
            agent_limits=Limits(),
            c0_max_missing=0,
            cache=self.folder / "cache",
            session=str(self.sessions),
        )
        return [self.line(proof) for proof in prove(repositories, settings=settings, engine=self.engine)]

    @staticmethod
    def line(proof: Proof) -> str:
        """Whether it holds, whose it is, and what came out."""
        found = str(proof.result.verdict) if proof.result else proof.error
        return f"{'ok' if proof.holds else 'NOT'} {proof.repository.name} {proof.agent} {found}"


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A bench with nothing on it."""
    sandbox = FakeSandbox()
    base = sandbox.add_image("base", {"/researchenv/.keep": b"", "/workspace/.keep": b"", INSTALLED: b"missing"})
    bench = Bench(tmp_path, sandbox, Engine(sandbox, base, "base", (), {}, Mount("tools", "/researchenv/tools")))
    sandbox.program("bash", bench.shell)
    monkeypatch.setattr("pytest_researchenv.proving.PROBES", {Tier.C1: bench})
    return bench


def test_each_environment_gets_the_verdict_that_it_has_to(bench: Bench) -> None:
    """And what stands is not done again."""
    repository = bench.repository("one")
    proofs = [
        "ok one oracle passed",
        "ok one noop failed",
        "ok one sabotage-package failed",
        "ok one sabotage-entry failed",
    ]

    assert bench.prove(repository) == proofs
    created = bench.sandbox.created
    assert bench.prove(repository) == proofs
    assert bench.sandbox.created == created


def test_another_sabotage_is_done_anew(bench: Bench) -> None:
    """The result of an older one says nothing about it."""
    repository = bench.repository("one")
    bench.prove(repository)
    other = {SabotageKind.PACKAGE: Sabotage("numpy", (Tier.C1,))}

    assert bench.prove(replace(repository, sabotage=other))[2:] == ["NOT one sabotage-package passed"]


def test_a_sabotage_that_could_not_be_carried_out_proves_nothing_and_stops_nothing(bench: Bench) -> None:
    """Its environment may fail for lack of a report; the next sabotage and the next repository are proven even so."""
    bench.uninstall = 2

    lines = bench.prove(bench.repository("one"), bench.repository("two", target="gone.py"))

    assert [line.split(" ", 3)[:3] for line in lines if line.startswith("ok")] == [
        ["ok", "one", "oracle"],
        ["ok", "one", "noop"],
        ["ok", "one", "sabotage-entry"],
        ["ok", "two", "oracle"],
        ["ok", "two", "noop"],
    ]
    assert "could not be carried out: its script exited with code 2" in lines[2]
    assert "names 'gone.py', which is no file of the pinned tree" in lines[-1]


def test_nothing_is_written_through_a_link(bench: Bench) -> None:
    """An entry point that is a link may lead out of the tree."""
    repository = bench.repository("one", target="link.py")
    (bench.folder / "mine.py").write_text("mine")
    (bench.folder / "one" / "tree" / "link.py").symlink_to(bench.folder / "mine.py")

    assert "which is no file of the pinned tree" in bench.prove(repository)[-1]
    assert (bench.folder / "mine.py").read_text() == "mine"


def test_a_failure_for_lack_of_a_report_shows_nothing(bench: Bench) -> None:
    """No probe has seen the environment then."""
    bench.reports = False

    assert bench.prove(bench.repository("one"))[1] == "NOT one noop failed"
