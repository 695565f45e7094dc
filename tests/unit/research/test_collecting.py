"""Research suites as users of pytest see them: which tests there are, how they are selected, and that none pretends."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from tests.unit.research.test_task_files import TASK, write


ROOT = Path(__file__).parents[3]
MODULE = (ROOT / "suites" / "researchgym" / "test_research.py").read_text(encoding="utf-8")
PAGE = (ROOT / "docs" / "researchgym.md").read_text(encoding="utf-8")


@pytest.fixture
def mine(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite of one task with two sub-tasks."""
    more = TASK.partition("[subtasks.pairs]")[2].replace("[subtasks.pairs", "[subtasks.triples")
    text = f"{TASK}\n[subtasks.triples]{more.replace('final', 'speed')}"
    folder = write(pytester.mkdir("mine"), text)
    (folder / "test_research.py").write_text(f"# my-research canary 6f1c\n{MODULE}")
    return pytester


def listed(result: pytest.RunResult) -> list[str]:
    """The ids of the tests that were listed."""
    return re.findall(r"test_improvement\[(.+)\]", result.stdout.str())


@pytest.mark.parametrize(
    ("arguments", "count"),
    [
        ([], 39 + 6),
        (["-k", "time_series and CPD"], 7),
        (["-k", "time_series and AUP"], 2),
        (["-k", "continual_learning"], 6),
        (["-k", "digits or morpheme"], 6),
        (["-k", "materials and Macro-F1"], 11),
        (["-k", "cheetah_run"], 2),
        (["-k", "pixel_cheetah_run"], 1),
        (["-m", "research"], 39 + 6),
        (["-m", "integrity"], 0),
        (["-k", "claude"], 0),
        (["-k", "oracle or baseline or noop"], 0),
        (["-k", "C0 or C1 or C2 or C3 or C4 or C5"], 0),
    ],
)
def test_published_subtasks_are_listed_and_selected(
    pytester: pytest.Pytester, arguments: list[str], count: int
) -> None:
    """By name, by score and by marker; and never by what names an agent or a tier."""
    result = pytester.runpytest("--researchenv-suite=researchgym", "--collect-only", "-q", *arguments)

    ids = listed(result)
    assert len(ids) == len(set(ids)) == count
    assert all(re.fullmatch(r"no-agent-[a-z_]+-\w+", name) for name in ids)


def test_each_agent_has_every_subtask_and_no_others_name_selects_it(pytester: pytest.Pytester) -> None:
    """`-k claude-sonnet` gives that agent's 45, `-k codex` the other's."""
    agents = ["--researchenv-agent=claude-sonnet", "--researchenv-agent=codex"]

    for agent in ("claude-sonnet", "codex"):
        result = pytester.runpytest("--researchenv-suite=researchgym", *agents, "--collect-only", "-q", "-k", agent)
        ids = listed(result)
        assert len(ids) == 39 + 6
        assert all(name.startswith(f"{agent}-") for name in ids)


def test_the_commands_of_the_page_do_what_it_says(
    pytester: pytest.Pytester, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each of them ends well, and tells of 39 published sub-tasks and 6 of ours."""
    commands = [shlex.split(line) for line in re.findall(r"^    ((?:researchenv|pytest) .+)$", PAGE, re.MULTILINE)]
    assert [command[0] for command in commands] == ["researchenv", "pytest", "pytest"]

    for name, *words in commands:
        if name == "pytest":
            assert "45" in pytester.runpytest(*words).stdout.str()
        else:
            assert main(words) == 0
            assert "45 sub-tasks" in capsys.readouterr().out


def test_what_nothing_can_run_is_skipped_and_never_passes(mine: pytest.Pytester) -> None:
    """The reason says that it cannot be run yet, and what it would need; the cause travels with the report."""
    result = mine.runpytest("mine", "--researchenv-agent=oracle", "--junitxml=out.xml", "-rs")

    result.assert_outcomes(skipped=2)
    result.stdout.fnmatch_lines(["*cannot be run yet: *; on this machine it needs an afternoon*"])
    result.stdout.fnmatch_lines(["researchenv: research: sub-tasks: 2 of 1 tasks; none can be run yet"])
    written = (mine.path / "out.xml").read_text()
    for value in ("oracle", "my-research/forgetting-digits", "pairs", "skipped", "cannot be run here"):
        assert f'value="{value}"' in written


def test_listing_with_an_agent_is_no_plan_to_build_anything(mine: pytest.Pytester) -> None:
    """`-v` says what a run would do."""
    result = mine.runpytest("mine", "--researchenv-agent=oracle", "--collect-only", "-v")

    result.stdout.fnmatch_lines(["researchenv: research: sub-tasks: 2 of 1 tasks; none can be run yet"])
    assert "environments:" not in result.stdout.str()


def test_running_without_an_agent_is_a_usage_error_that_lists_them(mine: pytest.Pytester) -> None:
    """As in suites of repositories."""
    result = mine.runpytest("mine")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no agent was chosen*--researchenv-agent*", "*oracle:*"])


def test_workers_skip_the_same(mine: pytest.Pytester) -> None:
    """With -n the ids are the same on every worker."""
    mine.runpytest_subprocess("mine", "--researchenv-agent=oracle", "-n", "2").assert_outcomes(skipped=2)


def test_several_attempts_are_listed_one_after_the_other(mine: pytest.Pytester) -> None:
    """The first has the id that it has alone."""
    result = mine.runpytest("mine", "--researchenv-attempts=2", "--collect-only", "-q")

    names = ("pairs", "triples", "pairs-2", "triples-2")
    assert listed(result) == [f"no-agent-forgetting_digits-{name}" for name in names]


def test_a_broken_task_is_a_usage_error_that_names_the_file(mine: pytest.Pytester) -> None:
    """A typo stops the run and says where it is."""
    file = mine.path / "mine" / "task-0" / "task.toml"
    file.write_text(file.read_text().replace("dollars", "dolars"))

    result = mine.runpytest("mine", "--researchenv-agent=oracle")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*task.toml: budget.dolars: unknown key*did you mean 'dollars'*"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_a_test_that_lies_in_no_suite_is_told(pytester: pytest.Pytester) -> None:
    """The fixture says where its test has to be."""
    pytester.makepyfile("def test_it(improvement): pass")

    result = pytester.runpytest()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*asks for researchenv_research_case, but its folder holds no suite.toml*"])


def test_listing_research_imports_no_container_engine(pytester: pytest.Pytester) -> None:
    """Nor anything else that only running needs."""
    script = (
        "import sys, pytest; code = pytest.main(['--collect-only', '-q', '--researchenv-suite=researchgym']); "
        "sys.exit(code or int(bool({'docker', 'scipy', 'requests'} & set(sys.modules))))"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=pytester.path, check=False, capture_output=True)

    assert done.returncode == 0, done.stdout
