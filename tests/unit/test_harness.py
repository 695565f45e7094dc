"""The harness over a fake engine: what is built, what is reused, and what is recorded when things break."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import IO

import pytest

from pytest_researchenv.agents.protocol import REPORT_PATH, AgentTask, Telemetry
from pytest_researchenv.errors import ConfigurationError, InfrastructureError, SandboxError, StaleEnvironmentError
from pytest_researchenv.model import (
    Cause,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.sandbox.fake import FakeContainer
from tests.unit.lab import Lab


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
