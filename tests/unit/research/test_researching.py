"""Sub-tasks judged over a fake engine: what is built and evaluated once, who is to blame, and what is recorded."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import final

import pytest

from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.harness import Harness
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import Finding, Sign, Verdict
from pytest_researchenv.rerun import parse_rerun
from pytest_researchenv.research.result import ResearchCause
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Task
from pytest_researchenv.researching import JudgedResearch
from pytest_researchenv.sandbox.fake import FakeFiles, FakeOutOfMemoryError, FakeTimeoutError
from pytest_researchenv.sandbox.interpreter import OURS, TRUSTED
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.suite import find_suite
from suites.researchgym._shared.judging.contained import sealed
from tests.unit.lab import Lab
from tests.unit.research.test_reported import report


TASKS = {task.name: task for task in load_research_suite(find_suite("researchgym")).tasks}
TASK = TASKS["digits-continual"]
SUBTASK = "steps2"


def good(secret: bytes, _argv: tuple[str, ...]) -> tuple[int, bytes]:
    """An evaluation that ends well."""
    return 0, sealed(json.dumps(report()), secret).encode()


def without_report(_secret: bytes, _argv: tuple[str, ...]) -> tuple[int, bytes]:
    """One that breaks."""
    return 1, b"Traceback\nOSError: no space\n"


def broken_by_the_agent(secret: bytes, argv: tuple[str, ...]) -> tuple[int, bytes]:
    """One that breaks on what the agent left, and not on the base image, where our interpreter is judged."""
    judged = argv[argv.index("--python") + 1]
    return good(secret, argv) if judged == OURS else without_report(secret, argv)


@final
@dataclass
class ResearchLab:
    """A lab whose engine knows what an evaluation comes to.

    Attributes:
        evaluates: gives exit code and output of an evaluation.
        calls: every evaluation: argv, and what it read.
    """

    lab: Lab
    evaluates: Callable[[bytes, tuple[str, ...]], tuple[int, bytes]] = good
    calls: list[tuple[tuple[str, ...], bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.lab.base = self.lab.sandbox.add_image(
            "equipped",
            {"/researchenv/.keep": b"", "/workspace/.keep": b"", "/usr/bin/python3": b"\x7fELF", "/tmp/.keep": b""},  # noqa: S108 - in the container
        )
        self.lab.sandbox.program(TRUSTED, self._evaluation)

    def _evaluation(self, files: FakeFiles, argv: tuple[str, ...], environment: Mapping[str, str]) -> tuple[int, bytes]:
        del environment
        secret = files.read("/dev/stdin") or b""
        self.calls.append((argv, secret))
        return self.evaluates(secret, argv)

    def session(self, *, continued: bool = False, rerun: tuple[str, ...] = ()) -> Harness:
        """Begin a session."""
        made = self.lab.session(continued=continued)
        settings = replace(made._settings, rerun=parse_rerun(rerun))
        engine = Engine(
            self.lab.sandbox,
            self.lab.base,
            "base-1",
            (),
            {},
            Mount("tools", "/researchenv/tools"),
            scripts=lambda target, files: Mount(f"scripts-{len(files)}", target),
            interpreter=lambda wanted: Mount(f"interpreter-{len(wanted)}", "/researchenv/interpreter"),
        )
        return Harness(
            settings, engine=lambda: engine, probes={}, agents=lambda _: self.lab.agent, checks=self.lab.checks
        )

    def judge(self, harness: Harness, subtask: str = SUBTASK, task: Task = TASK) -> JudgedResearch:
        """Judge a sub-task."""
        return harness.research.judge("fake", task, subtask)


@pytest.fixture
def gym(tmp_path: Path) -> ResearchLab:
    """A lab in which evaluations end well."""
    return ResearchLab(Lab(tmp_path))


def test_sub_tasks_of_a_task_share_one_environment(gym: ResearchLab) -> None:
    """The agent works once; each sub-task is evaluated for itself, with a secret of its own."""
    harness = gym.session()
    gym.evaluates = lambda secret, argv: (
        0,
        sealed(json.dumps(report(subtask=argv[argv.index("--handed-in") - 1])), secret).encode(),
    )

    judged = [gym.judge(harness, name) for name in TASK.subtasks]

    assert [one.result.verdict for one in judged] == [Verdict.PASSED] * 3
    assert gym.lab.agent.worked == 1
    assert len({secret for _, secret in gym.calls}) == 3
    assert all(len(secret) == 32 for _, secret in gym.calls)
    assert [bytes.fromhex(one.result.secret) for one in judged] == [secret for _, secret in gym.calls]
    assert not gym.lab.sandbox.containers


def test_what_it_rests_on_is_recorded_beside_it(gym: ResearchLab) -> None:
    """Basis, dataset, snapshot, harness and digest of the log, sealed; and a log by its own name."""
    judged = gym.judge(gym.session())

    assert judged.folder
    kept = judged.result
    for name in ("basis", "dataset", "snapshot", "base_image", "harness", "log_digest", "seal", "session", "created"):
        assert getattr(kept, name), name
    assert (kept.log, kept.interpreter) == ("research-steps2-001.log", "interpreter-1")
    assert json.loads((judged.folder / "research-steps2-001.json").read_text())["verdict"] == "passed"


def test_the_container_has_no_network_and_the_two_volumes_and_no_environment_of_the_agents(gym: ResearchLab) -> None:
    """The evaluation's own interpreter runs it, isolated; the reported one is only named."""
    gym.judge(gym.session())

    (argv, _), *more = gym.calls
    assert not more
    assert argv[:4] == (TRUSTED, "-I", "-S", "-B")
    assert argv[4] == "/researchenv/evaluation/digits-continual/evaluation/evaluate.py"
    assert argv[5:] == (
        SUBTASK, "--handed-in", "/workspace/digits-continual", "--python", "/usr/bin/python3", "--our-python", OURS,
        "--contained",
    )  # fmt: skip


def test_a_stored_result_stands_by_the_rules_of_tiers(gym: ResearchLab) -> None:
    """In a session, and where a run is continued; a new session evaluates again, and so does what is asked for."""
    harness = gym.session()
    first = gym.judge(harness)
    assert [gym.judge(harness).fresh, gym.judge(gym.session(continued=True)).fresh] == [False, False]
    assert len(gym.calls) == 1

    second = gym.judge(gym.session())

    assert second.fresh
    assert (first.folder, second.result.log) == (second.folder, "research-steps2-002.log")
    assert first.result.secret != second.result.secret


def test_a_failure_is_judged_again_where_that_is_asked_for(gym: ResearchLab) -> None:
    """`--researchenv-rerun=failed` means sub-tasks, too."""
    gym.evaluates = lambda secret, _: (0, sealed(json.dumps(report(baseline=better())), secret).encode())
    assert gym.judge(gym.session()).result.cause is ResearchCause.NO_IMPROVEMENT
    gym.evaluates = good

    assert gym.judge(gym.session(continued=True)).result.verdict is Verdict.FAILED
    assert gym.judge(gym.session(continued=True, rerun=("infra",))).result.verdict is Verdict.FAILED
    assert gym.judge(gym.session(continued=True, rerun=("failed",))).result.verdict is Verdict.PASSED


def better() -> object:
    """A baseline of 98."""
    column = {"mean": 98.0, "standard_error": 0.0, "seeds": {str(seed): 98.0 for seed in range(5)}}
    return {"method": "lda", "scores": {"Acc": column}}


def test_what_the_sub_task_asks_for_changed_is_judged_again(gym: ResearchLab) -> None:
    """Another memory limit, other seeds: the stored result is of something else."""
    gym.judge(gym.session())
    altered = replace(TASK, evaluation=replace(TASK.evaluation, memory_gb=8.0))

    assert gym.judge(gym.session(continued=True), task=altered).fresh
    assert not gym.judge(gym.session(continued=True), task=altered).fresh


def test_an_evaluation_that_breaks_on_the_environment_alone_is_a_failure(gym: ResearchLab) -> None:
    """The base image decides who is to blame: an agent must not turn a failure into an error."""
    gym.evaluates = broken_by_the_agent

    result = gym.judge(gym.session()).result

    assert (result.verdict, result.cause) == (Verdict.FAILED, ResearchCause.BROKEN_ENVIRONMENT)
    assert "OSError: no space" in result.reason
    assert [argv[argv.index("--python") + 1] for argv, _ in gym.calls] == ["/usr/bin/python3", OURS]


def test_an_evaluation_that_breaks_anywhere_is_an_error_that_is_recorded(gym: ResearchLab) -> None:
    """It does not stand: the next session evaluates again, also where the run is continued."""
    gym.evaluates = without_report
    with pytest.raises(InfrastructureError, match="no report on the base image either"):
        gym.judge(gym.session())

    gym.evaluates = good
    judged = gym.judge(gym.session(continued=True))

    assert judged.folder
    stored = [json.loads((judged.folder / f"research-steps2-00{number}.json").read_text()) for number in (1, 2)]
    assert [one["verdict"] for one in stored] == ["error", "passed"]


@pytest.mark.parametrize(
    ("error", "cause"),
    [(FakeOutOfMemoryError, ResearchCause.OUT_OF_MEMORY), (FakeTimeoutError, ResearchCause.TIMEOUT)],
)
def test_limits_fail_what_was_handed_in(gym: ResearchLab, error: type[Exception], cause: ResearchCause) -> None:
    """They are the evaluation's, and hold from outside."""

    def ended(_secret: bytes, _argv: tuple[str, ...]) -> tuple[int, bytes]:
        raise error

    gym.evaluates = ended

    result = gym.judge(gym.session()).result

    assert (result.verdict, result.cause, result.completed) == (Verdict.FAILED, cause, False)


@pytest.mark.parametrize("kind", [Sign.HOOK, Sign.INTERPRETER, Sign.ANSWER])
def test_what_the_audit_finds_fails_the_sub_task_and_nothing_is_run(gym: ResearchLab, kind: Sign) -> None:
    """A confirmed violation comes before all else."""
    _finding(gym, kind)

    result = gym.judge(gym.session()).result

    assert (result.verdict, result.cause) == (Verdict.FAILED, ResearchCause.VIOLATION)
    assert result.findings[0].what.startswith(kind)
    assert not gym.calls


def test_what_the_audit_finds_and_means_nothing_here_fails_nothing(gym: ResearchLab) -> None:
    """As for tiers: tracked files are the evaluation's to look at, and an unknown origin is no forgery."""
    _finding(gym, Sign.PROVENANCE)

    assert gym.judge(gym.session()).result.verdict is Verdict.PASSED


def _finding(gym: ResearchLab, kind: Sign) -> None:
    def check(_task: object, _snapshot: object) -> Signs:
        return Signs((Finding(kind, "/opt/venv", "as published", "is not"),))

    gym.lab.checks = (check,)


def test_published_tasks_are_skipped_and_cost_nothing(gym: ResearchLab) -> None:
    """The reason is honest, and no agent works."""
    task = next(task for task in TASKS.values() if task.source.git)

    judged = gym.judge(gym.session(), next(iter(task.subtasks)), task)

    assert (judged.result.verdict, judged.result.cause) == (Verdict.SKIPPED, ResearchCause.NOT_RUNNABLE)
    assert "its data are missing: fetch ImageNet-R" in judged.result.reason
    assert gym.lab.agent.worked == 0
