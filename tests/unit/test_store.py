"""The store: what is recorded stays, whole, and where it was."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.model import Cause, Environment, EnvironmentKey, SelfReport, Tier, TierResult, Verdict
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.secrets import Secret
from pytest_researchenv.store import Attempt, Store, load_environment, write_whole
from tests.refusals import room_for


def _environment(key: EnvironmentKey) -> Environment:
    return Environment(
        key=key,
        image="sha256:1",
        base_image="sha256:0",
        workdir="/workspace/x",
        report=SelfReport(python_path="/opt/v/bin/python", gpu_count=0, cuda_available=False),
        report_problem="",
        changed=("a.py",),
        inputs={"source": "abc"},
        telemetry={"wall_s": 1.5},
        ended="exited with code 0",
        created="2026-01-01T00:00:00+00:00",
    )


def test_an_environment_comes_back_as_it_was_stored(tmp_path: Path) -> None:
    """Nothing is lost or changed on the way to disk and back."""
    attempt = Store(tmp_path, "r").begin("oracle", "x", "session")
    environment = _environment(attempt.key)

    kept = attempt.save_environment(environment)

    assert Store(tmp_path, "r").attempts("oracle", "x")[0].environment() == kept
    assert load_environment(attempt.folder) == kept
    assert replace(kept, records={}, seal="") == environment


def test_attempts_are_numbered_and_none_is_overwritten(tmp_path: Path) -> None:
    """Each attempt gets the next number, also after a gap, and keeps its session."""
    store = Store(tmp_path, "r")

    keys = [store.begin("oracle", "x", name).key.attempt for name in ("one", "two")]
    (store.begin("oracle", "x", "three").folder).rename(tmp_path / "r/oracle/x/attempt-009")

    assert keys == [1, 2]
    assert store.begin("oracle", "x", "four").key.attempt == 10
    assert [attempt.session for attempt in store.attempts("oracle", "x")] == ["one", "two", "three", "four"]


def test_an_unfinished_attempt_has_no_environment(tmp_path: Path) -> None:
    """What was begun and never frozen is no environment, and an error is kept in its place."""
    attempt = Store(tmp_path, "r").begin("oracle", "x", "session")

    attempt.save_error("the registry did not answer")

    assert attempt.environment() is None
    assert attempt.error() == "the registry did not answer"


def test_every_result_of_a_tier_is_kept_in_order(tmp_path: Path) -> None:
    """A tier probed again gets a new file beside the old one."""
    attempt = Store(tmp_path, "r").begin("oracle", "x", "session")
    results = [
        TierResult(Tier.C1, Verdict.FAILED, Cause.EXIT_CODE, "exited with code 1", evidence={"missing": ["a", "b"]}),
        TierResult(Tier.C1, Verdict.PASSED, evidence={"ratio": 0.5, "n": 3, "ok": True, "none": None}),
    ]

    for result in results:
        log = attempt.next_log(Tier.C1)
        log.touch()
        attempt.save_result(log, result)

    assert [replace(result, seal="") for result in attempt.results(Tier.C1)] == results
    assert attempt.results(Tier.C0) == []


def test_a_log_without_result_is_not_overwritten(tmp_path: Path) -> None:
    """A probe that was killed left a log: the next one takes the next number."""
    attempt = Store(tmp_path, "r").begin("oracle", "x", "session")

    attempt.next_log(Tier.C0).touch()

    assert attempt.next_log(Tier.C0).name == "C0-002.log"


@pytest.mark.parametrize("content", [b"", b"{", b'{"key": 1}', b"\xff\xfe", b"null"])
def test_a_damaged_record_is_named(tmp_path: Path, content: bytes) -> None:
    """A file that does not hold what was written is an error that names it, never a silent default."""
    attempt = Store(tmp_path, "r").begin("oracle", "x", "session")
    (attempt.folder / "environment.json").write_bytes(content)

    with pytest.raises(StoreError, match=r"environment\.json does not hold"):
        attempt.environment()


def test_a_folder_that_cannot_be_written_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    """A file in place of the results folder is said, with the option that helps."""
    (tmp_path / "results").write_text("")

    with pytest.raises(StoreError, match="--researchenv-results"):
        Store(tmp_path / "results", "r").begin("oracle", "x", "session")


def test_a_folder_without_environment_says_what_to_give(tmp_path: Path) -> None:
    """A wrong folder is the user's to fix."""
    with pytest.raises(ConfigurationError, match="attempt-001"):
        load_environment(tmp_path)


def test_the_lock_keeps_a_second_builder_out(tmp_path: Path) -> None:
    """Two builders of the same environment follow each other; nothing is begun twice at once."""
    begun: list[int] = []

    def build() -> None:
        store = Store(tmp_path, "r")
        with store.lock("oracle", "x"):
            if not store.attempts("oracle", "x"):
                begun.append(store.begin("oracle", "x", "s").key.attempt)

    threads = [threading.Thread(target=build) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert begun == [1]


def test_an_error_under_the_lock_passes_unchanged(tmp_path: Path) -> None:
    """Trouble of what is done under a lock is not reported as the lock's."""
    with pytest.raises(ConnectionError), Store(tmp_path, "r").lock("oracle", "x"):
        raise ConnectionError("the engine")


def test_attempts_are_ordered_as_numbers(tmp_path: Path) -> None:
    """The thousandth attempt comes after the 999th."""
    store = Store(tmp_path, "r")
    store.begin("oracle", "x", "s").folder.rename(tmp_path / "r/oracle/x/attempt-999")

    keys = [store.begin("oracle", "x", "s").key.attempt for _ in range(2)]

    assert keys == [1000, 1001]
    assert [attempt.key.attempt for attempt in store.attempts("oracle", "x")] == [999, 1000, 1001]


def test_a_persons_notes_beside_results_are_left_alone(tmp_path: Path) -> None:
    """Only files that are named as results are read as results."""
    attempt = Store(tmp_path, "r").begin("oracle", "x", "session")
    (attempt.folder / "C1-notes.json").write_text("{")

    assert attempt.results(Tier.C1) == []
    assert attempt.next_log(Tier.C1).name == "C1-001.log"


def test_records_can_be_read_by_others(tmp_path: Path) -> None:
    """Several users of a host may share a results folder: files get the usual permissions."""
    attempt = Store(tmp_path, "r").begin("oracle", "x", "session")
    plain = tmp_path / "plain"
    plain.touch()

    attempt.save_environment(_environment(attempt.key))

    assert (attempt.folder / "environment.json").stat().st_mode == plain.stat().st_mode


def test_names_that_are_no_text_are_recorded_all_the_same(tmp_path: Path) -> None:
    """A file name with bytes that are no UTF-8 must not lose the verdict it is evidence for."""
    attempt = Store(tmp_path, "r").begin("oracle", "x", "session")
    log = attempt.next_log(Tier.C1)

    attempt.save_result(
        log, TierResult(Tier.C1, Verdict.PASSED, reason="l\udcff", evidence={"files": ["l\udcff.json"], "n": 1})
    )

    result = attempt.results(Tier.C1)[0]
    assert (result.reason, result.evidence) == ("l\\udcff", {"files": ["l\\udcff.json"], "n": 1})


def _full_of_secrets(tmp_path: Path, secret: str) -> Attempt:
    redactor = Redactor([Secret("WORD", secret)])
    return Store(tmp_path, "r", redactor=lambda: redactor).begin("oracle", "x", "session")


def test_half_characters_of_an_agent_keep_nothing_from_being_stored(tmp_path: Path) -> None:
    """What an agent had in its requests, messages or report is escaped where it is no text: never an error."""
    attempt = Store(tmp_path, "r").begin("oracle", "x", "session")
    environment = replace(
        _environment(attempt.key), ended="failed: \ud800", refused=("GET evil.example/\udcff",), notes=("\ud800",)
    )

    kept = attempt.save_environment(environment)
    attempt.save_error("it said \ud800")

    assert attempt.environment() == kept
    assert kept.refused == ("GET evil.example/\\udcff",)
    assert attempt.error() == "it said \\ud800"


def test_a_secret_that_is_a_word_of_ours_spoils_no_record(tmp_path: Path) -> None:
    """A password `pass` is taken out of what was observed, and the verdict `passed` stays readable."""
    attempt = _full_of_secrets(tmp_path, "pass")

    kept = attempt.save_result(
        attempt.next_log(Tier.C1), TierResult(Tier.C1, Verdict.PASSED, reason="the pass is pass")
    )

    assert attempt.results(Tier.C1) == [kept]
    assert kept.verdict is Verdict.PASSED
    assert kept.reason == "the [redacted WORD] is [redacted WORD]"


def test_secrets_are_taken_out_of_everything_that_is_written(tmp_path: Path) -> None:
    """Environment, report, error, requests, trajectory and logs, also where a log comes in pieces."""
    secret = "hunter2-but-longer"  # noqa: S105 - that is the test
    attempt = _full_of_secrets(tmp_path, secret)

    attempt.save_environment(replace(_environment(attempt.key), ended=f"said {secret}", notes=(secret,)))
    for save in (attempt.save_report, attempt.save_trajectory):
        save(f'{{"key": "{secret}"}}'.encode())
    attempt.save_error(secret)
    for log in (attempt.transcript, attempt.requests):
        with attempt.log(log) as append:
            for sign in f"a {secret} b":
                append(sign.encode())

    files = [path for path in attempt.folder.iterdir() if path.is_file()]
    assert len(files) >= 7
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    assert attempt.transcript.read_bytes() == b"a [redacted WORD] b"


def test_trials_take_numbers_without_waiting_for_one_another(tmp_path: Path) -> None:
    """Two that begin at once get folders of their own, each of which says from the first whose it is."""
    store = Store(tmp_path, "r")
    begun: list[Attempt] = []

    def begin(trial: int) -> None:
        for _ in range(10):
            with store.lock("oracle", "x", trial=trial):
                begun.append(store.begin("oracle", "x", "s", trial=trial))

    threads = [threading.Thread(target=begin, args=(trial,)) for trial in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(attempt.key.attempt for attempt in begun) == list(range(1, 31))
    assert [sum(attempt.start.trial == trial for attempt in begun) for trial in (1, 2, 3)] == [10, 10, 10]


def test_what_does_not_fit_leaves_nothing_behind(tmp_path: Path) -> None:
    """Neither a part of a file nor a temporary one: the old one stands, and a full disk is no fuller."""
    path = tmp_path / "record.json"
    write_whole(path, b"old")

    with room_for(1000), pytest.raises(StoreError, match=r"cannot write .*record\.json"):
        write_whole(path, b"new" * 1000)

    assert [file.name for file in tmp_path.iterdir()] == ["record.json"]
    assert path.read_bytes() == b"old"
