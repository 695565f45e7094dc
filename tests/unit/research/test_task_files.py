"""Descriptions of research tasks: what is right is read, what is wrong is named by file, key, value and fix."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from pytest_researchenv.cli import main
from pytest_researchenv.errors import SuiteError
from pytest_researchenv.research.metrics import Direction
from pytest_researchenv.research.suite import load_research_suite
from pytest_researchenv.research.task import Confidence, DoubtKind, Fetch, Holds, Need, Task
from pytest_researchenv.suite import holds_tasks, load_suite, validate


ROOT = Path(__file__).parents[3]
HEADER, TASK, REPORTED = (
    block.split("```")[0]
    for block in (ROOT / "docs" / "research-format.md").read_text(encoding="utf-8").split("```toml\n")[1:]
)


def write(folder: Path, *tasks: str, header: str = HEADER) -> Path:
    """Write a suite: text of each task.toml."""
    (folder / "suite.toml").write_text(header)
    for index, text in enumerate(tasks):
        (folder / f"task-{index}").mkdir(exist_ok=True)
        (folder / f"task-{index}" / "task.toml").write_text(text)
    return folder


def problems(folder: Path, *changes: tuple[str, str]) -> str:
    """Return what is wrong with the page's example after some changes, in words."""
    text = TASK
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    with pytest.raises(SuiteError) as caught:
        load_research_suite(write(folder, text))
    return str(caught.value)


@pytest.fixture
def example(tmp_path: Path) -> Task:
    """The task of the page about the format."""
    return load_research_suite(write(tmp_path, TASK)).tasks[0]


def test_every_key_of_the_format_is_read(example: Task, tmp_path: Path) -> None:
    """What the reference shows arrives in the model."""
    subtask = example.subtasks["pairs"]
    final, worst = subtask.scores["final"], subtask.scores["worst"]

    assert (example.slug, example.key) == ("forgetting_digits", "my-research/forgetting-digits")
    assert example.folder == str(tmp_path / "task-0")
    assert (example.source.folder, example.withheld.public_since) == ("tasks/digits", "2025-01-01")
    assert example.measure("pairs", "final").better is Direction.HIGHER
    assert example.origins["notes"].confidence is Confidence.RESTATED
    assert example.data["digits"].fetch is Fetch.PACKAGE
    assert [(removal.holds, removal.parts) for removal in example.removed] == [
        (Holds.GRADING, ()),
        (Holds.WITHHELD, ("Buffer.recall",)),
    ]
    assert subtask.needs == (Need.NETWORK,)
    assert subtask.required.severities == {"noise": 5}
    assert (subtask.deciding, final.to_beat, final.comparable) == (final, 80.0, True)
    assert final.validation.withheld == 91.0
    assert (worst.withheld, worst.comparable) == (None, False)
    doubt = worst.doubted(DoubtKind.SOURCES_DISAGREE)
    assert doubt is not None
    assert doubt.other == 50.0


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('area = "', 'aera = "', "aera: unknown key (value 'continual learning'); did you mean 'area'?"),
        ('area = "', 'folder = "/etc"\narea = "', "folder: unknown key (value '/etc'); remove it"),
        ('acronym = "FD"', "acronym = 3", "acronym: must be a valid string, not 3"),
        ("hours = 12.0", 'hours = "12"', "budget.hours: must be a valid number, not '12'"),
        ("hours = 12.0", "hours = 0.0", "budget: hours and dollars must be positive numbers, not 0.0 and 10.0"),
        ("hours = 12.0", "hours = inf", "budget: hours and dollars must be positive numbers"),
        ("dollars = 10.0", "dolars = 10.0", "budget.dolars: unknown key (value 10.0); did you mean 'dollars'?"),
        ('folder = "tasks/digits"', 'folder = "../x"', "source: folder must be a path inside the repository"),
        (
            'git = "https://example.org/owner/name"',
            'path = "."',
            "source: commit and folder belong to git, and exclude path",
        ),
        ('folder = "tasks/digits"', 'path = "."', "source: give git, commit and folder, or path"),
        ("0123456789abcdef01234567", "main", "source: commit must be 40 hexadecimal digits"),
        ('better = "higher"', 'better = "more"', "measures.accuracy.better: must be 'higher' or 'lower', not 'more'"),
        ("range = [0.0, 100.0]", "range = [100.0, 0.0]", "measures.accuracy.range: [100.0, 0.0] is no range"),
        ("range = [0.0, 100.0]", "range = [nan, 100.0]", "measures.accuracy.range: [nan, 100.0] is no range"),
        ('unit = "%"', 'units = "%"', "measures.accuracy.units: unknown key (value '%'); did you mean 'unit'?"),
        ('sha256 = "0000', 'sha256 = "zz00', "data.digits: sha256 must be 64 hexadecimal digits"),
        ("size_bytes = 1000", "size_bytes = 0", "data.digits: size_bytes must be positive, not 0"),
        ('fetch = "package"', 'fetch = "bundled"', "data.digits: path must say where in the task's tree it is bundled"),
        (
            'confidence = "restated"',
            'confidence = "sure"',
            "origins.notes.confidence: must be 'published', 'restated',",
        ),
        ('path = "grading"', 'path = "/etc"', "removed[0]: path must be a path inside the task's tree, not '/etc'"),
        ('"2024-12-31"         #', '"31.12.2024" #', "blocked: search_until must be a day like 2024-12-31"),
        (
            '"2024-12-31"         #',
            '"2025-01-01" #',
            "blocked.search_until: 2025-01-01 is not before 2025-01-01, from when on the withheld paper could be found",
        ),
    ],
)
def test_a_wrong_key_or_value_is_named_with_the_fix(tmp_path: Path, old: str, new: str, said: str) -> None:
    """The message has the file, the dotted key, the value and what to write instead."""
    message = problems(tmp_path, (old, new))

    assert said in message
    assert str(tmp_path / "task-0" / "task.toml") in message


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('data = ["digits"]', 'data = ["digit"]', "subtasks.pairs.data: no data set is called 'digit'; did you mean"),
        (
            'score = "final"                     #',
            'score = "finale" #',
            "subtasks.pairs.score: no score is called 'finale'; did",
        ),
        (
            'measure = "accuracy"\nbest = ["Replay"]',
            'measure = "acuracy"\nbest = ["Replay"]',
            "no measure is called 'acu",
        ),
        ('withheld_from = "notes"', 'withheld_from = "note"', "\"final\".withheld_from: no origin is called 'note'"),
        ('withheld_from = "notes"', "", "withheld_from: must say where the withheld score comes from, and only"),
        ("withheld = 90.0                     #", "#", "withheld_from: must say where the withheld score comes from"),
        ("spreads = { Replay = 1.5 }", "spreads = { Replai = 1.5 }", "no baseline is called 'Replai'; did you mean"),
        ('spreads = "standard error"', "", "of which kind they are is not said: add spreads to [origins.table 1]"),
        ("{ Nothing = 20.0, Replay = 80.0 }", "{}", "baselines: missing: what is there to beat?"),
        (
            "Nothing = 20.0",
            "Nothing = 120.0",
            "baselines.Nothing: 120 is not within 0 and 100, the range of 'accuracy'",
        ),
        ("Nothing = 20.0", "Nothing = nan", "baselines.Nothing: nan is no finite number"),
        ("Replay = 82.0", "Replay = -1.0", "validation.baselines.Replay: -1 is not within 0 and 100"),
        ("Nothing = 20.0", "Nothing = 80.0", "best: ['Replay'] is not ['Nothing', 'Replay'], which reached 80.0"),
        ("Nothing = 20.0", "Nothing = 81.0", "best: ['Replay'] is not ['Nothing'], which reached 81.0"),
        ('better = "higher"', 'better = "lower"', "best: ['Replay'] is not ['Nothing'], which reached 20.0"),
        ('mean_of = ["final"', 'mean_of = ["finale"', "mean_of: no score is called 'finale'; did you mean 'final'?"),
        ('mean_of = ["final"', 'mean_of = ["mean"', "mean_of: 'mean' is a mean itself: name what is measured"),
        ("seeds = [0, 1, 2]", "seeds = [0, 1, 1]", "required.seeds: [0, 1, 1] has one twice: a run counts once"),
        ("folds = [1, 2]", "folds = [2, 2]", "required.folds: [2, 2] has one twice"),
        ("folds = [1, 2]", "folds = [true]", "required.folds[0]: must be a valid integer, not True"),
        (
            'baselines_from = "table 1"\nwithheld = 90.0',
            'baselines_from = "table 7"\nwithheld = 90.0',
            "no origin is called",
        ),
        ('methods = ["Replay"]', 'methods = ["Replai"]', "baselines: no baseline is called 'Replai'; did you mean"),
        ('{ kind = "sources disagree"', '{ kind = "sources differ"', "doubts[1].kind: must be 'withheld missing', "),
        ("steps = 1000", "steps = 0", "required.steps: must be positive, not 0"),
        (
            'chosen_here = ["seeds"]',
            'chosen_here = ["seed"]',
            "chosen_here: 'seed' is none of them; did you mean 'seeds'?",
        ),
        ("severities = { noise = 5 }", "severities = { noise = 5.5 }", "severities.noise: must be a valid integer"),
        ("baseline = 80.0", "baseline = 81.0", "primary[0].baseline: 81.0 is not the mean of [80.0]"),
        (
            "withheld = 90.0\n\n[subtasks",
            "withheld = 80.0\n\n[subtasks",
            "primary[0].withheld: 80.0 is not the mean of",
        ),
        (
            'method = "Replay"',
            'method = "Replays"',
            "primary[0].baseline: 80.0 is the mean of numbers that are not all",
        ),
        (
            'subtask = "pairs"',
            'subtask = "pair"',
            "primary[0].of[0].subtask: no sub-task is called 'pair'; did you mean",
        ),
        ('score = "final" }]', 'score = "finals" }]', "primary[0].of[0].score: no score is called 'finals'; did you"),
    ],
)
def test_numbers_that_cannot_be_are_refused(tmp_path: Path, old: str, new: str, said: str) -> None:
    """References, ranges, the best baseline and published means are looked at before anything runs."""
    assert said in problems(tmp_path, (old, new))


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            '    { kind = "withheld missing", why = "nobody prints it" },\n',
            "",
            "doubts: missing: the numbers say 'withheld m",
        ),
        ("withheld = 90.0                     #", "withheld = 80.0 #", "the numbers say 'withheld not above baseline'"),
        ("withheld = 90.0                     #", "withheld = 79.9 #", "(withheld 79.9, best baseline 80.0)"),
        (
            "withheld_spread = 0.5",
            'doubts = [{ kind = "withheld not above baseline", why = "?" }]',
            "'withheld not above baseline' does not hold (withheld 90.0, best baseline 80.0): remove it",
        ),
        (
            "withheld_spread = 0.5",
            'doubts = [{ kind = "withheld missing", why = "?" }]',
            "'withheld missing' does not hold",
        ),
    ],
)
def test_a_doubt_is_there_exactly_where_the_numbers_say_so(tmp_path: Path, old: str, new: str, said: str) -> None:
    """Nobody divides by a score that is not there, or is no better than a baseline, for want of a word."""
    assert said in problems(tmp_path, (old, new))


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("codex-again", "`-k codex` would select its tests of every agent"),
        ("arc2-net", "`-k C2` would select every test of it"),
        ("cl", "'cl' is a part of 'oracle', 'claude-sonnet', "),
        ("oracl", "is a part of 'oracle'"),
        ("Digits", "must be small letters and digits"),
        ("a--b", "must be small letters and digits"),
        ("../x", "must be small letters and digits"),
        ("", "must be small letters and digits"),
    ],
)
def test_a_task_is_not_named_like_an_agent_or_a_tier(tmp_path: Path, name: str, said: str) -> None:
    """`-k codex` must select an agent, `-k C2` a tier, and `-k cl` no agent that has the letters in its name."""
    message = problems(tmp_path, ('"forgetting-digits" ', f'"{name}" '))

    assert "task.toml: name: " in message
    assert said in message


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("my_noop", "`-k noop` would select its tests of every agent"),
        ("xc3", "`-k C3` would select"),
        ("code", "'code' is a part of 'claude-code-glm', 'codex', "),
        ("a-b", "must be small letters and digits, with single '_' between"),
    ],
)
def test_a_subtask_is_not_named_like_an_agent_or_a_tier(tmp_path: Path, name: str, said: str) -> None:
    """Its id stands beside the agent's."""
    changed = TASK.replace("subtasks.pairs", f"subtasks.{name}").replace('subtask = "pairs"', f'subtask = "{name}"')

    with pytest.raises(SuiteError) as caught:
        load_research_suite(write(tmp_path, changed))

    assert f"task.toml: subtasks.{name}: " in str(caught.value)
    assert said in str(caught.value)


def test_a_score_is_not_named_like_an_agent_or_a_tier(tmp_path: Path) -> None:
    """`-k` finds sub-tasks by the names of their scores, too."""
    changed = TASK.replace("scores.worst", 'scores."C0 worst"')

    with pytest.raises(SuiteError, match=r"`-k C0` would select"):
        load_research_suite(write(tmp_path, changed))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("scores.worst", 'scores."wo\\u001b[31mrst"'),
        ("Nothing = 10.0", '"No\\u0007thing" = 10.0'),
        ("scores.worst", 'scores.""'),
    ],
)
def test_names_that_cannot_be_shown_are_refused(tmp_path: Path, old: str, new: str) -> None:
    """They stand in tables, reports and terminals."""
    with pytest.raises(SuiteError, match="must be a name that can be shown"):
        load_research_suite(write(tmp_path, TASK.replace(old, new)))


def test_what_is_told_in_words_cannot_speak_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A reason may hold anything that TOML can write."""
    folder = write(tmp_path, TASK.replace("nobody prints it", "nobody\\u001b[31m prints it"))

    assert main(["validate", str(folder)]) == 0
    assert "\x1b" not in capsys.readouterr().out


def test_each_subtask_of_a_task_can_be_selected_alone(tmp_path: Path) -> None:
    """`-k run` would select `slow_run`, too."""
    more = TASK.partition("[subtasks.pairs]")[2].replace("[subtasks.pairs", "[subtasks.many_pairs")
    changed = f"{TASK}\n[subtasks.many_pairs]{more}"

    with pytest.raises(SuiteError, match=r"'pairs' is a part of 'many_pairs': `-k pairs` would select both"):
        load_research_suite(write(tmp_path, changed))


def test_all_problems_of_all_files_are_listed_at_once(tmp_path: Path) -> None:
    """One run shows everything that is to be mended, also of a file that is no TOML, or no text."""
    folder = write(tmp_path, TASK.replace("area", "aera"), "[", header="nme = 1\n")
    (folder / "task-2").mkdir()
    (folder / "task-2" / "task.toml").write_bytes(b"\xff")
    (folder / "task-3").mkdir()
    (folder / "task-3" / "taks.toml").write_text("")

    with pytest.raises(SuiteError) as caught:
        load_research_suite(folder)

    message = str(caught.value)
    assert "has 7 problems:" in message
    for said in ("nme: unknown key", "name: missing", "aera: ", "area: missing", "not valid TOML", "cannot be read"):
        assert said in message
    assert "task-3: has no task.toml, but files of a task" in message


def test_two_tasks_of_one_name_are_refused(tmp_path: Path) -> None:
    """The name is the id."""
    with pytest.raises(SuiteError, match=r"'forgetting-digits' has the same name as 'forgetting-digits'"):
        load_research_suite(write(tmp_path, TASK, TASK))


def test_every_file_of_a_suite_holds_its_canary(tmp_path: Path) -> None:
    """Tasks, too: they tell what to reach."""
    folder = write(tmp_path, TASK.replace("# my-research canary 6f1c\n", ""))
    (folder / "test_research.py").write_text("")
    (folder / "task-0" / "oracle.sh").write_text("")

    with pytest.raises(SuiteError) as caught:
        load_research_suite(folder)

    assert str(caught.value).count("lacks the suite's canary") == 3


def test_a_suite_holds_tasks_or_repositories(tmp_path: Path) -> None:
    """Where both are, somebody would not be seen; and what is for repositories does not pass over tasks in silence."""
    folder = write(tmp_path, TASK)
    assert holds_tasks(folder)
    with pytest.raises(SuiteError, match=r"holds research tasks, and this is for repositories: name another suite"):
        load_suite(folder)

    (folder / "one").mkdir()
    (folder / "one" / "repo.toml").write_text("")
    with pytest.raises(SuiteError, match=r"has a repo\.toml: a suite holds research tasks or repositories, and not"):
        load_research_suite(folder)


def test_a_hidden_folder_is_no_task(tmp_path: Path) -> None:
    """Editors leave copies."""
    folder = write(tmp_path, TASK)
    (folder / "task-0").rename(folder / ".task-0")

    assert not holds_tasks(folder)
    assert load_research_suite(folder).tasks == ()


def test_the_check_shows_what_is_to_be_beaten_and_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A doubt is told, and does not make a suite wrong; a problem does."""
    folder = write(tmp_path, TASK)

    assert main(["validate", str(folder)]) == 0
    said = capsys.readouterr().out
    assert "1 task, 1 sub-task" in said
    assert "warning: forgetting-digits: pairs: worst: withheld missing: nobody prints it" in said
    (line,) = [line for line in said.splitlines() if line.startswith("pairs ")]
    assert line.split() == ["pairs", "final", "higher", "Replay", "80", "90", "restated"]

    write(tmp_path, TASK.replace("dollars", "dolars"))
    assert main(["validate", str(folder)]) == 1
    assert "did you mean 'dollars'?" in capsys.readouterr().out


def test_the_check_has_a_json_form(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Every score with both numbers, and every doubt; of a wrong suite, what is wrong."""
    folder = write(tmp_path, TASK)

    assert main(["validate", str(folder), "--json"]) == 0
    held = json.loads(capsys.readouterr().out)
    assert (held["valid"], held["name"], held["subtasks"]) == (True, "my-research", 1)
    assert [task["name"] for task in held["tasks"]] == ["forgetting-digits"]
    assert [(row["score"], row["to_beat"], row["withheld"]) for row in held["tasks"][0]["scores"]] == [
        ("final", 80.0, 90.0),
        ("mean", 42.5, 45.5),
        ("worst", 10.0, None),
    ]
    assert [doubt["kind"] for doubt in held["doubts"]] == ["withheld missing", "sources disagree"]

    write(tmp_path, "[")
    assert main(["validate", str(folder), "--json"]) == 1
    assert "is not valid TOML" in json.loads(capsys.readouterr().out)["problem"]


def test_of_a_measure_where_lower_is_better_the_sign_is_turned(tmp_path: Path) -> None:
    """A withheld method that loses less is better; one that loses more is told."""
    text = TASK.replace('better = "higher"', 'better = "lower"').replace('best = ["Replay"]', 'best = ["Nothing"]')
    text = text.replace(
        'best = ["Nothing"]\nbaselines = { Nothing = 10', 'best = ["Replay"]\nbaselines = { Nothing = 10'
    )
    text = text.replace("withheld = 45.5", "withheld = 10.0")
    text = text.replace("withheld_spread = 0.5", 'doubts = [{ kind = "withheld not above baseline", why = "?" }]')
    shown = io.StringIO()

    assert validate(write(tmp_path, text), console=Console(file=shown, width=200)), shown.getvalue()

    assert "withheld not above baseline: withheld 90 >= best baseline 20 (Nothing)" in shown.getvalue()


def test_a_locked_suite_of_tasks_is_checked_like_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One that cannot be read is not locked; one that has changed is told."""
    folder = write(tmp_path, TASK)

    assert main(["lock", str(folder)]) == 0
    assert main(["validate", str(folder), "--locked"]) == 0
    write(tmp_path, TASK.replace('acronym = "FD"', 'acronym = "FE"'))
    assert main(["validate", str(folder), "--locked"]) == 1
    assert "task-0/task.toml has changed since the suite was locked" in capsys.readouterr().out
    write(tmp_path, "[")
    assert main(["lock", str(folder)]) == 1
