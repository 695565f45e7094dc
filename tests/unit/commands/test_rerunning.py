"""The command `rerun`: with the command line of an earlier session, and nothing of it that a rerun says itself."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.manifest import Manifest
from pytest_researchenv.recording.manifest import begun, save_manifest
from pytest_researchenv.rerunning import rerun_arguments
from tests.simulated import Workplace


OURS = ["--researchenv-results=r", "--researchenv-run=x", "--researchenv-rerun=infra"]


def again(*recorded: str, further: tuple[str, ...] = ()) -> list[str]:
    """What is added to, and left of, a recorded command line."""
    found = rerun_arguments(recorded, results=Path("r"), run="x", what=["infra"], further=further)
    assert found[: len(OURS)] == OURS
    return found[len(OURS) :]


@pytest.mark.parametrize(
    ("recorded", "kept"),
    [
        ([], []),
        (["mine", "-n", "2", "--researchenv-agent=a"], ["mine", "-n", "2", "--researchenv-agent=a"]),
        (["--researchenv-run=x", "a"], ["a"]),
        (["--researchenv-run", "x", "a"], ["a"]),
        (["a", "--researchenv-run"], ["a"]),
        (["--researchenv-rerun=failed", "--researchenv-rerun", "tier:C1", "a"], ["a"]),
        (["--researchenv-results=other", "--researchenv-rebuild", "a"], ["a"]),
        (["--co", "a", "--collect-only", "--collectonly"], ["a"]),
        (["--researchenv-reuse-anyway", "--researchenv-run-not-ours"], None),
        (["-k", "--co", "x"], ["-k", "x"]),
        (["a", "--", "--researchenv-run=x"], ["a", "--", "--researchenv-run=x"]),
        (["a", "--"], ["a"]),
    ],
)
def test_what_a_rerun_says_itself_is_replaced(recorded: list[str], kept: list[str] | None) -> None:
    """With the value, joined or apart; what only begins like it is kept, and what stands after `--` is a path."""
    assert again(*recorded) == (recorded if kept is None else kept)


def test_further_arguments_come_last() -> None:
    """So that they win; paths among them stand with the other paths."""
    assert again("a", "-x", further=("-n", "0")) == ["a", "-x", "-n", "0"]
    assert again("a", "--", "b", further=("-x", "--", "c")) == ["a", "-x", "--", "b", "c"]


@pytest.mark.parametrize(
    ("recorded", "option"),
    [
        (["--api-key=[redacted]"], "--api-key"),
        (["--api-key", "[redacted]"], "--api-key"),
        (["--base=https://[redacted USER]@host.example/"], "--base"),
        (["-o", "my_token=[redacted]"], "-o"),
    ],
)
def test_a_secret_that_was_not_kept_must_be_given_again(recorded: list[str], option: str) -> None:
    """It is asked for by its option; given again, what stood in its place is left out."""
    with pytest.raises(ConfigurationError, match=f"give it again, as in `researchenv rerun RUN -- {option}="):
        again("a", *recorded, "b")

    assert again("a", *recorded, "b", further=(f"{option}=new",)) == ["a", "b", f"{option}=new"]


def test_a_record_with_what_no_program_can_be_given_is_refused() -> None:
    """Nothing is started by half."""
    with pytest.raises(ConfigurationError, match="the record was edited"):
        again("a\0b")


# --- which session ----------------------------------------------------------------------------------------


def record(folder: Path, session: str, *command: str, ended: str = "2026-01-01T00:00:00+00:00") -> Manifest:
    """Leave the record of a session."""
    manifest = begun(
        session=session, run="x", command=["pytest", *command], agents=["a"], distributions=[], folder=folder
    )
    save_manifest(folder / "x", replace(manifest, ended=ended))
    return manifest


def told(folder: Path, *arguments: str) -> dict[str, Any]:
    """What the command says as JSON."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest_researchenv.cli", "rerun", "x", "--results", str(folder), "--json", *arguments],
        check=True,
        capture_output=True,
        text=True,
    )
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_the_newest_session_is_taken_and_that_is_said(tmp_path: Path) -> None:
    """`--session` takes another."""
    record(tmp_path, "20260101T000000-b", "-k", "C1")
    assert told(tmp_path)["notes"] == []
    record(tmp_path, "20260102T000000-a", "-k", "C2", ended="")

    newest = told(tmp_path)
    assert newest["session"] == "20260102T000000-a"
    first, second = newest["notes"]
    assert "the newest. Others, for --session: 20260101T000000-b" in first
    assert "it goes on, or was killed" in second
    assert newest["command"] == [
        "pytest",
        f"--researchenv-results={tmp_path}",
        "--researchenv-run=x",
        "--researchenv-rerun=infra",
        "--researchenv-rerun=missing",
        *("-k", "C2"),
    ]

    other = told(tmp_path, "--session", "20260101T000000-b")
    assert other["command"][-1] == "C1"
    assert len(other["notes"]) == 1


def test_a_session_of_another_machine_is_said(tmp_path: Path) -> None:
    """Its paths may not be here."""
    manifest = record(tmp_path, "s")
    save_manifest(tmp_path / "x", replace(manifest, host=replace(manifest.host, id="other"), ended="then"))

    (note,) = told(tmp_path)["notes"]
    assert "was on another machine" in note


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "does not hold what was written there"),
        (b"\xff\xfe", "does not hold what was written there"),
        (b"[" * 100_000, "does not hold what was written there"),
        (b'{"session": "s"}', "run: Field required"),
        (None, "holds no manifest"),
    ],
)
def test_damaged_and_missing_records_are_said(
    content: bytes | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is started, and nothing is printed on stdout."""
    (tmp_path / "x").mkdir()
    if content is not None:
        (tmp_path / "x" / "manifest-s.json").write_bytes(content)

    assert main(["rerun", "x", "--results", str(tmp_path)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert said in printed.err


def test_an_unknown_session_is_said_with_those_that_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By name."""
    record(tmp_path, "s1")
    assert main(["rerun", "x", "--results", str(tmp_path), "--session", "s2"]) == 1
    assert "has no session 's2'; it has: s1" in capsys.readouterr().err


def test_control_characters_of_a_record_reach_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They are written out; in JSON they are escaped."""
    record(tmp_path, "s", "-k", "\x1b]0;mine\x07")
    assert main(["rerun", "x", "--results", str(tmp_path), "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "\x1b" not in shown
    assert r"\x1b]0;mine\x07" in shown


# --- for real ---------------------------------------------------------------------------------------------


def test_a_run_is_run_again_as_it_was(tmp_path: Path) -> None:
    """What broke is judged again, with the agents, paths and options of before; the exit code is pytest's."""
    workplace = Workplace(tmp_path)
    code, _ = workplace.run()
    assert code == 1
    workplace.done()

    def rerun(*arguments: str, **extra: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "pytest_researchenv.cli", "rerun", *arguments],
            cwd=tmp_path,
            check=False,
            capture_output=True,
            text=True,
            env=workplace.environment(**extra),
        )

    shown = rerun("default", "--dry-run")
    assert (shown.returncode, workplace.done()) == (0, [])
    assert shlex.split(shown.stdout)[0] == "pytest"

    mended = rerun("default", MENDED="1")
    assert mended.returncode == 0, mended.stdout
    assert mended.stdout.startswith(shown.stdout.rstrip())
    assert {line for line in workplace.done() if line.startswith("probed")} == {
        f"probed fake broken {tier}" for tier in ("C0", "C1")
    }

    # Nothing is left; pytest says so by 5. What comes after `--` is pytest's.
    assert rerun("default", "infra", MENDED="1").returncode == 5
    failed = rerun("default", "failed", "--", "-k", "failing", "--no-header", MENDED="1")
    assert failed.returncode == 0, failed.stdout
    assert "platform linux" not in failed.stdout
    assert "the run has 4 sessions" not in shown.stderr
    assert "the run has 3 sessions" in failed.stderr
    assert [line for line in workplace.done() if line.startswith("probed")] == ["probed fake failing C1"]
