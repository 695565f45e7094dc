"""Runs on disk become values; what cannot be read is named, and stops nothing."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.model import (
    Audit,
    Environment,
    EnvironmentKey,
    Examination,
    Finding,
    SelfReport,
    Sign,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.recording.manifest import begun, save_manifest
from pytest_researchenv.runs.reading import read_run, read_runs
from pytest_researchenv.runs.telling import tell_damage
from pytest_researchenv.store import Attempt, Store
from pytest_researchenv.verifying.attempts import Chosen, attempts_of
from tests.refusals import refuse_listing


HOOK = Finding(Sign.HOOK, "/x/sitecustomize.py", "nothing", "code")


def environment(attempt: Attempt) -> Environment:
    """What an agent left."""
    report = SelfReport(python_path="/usr/bin/python3")
    telemetry = {"wall_s": 61.5, "tokens_in": 1000.0, "cost_usd": 0.25}
    return Environment(
        attempt.key, "sha256:a", "sha256:b", "/w", report, "", (), {"prompt": "p"}, telemetry, "finished", "now"
    )


def judge(attempt: Attempt, tier: Tier, *verdicts: Verdict) -> None:
    """Record that a tier was judged, once for each verdict."""
    for verdict in verdicts:
        log = attempt.next_log(tier)
        attempt.save_result(log, TierResult(tier, verdict, log=log.name, session=f"judged {tier}"))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run: two attempts of one agent, of which the first broke, and one of another that was never finished."""
    store = Store(tmp_path, "night")
    broken = store.begin("opus", "suite/one", "first")
    broken.save_error("the model could not be had")
    good = store.begin("opus", "suite/one", "second")
    good.save_environment(environment(good))
    judge(good, Tier.C0, Verdict.PASSED)
    judge(good, Tier.C1, *[Verdict.ERROR] * 9, Verdict.PASSED, Verdict.FAILED)
    log = good.next_log(Examination.INTEGRITY)
    found = TierResult(Examination.INTEGRITY, Verdict.FAILED, findings=(HOOK,))
    good.save_audit(log, Audit(found, modules={"x": "a stand-in"}))
    store.begin("codex", "suite/two", "second")
    return tmp_path / "night"


def test_a_run_is_read_with_everything_that_its_attempts_hold(run: Path) -> None:
    """Environment, telemetry, error, sessions, audit; by agent, repository and number."""
    found = read_run(run)

    assert [str(attempt.key) for attempt in found.attempts] == [
        "night/codex/suite/two/attempt-001",
        "night/opus/suite/one/attempt-001",
        "night/opus/suite/one/attempt-002",
    ]
    unfinished, broken, good = found.attempts
    assert (unfinished.environment, unfinished.error, unfinished.results) == (None, "", {})
    assert (broken.error, broken.session) == ("the model could not be had", "first")
    assert good.environment is not None
    assert good.environment.telemetry["wall_s"] == 61.5
    assert good.audit is not None
    assert good.audit.modules == {"x": "a stand-in"}
    assert good.results[Examination.INTEGRITY].findings == (HOOK,)
    assert (found.name, found.agents, found.suites) == ("night", ("codex", "opus"), ("suite",))
    assert found.repositories == ("suite/one", "suite/two")
    assert found.sessions == ("second", "first", "judged C0", "judged C1")
    assert found.of("codex") == (unfinished,)
    assert found.damage == ()


def test_the_newest_result_of_a_tier_counts(run: Path) -> None:
    """Eleven were written: the highest number is the newest, not the last by name."""
    good = read_run(run).attempts[-1]

    assert good.verdict(Tier.C1) is Verdict.FAILED
    assert good.results[Tier.C1].log == "C1-011.log"
    assert good.times == {Tier.C0: 1, Tier.C1: 11, Examination.INTEGRITY: 1}
    assert good.verdict(Tier.C2) is None


def test_what_each_session_was_is_read_oldest_first(run: Path) -> None:
    """A damaged record is named, and takes nothing away from the others."""
    command, folder = ("pytest", "-n", "2"), run
    for session, started in (("b", "2026-11-30T09:00:00+00:00"), ("a", "2026-11-30T10:00:00+00:00")):
        manifest = begun(session=session, run="night", command=command, agents=(), distributions=(), folder=folder)
        save_manifest(run, replace(manifest, started=started))
    damaged = run / "manifest-c.json"
    damaged.write_text("{")

    found = read_run(run)

    assert [(one.session, one.command) for one in found.manifests] == [("b", command), ("a", command)]
    assert [one.path for one in found.damage] == [damaged]


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("environment.json", b"{", "does not hold what was written there"),
        ("environment.json", b'{"image": 3}', "does not hold what was written there: key: Field required"),
        ("C0-001.json", b"\xff\xfe", "does not hold what was written there"),
        ("C0-001.json", b'{"tier": "C0", "verdict": "excellent"}', "verdict: Input should be"),
        ("integrity-001.json", b"[]", "does not hold what was written there"),
        ("attempt.json", b"[]", "does not hold what was written there"),
        ("attempt.json", b"[" * 100_000, "does not hold what was written there"),
    ],
)
def test_a_damaged_record_is_named_and_the_rest_is_read(run: Path, name: str, content: bytes, problem: str) -> None:
    """The file and what is wrong with it, in one line."""
    path = run / "opus" / "suite" / "one" / "attempt-002" / name
    path.write_bytes(content)

    found = read_run(run)

    (damage,) = found.damage
    assert damage.path == path
    assert problem in str(damage)
    assert "\n" not in str(damage)
    assert found.attempts[-1].verdict(Tier.C1) is Verdict.FAILED
    assert len(found.attempts) == 3


def test_an_older_result_does_not_stand_in_for_a_damaged_one(run: Path) -> None:
    """It is not what the tier came to."""
    (run / "opus" / "suite" / "one" / "attempt-002" / "C1-011.json").write_bytes(b"")

    good = read_run(run).attempts[-1]

    assert Tier.C1 not in good.results
    assert good.times[Tier.C1] == 11


def test_what_is_no_record_is_passed_over(run: Path) -> None:
    """Hidden files, other names, folders within attempts, links to elsewhere."""
    before = read_run(run)
    attempt = run / "opus" / "suite" / "one" / "attempt-002"
    (attempt / ".C0-002.json.temporary").write_bytes(b"{")
    (attempt / "C9-001.json").write_bytes(b"{")
    (attempt / "attempt-007").mkdir()
    (run / "opus" / "suite" / "notes").mkdir()
    (run / ".hidden" / "suite" / "x" / "attempt-001").mkdir(parents=True)
    (run / "again").symlink_to(run / "opus")

    assert read_run(run) == before


def test_attempts_are_in_order_of_their_numbers(tmp_path: Path) -> None:
    """Not of their names; a name that is no number is none."""
    for name in ("attempt-1000", "attempt-002", "attempt-999", "attempt-1", "attempt-x01"):
        (tmp_path / "run" / "agent" / "suite" / "one" / name).mkdir(parents=True)

    assert [attempt.key.attempt for attempt in read_run(tmp_path / "run").attempts] == [2, 999, 1000]


def test_a_record_that_cannot_be_opened_is_named(run: Path) -> None:
    """A folder in its place, say."""
    path = run / "codex" / "suite" / "two" / "attempt-001" / "environment.json"
    path.mkdir()

    (damage,) = read_run(run).damage

    assert str(damage) == f"{path} cannot be read: Is a directory"


def test_an_attempt_that_cannot_be_listed_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there, and holds nothing that can be read; the others are whole."""
    listing, broken = os.listdir, run / "opus" / "suite" / "one" / "attempt-001"

    def refusing(path: Path) -> list[str]:
        if path == broken:
            raise OSError(5, "Input/output error")
        return listing(path)

    monkeypatch.setattr(os, "listdir", refusing)

    found = read_run(run)

    (damage,) = found.damage
    assert (damage.path, damage.problem) == (broken, "cannot be listed: Input/output error")
    assert [len(attempt.results) for attempt in found.attempts] == [0, 0, 3]


@pytest.mark.parametrize("name", ["attempt.json", "error.txt", "C0-001.json"])
def test_a_folder_in_the_place_of_a_record_is_named(run: Path, name: str) -> None:
    """Whichever record it is."""
    path = run / "codex" / "suite" / "two" / "attempt-001" / name
    path.unlink(missing_ok=True)
    path.mkdir()

    (damage,) = read_run(run).damage

    assert str(damage) == f"{path} cannot be read: Is a directory"


def test_a_folder_that_cannot_be_listed_is_named(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a run is left out in silence; who verifies it goes no further."""
    refuse_listing(monkeypatch, run / "opus")

    found = read_run(run)
    assert [str(damage) for damage in found.damage] == [f"{run / 'opus'} cannot be listed: Permission denied"]
    assert found.agents == ("codex",)
    with pytest.raises(StoreError, match=r"cannot list .*opus"):
        attempts_of(run.parent, "night", Chosen())


def test_money_is_read_with_the_run(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What all attempts spent; damage is named."""
    assert read_run(run).spent_usd is None

    entry = '{"session": "s", "process": "p", "host": "h", "until": 0, "reserved": 0, "spent": 1.5}'
    (run / ".spending.json").write_text(f'{{"a": {entry}, "b": {entry}}}')
    assert read_run(run).spent_usd == 3.0

    (run / ".spending.json").write_text("{")
    found = read_run(run)
    assert found.spent_usd is None
    tell_damage(found)
    assert ".spending.json" in capsys.readouterr().err


def test_several_runs_are_read_each_once(run: Path) -> None:
    """In the order in which they are named."""
    Store(run.parent, "day").begin("opus", "suite/one", "third")

    assert [one.name for one in read_runs(run.parent, ("night", "day", "night"))] == ["night", "day"]


def test_a_run_that_is_not_there_or_empty_is_an_error(tmp_path: Path) -> None:
    """The message says where it was looked for."""
    with pytest.raises(ConfigurationError, match=r"no run in .*other.*--results"):
        read_run(tmp_path / "other")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigurationError, match="holds no attempt"):
        read_run(tmp_path / "empty")


def test_names_that_are_no_text_are_read_and_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Bytes that are no UTF-8, and control characters."""
    name = os.fsdecode(b"\xff\x1b[31m")
    (run / name / "suite" / "x" / "attempt-001").mkdir(parents=True)
    (run / name / "suite" / "x" / "attempt-001" / "C0-001.json").write_bytes(b"{")

    found = read_run(run)
    tell_damage(found)

    assert name in found.agents
    assert "\\xff\\x1b[31m" in capsys.readouterr().err


RECORDS = st.sampled_from(("environment.json", "C0-001.json", "integrity-001.json", "attempt.json", "error.txt"))


@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.dictionaries(RECORDS, st.binary(max_size=200)))
def test_no_bytes_stop_the_reading(tmp_path: Path, records: dict[str, bytes]) -> None:
    """Whatever stands in the files, the attempt is there, and each damaged file is named once."""
    folder = tmp_path / "run" / "agent" / "suite" / "one" / "attempt-001"
    folder.mkdir(parents=True, exist_ok=True)
    for path in folder.iterdir():
        path.unlink()
    for name, content in records.items():
        (folder / name).write_bytes(content)

    (attempt,) = read_run(tmp_path / "run").attempts

    assert attempt.key == EnvironmentKey("run", "agent", "suite/one", 1)
    assert {damage.path.name for damage in attempt.damage} <= records.keys()
    assert len(attempt.damage) <= len(records)


def test_what_was_written_is_what_is_read(run: Path) -> None:
    """Nothing is lost between the store and the values."""
    attempt = Attempt(EnvironmentKey("night", "opus", "suite/one", 2), run / "opus" / "suite" / "one" / "attempt-002")
    written = attempt.environment()

    read = read_run(run).attempts[-1]

    assert read.environment == written
    assert read.results[Tier.C1] == attempt.results(Tier.C1)[-1]
    assert read.audit == attempt.audits()[-1]
    assert replace(read, damage=()) == read
