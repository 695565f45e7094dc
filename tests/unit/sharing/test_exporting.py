"""Exports: whole or not at all, over nothing, and of all that is recorded nothing is left out but what is at work."""

from __future__ import annotations

import json
import os
import tarfile
import threading
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.errors import ConfigurationError, StoreError
from pytest_researchenv.model import Tier
from pytest_researchenv.sharing import packing
from pytest_researchenv.sharing.contents import TABLE, contents_json
from pytest_researchenv.store import Store
from tests.refusals import room_for
from tests.unit.sharing.machines import BASE, Machine
from tests.unit.sharing.parcels import brought, files_in


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with a run."""
    machine = Machine(tmp_path / "machine")
    machine.judge(machine.build(), Tier.C0)
    return machine


def _names(archive: Path) -> list[str]:
    with tarfile.open(archive) as members:
        return members.getnames()


def test_an_archive_holds_all_but_locks(machine: Machine) -> None:
    """Its table first, then every file, under nobody's name and of no time: the same run is the same archive."""
    run = machine.results / "default"
    (run / "journal-s.jsonl").write_text("1\n")
    (run / ".spending.json").write_text("{}")
    (run / ".spending.json.lock").write_text("")
    (machine.attempt(1) / ".C0.lock").write_text("")
    (machine.attempt(1).parent / ".lock").write_text("")

    archive = machine.export()

    names = _names(archive)
    assert names[0] == TABLE
    assert names[1:] == sorted(f"run/{name}" for name in files_in(run))
    assert "run/.spending.json" in names
    with tarfile.open(archive) as members:
        assert {(one.uid, one.gid, one.uname, one.gname, one.mtime, one.mode) for one in members} == {
            (0, 0, "", "", 0, 0o644)
        }


def test_what_is_at_work_is_left_out(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """An environment that is being built, and a probe that goes on; both are whole the next time."""
    store = Store(machine.results, "default")
    building = store.begin("agent", "suite/other", "s")
    attempt = store.attempts("agent", "suite/repo")[0]
    attempt.next_log(Tier.C1).write_text("half a ")
    held, done = threading.Event(), threading.Event()

    def work() -> None:
        with store.lock("agent", "suite/other"), attempt.lock(Tier.C1):
            held.set()
            done.wait(60)

    worker = threading.Thread(target=work)
    worker.start()
    held.wait(60)
    during = _names(machine.export("during.tar.gz"))
    done.set()
    worker.join()
    afterwards = _names(machine.export("after.tar.gz"))

    assert f"left out: {building.key} is being built" in capsys.readouterr().out
    assert not [name for name in during if "suite/other" in name or "C1-001" in name]
    # Of one that was killed, what it left is all that there is.
    more = {name.rpartition("/")[2] for name in set(afterwards) - set(during)}
    assert more == {"C1-001.log", "attempt.json"}
    assert "run/agent/suite/other/attempt-001/attempt.json" in afterwards


def test_of_a_log_that_is_there_twice_the_plain_one_is_taken(machine: Machine) -> None:
    """Who was killed while it was packed left both."""
    (machine.attempt(1) / "transcript.log").write_text("as it was written\n")

    names = _names(machine.export())

    assert "run/agent/suite/repo/attempt-001/transcript.log" in names
    assert "run/agent/suite/repo/attempt-001/transcript.log.gz" not in names


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
@pytest.mark.parametrize("what", ["run", "environment"])
def test_nothing_is_overwritten(machine: Machine, capsys: pytest.CaptureFixture[str], what: str, kind: str) -> None:
    """Whatever is there stays, and nothing is left beside it."""
    target = machine.folder / "target"
    if kind == "file":
        target.touch()
    elif kind == "folder":
        target.mkdir()
    else:
        target.symlink_to("nowhere")
    before = sorted(machine.folder.iterdir())
    named = ["--results", str(machine.results)] if what == "run" else [str(machine.attempt(1)), "--no-image"]

    assert main(["export", what, *named, "-o", str(target)]) == 1

    assert "is there already, and is not overwritten" in capsys.readouterr().err
    assert sorted(machine.folder.iterdir()) == before


def test_what_does_not_fit_is_said_of_where_it_was_to_go(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Not of the file that was being read; and nothing is left there."""
    (machine.attempt(1) / "transcript.log").write_bytes(os.urandom(100_000))
    target = machine.folder / "x.tar.gz"

    with room_for(20_000):
        assert main(["export", "run", "--results", str(machine.results), "-o", str(target)]) == 1

    assert f"{target} cannot be written: [Errno 27] File too large; name another place" in capsys.readouterr().err
    assert [path.name for path in machine.folder.iterdir()] == ["results"]


@pytest.mark.parametrize("what", ["run", "environment"])
def test_a_place_that_cannot_be_written_is_said(
    machine: Machine, capsys: pytest.CaptureFixture[str], what: str
) -> None:
    """Also where there is nothing to be taken away afterwards."""
    (machine.folder / "file").touch()
    target = machine.folder / "file" / "x"
    named = ["--results", str(machine.results)] if what == "run" else [str(machine.attempt(1)), "--no-image"]

    assert main(["export", what, *named, "-o", str(target)]) == 1
    assert f"{target} cannot be written: [Errno 20] Not a directory" in capsys.readouterr().err


def test_what_came_there_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    """Of two that write the same file at once, one is told."""
    target = tmp_path / "x.tar.gz"

    def late() -> None:
        with packing.new_file(target) as file:
            file.write(b"mine")
            target.write_bytes(b"theirs")

    with pytest.raises(ConfigurationError, match="is there already"):
        late()

    assert files_in(tmp_path) == {"x.tar.gz": b"theirs"}


def test_a_file_that_changes_meanwhile_spoils_the_export(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is exported that the table does not describe; the user is told to try again, and no half is left."""
    target = machine.folder / "x.tar.gz"
    record = machine.attempt(1) / "C0-001.json"

    def changing(*arguments: object) -> bytes:
        record.write_text(record.read_text().replace("passed", "failed"))
        return contents_json(*arguments)  # type: ignore[arg-type] # the function's own

    monkeypatch.setattr(packing, "contents_json", changing)

    assert main(["export", "run", "--results", str(machine.results), "-o", str(target)]) == 1
    assert [path.name for path in machine.folder.iterdir()] == ["results"]


def test_a_file_that_grows_meanwhile_is_cut(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A journal that a session goes on writing: what was there when the export began is exported."""
    journal = machine.results / "default/journal-s.jsonl"
    journal.write_text("1\n")

    def growing(*arguments: object) -> bytes:
        journal.write_text("1\n2\n")
        return contents_json(*arguments)  # type: ignore[arg-type] # the function's own

    monkeypatch.setattr(packing, "contents_json", growing)

    with tarfile.open(machine.export()) as members:
        found = members.extractfile("run/journal-s.jsonl")
        assert found
        assert found.read() == b"1\n"


def test_a_damaged_record_is_exported_as_it_is(machine: Machine) -> None:
    """Like every other file: what was recorded beside it must not be lost for it."""
    (machine.attempt(1) / "environment.json").write_bytes(b"")

    names = _names(machine.export())

    assert {name.rpartition("/")[2] for name in names} >= {"environment.json", "C0-001.json", "transcript.log.gz"}


@pytest.mark.parametrize("name", ["folder", "link"])
def test_what_no_attempt_holds_is_told(machine: Machine, capsys: pytest.CaptureFixture[str], name: str) -> None:
    """Neither left out in silence nor followed."""
    odd = machine.attempt(1) / "odd"
    odd.mkdir() if name == "folder" else odd.symlink_to("/etc/passwd")

    assert main(["export", "run", "--results", str(machine.results), "-o", str(machine.folder / "x")]) == 1
    assert "take it away, and export again" in capsys.readouterr().err


def test_no_run_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With what to name."""
    assert main(["export", "run", "x", "--results", str(tmp_path), "-o", str(tmp_path / "x.tar.gz")]) == 1
    assert "there is no run in" in capsys.readouterr().err
    with pytest.raises(SystemExit) as ended:
        main(["export", "run", "x"])
    assert ended.value.code == 2


# --- environments -----------------------------------------------------------------------------------------

_HOSTILE = "pip install 'x'\nEND_00000000\nRUN rm -rf /\n\x1b[2J\u202e"


def _trajectory(*calls: object) -> str:
    return json.dumps({"steps": [{"timestamp": "then", "tool_calls": list(calls)}]})


def _exported(machine: Machine, capsys: pytest.CaptureFixture[str]) -> Path:
    target = machine.folder / "environment"
    assert main(["export", "environment", str(machine.attempt(1)), "--no-image", "-o", str(target), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["attempts"] == 1
    return target


def test_an_environment_is_a_folder_that_comes_in_again(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """With its records as they are, a README, and what its agent did."""
    target = _exported(machine, capsys)
    here = Machine(machine.folder.parent / "here")

    brought(capsys, target, "--results", here.results)

    assert files_in(here.results) == files_in(machine.results)
    assert "researchenv import ." in (target / "README.md").read_text()


def test_a_recipe_tells_what_was_recorded(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """Commands in their order, other tools as comments, and that it is no guarantee."""
    (machine.attempt(1) / "trajectory.json").write_text(
        _trajectory(
            {"function_name": "bash", "arguments": {"command": "uv venv\nuv pip install torch"}},
            {"function_name": "edit", "arguments": {"path": "/a", "text": "x\ny"}},
            {"function_name": "bash", "arguments": {"cmd": "true"}},
        )
    )

    lines = (_exported(machine, capsys) / "recipe.Dockerfile").read_text().splitlines()

    assert "no guarantee" in lines[0]
    assert f"FROM {BASE}" in lines
    assert "WORKDIR /workspace/repo" in lines
    begin = next(number for number, line in enumerate(lines) if line.startswith("RUN <<'END_"))
    end = lines.index(lines[begin].split("'")[1])
    assert lines[begin + 1 : end] == ["uv venv", "uv pip install torch"]
    assert any("by the tool edit" in line for line in lines[end:])
    assert lines.index("true") > end


@pytest.mark.parametrize(
    "trajectory",
    [
        *("", "{", "[]", "null", '{"steps": 1}', '{"steps": [1, null, {"tool_calls": [1, {"arguments": null}]}]}'),
        *("[" * 100_000, _trajectory({"arguments": {"command": _HOSTILE}}), _trajectory({"arguments": _HOSTILE})),
        json.dumps({"steps": [{"timestamp": _HOSTILE, "tool_calls": [{"function_name": _HOSTILE, "arguments": {}}]}]}),
    ],
    ids=range(10),
)
def test_a_hostile_trajectory_leaves_its_own_lines(
    machine: Machine, capsys: pytest.CaptureFixture[str], trajectory: str
) -> None:
    """No command of an agent gets out of its block, and no comment out of its line; nothing reaches a terminal."""
    (machine.attempt(1) / "trajectory.json").write_text(trajectory)

    text = (_exported(machine, capsys) / "recipe.Dockerfile").read_text()

    outside, word = [], ""
    for line in text.splitlines():
        if word:
            word = "" if line == word else word
        elif line.startswith("RUN <<'"):
            word = line.split("'")[1]
        elif line and not line.startswith("#"):
            outside.append(line.partition(" ")[0])
    assert outside == ["FROM", "WORKDIR", "COPY"]
    assert not word
    assert "\x1b" not in text
    assert "\u202e" not in text


def test_an_attempt_without_an_environment_is_said(machine: Machine, capsys: pytest.CaptureFixture[str]) -> None:
    """There is nothing to export of it."""
    (machine.attempt(1) / "environment.json").unlink()

    assert main(["export", "environment", str(machine.attempt(1)), "-o", str(machine.folder / "x")]) == 1
    assert "holds no environment.json" in capsys.readouterr().err
    assert not (machine.folder / "x").exists()


def test_a_full_disk_leaves_no_half(tmp_path: Path) -> None:
    """What cannot be read to its end, or written, is no export."""

    def torn() -> None:
        with packing.new_folder(tmp_path / "x") as folder:
            (folder / "half").write_text("half")
            raise StoreError("no room")

    with pytest.raises(StoreError):
        torn()
    assert list(tmp_path.iterdir()) == []
