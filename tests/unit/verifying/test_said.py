"""What verifying says to people and to programs."""

from __future__ import annotations

import json
from pathlib import Path

from pytest_researchenv.model import Cause, EnvironmentKey, Examination, Tier, TierResult, Verdict
from pytest_researchenv.report.verification import verification_document, verification_lines, verification_summary
from pytest_researchenv.verifying.attempts import Verified
from pytest_researchenv.verifying.rejudging import Again, Rejudged


_PASSED = TierResult(Tier.C1, Verdict.PASSED, reason="exited with code 0")
_FAILED = TierResult(Tier.C1, Verdict.FAILED, Cause.EXIT_CODE, "exited with code 1")
_AUDIT = TierResult(Examination.INTEGRITY, Verdict.PASSED)

ONE = Verified(
    EnvironmentKey("run", "agent", "suite/thing", 1),
    Path("results/run/agent/suite/thing/attempt-001"),
    altered=("C1-001.json was\x1b[2J edited",),
    remarks=("the base image is gone: sha256:0",),
    verdicts=(
        Rejudged(_AUDIT, Again.SAME, _AUDIT),
        Rejudged(_PASSED, Again.FLIPPED, _FAILED, "passed then, failed now", ("another harness",)),
        Rejudged(_PASSED, Again.UNVERIFIABLE, why="the frozen image is gone"),
    ),
    seals={"C1-001.json": "0" * 64},
)
OTHER = Verified(EnvironmentKey("run", "agent", "suite/other", 1), Path())


def test_people_are_told_each_thing_on_its_line() -> None:
    """Control characters that somebody wrote into a record never reach the terminal."""
    assert list(verification_lines(ONE)) == [
        "run/agent/suite/thing/attempt-001",
        "  altered: C1-001.json was\\x1b[2J edited",
        "  note: the base image is gone: sha256:0",
        "  same: integrity passed",
        "  flipped: C1 passed: passed then, failed now",
        "    note: another harness",
        "  cannot be verified: C1 passed: the frozen image is gone",
    ]


def test_the_last_lines_count() -> None:
    """Verdicts, attempts, and the digest of all records."""
    lines = verification_summary([ONE, OTHER])

    assert lines[:2] == [
        "3 verdicts judged again: 1 same, 1 flipped, 1 cannot be verified",
        "2 attempts: 1 with altered records",
    ]
    assert lines[2].startswith("digest of their records: ")


def test_programs_get_all_of_it() -> None:
    """Both results of a verdict, with their reasons."""
    document = json.loads(json.dumps(verification_document("run", [ONE, OTHER])))

    verdicts = document["attempts"][0]["verdicts"]
    assert [verdict["again"] for verdict in verdicts] == ["same", "flipped", "cannot be verified"]
    assert verdicts[1]["then"] == {"verdict": "passed", "cause": "none", "reason": "exited with code 0"}
    assert verdicts[1]["now"] == {"verdict": "failed", "cause": "non-zero exit", "reason": "exited with code 1"}
    assert verdicts[2]["now"] is None


def test_a_flip_or_an_edit_is_a_problem_and_a_gap_is_none() -> None:
    """What cannot be verified is held against nobody."""
    assert not ONE.holds
    assert OTHER.holds
    assert Verified(ONE.key, ONE.folder, verdicts=(ONE.verdicts[2],)).holds
    assert not Verified(ONE.key, ONE.folder, verdicts=(ONE.verdicts[1],)).holds
    assert not Verified(ONE.key, ONE.folder, altered=("x",)).holds
