"""Runs that were made on several machines come together: nothing is lost, overwritten or counted twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.model import Tier, Verdict
from pytest_researchenv.runs.reading import read_run
from pytest_researchenv.sharing import merging
from pytest_researchenv.spending import merge_spending, spent_in
from pytest_researchenv.store import Store
from pytest_researchenv.verifying.attempts import Chosen, attempts_of, run_digest, verified
from tests.unit.sharing.machines import Machine
from tests.unit.sharing.parcels import brought, files_in


@pytest.fixture
def here(tmp_path: Path) -> Machine:
    """Where runs are brought together."""
    return Machine(tmp_path / "here")


@pytest.fixture
def one(tmp_path: Path) -> Machine:
    """A machine that has judged an environment."""
    machine = Machine(tmp_path / "one")
    machine.judge(machine.build(), Tier.C0)
    return machine


@pytest.fixture
def two(tmp_path: Path) -> Machine:
    """Another one, that built the same repository by itself."""
    machine = Machine(tmp_path / "two")
    machine.judge(machine.build(), Tier.C0, Verdict.FAILED)
    return machine


def _came(said: list[dict[str, list[dict[str, str]]]]) -> list[str]:
    return [row["came"] for source in said for row in source["attempts"]]


def _digest(results: Path, run: str = "default") -> str:
    chosen = Chosen()
    every = list(verified(attempts_of(results, run, chosen), chosen, sandbox=None, rejudging=None))
    assert all(one.holds for one in every), [one.altered for one in every]
    return run_digest(every)


def test_a_run_comes_in_as_it_was(one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Byte for byte, but for locks; its seals hold, and their digest is the same."""
    source = one.export()
    capsys.readouterr()

    said = brought(capsys, source, "--results", here.results)

    assert _came(said) == ["imported"]
    assert files_in(here.results) == files_in(one.results)
    assert _digest(here.results) == _digest(one.results)


def test_importing_twice_changes_nothing(one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Neither a file nor a figure."""
    source = one.export()
    capsys.readouterr()
    brought(capsys, source, "--results", here.results)
    before, figures = files_in(here.results), _figures(here, capsys)

    said = brought(capsys, source, source, "--results", here.results)

    assert _came(said) == ["already there"] * 2
    assert files_in(here.results) == before
    assert _figures(here, capsys) == figures


def _figures(machine: Machine, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["stats", "--results", str(machine.results), "--json"]) == 0
    return capsys.readouterr().out


def test_parts_of_a_run_come_together(one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Other repositories, other agents and further attempts, in any order."""
    two = Machine(one.folder.parent / "two")
    two.judge(two.build("suite/other"), Tier.C0)
    two.judge(two.build(agent="codex"), Tier.C0)
    sources = [one.export(), two.export()]
    capsys.readouterr()

    assert _came(brought(capsys, *sources, "--results", here.results)) == ["imported"] * 3
    other_way = Machine(here.folder.parent / "other way")
    brought(capsys, *reversed(sources), "--results", other_way.results)
    assert files_in(here.results) == files_in(other_way.results)
    assert len(read_run(here.results / "default").attempts) == 3


def test_verdicts_that_were_made_elsewhere_are_added(
    one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """An environment goes to a machine with accelerators, is judged there, and comes back with more."""
    gpu = Machine(one.folder.parent / "gpu")
    there = one.export()
    capsys.readouterr()
    brought(capsys, there, "--results", gpu.results)
    attempt = Store(gpu.results, "default").attempts("agent", "suite/repo")[0]
    gpu.judge(attempt, Tier.C3)
    back = gpu.export()
    capsys.readouterr()

    said = brought(capsys, back, "--results", one.results)

    assert said[0]["attempts"][0]["came"] == "completed"
    assert said[0]["attempts"][0]["why"] == "C3-001.log, C3-001.json"
    assert files_in(one.results) == files_in(gpu.results)
    assert _came(brought(capsys, back, "--results", one.results)) == ["already there"]
    assert _digest(one.results) == _digest(gpu.results)
    assert here


def test_a_log_that_is_packed_elsewhere_is_the_same_log(
    one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who was killed before it was packed has the same content."""
    source = one.export()
    capsys.readouterr()
    brought(capsys, source, "--results", here.results)
    packed = here.attempt(1) / "transcript.log.gz"
    subprocess.run(["gunzip", str(packed)], check=True)

    assert _came(brought(capsys, source, "--results", here.results)) == ["already there"]
    assert not packed.exists()


def test_a_number_that_was_given_twice_is_a_conflict(
    one: Machine, two: Machine, here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is overwritten; what to do is said, and what is in no conflict comes in."""
    two.judge(two.build("suite/other"), Tier.C0)
    sources = [one.export(), two.export()]
    capsys.readouterr()
    brought(capsys, sources[0], "--results", here.results)
    before = files_in(here.results)

    said = brought(capsys, sources[1], "--results", here.results, code=1)

    assert sorted(_came(said)) == ["conflict", "imported"]
    why = next(row["why"] for row in said[0]["attempts"] if row["came"] == "conflict")
    assert "session of one" in why
    assert "--renumber" in why
    after = files_in(here.results)
    assert {name: after[name] for name in before} == before
    assert all("suite/other" in name for name in after.keys() - before.keys())


def test_a_conflict_can_become_a_further_attempt(
    one: Machine, two: Machine, here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a number of its own, once, however often it is imported; its records stay sealed, and say what it was."""
    sources = [one.export(), two.export()]
    capsys.readouterr()

    assert _came(brought(capsys, *sources, "--results", here.results, "--renumber")) == ["imported"] * 2
    before, figures = files_in(here.results), _figures(here, capsys)
    for more in (["--renumber"], []):
        assert _came(brought(capsys, *sources, "--results", here.results, *more)) == ["already there"] * 2
    assert (files_in(here.results), _figures(here, capsys)) == (before, figures)

    assert _digest(here.results)
    assert json.loads((here.attempt(2) / "imported.json").read_text())["key"] == {
        "run": "default",
        "agent": "agent",
        "repository": "suite/repo",
        "attempt": 1,
    }
    numbers = [attempt.key.attempt for attempt in read_run(here.results / "default").attempts]
    assert numbers == [1, 2]


def test_what_was_renumbered_finds_its_way_home(
    one: Machine, two: Machine, here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exported again, it is known where it was made, and there it has the number that it had."""
    sources = [one.export(), two.export()]
    capsys.readouterr()
    brought(capsys, *sources, "--results", here.results, "--renumber")
    both = here.export()
    capsys.readouterr()
    before = files_in(two.results)

    said = brought(capsys, both, "--results", two.results, "--renumber")

    assert sorted(_came(said)) == ["already there", "imported"]
    after = files_in(two.results)
    assert {name: after[name] for name in before} == before
    assert _digest(two.results)


def test_a_run_may_have_another_name_here(one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Beside a run of one's own; its seals hold, and verifying says where it is from."""
    here.build()
    source = one.export()
    capsys.readouterr()

    for came in ("imported", "already there"):
        assert _came(brought(capsys, source, "--results", here.results, "--run", "theirs")) == [came]

    assert main(["verify", "theirs", "--results", str(here.results), "--no-rejudge"]) == 0
    assert "it was imported, and is default/agent/suite/repo/attempt-001 where it was made" in capsys.readouterr().out


def test_an_origin_is_no_way_to_swap_attempts(one: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """A good attempt in the place of a bad one is told without a record of its origin, and seen with one."""
    one.build()
    shutil.rmtree(one.attempt(2))
    shutil.copytree(one.attempt(1), one.attempt(2))

    assert main(["verify", "--results", str(one.results), "--no-rejudge"]) == 1
    assert "environment.json is of another attempt" in capsys.readouterr().out


def test_one_attempt_that_differs_is_a_conflict(
    one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same attempt with another verdict of the same number: nothing of it comes in, not even what is missing."""
    source = one.export()
    capsys.readouterr()
    brought(capsys, source, "--results", here.results)
    for machine, verdict in ((one, Verdict.PASSED), (here, Verdict.FAILED)):
        attempt = Store(machine.results, "default").attempts("agent", "suite/repo")[0]
        machine.judge(attempt, Tier.C1, verdict)
    one.judge(Store(one.results, "default").attempts("agent", "suite/repo")[0], Tier.C2)
    before = files_in(here.results)
    source = one.export("later.tar.gz")
    capsys.readouterr()

    said = brought(capsys, source, "--results", here.results, "--renumber", code=1)

    assert said[0]["attempts"][0]["came"] == "conflict"
    assert "C1-001.json, C1-001.log in" in said[0]["attempts"][0]["why"]
    assert files_in(here.results) == before


def test_what_was_altered_before_is_told(one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """It comes in as it is, and nobody takes it for what was measured."""
    record = one.attempt(1) / "C0-001.json"
    record.write_text(record.read_text().replace("passed", "failed"))
    source = one.export()
    capsys.readouterr()

    said = brought(capsys, source, "--results", here.results, code=1)

    assert any("does not have the seal" in sentence for sentence in said[0]["altered"])


def test_sessions_that_went_on_are_brought_up_to_date(
    one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """A journal may have grown, and a manifest got its end; the other way round nothing changes."""
    run = one.results / "default"
    (run / "journal-s.jsonl").write_text("1\n")
    (run / "manifest-s.json").write_text('{"session": "s", "ended": "", "seal": "a"}')
    earlier = one.export("earlier.tar.gz")
    (run / "journal-s.jsonl").write_text("1\n2\n")
    (run / "manifest-s.json").write_text('{"session": "s", "ended": "now", "exit_status": 0, "seal": "b"}')
    later = one.export("later.tar.gz")
    capsys.readouterr()

    brought(capsys, earlier, "--results", here.results)
    assert [row["came"] for row in brought(capsys, later, "--results", here.results)[0]["sessions"]] == [
        "completed"
    ] * 2
    assert files_in(here.results) == files_in(one.results)
    brought(capsys, earlier, "--results", here.results)
    assert files_in(here.results) == files_in(one.results)

    (run / "manifest-s.json").write_text('{"session": "s", "ended": "now", "exit_status": 1, "seal": "c"}')
    (run / "journal-s.jsonl").write_text("2\n")
    before = files_in(here.results)
    other = one.export("other.tar.gz")
    capsys.readouterr()
    said = brought(capsys, other, "--results", here.results, code=1)
    assert [row["came"] for row in said[0]["sessions"]] == ["conflict"] * 2
    assert files_in(here.results) == before


def test_money_is_counted_once(tmp_path: Path) -> None:
    """However often it is added; and what one part has as held, the other knows the end of."""
    entry = {"session": "s", "process": "p", "host": "h", "until": 1.0, "reserved": 0.0, "spent": 1.0}
    parts = {"a": {"x": entry, "y": {**entry, "reserved": 5.0, "spent": 0.0}}, "b": {"y": entry, "z": entry}}
    for name, entries in parts.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / ".spending.json").write_text(json.dumps(entries))
    (tmp_path / "here").mkdir()

    for name in ("a", "b", "a", "b"):
        merge_spending(tmp_path / "here", tmp_path / name / ".spending.json")

    assert spent_in(tmp_path / "here") == 3.0
    assert json.loads((tmp_path / "here/.spending.json").read_text())["y"]["reserved"] == 0


# --- at the same time, and cut short ----------------------------------------------------------------------


def test_two_imports_at_once_bring_it_in_once(one: Machine, here: Machine) -> None:
    """Whoever is first; the other one finds it there."""
    for _ in range(4):
        one.build()
    source = one.export()
    command = [sys.executable, "-m", "pytest_researchenv.cli", "import", str(source), "--results", str(here.results)]

    with (
        subprocess.Popen(command, stdout=subprocess.PIPE) as first,
        subprocess.Popen(command, stdout=subprocess.PIPE) as second,
    ):
        assert first.wait(60) == second.wait(60) == 0

    assert files_in(here.results) == files_in(one.results)


def test_an_import_beside_a_session_at_work_takes_none_of_its_numbers(
    one: Machine, here: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    """Attempts that begin meanwhile get numbers of their own."""
    for _ in range(5):
        one.build()
    source = one.export()
    capsys.readouterr()
    store = Store(here.results, "default")
    worker = threading.Thread(target=lambda: [store.begin("agent", "suite/repo", "session of here") for _ in range(20)])
    worker.start()
    brought(capsys, source, "--results", here.results, "--renumber")
    worker.join()

    attempts = store.attempts("agent", "suite/repo")
    assert len(attempts) == 26
    assert sorted(attempt.session for attempt in attempts) == ["session of here"] * 20 + ["session of one"] * 6


class _KilledError(BaseException):
    """A process ends here."""


# Of its 63 steps, the last are those in the results themselves.
@pytest.mark.parametrize("step", [1, 30, *range(46, 58, 3), *range(58, 64)])
def test_an_import_that_is_cut_short_is_finished_by_the_next(
    one: Machine, here: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], step: int
) -> None:
    """At whichever file or folder: each attempt is there whole or not at all, and the next import brings the rest."""
    for name in ("a", "b", "c"):
        one.judge(one.build(f"suite/{name}"), Tier.C1)
    (one.results / "default/journal-s.jsonl").write_text("1\n")
    source = one.export()
    capsys.readouterr()
    brought(capsys, source, "--results", here.results)
    shutil.rmtree(here.results / "default/agent/suite/b")
    (here.results / "default/agent/suite/c/attempt-001/C1-001.json").unlink()
    whole = files_in(one.results)
    counted = 0

    def counting(original: object) -> object:
        def call(*arguments: object, **options: object) -> object:
            nonlocal counted
            counted += 1
            if counted == step:
                raise _KilledError
            return original(*arguments, **options)  # type: ignore[operator] # a function

        return call

    with monkeypatch.context() as patch:
        for owner, name in ((os, "fsync"), (os, "link"), (Path, "rename"), (Path, "mkdir"), (merging, "put_new")):
            patch.setattr(owner, name, counting(getattr(owner, name)))
        with pytest.raises(_KilledError):
            main(["import", str(source), "--results", str(here.results)])

    for attempt in (here.results / "default").rglob("attempt-*"):
        if attempt.parent.name != "c":
            assert files_in(attempt) == files_in(one.results / attempt.relative_to(here.results))
    capsys.readouterr()
    brought(capsys, source, "--results", here.results)
    assert files_in(here.results) == whole


@pytest.mark.parametrize("moment_ms", [0, 40, 80, 120, 200, 300])
def test_kill_9_of_an_import_leaves_whole_attempts(one: Machine, here: Machine, moment_ms: int) -> None:
    """A real process; what it unpacked beside the runs goes with the next import."""
    for name in range(8):
        one.judge(one.build(f"suite/{name}"), Tier.C1)
    source = one.export()
    command = [sys.executable, "-m", "pytest_researchenv.cli", "import", str(source), "--results", str(here.results)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not here.results.exists() and time.monotonic() < deadline:
            time.sleep(0.001)
        time.sleep(moment_ms / 1000)
        process.send_signal(signal.SIGKILL)

    for attempt in (here.results / "default").rglob("attempt-*"):
        assert files_in(attempt) == files_in(one.results / attempt.relative_to(here.results))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60)
    assert files_in(here.results) == files_in(one.results)
    assert not list(here.results.glob(".import-*"))
