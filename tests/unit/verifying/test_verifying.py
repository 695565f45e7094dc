"""What was altered in a finished run is told, and the command says it.

What is judged again is tested in `test_rejudging.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.model import (
    Cause,
    Claim,
    Finding,
    FindingKind,
    Outcome,
    Sign,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.store import Attempt, load_environment
from pytest_researchenv.verifying.attempts import Chosen, attempts_of, run_digest
from pytest_researchenv.verifying.rejudging import Again
from tests.unit.verifying.bench import Bench, again, only, sole


_DIGEST = "0" * 64


def test_an_edited_verdict_is_told_and_flips(bench: Bench) -> None:
    """The seal is broken, the record contradicts itself, and the probe says otherwise."""
    bench.edit("C1-001.json", lambda record: record.update(verdict="failed"))

    one = only(bench.verify())

    assert not one.holds
    assert any("C1-001.json does not have the seal" in sentence for sentence in one.altered)
    assert again(one)["C1"] is Again.FLIPPED


def test_an_edited_verdict_that_was_sealed_again_flips_all_the_same(bench: Bench) -> None:
    """A seal is no signature: judging again is what tells."""
    bench.edit("C1-001.json", lambda record: record.update(verdict="failed", cause="non-zero exit"), seal=True)

    one = only(bench.verify())

    assert one.altered == ()
    assert again(one)["C1"] is Again.FLIPPED


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("C1-001.log", b"edited\n", "C1-001.json: C1-001.log is not the log that was written: it has changed"),
        ("C1-001.log", None, "C1-001.json: C1-001.log is not the log that was written: it is gone"),
        ("transcript.log", b"I did nothing\n", "transcript.log is not what was recorded: it has changed"),
        ("transcript.log", None, "transcript.log is not what was recorded: it is gone"),
        ("requests.jsonl", b"{}\n", "requests.jsonl was added after the environment was recorded"),
        ("attempt.json", b'{"session": "x"}', "attempt.json is not what was recorded: it has changed"),
    ],
)
def test_an_altered_file_is_named(bench: Bench, name: str, content: bytes | None, says: str) -> None:
    """A log, a transcript and what else was recorded has a digest in the record that it belongs to."""
    path = bench.attempt / name
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)

    one = only(bench.check())

    assert not one.holds
    assert sole(one) == says


def test_another_self_report_is_told(bench: Bench) -> None:
    """What is judged must be what the agent's file says, whatever was sealed again."""

    def claim(record: dict[str, Any]) -> None:
        record["report"]["cuda_available"] = True

    bench.edit("environment.json", claim, seal=True)

    assert sole(only(bench.check())) == "environment.json holds another self-report than report.json"


@pytest.mark.parametrize("name", ["report.json", "changes.jsonl.gz"])
def test_what_the_image_was_frozen_beside_is_bound_to_it(bench: Bench, name: str) -> None:
    """Edited together with its digest, it is not what the image's own label says, which is part of the image's id."""
    path = bench.attempt / name
    path.write_bytes(path.read_bytes() + b"\n")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    bench.edit("environment.json", lambda record: record["records"].update({name: digest}), seal=True)

    assert sole(only(bench.check())) == f"the frozen image was made beside another {name}"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda record: record.update(ended="exited with code 1"), "does not have the seal"),
        (lambda record: record.update(image="base"), "which is no id of one"),
        (lambda record: record["key"].update(agent="other"), "is of another attempt"),
        (lambda record: record.update(records={"../../../x": _DIGEST}), "is not what was recorded"),
        (lambda record: record.update(report=None), "another self-report"),
        (lambda record: record.update(unknown=1), "does not hold what was written there"),
    ],
)
def test_an_edited_environment_is_told(bench: Bench, change: Callable[[dict[str, Any]], object], says: str) -> None:
    """It decides what is judged."""
    bench.edit("environment.json", change)

    one = only(bench.check())

    assert not one.holds
    assert any(says in sentence for sentence in one.altered)


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"\xff", b"{}", b"null"])
@pytest.mark.parametrize("name", ["environment.json", "C1-001.json", "integrity-001.json"])
def test_a_record_that_is_none_is_told(bench: Bench, name: str, content: bytes) -> None:
    """Whatever lies there: nothing is raised, and nothing passes."""
    (bench.attempt / name).write_bytes(content)

    one = only(bench.check())

    assert not one.holds
    assert any(f"{name} does not hold what was written there" in sentence for sentence in one.altered)


def test_an_environment_that_is_gone_is_told(bench: Bench) -> None:
    """Results without one say nothing."""
    (bench.attempt / "environment.json").unlink()

    assert sole(only(bench.check())) == "environment.json is gone"


def test_results_of_another_attempt_are_told(bench: Bench) -> None:
    """A record that is whole, and of another environment, was judged by another image."""
    bench.run(rebuild=True)
    other = bench.lab.folder / "attempt-002"
    for name in ("C1-001.json", "C1-001.log"):
        (bench.attempt / name).write_bytes((other / name).read_bytes())

    assert "it judged another image" in sole(bench.check()[0])


def test_an_image_of_another_attempt_is_told(bench: Bench) -> None:
    """Images are labelled with their attempt, and the label is part of the id."""
    bench.run(rebuild=True)
    other = json.loads((bench.lab.folder / "attempt-002/environment.json").read_text())["image"]
    for name in ("environment.json", "C1-001.json"):
        field = "image" if name == "environment.json" else "snapshot"
        bench.edit(name, lambda record, field=field: record.update({field: other}), seal=True)  # type: ignore[misc]
    bench.edit("integrity-001.json", lambda record: record["result"].update(snapshot=other), seal=True)

    one = bench.check()[0]

    assert sole(one) == "the frozen image is that of default/fake/mine/thing/attempt-002"


def test_an_image_that_grew_from_something_else_is_told(bench: Bench) -> None:
    """Its lowest layers are the base image's."""
    other = bench.lab.sandbox.add_image("other")
    for name in ("environment.json", "C1-001.json"):
        bench.edit(name, lambda record: record.update(base_image=other), seal=True)
    bench.edit("integrity-001.json", lambda record: record["result"].update(base_image=other), seal=True)

    assert sole(only(bench.check())) == f"the frozen image did not grow from the base image {other}"


def test_a_result_that_was_taken_away_is_told(bench: Bench) -> None:
    """Numbers have no gaps."""
    bench.run()
    for path in bench.attempt.glob("C1-001.*"):
        path.unlink()

    assert sole(only(bench.check())) == "C1-001 is gone, record and log"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda record: record.update(cause="timeout"), "it says passed, and why it did not pass: timeout"),
        (lambda record: record.update(tier="C2"), "it says that C2 was judged"),
        (lambda record: record.update(log="../x.log"), "its log is C1-001.log, and it names '../x.log'"),
        (
            lambda record: record.update(
                findings=[{"kind": "path", "field": "python_path", "claimed": "1", "observed": "2"}]
            ),
            "findings and claims are no part of C1",
        ),
        (lambda record: record.update(base_image="x"), "it names another base image, x, than the environment's"),
    ],
)
def test_a_result_that_contradicts_itself_is_told(
    bench: Bench, change: Callable[[dict[str, Any]], object], says: str
) -> None:
    """Whoever seals what was edited has to edit all that belongs together."""
    bench.edit("C1-001.json", change, seal=True)

    assert sole(only(bench.check())) == f"C1-001.json: {says}"


def _claim(outcome: Outcome, claimed: str = '"/usr/bin/python3"') -> Claim:
    return Claim("python_path", claimed, "nothing is there", outcome, FindingKind.PATH)


_FALSE = Finding(FindingKind.PATH, "python_path", '"/usr/bin/python3"', "nothing is there")


@pytest.mark.parametrize(
    ("claims", "findings", "cause", "says"),
    [
        ((_claim(Outcome.FALSE),), (_FALSE,), Cause.FALSE_CLAIMS, ""),
        ((_claim(Outcome.HOLDS),), (), Cause.NONE, ""),
        ((_claim(Outcome.FALSE),), (), Cause.NONE, "python_path (path) is a false claim without a finding"),
        (
            (_claim(Outcome.HOLDS),),
            (_FALSE,),
            Cause.FALSE_CLAIMS,
            "python_path (path) is a finding without a false claim",
        ),
        ((_claim(Outcome.FALSE),), (_FALSE,), Cause.TIMEOUT, "it has 1 findings, and its cause is: timeout"),
        (
            (_claim(Outcome.HOLDS, '"/opt/python"'),),
            (),
            Cause.NONE,
            'it judged python_path as "/opt/python", and the self-report says "/usr/bin/python3"',
        ),
    ],
)
def test_claims_and_findings_that_do_not_fit_are_told(
    bench: Bench, claims: tuple[Claim, ...], findings: tuple[Finding, ...], cause: Cause, says: str
) -> None:
    """Each false claim is a finding, each finding a false claim, and each claim one of the self-report's."""
    environment = load_environment(bench.attempt)
    result = TierResult(
        Tier.C5,
        Verdict.PASSED if cause is Cause.NONE else Verdict.FAILED,
        cause,
        findings=findings,
        claims=claims,
        log="C5-001.log",
        log_digest=hashlib.sha256(b"").hexdigest(),
        snapshot=environment.image,
        base_image=environment.base_image,
    )
    log = bench.attempt / "C5-001.log"
    log.touch()
    Attempt(environment.key, bench.attempt).save_result(log, result)

    assert only(bench.check()).altered == ((f"C5-001.json: {says}",) if says else ())


def test_a_pass_against_the_audit_is_told(bench: Bench) -> None:
    """The audit has findings for which no tier passes, and the tier says that it passed."""
    bench.lab.checks = (lambda *_: Signs((Finding(Sign.STUB, "torch", "a distribution's", "nobody's"),)),)
    bench.run(rebuild=True)
    bench.attempt = bench.lab.folder / "attempt-002"
    bench.edit("C1-001.json", lambda record: record.update(verdict="passed", cause="none"), seal=True)

    one = bench.verify()[1]

    assert sole(one) == "C1-001.json: it passed, which nobody can believe who reads integrity-001.log"
    assert again(one) == {"integrity": Again.SAME, "C1": Again.FLIPPED}


def test_an_edited_audit_is_told(bench: Bench) -> None:
    """Its seal covers what is blanked, too, which is no part of its result."""
    bench.edit("integrity-001.json", lambda record: record.update(blanked={"/x": ""}))

    assert sole(only(bench.check())).startswith("integrity-001.json does not have the seal")


def test_notes_of_people_are_left_alone(bench: Bench) -> None:
    """What is no record of ours is nobody's business."""
    (bench.attempt / "notes.txt").write_text("interesting")
    (bench.attempt / "C1-notes.json").write_text("{")

    assert only(bench.check()).holds


# --- the run and the command ------------------------------------------------------------------------------


def test_the_digest_of_a_run_tells_any_change(bench: Bench) -> None:
    """Kept elsewhere, it tells a run whose records were sealed again, and one of which some were taken away."""
    before = run_digest(bench.check())
    assert run_digest(bench.check()) == before

    bench.edit("C1-001.json", lambda record: record.update(reason="fine"), seal=True)
    assert run_digest(bench.check()) != before


def test_a_run_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The message says how to name another."""
    with pytest.raises(ConfigurationError, match="--results"):
        attempts_of(tmp_path, "nothing", Chosen())


def test_attempts_can_be_chosen(bench: Bench) -> None:
    """By agent, and by a repository's key or short name."""
    for chosen in (Chosen(agents=["fake"]), Chosen(repositories=["thing"]), Chosen(repositories=["mine/thing"])):
        assert len(attempts_of(bench.results, "default", chosen)) == 1
    with pytest.raises(ConfigurationError, match="no attempt"):
        attempts_of(bench.results, "default", Chosen(agents=["other"]))


@pytest.fixture
def command(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Callable[..., int]:
    """The command, without a container engine."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")

    def run(*arguments: str) -> int:
        return main(["verify", "--results", str(bench.results), "--suite", str(bench.suite), *arguments])

    return run


def test_records_alone_need_no_engine(
    bench: Bench, command: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    """Code 0 while nothing was altered, 1 afterwards."""
    assert command("--no-rejudge") == 0
    (bench.attempt / "C1-001.log").write_text("edited")
    assert command("--no-rejudge") == 1

    said = capsys.readouterr().out
    assert "altered: C1-001.json: C1-001.log is not the log that was written: it has changed" in said
    assert "1 attempts: 1 with altered records" in said


def test_judging_again_needs_an_engine(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    """Without one nothing is said to be fine."""
    assert command() == 1
    assert "No container engine answers" in "".join(capsys.readouterr())


def test_json_is_for_programs(bench: Bench, command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    """One document, and nothing beside it."""
    assert command("--no-rejudge", "--json") == 0

    document = json.loads(capsys.readouterr().out)
    assert document["counts"] == {
        "attempts": 1,
        "altered": 0,
        "verdicts": 0,
        "same": 0,
        "flipped": 0,
        "unverifiable": 0,
    }
    assert document["digest"] == run_digest(bench.check())
    assert set(document["attempts"][0]["seals"]) == {"environment.json", "C1-001.json", "integrity-001.json"}


def test_a_wrong_tier_is_a_wrong_call(command: Callable[..., int], capsys: pytest.CaptureFixture[str]) -> None:
    """The message lists what there is."""
    with pytest.raises(SystemExit):
        command("--tier", "C9")
    assert "C0, C1, C2, C3, C4, C5, integrity" in capsys.readouterr().err
