"""The commands `stats` and `compare`: what they take, what they print, what they refuse."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pytest_researchenv import cli
from pytest_researchenv.model import Tier
from tests.refusals import refuse_listing
from tests.unit.statistics.made import attempt, verdicts, write
from tests.unit.statistics.papers import as_published


QUICKSTART = ("kvpress", "lettucedetect", "long-context-attention", "tinyddp")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs over the quickstart: `first` of two agents with two tries each, `second` of one."""
    folder = tmp_path_factory.mktemp("results")
    made = [
        attempt(f"quickstart/{name}", letters, agent=agent, number=number, wall_s=60.0, cost_usd=0.5)
        for agent, outcomes in (("opus", ("ppppp", "pppfp")), ("codex", ("pfpff", "ppfff")))
        for name in QUICKSTART
        for number, letters in enumerate(outcomes, start=1)
    ]
    broken = attempt("quickstart/kvpress", agent="codex", inputs=None, error="the engine is gone")
    write(folder, [*made, broken], name="first")
    write(folder, [attempt("quickstart/kvpress", "pp", agent="opus")], name="second")
    write(folder, as_published("nexau"), name="paper-like")
    return folder


class Command:
    """`researchenv`, with a results folder."""

    def __init__(self, results: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._results = results
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        """Return what it prints; what it says of errors where it must fail."""
        assert cli.main([*arguments, "--results", str(self._results)]) == code
        printed = self._capsys.readouterr()
        return printed.err if code else printed.out

    def tables(self, *arguments: str) -> dict[str, list[dict[str, Any]]]:
        """Return the rows of each table."""
        found = json.loads(self(*arguments, "--json"))
        return {table["table"]: table["rows"] for table in found["tables"]}


@pytest.fixture
def command(results: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    """The command."""
    return Command(results, capsys)


# --- stats ------------------------------------------------------------------------------------------------


def test_stats_say_everything_of_each_agent(command: Command) -> None:
    """As tables of values."""
    tables = command.tables("stats", "first")

    assert list(tables) == [
        *("judged", "attempts", "rates", "imports", "drops", "reliability", "efficiency", "cost"),
    ]
    c1 = [row for row in tables["rates"] if row["tier"] == "C1"]
    assert [(row["agent"], row["passed"], row["judged"]) for row in c1] == [("codex", 0, 4), ("opus", 4, 4)]
    assert c1[1]["interval"] == pytest.approx([0.5101, 1.0], abs=5e-5)
    (pair,) = (row for row in tables["reliability"] if (row["agent"], row["tier"], row["k"]) == ("codex", "C1", 2))
    assert (pair["pass_at_k"], pair["pass_all_k"]) == (1.0, 0.0)
    (broken,) = (row["broken"] for row in tables["attempts"] if row["agent"] == "codex")
    assert broken == "1 while building"
    (c3,) = (row for row in tables["cost"] if (row["agent"], row["tier"]) == ("opus", "C3"))
    assert (c3["usd"], c3["spent_usd"], c3["passed"]) == (1.0, 4.0, 4)


def test_stats_of_one_agent(command: Command) -> None:
    """Named behind the run."""
    rows = command.tables("stats", "first:opus")["rates"]

    assert {row["agent"] for row in rows} == {"opus"}


def test_a_suites_description_says_where_a_tier_does_not_apply(command: Command) -> None:
    """Of shipped suites it is found by itself."""
    (c4,) = (row for row in command.tables("stats", "paper-like")["judged"] if row["tier"] == "C4")

    assert (c4["repositories"], c4["applicable"], c4["run"], c4["unjudged"]) == (44, 32, 32, 0)


def test_imports_claims_and_calibration_are_told_as_the_paper_counts_them(command: Command) -> None:
    """NexAU's totals: 25.3 % of 2858 imports missing, 16 false claims."""
    tables = command.tables("stats", "paper-like")

    (published,) = (row for row in tables["imports"] if row["figure"] == "as published")
    assert (published["missing"], published["total"], published["repositories"]) == (723, 2858, 44)
    low, high = published["interval"]
    assert low < 723 / 2858 < high
    (own,) = (row for row in tables["imports"] if row["figure"] == "ours")
    assert (own["missing"], own["ratio"], own["uncounted"]) == (None, None, 44)
    (claims,) = tables["claims"]
    assert (claims["reports"], claims["capability"], claims["total"], claims["published"]) == (44, 16, 16, 16)


@pytest.mark.parametrize(
    ("form", "begins"),
    [("csv", "agent,tier,passed"), ("markdown", "**Success rates**"), ("latex", "\\begin{table}")],
)
def test_one_table_can_be_had_in_every_form(command: Command, form: str, begins: str) -> None:
    """On standard output."""
    printed = command("stats", "first", "--table", "rates", "--format", form)

    assert printed.startswith(begins)
    assert "opus" in printed


def test_all_tables_can_be_written_to_files(command: Command, tmp_path: Path) -> None:
    """One each, in a folder that is made."""
    folder = tmp_path / "a" / "b"

    said = command("stats", "first", "--format", "csv", "--output", str(folder))

    assert said.count("written: ") == len(list(folder.iterdir())) == 8
    with (folder / "drops.csv").open(newline="") as file:
        (row, *_) = csv.DictReader(file)
    assert (row["agent"], row["lower"], row["upper"], row["share"]) == ("codex", "C0", "C1", "0.0")


def test_json_can_be_written_to_files(command: Command, tmp_path: Path) -> None:
    """Likewise."""
    command("stats", "first", "--json", "--output", str(tmp_path), "--table", "rates")

    assert json.loads((tmp_path / "rates.json").read_text())["table"] == "rates"


def test_a_terminal_shows_tables_with_their_notes(command: Command) -> None:
    """Without columns in which nothing stands."""
    printed = command("stats", "second")

    assert "Success rates" in printed
    assert "by its first try" in printed
    assert "emulated" not in printed


def test_a_damaged_record_is_named_and_the_rest_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On standard error, and in JSON."""
    write(tmp_path, [attempt("quickstart/kvpress", "pp")], name="run")
    path = next(tmp_path.rglob("C1-001.json"))
    path.write_text("{")

    assert cli.main(["stats", "run", "--results", str(tmp_path), "--json"]) == 0

    printed = capsys.readouterr()
    (damage,) = json.loads(printed.out)["damaged"]
    assert damage.startswith(str(path))
    assert str(path) in printed.err
    (judged,) = (table for table in json.loads(printed.out)["tables"] if table["table"] == "judged")
    assert [row["errors"] for row in judged["rows"] if row["tier"] == "C1"] == ["1 damaged record"]


# --- compare ----------------------------------------------------------------------------------------------


def test_two_agents_of_a_run_are_compared(command: Command) -> None:
    """Named, or all of the run two by two."""
    (c1,) = (row for row in command.tables("compare", "first:opus", "first:codex")["compare"] if row["tier"] == "C1")

    assert (c1["pairs"], c1["only_first"], c1["only_second"], c1["p"]) == (4, 4, 0, 0.125)
    assert c1["p_holm"] == 5 * 0.125
    assert command("compare", "first:codex", "first:opus") == command("compare", "first")


def test_the_tiers_can_be_chosen(command: Command) -> None:
    """The correction is for these alone."""
    rows = command.tables("compare", "first", "--tier", "c1", "--tier", "C3")["compare"]

    assert [(row["tier"], row["p_holm"]) for row in rows] == [("C1", 0.25), ("C3", 0.25)]


def test_one_agent_of_two_runs_is_compared(command: Command) -> None:
    """Only repositories that both judged are pairs."""
    tables = command.tables("compare", "first:opus", "second")

    assert [(row["pairs"], row["unpaired"]) for row in tables["compare"]][:2] == [(1, 3), (1, 3)]
    assert {row["agent"] for row in tables["rates"]} == {"first:opus", "second:opus"}


def test_every_two_agents_are_compared_once(command: Command) -> None:
    """Whichever side they stand on; nobody is compared with himself."""
    once = command("compare", "first")

    assert command("compare", "first", "first") == once
    assert command("compare", "first:codex", "first") == once
    assert command("compare", "first", "first:opus") == once


def test_runs_of_the_same_name_in_other_folders_are_compared(command: Command, results: Path) -> None:
    """Each is named as it was."""
    write(results / "archive", [attempt("quickstart/kvpress", "fp", agent="opus")], name="second")

    tables = command.tables("compare", "second", "archive/second")

    assert [row["only_first"] for row in tables["compare"]][:2] == [1, 0]
    assert {row["agent"] for row in tables["rates"]} == {"second:opus", "archive/second:opus"}


def test_a_run_of_which_nothing_can_be_read_is_said(
    command: Command, results: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the folder."""
    refuse_listing(monkeypatch, results / "second")

    said = command("compare", "second", code=1)

    assert "second cannot be listed: Permission denied" in said
    assert "the run second holds no attempt that can be read" in said


def test_several_comparisons_are_several_files(command: Command, tmp_path: Path) -> None:
    """Numbered."""
    command("compare", "first", "second", "--format", "latex", "--output", str(tmp_path))

    assert {path.name for path in tmp_path.iterdir()} == {"rates.tex", "compare-1.tex", "compare-2.tex"}


def test_a_run_stands_beside_the_paper(command: Command) -> None:
    """Whether it can be compared is said of every tier."""
    rows = command.tables("compare", "paper-like", "paper:codex")["compare"]

    assert [row["tier"] for row in rows] == list(Tier)
    assert rows[2]["difference"] == pytest.approx(6 / 44)
    assert [row["comparable"] for row in rows] == ["nearly", "hardly", "nearly", "hardly", "hardly", "no"]
    assert command("compare", "paper:codex", "paper-like") == command("compare", "paper-like", "paper:codex")
    shown = command("compare", "paper-like", "paper:codex")
    assert "a difference is not one between agents" in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("stats", "third"), "there is no run in"),
        (("stats", "first:gpt"), "the run first holds no agent 'gpt'; it holds: codex, opus"),
        (("stats", "paper:codex"), "paper:codex is no run"),
        (("stats", "first", "--table", "x"), "no table 'x' to show; there is: judged, attempts, rates"),
        (("stats", "first", "--output", "x"), "wants --json, or --format with one of csv, markdown, latex"),
        (("compare", "first:"), "'first:' names nothing"),
        (("compare", "second"), "second:opus is alone there"),
        (("compare", "second:opus", "second:opus"), "second:opus is alone there"),
        (("compare", "second", "second:opus"), "second and second:opus are the same agent of the same run"),
        (("compare", "paper:codex"), "paper:codex is compared with a run"),
        (("compare", "paper:codex", "paper:nexau"), "paper:codex is compared with a run"),
        (("compare", "paper-like", "paper:gemini"), "known: paper:codex"),
        (("compare", "first:opus", "paper:codex"), "0 of the paper's 44 repositories were judged"),
    ],
)
def test_what_cannot_be_done_is_said(command: Command, arguments: tuple[str, ...], said: str) -> None:
    """With what to do in its place; the exit code is 1."""
    assert said in " ".join(command(*arguments, code=1).split())


def test_emulated_results_refuse_to_stand_beside_the_paper(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the CPU nothing was learnt about CUDA."""
    write(tmp_path, [attempt("quickstart/kvpress", verdicts("ppppp", emulated=True))], name="cpu")

    assert cli.main(["compare", "cpu", "paper:codex", "--results", str(tmp_path)]) == 1

    assert "verdicts were emulated on the CPU" in capsys.readouterr().err


def test_an_unknown_tier_is_a_wrong_call(command: Command, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 2, as of every wrong call."""
    with pytest.raises(SystemExit, match="2"):
        command("compare", "first", "--tier", "C9")
    assert "'C9' is none of C0, C1, C2, C3, C4, C5" in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder_is_said(command: Command, tmp_path: Path) -> None:
    """And nothing else breaks."""
    (tmp_path / "file").touch()

    said = command("stats", "first", "--json", "--output", str(tmp_path / "file"), code=1)

    assert "cannot be made" in said


def test_scipy_is_imported_by_those_who_need_it_alone() -> None:
    """Not by other commands, nor by what pytest loads."""
    script = (
        "import sys, pytest_researchenv.wiring;"
        "from pytest_researchenv.commands import parser_of;"
        "parser_of(['validate']); parser_of(['doctor']);"
        "sys.exit(bool({'scipy', 'numpy'} & set(sys.modules)))"
    )

    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
