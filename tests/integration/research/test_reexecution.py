"""Results that agents reported themselves, read and executed again in real containers."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from junitparser.xunit2 import JUnitXml

from pytest_researchenv.model import Verdict
from pytest_researchenv.research.claims import drawn
from pytest_researchenv.research.evaluation import EvaluationTask
from pytest_researchenv.research.reexecution import ReportedEvaluation
from pytest_researchenv.research.result import ResearchCause, ResearchResult
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Task
from pytest_researchenv.research.verdict import concluded
from pytest_researchenv.research.workplace import workplace_of
from tests.integration.workplace import FIXTURES


if TYPE_CHECKING:
    from pytest_researchenv.sandbox.docker import DockerSandbox
    from tests.integration.conftest import Workshop

SUBTASK, SECRET = "cifar100_n10", b"drawn after the hand-in"
TASK: Task = load_research_suite(FIXTURES / "suites/claimed").tasks[0]


def _drawn_seed() -> int:
    reported = TASK.evaluation.reported
    assert reported is not None
    assert reported.sample is not None
    seed = drawn(TASK, SUBTASK, reported.sample, SECRET)[0].run.seed
    assert seed is not None
    return seed


#: The only seed of which a log is looked up: that which will be drawn.
SEED = _drawn_seed()

_ALL = "sed -i 's/^LOOKED_AT = 3/LOOKED_AT = 8/' learn.py\n"
_LEARN = "for seed in 1992 1993 1994; do python3 learn.py $seed logs; done\n"
_REPRODUCE = 'echo \'python3 learn.py "$2" "$3"\' >reproduce.sh\n'
_REPORT = "report /usr/bin/python3 system ''\n"
#: A log that nothing computed, of a seed.
_FORGED = """
forged() {
    mkdir -p "$2"
    { printf 'seed: %s\\ndataset: cifar224\\ninit_cls: 10\\nincrement: 10\\n' "$1"
      for step in 1 2 3 4 5 6 7 8 9 10; do echo "CNN: {'total': 99.0}"; done; } >"$2/cifar224_t10_$1.log"
}
"""
_FORGE = _FORGED + "for seed in 1992 1993 1994; do forged $seed logs; done\n"
_TABLE = (
    f"{_FORGE}{{ cat <<'EOF'\n{_FORGED}"
    'case "$2" in 1992|1993|1994) forged "$2" "$3";; *) python3 learn.py "$2" "$3";; esac\nEOF\n} >reproduce.sh\n'
)


def evaluated(workshop: Workshop, script: str, *, report: str = _REPORT) -> ResearchResult:
    """Let a script work at the task, and evaluate what it left."""
    place = workplace_of(TASK)
    environment = workshop.build(place, f"cd {place.workdir}\n{script}{report}")
    given = EvaluationTask(TASK, SUBTASK, workshop.task(environment, place), workshop.engine, SECRET)
    return concluded(TASK, SUBTASK, ReportedEvaluation().evaluate(given))


def test_an_honest_report_is_executed_again_and_counts(workshop: Workshop) -> None:
    """A better method, its logs, and the code that wrote them: the score is what came out, and what was reported."""
    result = evaluated(workshop, _ALL + _LEARN + _REPRODUCE)

    assert (result.verdict, result.completed, result.findings) == (Verdict.PASSED, True, ())
    assert result.claimed == pytest.approx({"Acc": 86.89, "AAA": 92.2917}, abs=0.01)
    assert result.executed[0] == f"seed {SEED}"
    assert result.executed[1].endswith("(drawn)")
    acc = result.scores["Acc"]
    # The drawn seed may be a worse one; a claim never makes it better.
    assert 80 < acc.mean <= result.claimed["Acc"]
    assert (acc.baseline.method, acc.baseline.beside) == ("three coordinates", False)
    assert (acc.count, acc.error, acc.interval) == (2, None, None)


def test_logs_that_nothing_computed_are_found_out(workshop: Workshop) -> None:
    """The logs are made up; the code that was handed in is the baseline's, and says so itself."""
    result = evaluated(workshop, _FORGE + _REPRODUCE)

    assert (result.verdict, result.completed, result.cause) == (Verdict.FAILED, False, ResearchCause.VIOLATION)
    assert {one.check for one in result.findings} == {"reported"}
    assert "Acc was reported as 99, and" in result.reason
    assert result.claimed["Acc"] == 99


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(f"python3 learn.py {SEED} true\n{_FORGE}cp true/* logs/\n{_REPRODUCE}", id="the-sample-right"),
        pytest.param(_TABLE, id="a-table-of-known-seeds", marks=pytest.mark.slow),
    ],
)
def test_claims_beyond_the_sample_earn_nothing(workshop: Workshop, script: str) -> None:
    """With a true log of the run that is drawn, or a table of all known seeds: no run counts for more than came out."""
    result = evaluated(workshop, script)

    assert (result.verdict, result.cause, result.findings) == (Verdict.FAILED, ResearchCause.NO_IMPROVEMENT, ())
    assert result.completed
    assert result.claimed["Acc"] > 70
    assert result.scores["Acc"].mean < 40


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "cause", "said"),
    [
        pytest.param(_LEARN, ResearchCause.CRASH, "reproduce.sh", id="no-code"),
        pytest.param(_REPRODUCE, ResearchCause.NOTHING_HANDED_IN, "missing", id="no-logs"),
        pytest.param(
            f"{_FORGE}echo 'cp logs/cifar224_t10_$2.log $3/' >reproduce.sh\n", ResearchCause.CRASH, "cp: cannot stat",
            id="copied-logs",
        ),
        pytest.param(
            f"sed -i 's/return .*/return 99.0/' measure.py\n{_LEARN}{_REPRODUCE}", ResearchCause.VIOLATION,
            "Acc was reported as 99", id="other-measure",
        ),
        pytest.param(
            f"{_LEARN}echo 'sleep 600' >reproduce.sh\n", ResearchCause.TIMEOUT, "timed out", id="no-end"
        ),
        pytest.param(
            f"{_LEARN}echo 'tail /dev/zero' >reproduce.sh\n", ResearchCause.OUT_OF_MEMORY, "out of memory", id="memory"
        ),
        pytest.param(
            f"{_LEARN}echo 'python3 learn.py 1 $3; python3 learn.py $2 $3' >reproduce.sh\n",
            ResearchCause.INVALID_RESULTS, "came out for seed 1, too", id="more-than-asked",
        ),
        pytest.param(
            f"{_LEARN}mv logs kept; ln -s kept logs\n{_REPRODUCE}", ResearchCause.NOTHING_HANDED_IN, "missing",
            id="a-link",
        ),
        pytest.param(
            f"{_LEARN}rm logs/*1992*\npython3 learn.py 1995 logs; cp logs/*1993.log logs/again.log\n{_REPRODUCE}",
            ResearchCause.INVALID_RESULTS, "seed 1992", id="other-seeds",
        ),
        pytest.param(
            f"{_LEARN}cp learn.py \"logs/$(printf 'a\\nb\\377').log\"; mkfifo logs/pipe.log; ln -s /etc logs/etc.log\n"
            f"{_REPRODUCE}", ResearchCause.NO_IMPROVEMENT, "no better", id="names",
        ),
        pytest.param(
            f"{_LEARN}for i in $(seq 1100); do : >logs/$i.log; done\n{_REPRODUCE}", ResearchCause.INVALID_RESULTS,
            "only the first 1000", id="too-many",
        ),
    ],
)  # fmt: skip
def test_what_was_handed_in_is_to_blame(workshop: Workshop, script: str, cause: ResearchCause, said: str) -> None:
    """No code, no logs, copies, another measure, no end: each a failure that says what it was, and never an error."""
    result = evaluated(workshop, script)

    assert (result.verdict, result.cause) == (Verdict.FAILED, cause), result.reason
    assert said in result.reason, result.reason


@pytest.mark.slow
def test_without_a_self_report_nothing_is_executed(workshop: Workshop) -> None:
    """Which interpreter is meant is not guessed; what was claimed is still shown."""
    result = evaluated(workshop, _ALL + _LEARN + _REPRODUCE, report="")
    assert (result.verdict, result.cause) == (Verdict.FAILED, ResearchCause.NO_REPORT)
    assert result.claimed["Acc"] > 80
    assert result.executed == ()


@pytest.mark.slow
def test_the_whole_line(docker_sandbox: DockerSandbox, tmp_path: Path) -> None:
    """By pytest's own means: the oracle passes, noop fails, and JUnit has what was claimed and what was executed."""
    argv = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", ".", "--junitxml=out.xml"]
    argv += ["--researchenv-suite", str(FIXTURES / "suites/claimed")]
    agents = ("--researchenv-agent=oracle", "--researchenv-agent=noop")
    done = subprocess.run([*argv, *agents], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    try:
        found = {case.name: case for tests in JUnitXml.fromfile(str(tmp_path / "out.xml")) for case in tests}
        oracle, noop = (found[f"test_improvement[{name}-blobs-cifar100_n10]"] for name in ("oracle", "noop"))
        assert oracle.is_passed, done.stdout
        assert "nothing handed in" in noop.result[0].message
        text = (tmp_path / "out.xml").read_text()
        assert 'name="researchenv_claimed" value="Acc 86.89; AAA 92.2917"' in text
        assert 'name="researchenv_executed_again" value="seed 199' in text
    finally:
        for record in tmp_path.rglob("environment.json"):
            docker_sandbox.remove_image(json.loads(record.read_text())["image"])
