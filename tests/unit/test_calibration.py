"""How well an agent knows what it built, worked out by hand."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from pytest_researchenv import cli
from pytest_researchenv.calibrating import calibrations
from pytest_researchenv.model import Cause, Claim, Environment, FindingKind, Outcome, Tier, TierResult, Verdict
from pytest_researchenv.report.calibration import (
    Calibration,
    Tally,
    calibration_line,
    calibration_table,
    claim_facts,
    tally_of,
    wilson,
)
from pytest_researchenv.report.properties import PREFIX, before_judging
from pytest_researchenv.report.summary import Summary
from pytest_researchenv.runs.reading import read_run
from pytest_researchenv.runs.values import Subject
from pytest_researchenv.statistics.agent import AgentStatistics
from pytest_researchenv.statistics.tries import agent_runs
from pytest_researchenv.store import Store
from pytest_researchenv.suite import load_suite
from tests.unit.statistics import made


PATH, VERSION, CAPABILITY = FindingKind
TINY = Path(__file__).parents[2] / "fixtures" / "suites" / "tiny"


def path(outcome: Outcome = Outcome.HOLDS) -> Claim:
    """A path."""
    return Claim("python_path", '"/usr/bin/python3"', "", outcome, PATH)


def torch(outcome: Outcome = Outcome.HOLDS) -> Claim:
    """A version."""
    return Claim("torch_version", '"2.13.0"', "", outcome, VERSION)


def cuda(claimed: str, outcome: Outcome, *, would_hold: bool | None = None) -> Claim:
    """A capability."""
    return Claim("cuda_available", claimed, "", outcome, CAPABILITY, would_hold)


def gpus(claimed: str, outcome: Outcome) -> Claim:
    """A number of devices."""
    return Claim("gpu_count", claimed, "", outcome, CAPABILITY)


def judged(
    *claims: Claim, verdict: Verdict = Verdict.PASSED, cause: Cause = Cause.NONE, emulated: bool = False
) -> TierResult:
    """A C5 with these claims."""
    return TierResult(Tier.C5, verdict, cause, claims=claims, emulated=emulated)


# --- one claim --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claim", "tally"),
    [
        (path(), Tally(held=1)),
        (path(Outcome.FALSE), Tally(false=1)),
        (torch(Outcome.INCONCLUSIVE), Tally(inconclusive=1)),
        (cuda("true", Outcome.HOLDS), Tally(held=1)),
        (cuda("false", Outcome.HOLDS), Tally(doubted=1)),
        (cuda("false", Outcome.UNDER_CLAIM), Tally(doubted=1, would_hold=1, under_claims=1)),
        (cuda("false", Outcome.INCONCLUSIVE), Tally(inconclusive=1)),
        (cuda("null", Outcome.ABSTAINED, would_hold=True), Tally(doubted=1, would_hold=1, abstained=1)),
        (cuda("null", Outcome.ABSTAINED, would_hold=False), Tally(doubted=1, abstained=1)),
        (cuda("null", Outcome.ABSTAINED), Tally(abstained=1)),
        (gpus("0", Outcome.HOLDS), Tally(doubted=1)),
        (gpus("0", Outcome.UNDER_CLAIM), Tally(doubted=1, would_hold=1, under_claims=1)),
        (gpus("1", Outcome.UNDER_CLAIM), Tally(held=1, under_claims=1)),
        (gpus("10", Outcome.FALSE), Tally(false=1)),
    ],
)
def test_a_claim_counts_where_it_belongs(claim: Claim, tally: Tally) -> None:
    """To say that something is not there, or nothing, is a doubt; less than there is, is there all the same."""
    assert Tally.of(claim) == tally


def test_claims_add_up() -> None:
    """The line and the share of a small case, by hand: 4 claimed, of which 3 hold; 2 doubted, of which 1 is there."""
    claims = [
        path(),
        torch(),
        gpus("1", Outcome.UNDER_CLAIM),
        cuda("true", Outcome.FALSE),
        cuda("null", Outcome.ABSTAINED, would_hold=True),
        cuda("false", Outcome.HOLDS),
        cuda("true", Outcome.INCONCLUSIVE),
        cuda("null", Outcome.ABSTAINED),
    ]

    tally = tally_of(claims)

    assert tally == Tally(held=3, false=1, doubted=2, would_hold=1, inconclusive=1, under_claims=1, abstained=2)
    assert tally.text == "claimed 4: 3 hold, 1 false; doubted 2: 1 would have held; 1 inconclusive"
    assert tally.precision == 0.75


# --- the interval -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [
        # 0 of n: from 0 to z²/(n + z²) = 3.8415 / 13.8415.
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (1, 1, 0.2065, 1.0),
        # 1 of 2: 0.5 ± z/2 √(1/(2 + z²)) = 0.5 ± 0.98 * 0.41375.
        (1, 2, 0.0945, 0.9055),
        (8, 10, 0.4902, 0.9433),
        # p = 0.92683, z²/n = 0.093694: (0.973677 ± 0.092460) / 1.093694.
        (38, 41, 0.8057, 0.9748),
    ],
)
def test_the_interval_is_wilsons(successes: int, trials: int, low: float, high: float) -> None:
    """Worked out by hand with z = 1.959964."""
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


def test_without_trials_there_is_no_interval() -> None:
    """Nor a share."""
    assert wilson(0, 0) is None
    assert (Tally().precision, Tally().interval) == (None, None)


def test_another_confidence_is_another_interval() -> None:
    """0 of 10 at 90 %: z² = 2.7055, so up to 2.7055 / 12.7055."""
    assert wilson(0, 10, 0.9) == pytest.approx((0.0, 0.2129), abs=5e-5)


# --- one agent --------------------------------------------------------------------------------------------

RESULTS: Sequence[TierResult | None] = (
    judged(path(), torch(), cuda("true", Outcome.HOLDS)),
    judged(path(), torch(Outcome.FALSE), verdict=Verdict.FAILED, cause=Cause.FALSE_CLAIMS),
    judged(path(), cuda("true", Outcome.INCONCLUSIVE), emulated=True),
    judged(verdict=Verdict.FAILED, cause=Cause.NO_REPORT),
    judged(path(), verdict=Verdict.FAILED, cause=Cause.TAMPERED),
    judged(verdict=Verdict.ERROR, cause=Cause.INFRASTRUCTURE),
    judged(verdict=Verdict.SKIPPED, cause=Cause.NOT_APPLICABLE),
    None,
)


def test_what_is_no_claim_is_counted_apart() -> None:
    """No report, errors, skips, attempts without C5; and what is said in an environment that was tampered with."""
    found = Calibration.of("sonnet", RESULTS)

    counts = (found.reports, found.emulated, found.unreported, found.tampered, found.errors, found.skipped)
    assert (*counts, found.unjudged) == (3, 1, 1, 1, 1, 1, 1)
    assert found.tally == Tally(held=5, false=1, inconclusive=1)
    assert found.remarks == (
        "1 of 3 reports judged on the CPU, which says nothing about CUDA",
        "1 without a usable report",
        "1 of a tampered environment",
        "1 ended in an error",
        "1 skipped",
        "1 not judged",
    )


def test_claims_add_up_by_category_and_field() -> None:
    """Every field below its category, and all above."""
    assert Calibration.of("sonnet", RESULTS).rows() == {
        "all": Tally(held=5, false=1, inconclusive=1),
        "path": Tally(held=3),
        "python_path": Tally(held=3),
        "version": Tally(held=1, false=1),
        "torch_version": Tally(held=1, false=1),
        "capability": Tally(held=1, inconclusive=1),
        "cuda_available": Tally(held=1, inconclusive=1),
    }


def test_the_table_has_the_share_with_its_interval() -> None:
    """5 of 6, with what it may be by chance; where nothing was claimed there is no share."""
    console = Console(width=80, no_color=True)
    with console.capture() as capture:
        console.print(calibration_table(Calibration.of("sonnet", (*RESULTS, judged(gpus("0", Outcome.HOLDS))))))

    lines = [line.split() for line in capture.get().splitlines()]
    assert ["sonnet"] in lines
    assert ["all", "6", "5", "1", "83%", "44-97", "1", "0", "0", "1", "0"] in lines
    assert ["gpu_count", "0", "0", "0", "-", "-", "1", "0", "0", "0", "0"] in lines


# --- a run ------------------------------------------------------------------------------------------------


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A run with two agents; one attempt was made twice and judged twice."""
    store = Store(tmp_path, "default")
    for agent, repository, found in (
        ("opus", "suite/one", [judged(path())]),
        ("sonnet", "suite/one", [judged(path(Outcome.FALSE)), judged(path(), torch())]),
        ("sonnet", "suite/one", [judged(path(), cuda("null", Outcome.ABSTAINED, would_hold=True))]),
        ("sonnet", "suite/two", []),
    ):
        attempt = store.begin(agent, repository, "session")
        attempt.save_environment(
            Environment(attempt.key, "image", "base", "/w", None, "no report", (), {"prompt": "same"}, {}, "", "")
        )
        for result in found:
            attempt.save_result(attempt.next_log(Tier.C5), result)
    return tmp_path


def test_the_newest_c5_of_every_try_counts(results: Path) -> None:
    """All tries do, and of each what was judged last."""
    opus, sonnet = calibrations(read_run(results / "default"))

    assert (opus.agent, opus.tally) == ("opus", Tally(held=1))
    assert (sonnet.agent, sonnet.reports, sonnet.unjudged) == ("sonnet", 2, 1)
    assert sonnet.tally == Tally(held=3, doubted=1, would_hold=1, abstained=1)


def test_calibration_counts_what_the_statistics_count(tmp_path: Path) -> None:
    """What other inputs shaped, or the infrastructure ended, is no try, for the one or the other."""
    lie: dict[Subject, TierResult] = {Tier.C5: judged(path(Outcome.FALSE))}
    truth: dict[Subject, TierResult] = {Tier.C5: judged(path())}
    attempts = [
        made.attempt("suite/one", lie, number=1, inputs="old prompt"),
        made.attempt("suite/one", truth, number=2, inputs="new prompt"),
        made.attempt("suite/one", lie, number=3, inputs=None, error="the engine is gone"),
        made.attempt("suite/two", truth, inputs="new prompt"),
    ]
    made.write(tmp_path, attempts)
    run = read_run(tmp_path / "run")

    (calibration,) = calibrations(run)
    assert (calibration.reports, calibration.tally) == (2, Tally(held=2))
    assert [AgentStatistics.of(part).calibration for part in agent_runs(run)] == [calibration]


def test_the_command_shows_every_agent(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As tables, with what the words mean; as JSON, whole."""
    assert cli.main(["calibration", "--results", str(results)]) == 0
    shown = capsys.readouterr().out
    assert shown.index("opus") < shown.index("sonnet") < shown.index("1 not judged") < shown.index("docs/c5.md")

    assert cli.main(["calibration", "--results", str(results), "--json"]) == 0
    opus, sonnet = json.loads(capsys.readouterr().out)
    assert opus["claims"]["all"]["interval"] == pytest.approx([0.2065, 1.0], abs=5e-5)
    assert (sonnet["claims"]["all"]["claimed"], sonnet["claims"]["all"]["precision"]) == (3, 1.0)
    assert sonnet["claims"]["cuda_available"]["would_hold"] == 1


def test_a_run_that_is_not_there_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With how to name another."""
    assert cli.main(["calibration", "--results", str(tmp_path), "--run", "other"]) == 1
    assert "--results" in capsys.readouterr().err


# --- the terminal -----------------------------------------------------------------------------------------


def _told(*reports: tuple[str, TierResult]) -> list[str]:
    """What the summary writes after tests of C5 with these agents and results."""
    summary = Summary()
    lines: list[str] = []
    (repository, *_) = load_suite(TINY).repositories
    for agent, result in reports:
        facts = {"verdict": str(result.verdict), "emulated": str(result.emulated).lower(), **claim_facts(result)}
        properties = before_judging(agent, repository, result.tier)
        properties += [(PREFIX + name, value) for name, value in facts.items()]
        report = SimpleNamespace(when="call", passed=True, user_properties=properties)
        summary.pytest_runtest_logreport(cast("pytest.TestReport", report))
    terminal = SimpleNamespace(section=lambda _title: None, write_line=lines.append, _tw=SimpleNamespace(fullwidth=100))
    summary.pytest_terminal_summary(cast("pytest.TerminalReporter", terminal))
    return lines


def test_the_summary_has_a_line_for_each_agent_that_claimed_something() -> None:
    """Its numbers travel as properties of the tests; what was judged on the CPU is marked."""
    told = _told(
        ("sonnet", judged(path(), torch(Outcome.FALSE), cuda("null", Outcome.ABSTAINED, would_hold=True))),
        ("opus", judged(path(), cuda("true", Outcome.INCONCLUSIVE), emulated=True)),
        ("noop", judged(verdict=Verdict.FAILED, cause=Cause.NO_REPORT)),
        ("evil", judged(path(), verdict=Verdict.FAILED, cause=Cause.TAMPERED)),
    )

    assert [line for line in told if "claimed" in line] == [
        "sonnet: claimed 2: 1 hold, 1 false; doubted 1: 1 would have held; 0 inconclusive",
        "opus: claimed 1: 1 hold, 0 false; doubted 0: 0 would have held; 1 inconclusive (1 of 1 reports emulated)",
    ]


def test_other_tiers_carry_no_claims() -> None:
    """And an agent without claims has no line."""
    assert claim_facts(TierResult(Tier.C1, Verdict.PASSED)) == {}
    assert calibration_line("noop", [{"verdict": "failed"}]) == ""
