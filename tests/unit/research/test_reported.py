"""The report of an evaluation: believed with its seal, and read strictly."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pytest_researchenv.model import Verdict
from pytest_researchenv.research.reported import Unreadable, read_report, sealed_report
from pytest_researchenv.research.result import ResearchCause
from pytest_researchenv.research.verdict import concluded
from pytest_researchenv.sandbox.capture import Capture
from pytest_researchenv.sandbox.protocol import Captured
from suites.researchgym._shared.judging.contained import sealed
from tests.unit.research.test_verdict import SUBTASK, TASK


SECRET = b"what only this evaluation knows"


def printed(*lines: str) -> Captured:
    """What a process printed."""
    capture = Capture(1 << 22, None)
    capture.feed("".join(f"{line}\n" for line in lines).encode())
    return capture.result()


def report(**changes: object) -> dict[str, Any]:
    """A report with a score of 97, and a baseline of 95."""

    def column(value: float) -> dict[str, Any]:
        return {"mean": value, "standard_error": 0.0, "seeds": {str(seed): value for seed in range(5)}}

    return {
        "subtask": SUBTASK,
        "method": "own",
        "completed": True,
        "passed": True,
        "primary": "Acc",
        "scores": {"Acc": column(97.0)},
        "public": {"Acc": column(97.0)},
        "baseline": {"method": "lda", "scores": {"Acc": column(95.0)}},
        "difference": {"mean": 2.0, "standard_error": 0.0},
        "findings": [],
        "unprivileged": True,
        "seconds": 1.0,
        **changes,
    }


def test_a_sealed_report_is_found_among_what_else_was_printed() -> None:
    """Lines of others do not matter, not even those that look like one."""
    text = json.dumps(report())
    forged = sealed(json.dumps(report(method="other")), b"another secret")

    assert sealed_report(printed("hello", forged, sealed(text, SECRET), text), SECRET) == text


@pytest.mark.parametrize(
    "lines",
    [
        [],
        [json.dumps(report())],
        [f"{'0' * 64} {json.dumps(report())}"],
        [sealed("{}", b"another secret")],
        [sealed("{}", SECRET), sealed("{}", SECRET)],
        [sealed("{}", SECRET).replace("{}", '{"passed": true}')],
        ["x" * (1 << 20), sealed("{}", SECRET)],
        ["\ud800é £".encode("utf-8", "replace").decode()],
    ],
    ids=["nothing", "no-seal", "zeros", "another-secret", "twice", "changed", "too-long", "not-ascii"],
)
def test_anything_else_is_no_report(lines: list[str]) -> None:
    """Neither what has no seal, nor what has it twice, nor what is too long."""
    with pytest.raises(Unreadable):
        sealed_report(printed(*lines), SECRET)


def test_what_a_report_says_is_judged_here_and_not_believed() -> None:
    """Its own verdict does not count: values of seeds do."""
    good = concluded(TASK, SUBTASK, read_report(json.dumps(report(passed=False)), TASK, SUBTASK))
    low = report()["baseline"] | {"scores": {"Acc": report()["scores"]["Acc"]}}
    same = concluded(TASK, SUBTASK, read_report(json.dumps(report(baseline=low)), TASK, SUBTASK))

    assert (good.verdict, same.verdict) == (Verdict.PASSED, Verdict.FAILED)
    assert same.cause is ResearchCause.NO_IMPROVEMENT


@pytest.mark.parametrize(
    ("check", "cause"),
    [
        ("results-missing", ResearchCause.NOTHING_HANDED_IN),
        ("code-missing", ResearchCause.NOTHING_HANDED_IN),
        ("results-seeds", ResearchCause.INVALID_RESULTS),
        ("deadline", ResearchCause.TIMEOUT),
        ("crash", ResearchCause.CRASH),
        ("memory-limit", ResearchCause.OUT_OF_MEMORY),
        ("environment", ResearchCause.BROKEN_ENVIRONMENT),
        ("rehearsal", ResearchCause.VIOLATION),
        ("of-another-suite", ResearchCause.VIOLATION),
    ],
)
def test_what_was_found_has_its_cause(check: str, cause: ResearchCause) -> None:
    """Whatever is no known trouble says that rules were violated."""
    text = json.dumps(report(findings=[{"check": check, "what": "x"}]))

    result = concluded(TASK, SUBTASK, read_report(text, TASK, SUBTASK))

    assert (result.verdict, result.cause, result.completed) == (Verdict.FAILED, cause, False)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "not as described"),
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON"),
        (json.dumps(report()).replace("97.0", "NaN"), "NaN is no number"),
        (json.dumps(report()).replace('"0": 97.0', '"0": 97.0, "0": 99.0'), "has the key '0' twice"),
        (json.dumps(report()).replace("97.0", '"97"'), "not as described"),
        (json.dumps(report(more=1)), "not as described"),
        (json.dumps(report(subtask="steps5")), "not of 'steps2'"),
        (json.dumps(report()).replace('"0": 97.0', '"-1": 97.0'), "a seed that is none"),
        (json.dumps(report()).replace('"0": 97.0', '"00": 97.0'), "a seed that is none"),
    ],
    ids=["list", "torn", "deep", "nan", "twice", "text", "more", "subtask", "negative", "zeros"],
)
def test_a_report_of_another_form_is_refused(text: str, says: str) -> None:
    """Nothing is guessed."""
    with pytest.raises(Unreadable, match=says):
        read_report(text, TASK, SUBTASK)
