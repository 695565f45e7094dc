"""What agents reached in research tasks, read from a results folder, as tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.model import Environment, Verdict
from pytest_researchenv.report.research_results import research_tables
from pytest_researchenv.report.tables import Table
from pytest_researchenv.research.result import ResearchCause, ResearchResult
from pytest_researchenv.runs.reading import read_run
from pytest_researchenv.statistics.tries import agent_runs
from pytest_researchenv.store import Store, research_stem
from tests.unit.research.test_verdict import came


GOOD = came(dict.fromkeys(range(5), 97.0))
NOTHING = ResearchResult("steps5", Verdict.FAILED, ResearchCause.NOTHING_HANDED_IN, "nothing", decides="Acc")
BROKEN = ResearchResult("steps5", Verdict.ERROR, ResearchCause.INFRASTRUCTURE, "the engine went away")


def recorded(folder: Path, *attempts: Mapping[str, ResearchResult]) -> Path:
    """Record attempts of one agent at one task; returns the run's folder."""
    store = Store(folder, "default")
    for trial, results in enumerate(attempts, start=1):
        attempt = store.begin("oracle", "mine/digits", "session", trial=trial)
        attempt.save_environment(
            Environment(attempt.key, "sha256:1", "sha256:0", "/workspace/x", None, "", (), {}, {}, "exited", "")
        )
        for subtask, result in results.items():
            log = attempt.next_log(research_stem(subtask))
            attempt.save_research(log, replace(result, subtask=subtask, log=log.name))
    return store.folder


def tables(folder: Path) -> tuple[Table, ...]:
    """The tables of a run."""
    return research_tables(agent_runs(read_run(folder), {}))


def test_each_sub_task_has_a_line_and_each_task_its_sums(tmp_path: Path) -> None:
    """What is missing counts as 0 where others have a share; it is judged, and not completed."""
    results, sums = tables(recorded(tmp_path, {"steps2": GOOD, "steps5": NOTHING}))

    rows = {row[3]: row for row in results.rows}
    assert rows["steps2"][4:9] == ("passed", "yes", "none", "Acc", 97.0)
    assert rows["steps5"][4:9] == ("failed", "no", "nothing handed in", "Acc", None)
    assert GOOD.deciding
    assert GOOD.deciding.share
    (row,) = sums.rows
    assert row[:7] == ("default:oracle", "mine/digits", 1, 2, 1, 1, 0)
    assert row[7:] == pytest.approx([GOOD.deciding.share / 2] * 2)


def test_an_attempt_with_an_error_enters_no_score(tmp_path: Path) -> None:
    """Two attempts, of which one has no verdict on everything."""
    _, sums = tables(recorded(tmp_path, {"steps2": GOOD, "steps5": BROKEN}, {"steps2": GOOD, "steps5": GOOD}))

    assert GOOD.deciding
    (row,) = sums.rows
    assert row[:7] == ("default:oracle", "mine/digits", 2, 3, 3, 3, 1)
    assert row[7:] == pytest.approx([GOOD.deciding.share] * 2)


def test_the_newest_result_counts(tmp_path: Path) -> None:
    """An evaluation that was made again has a record of its own."""
    folder = recorded(tmp_path, {"steps2": replace(NOTHING, subtask="steps2")})
    attempt = Store(tmp_path, "default").attempts("oracle", "mine/digits")[0]
    for _ in range(10):
        attempt.save_research(attempt.next_log(research_stem("steps2")), GOOD)

    results, _ = tables(folder)

    assert [row[4] for row in results.rows] == ["passed"]
    assert len(attempt.research("steps2")) == 11


def test_the_command_shows_them_and_names_damage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A record that is torn stops nothing."""
    recorded(tmp_path, {"steps2": GOOD, "steps5": NOTHING})
    torn = next(tmp_path.rglob("research-steps5-001.json"))
    torn.write_text("{")

    assert main(["stats", "default", "--results", str(tmp_path), "--format", "markdown"]) == 0

    shown = capsys.readouterr()
    assert "| default:oracle | mine/digits | 1 | steps2 | passed | yes |" in shown.out.replace("\\", "")
    assert "who was judged" not in shown.out
    assert str(torn) in shown.err
