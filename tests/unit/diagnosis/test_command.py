"""`researchenv diagnose`: what is wrong with each tier of a run, as text and as JSON."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.diagnosis.stored import diagnosed
from pytest_researchenv.model import Cause, Tier, TierResult, Verdict
from pytest_researchenv.store import Store
from pytest_researchenv.verifying.attempts import Chosen, attempts_of
from tests.unit.diagnosis.messages import environment


RUN = "mine"


class Run:
    """A run in which attempts are recorded by hand."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.store = Store(results, RUN)

    def attempt(self, agent: str, repository: str, logs: dict[Tier, str], *, transcript: str = "") -> Path:
        """Record an attempt that failed so; without logs, one that left no self-report. Returns its folder."""
        attempt = self.store.begin(agent, f"suite/{repository}", "session")
        attempt.save_environment(environment())
        attempt.transcript.write_text(transcript)
        for tier, text in (logs or {Tier.C0: ""}).items():
            log = attempt.next_log(tier)
            log.write_text(text)
            cause = Cause.EXIT_CODE if logs else Cause.NO_REPORT
            verdict = Verdict.FAILED if text or not logs else Verdict.PASSED
            cause = cause if verdict is Verdict.FAILED else Cause.NONE
            result = TierResult(tier, verdict, cause, "it ended", text, log=log.name)
            attempt.save_result(log, result)
        return attempt.folder

    def command(self, *arguments: str) -> list[str]:
        """The command line."""
        return ["diagnose", RUN, "--results", str(self.results), *arguments]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Two agents at two repositories."""
    run = Run(tmp_path / "results")
    run.attempt("sonnet", "one", {Tier.C0: "", Tier.C1: "ModuleNotFoundError: No module named 'torch'"})
    run.attempt("sonnet", "two", {Tier.C1: "something odd", Tier.C3: "RuntimeError: CUDA out of memory"})
    run.attempt("noop", "one", {}, transcript="error: No solution found when resolving dependencies\n")
    return run


def test_each_failed_tier_is_told(
    run: Run, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which, why, how sure, by which line, what next, and where the log is; and what passed is not."""
    monkeypatch.chdir(run.results.parent)

    assert main(run.command()) == 0

    lines = capsys.readouterr().out.splitlines()
    assert lines[:4] == [
        "noop suite/one attempt-001 C0: agent gave up (likely)",
        "  > error: No solution found when resolving dependencies",
        "  next: Read its transcript from this line on: it is what the agent did not get past.",
        "  log:  results/mine/noop/suite/one/attempt-001/transcript.log",
    ]
    assert "sonnet suite/one attempt-001 C1: missing package (certain)" in lines
    assert "sonnet suite/two attempt-001 C1: unknown" in lines
    assert "sonnet suite/two attempt-001 C3: out of memory (certain)" in lines
    assert not any("one attempt-001 C0" in line and "sonnet" in line for line in lines)


def test_categories_are_counted(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """By agent and in all, with the share."""
    main(run.command())

    table = [line.split() for line in capsys.readouterr().out.partition("\n\n")[2].splitlines()]
    assert table[0] == ["category", "noop", "sonnet", "all", "share"]
    assert ["out", "of", "memory", "0", "1", "1", "25.0%"] in table
    assert ["agent", "gave", "up", "1", "0", "1", "25.0%"] in table


@pytest.mark.parametrize(
    ("chosen", "count"),
    [
        (["--agent", "sonnet"], 3),
        (["--agent", "sonnet", "--repository", "two"], 2),
        (["--tier", "c1"], 2),
        (["--tier", "C0", "--tier", "C3"], 2),
        (["--tier", "C4"], 0),
    ],
)
def test_some_of_it_is_chosen(run: Run, capsys: pytest.CaptureFixture[str], chosen: list[str], count: int) -> None:
    """As other commands choose."""
    main(run.command("--json", *chosen))

    assert len(json.loads(capsys.readouterr().out)) == count


def test_programs_get_it_as_json(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """Everything that the text says, and the record's own cause."""
    main(run.command("--json", "--tier", "C3"))

    (one,) = json.loads(capsys.readouterr().out)
    assert one["log"].endswith("mine/sonnet/suite/two/attempt-001/C3-001.log")
    del one["log"], one["next"]
    assert one == {
        "agent": "sonnet",
        "repository": "suite/two",
        "attempt": 1,
        "tier": "C3",
        "verdict": "failed",
        "cause": "non-zero exit",
        "rule": "device-memory",
        "category": "out of memory",
        "confidence": "certain",
        "line": "RuntimeError: CUDA out of memory",
    }


def test_a_run_without_failures_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And is no error."""
    run = Run(tmp_path)
    run.attempt("sonnet", "one", {Tier.C0: ""})

    assert main(run.command()) == 0
    assert capsys.readouterr().out == "nothing failed\n"


def test_a_record_that_cannot_be_read_hides_no_other(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """It is named in one line on stderr; all else is diagnosed."""
    main(run.command("--json"))
    every = json.loads(capsys.readouterr().out)
    attempt = run.store.attempts("sonnet", "suite/one")[0]
    (attempt.folder / "C1-001.json").write_text("{")
    (attempt.folder / "environment.json").write_text('{"schema": 2}')

    assert main(run.command("--json")) == 0
    printed = capsys.readouterr()

    left = [one for one in every if (one["agent"], one["repository"], one["tier"]) != ("sonnet", "suite/one", "C1")]
    assert [(one["agent"], one["tier"]) for one in json.loads(printed.out)] == [
        (one["agent"], one["tier"]) for one in left
    ]
    environment, result = printed.err.splitlines()
    assert re.match(
        r"researchenv: left out: .*environment\.json is of another version, 2; this one reads 1: use the one",
        environment,
    )
    assert re.match(
        r"researchenv: left out: .*C1-001\.json does not hold what was written there: Invalid JSON: EOF", result
    )


def test_the_rules_are_shown_as_the_page_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    """What `docs/diagnosis.md` holds can be printed, and needs no run."""
    assert main(["diagnose", "--rules"]) == 0

    page = (Path(__file__).parents[3] / "docs" / "diagnosis.md").read_text()
    categories, rules = capsys.readouterr().out.rstrip("\n").split("\n\n")
    assert categories in page
    assert rules in page


def test_a_run_that_is_not_there_is_a_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Named with what to do."""
    assert main(["diagnose", "none", "--results", str(tmp_path)]) == 1
    assert "there is no run in" in capsys.readouterr().err


def test_another_tier_is_refused(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong call."""
    with pytest.raises(SystemExit) as ended:
        main(run.command("--tier", "C9"))

    assert ended.value.code == 2
    assert "'C9' is none of C0, C1" in capsys.readouterr().err


def test_only_what_counts_is_diagnosed(run: Run) -> None:
    """The newest result of a tier; or, when asked for, all of them."""
    attempt = run.store.attempts("sonnet", "suite/one")[0]
    attempt.save_result(attempt.next_log(Tier.C1), TierResult(Tier.C1, Verdict.PASSED))
    attempts = attempts_of(run.results, RUN, Chosen(agents=("sonnet",), repositories=("one",)))

    assert list(diagnosed(attempts)) == []
    assert [one.diagnosis.rule for one in diagnosed(attempts, every=True)] == ["package-missing"]


def test_an_attempt_that_never_finished_has_its_results_diagnosed(tmp_path: Path) -> None:
    """Whatever became of its environment."""
    attempt = Store(tmp_path, RUN).begin("sonnet", "suite/one", "session")
    attempt.save_result(attempt.next_log(Tier.C1), TierResult(Tier.C1, Verdict.ERROR, Cause.INFRASTRUCTURE, "gone"))

    (one,) = diagnosed([attempt])

    assert one.diagnosis.rule == "infrastructure"


def test_no_record_leads_out_of_its_folder(run: Run, tmp_path: Path) -> None:
    """Results may be somebody else's."""
    (tmp_path / "secret").write_text("RuntimeError: CUDA out of memory")
    attempt = run.store.attempts("sonnet", "suite/one")[0]
    result = TierResult(Tier.C2, Verdict.FAILED, Cause.EXIT_CODE, "it ended", log=str(tmp_path / "secret"))
    attempt.save_result(attempt.next_log(Tier.C2), result)

    (one,) = diagnosed([attempt], tiers=[Tier.C2])

    assert one.diagnosis.rule == ""
