"""Where commands look for runs: one option, one environment variable, and names that lead to runs alone."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_researchenv.cli import main


#: Every command that reads a run by its name.
READERS = (
    "calibration --run",
    "diagnose",
    "document quickstart --run",
    "export run -o new.tar.gz",
    "logs",
    "report",
    "rerun",
    "stats",
    "verify",
    "watch --once",
)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to work in, with an empty run of an agent's name in the results folder of somebody."""
    (tmp_path / "elsewhere" / "nightly").mkdir(parents=True)
    monkeypatch.delenv("RESEARCHENV_RESULTS", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", ["", ".", "..", "../.."])
@pytest.mark.parametrize("command", READERS)
def test_what_leads_to_no_run_is_none(command: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise every folder of a disk with results anywhere below would be a run of strange agents."""
    assert main([*command.split(), name]) == 1
    # `stats` takes RUN:AGENT, and says so.
    assert re.search("cannot be the name of a run|'' names nothing", capsys.readouterr().err)


@pytest.mark.parametrize("command", [one for one in READERS if not one.startswith(("document", "watch"))])
def test_of_a_run_that_is_not_there_those_that_are_are_named(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong name, or the folder of other results: the message helps with both."""
    assert main([*command.split(), "nigthly", "--results", "elsewhere"]) == 1
    said = capsys.readouterr().err
    assert "there is no run in elsewhere/nigthly; did you mean 'nightly'? (it has: nightly)" in said


@pytest.mark.parametrize("command", ["calibration --run", "diagnose", "logs", "report", "stats", "verify"])
def test_a_run_in_which_nothing_was_built_is_told_from_a_wrong_choice(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """As where no container engine answered: `verify` must not pass then, which CI jobs rely on."""
    assert main([*command.split(), "nightly", "--results", "elsewhere"]) == 1
    assert "the run in elsewhere/nightly holds no attempt: nothing was built" in capsys.readouterr().err


def test_commands_look_where_the_environment_has_pytest_write(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`RESEARCHENV_RESULTS`; the option wins."""
    monkeypatch.setenv("RESEARCHENV_RESULTS", "elsewhere")

    assert main(["stats", "nightly"]) == 1
    assert "the run in elsewhere/nightly holds no attempt" in capsys.readouterr().err
    assert main(["stats", "nightly", "--results", "other"]) == 1
    assert "there is no run in other/nightly" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../x", "a b", "-x", "x" * 65, ""])
@pytest.mark.parametrize("command", ["prove quickstart --run", "import archive.tar.gz --run"])
def test_a_run_that_is_made_has_a_name_that_pytest_takes(
    command: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It becomes a folder and a part of images' tags, and somebody will want to continue it."""
    try:
        code = main([*command.split()[:-1], f"--run={name}"])
    except SystemExit as stopped:
        code = int(str(stopped.code))
    assert code
    assert "give 1 to 64 letters, digits" in capsys.readouterr().err
