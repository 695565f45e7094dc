"""The harness over a fake engine: what is built, what is reused, and what is recorded when things break."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO

import pytest

from pytest_researchenv.agents.protocol import REPORT_PATH, AgentTask, Needs, Telemetry
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import ConfigurationError, InfrastructureError, SandboxError, StaleEnvironmentError
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Device, Hardware
from pytest_researchenv.harness import Harness
from pytest_researchenv.integrity.protocol import Check, Signs, Snapshot
from pytest_researchenv.leases.desk import Desk
from pytest_researchenv.leases.sharing import ALONE, Share, Sharing
from pytest_researchenv.model import (
    Cause,
    Examination,
    Finding,
    PathSource,
    Repository,
    Sign,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.progress import Teller
from pytest_researchenv.sandbox.fake import FakeContainer, FakeFiles, FakeSandbox
from pytest_researchenv.sandbox.protocol import Limits, Mount
from pytest_researchenv.settings import Settings


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


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    """A lab with nothing in it."""
    return Lab(tmp_path)


def test_an_environment_is_built_once_and_probed_each_time(lab: Lab) -> None:
    """A second session starts no agent, and judges the same environment again."""
    first = lab.session().judge("fake", lab.repository, Tier.C1)
    second = lab.session().judge("fake", lab.repository, Tier.C1)

    assert first.result.verdict is second.result.verdict is Verdict.PASSED
    assert lab.agent.worked == 1
    assert len(lab.probe.tasks) == 2
    assert lab.probe.tasks[0].environment == lab.probe.tasks[1].environment
    assert first.folder is not None
    assert (first.folder / second.result.log).read_text() == "probing\n"
    assert not lab.sandbox.containers


def test_within_a_session_a_tier_is_judged_once(lab: Lab) -> None:
    """A tier that another tier asks for is not probed twice."""
    harness = lab.session()

    results = [harness.judge("fake", lab.repository, Tier.C1).result for _ in range(2)]

    assert results[0] == results[1]
    assert len(lab.probe.tasks) == 1


def test_a_continued_run_keeps_what_it_has(lab: Lab) -> None:
    """Continuing a run probes what is missing, and nothing else."""
    lab.session().judge("fake", lab.repository, Tier.C1)

    lab.session(continued=True).judge("fake", lab.repository, Tier.C1)

    assert len(lab.probe.tasks) == 1


def test_a_tier_that_does_not_apply_builds_nothing(lab: Lab) -> None:
    """A skip costs no agent's time."""
    judged = lab.session().judge("fake", lab.repository, Tier.C4)

    assert (judged.result.verdict, judged.result.cause) == (Verdict.SKIPPED, Cause.NOT_APPLICABLE)
    assert lab.agent.worked == 0


def test_a_broken_attempt_is_an_error_for_every_tier_of_the_session(lab: Lab) -> None:
    """It is recorded, not repeated in the same session, and tried in a new attempt by the next."""
    lab.agent.breaks = True
    harness = lab.session()

    for _ in range(2):
        with pytest.raises(InfrastructureError, match="did not answer"):
            harness.judge("fake", lab.repository, Tier.C1)
    lab.agent.breaks = False
    judged = lab.session().judge("fake", lab.repository, Tier.C1)

    assert lab.agent.worked == 2
    assert judged.result.verdict is Verdict.PASSED
    assert lab.attempts() == ["attempt-001", "attempt-002"]
    assert "did not answer" in (lab.folder / "attempt-001/error.txt").read_text()
    assert not lab.sandbox.containers


def test_a_retry_builds_again_what_broke_in_this_session(lab: Lab) -> None:
    """What a rerun of a test asks for: a new attempt after an error, none after a success."""
    harness = lab.session()
    lab.agent.breaks = True
    with pytest.raises(InfrastructureError, match="did not answer"):
        harness.judge("fake", lab.repository, Tier.C1)
    lab.agent.breaks = False

    verdicts = [harness.judge("fake", lab.repository, Tier.C1, retry=True).result.verdict for _ in range(2)]

    assert verdicts == [Verdict.PASSED] * 2
    assert lab.attempts() == ["attempt-001", "attempt-002"]


def test_a_broken_probe_is_recorded_and_does_not_stand(lab: Lab) -> None:
    """An error is on disk at once, and even a continued run probes again."""
    lab.probe.breaks = True
    with pytest.raises(SandboxError):
        lab.session().judge("fake", lab.repository, Tier.C1)
    lab.probe.breaks = False

    judged = lab.session(continued=True).judge("fake", lab.repository, Tier.C1)

    assert judged.result.verdict is Verdict.PASSED
    assert '"error"' in (lab.folder / "attempt-001/C1-001.json").read_text()
    assert (lab.folder / "attempt-001/C1-001.log").read_text() == "probing\n"


@pytest.mark.parametrize("what", ["agent", "base image", "source"])
def test_a_changed_input_stops_judging(lab: Lab, what: str) -> None:
    """Recipe, base image and source each make a stored environment stale; the message names the ways on."""
    lab.session().judge("fake", lab.repository, Tier.C1)
    if what == "agent":
        lab.agent.script = "v2"
    elif what == "base image":
        lab.key = "base-2"
    else:
        Path(lab.repository.source.path, "run.py").write_text("print(2)\n")  # type: ignore[union-attr]

    message = lab.session().environments.problem("fake", lab.repository)
    with pytest.raises(StaleEnvironmentError):
        lab.session().judge("fake", lab.repository, Tier.C1)

    assert "--researchenv-rebuild" in message
    assert "--researchenv-reuse-anyway" in message
    assert len(lab.probe.tasks) == 1


def test_the_user_decides_about_a_stale_environment(lab: Lab) -> None:
    """Reusing judges the old one; rebuilding makes one new attempt per session."""
    lab.session().judge("fake", lab.repository, Tier.C1)
    lab.agent.script = "v2"

    lab.session(reuse_anyway=True).judge("fake", lab.repository, Tier.C1)
    rebuilding = lab.session(rebuild=True)
    for _ in range(2):
        rebuilding.judge("fake", lab.repository, Tier.C1)

    assert [task.environment.key.attempt for task in lab.probe.tasks] == [1, 1, 2]
    assert lab.session().environments.problem("fake", lab.repository) == ""


def test_a_lost_image_is_rebuilt_only_where_that_is_free(lab: Lab) -> None:
    """No money is spent unasked: a paid agent's lost environment is an error that says what to do."""
    image = lab.session().judge("fake", lab.repository, Tier.C1).environment
    assert image is not None
    lab.sandbox.remove_image(image.image)
    lab.agent.free = False

    with pytest.raises(InfrastructureError, match="--researchenv-rebuild"):
        lab.session().judge("fake", lab.repository, Tier.C1)
    lab.agent.free = True
    lab.session().judge("fake", lab.repository, Tier.C1)

    assert lab.attempts() == ["attempt-001", "attempt-002"]


def test_two_sessions_that_rebuild_at_once_each_judge_their_own(lab: Lab) -> None:
    """All tiers of a session are judged on one environment, whoever else builds meanwhile."""
    one, two = lab.session(rebuild=True), lab.session(rebuild=True)

    for harness in (one, two, one, two):
        harness.environments.get("fake", lab.repository)

    assert lab.attempts() == ["attempt-001", "attempt-002"]
    assert one.environments.get("fake", lab.repository)[1].key.attempt == 1
    assert two.environments.get("fake", lab.repository)[1].key.attempt == 2


def test_a_continued_run_judges_again_what_is_judged_differently(lab: Lab) -> None:
    """A stored verdict stands only while the demands, the probe and the settings are the same."""
    lab.session().judge("fake", lab.repository, Tier.C1)
    stricter = replace(lab.repository, tiers={Tier.C1: TierSpec(argv=("x",), timeout_s=5)})

    lab.session(continued=True).judge("fake", stricter, Tier.C1)

    assert len(lab.probe.tasks) == 2


def test_what_changes_while_a_probe_runs_was_not_judged(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verdict stands for the script that ran, and a suite that cannot be read at the end loses no verdict."""
    script = lab.folder.parents[3] / "c1.py"
    script.write_text("before")
    probed = replace(lab.repository, tiers={Tier.C1: TierSpec(probe="c1.py")})
    judge = lab.probe.judge

    def edited(task: ProbeTask) -> TierResult:
        script.unlink()
        return judge(task)

    monkeypatch.setattr(lab.probe, "judge", edited)
    assert lab.session().judge("fake", probed, Tier.C1).result.verdict is Verdict.PASSED

    script.write_text("after")
    lab.session(continued=True).judge("fake", probed, Tier.C1)
    assert len(lab.probe.tasks) == 2


def test_suites_share_no_environment(lab: Lab) -> None:
    """Repositories of the same name in two suites are two repositories."""
    for suite in ("one", "two"):
        lab.session().judge("fake", replace(lab.repository, suite=suite), Tier.C1)

    assert lab.agent.worked == 2


def test_a_defect_of_ours_is_recorded_and_no_agent_works_twice_for_it(lab: Lab) -> None:
    """An unexpected exception is an error like any other: on disk, and not repeated in the session."""

    def work(task: AgentTask) -> Telemetry:
        lab.agent.worked += 1
        raise ZeroDivisionError(task.timeout_s)

    lab.agent.work = work  # type: ignore[method-assign] # one test's own agent
    harness = lab.session()

    for _ in range(2):
        with pytest.raises(InfrastructureError, match="unexpected ZeroDivisionError"):
            harness.judge("fake", lab.repository, Tier.C1)

    assert lab.agent.worked == 1
    assert "ZeroDivisionError" in (lab.folder / "attempt-001/error.txt").read_text()


def test_a_probe_that_breaks_unexpectedly_leaves_a_record(lab: Lab) -> None:
    """Whatever a probe raises, the result is on disk as an error."""

    def judge(task: ProbeTask) -> TierResult:
        raise ZeroDivisionError(task)

    lab.probe.judge = judge  # type: ignore[method-assign] # one test's own probe

    with pytest.raises(InfrastructureError, match="unexpected ZeroDivisionError"):
        lab.session().judge("fake", lab.repository, Tier.C1)

    assert '"infrastructure"' in (lab.folder / "attempt-001/C1-001.json").read_text()


def test_a_tier_without_probe_costs_no_agents_time(lab: Lab) -> None:
    """What this version cannot judge is said before anything is built."""
    repository = replace(lab.repository, tiers={Tier.C2: TierSpec()})

    with pytest.raises(ConfigurationError, match="no probe"):
        lab.session().judge("fake", repository, Tier.C2)

    assert lab.agent.worked == 0


def test_one_hiccup_of_the_engine_at_the_end_decides_nothing(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the self-report fails once: it is read again, and not taken for the agent's fault for good."""
    failures: list[str] = []
    get = FakeContainer.get

    def flaky(self: FakeContainer, path: str) -> AbstractContextManager[IO[bytes] | None]:
        if path == REPORT_PATH and not failures:
            failures.append(path)
            raise SandboxError("the connection was reset")
        return get(self, path)

    monkeypatch.setattr(FakeContainer, "get", flaky)
    environment = lab.session().judge("fake", lab.repository, Tier.C1).environment

    assert failures
    assert environment is not None
    assert environment.report_problem == ""


# --- the audit --------------------------------------------------------------------------------------------


class FakeCheck:
    """A check that sees what it is told to, and counts how often it was asked."""

    def __init__(self, signs: Signs, error: Exception | None = None) -> None:
        self.signs = signs
        self.error = error
        self.asked = 0

    def __call__(self, task: ProbeTask, snapshot: Snapshot) -> Signs:
        """Look."""
        del task, snapshot
        self.asked += 1
        if self.error:
            raise self.error
        return self.signs


STUB = Signs((Finding(Sign.STUB, "tinydep", "a distribution's", "nobody's"),), modules={"tinydep": "nobody's"})


def test_an_environment_is_audited_once_before_any_tier(lab: Lab) -> None:
    """A tier is judged knowing what the audit found; the audit of a frozen image holds for later sessions, too."""
    check = FakeCheck(Signs(blanked={"/usr/lib/python3/sitecustomize.py": ""}))
    lab.checks = (check,)

    first = lab.session().judge("fake", lab.repository, Tier.C1)
    lab.session().judge("fake", lab.repository, Tier.C1)

    assert check.asked == 1
    known = [task.audit for task in lab.probe.tasks]
    assert all(audit is not None and audit.blanked == check.signs.blanked for audit in known)
    assert all(audit is not None and audit.result.snapshot == first.result.snapshot for audit in known)
    assert first.result.verdict is Verdict.PASSED


def test_the_audits_own_test_looks_again(lab: Lab) -> None:
    """Chosen on the command line it is made anew, as tiers are, unless the run is continued."""
    check = FakeCheck(Signs())
    lab.checks = (check,)

    for continued in (False, False, True):
        judged = lab.session(continued=continued).judge("fake", lab.repository, Examination.INTEGRITY)
        assert judged.result.verdict is Verdict.PASSED

    assert check.asked == 2
    assert judged.folder is not None
    assert sorted(path.name for path in judged.folder.glob("integrity-*.json")) == [
        "integrity-001.json",
        "integrity-002.json",
    ]


def test_a_pass_that_could_be_forged_is_none(lab: Lab) -> None:
    """The tier fails as tampered, the audit fails with the finding, and what the probe said is kept."""
    lab.checks = (FakeCheck(STUB),)
    session = lab.session()

    tier = session.judge("fake", lab.repository, Tier.C1).result
    found = session.judge("fake", lab.repository, Examination.INTEGRITY).result

    assert (tier.verdict, tier.cause) == (Verdict.FAILED, Cause.TAMPERED)
    assert tier.evidence["probe_verdict"] == "passed"
    assert (found.verdict, found.cause, found.findings) == (Verdict.FAILED, Cause.TAMPERED, STUB.findings)


def test_a_defect_of_the_audit_is_an_error_and_no_verdict(lab: Lab) -> None:
    """A check that breaks gives neither passes nor failures; it is recorded, and the next session looks again."""
    lab.checks = (FakeCheck(Signs(), ValueError("a defect")),)

    with pytest.raises(InfrastructureError, match="unexpected ValueError: a defect"):
        lab.session().judge("fake", lab.repository, Tier.C1)
    lab.checks = (FakeCheck(Signs()),)
    again = lab.session().judge("fake", lab.repository, Tier.C1)

    assert again.result.verdict is Verdict.PASSED
    assert len(lab.probe.tasks) == 1


def test_a_standing_verdict_falls_when_the_audit_would_look_otherwise(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A continued run judges again what rests on an audit by other checks."""
    lab.session(continued=True).judge("fake", lab.repository, Tier.C1)
    lab.session(continued=True).judge("fake", lab.repository, Tier.C1)
    assert len(lab.probe.tasks) == 1

    monkeypatch.setattr("pytest_researchenv.harness.audit_basis", lambda _: "other checks")
    lab.session(continued=True).judge("fake", lab.repository, Tier.C1)

    assert len(lab.probe.tasks) == 2


# --- leases -----------------------------------------------------------------------------------------------


@pytest.fixture
def shared_lab(lab: Lab, tmp_path: Path) -> Lab:
    """A lab on a host with two devices and one slot, whose agent is given none of them."""
    devices = tuple(Device(i, f"GPU-{i}", "NVIDIA A100-SXM4-40GB", 40 * 1024**3, (8, 0)) for i in range(2))
    lab.hardware = Hardware(Accelerator.CUDA, devices)
    lab.sharing = Sharing(Desk(tmp_path / "leases" / "host", patience_s=5), devices, slots=1)
    lab.settings = replace(lab.settings, agent_gpus=0)
    return lab


def test_a_probe_has_its_devices_while_it_looks(shared_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others see whose they are; afterwards they are free."""
    desk = shared_lab.sharing.desk
    assert desk
    seen: list[tuple[tuple[str, ...], list[str]]] = []

    def judge(task: ProbeTask) -> TierResult:
        with task.leased(1) as held:
            seen.append((held.hardware.uuids, [one.purpose for one in desk.line().tickets]))
        return TierResult(Tier.C1, Verdict.PASSED)

    monkeypatch.setattr(shared_lab.probe, "judge", judge)
    shared_lab.session().judge("fake", shared_lab.repository, Tier.C1)

    assert seen == [(("GPU-0",), ["C1 of default/fake/thing/attempt-001"])]
    assert not desk.line().tickets


def test_no_lock_is_waited_for_while_devices_are_held(shared_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks for another tier in the block could wait for one who waits for these devices: it is refused at once."""

    def judge(task: ProbeTask) -> TierResult:
        with task.leased(1):
            assert task.result_of
            return task.result_of(Tier.C1)

    monkeypatch.setattr(shared_lab.probe, "judge", judge)

    with pytest.raises(InfrastructureError, match="holds a lease and would wait for the environment's lock"):
        shared_lab.session().judge("fake", shared_lab.repository, Tier.C1)
    assert shared_lab.sharing.desk
    assert not shared_lab.sharing.desk.line().tickets


def test_how_many_devices_an_agent_is_given_shapes_its_environment(shared_lab: Lab) -> None:
    """Another number is another environment; without the option nothing is recorded, as ever."""
    shared_lab.session().judge("fake", shared_lab.repository, Tier.C1)

    shared_lab.settings = replace(shared_lab.settings, agent_gpus=None)
    with pytest.raises(StaleEnvironmentError, match="agent_gpus: 0 then, nothing now"):
        shared_lab.session().judge("fake", shared_lab.repository, Tier.C1)


def test_a_wait_for_devices_is_told_and_so_is_its_end(shared_lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who looks at a terminal sees what is waited for, and then that the tier is probed."""
    told: list[str] = []

    def share(hardware: Hardware, purpose: str, *, devices: int, say: Callable[[str], object]) -> Iterator[Share]:
        if purpose.startswith("C1"):
            say("waiting for 1 device")
        yield Share(hardware.first(devices))

    def judge(task: ProbeTask) -> TierResult:
        with task.leased(1):
            return TierResult(Tier.C1, Verdict.PASSED)

    monkeypatch.setattr(shared_lab.probe, "judge", judge)
    monkeypatch.setattr(Sharing, "share", lambda _self, *given, **named: contextmanager(share)(*given, **named))
    harness = shared_lab.session()
    harness._say = Teller(lambda phase: told.append(phase.name) if phase else None)
    harness.judge("fake", shared_lab.repository, Tier.C1)

    assert told[-3:] == ["probing C1", "waiting for 1 device", "probing C1"]
