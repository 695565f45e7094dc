"""What the plugin loads where nobody uses it: pytest imports it in every run of an environment that has it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pytest_researchenv import fixtures
from pytest_researchenv.plugin import FIXTURES


SUITES = Path(__file__).parents[2] / "suites"

#: What runs pytest in a process of its own, and prints which modules of ours and of heavy libraries it then holds.
SCRIPT = """
import sys, pytest
code = pytest.main([*sys.argv[1:], "-q", "-p", "no:cacheprovider"])
heavy = {"docker", "filelock", "ijson", "jinja2", "pydantic", "requests", "rich", "scipy"}
print("LOADED", sorted(n for n in sys.modules if n.partition(".")[0] in heavy or n.startswith("pytest_researchenv.")))
sys.exit(code)
"""
#: Options and hooks, and nothing else.
LIGHT = ["pytest_researchenv.declarations", "pytest_researchenv.plugin", "pytest_researchenv.xdist"]


def loaded(folder: Path, *arguments: str) -> list[str]:
    """Return what a pytest run had loaded at its end."""
    command = (sys.executable, "-c", SCRIPT, *arguments)
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.rpartition("LOADED ")[2].strip("[]\n").replace("'", "").split(", ")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with a test of its own."""
    monkeypatch.delenv("RESEARCHENV_AGENT", raising=False)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_own.py").write_text("def test_it():\n    pass\n")
    return tmp_path


def test_a_run_without_us_loads_next_to_nothing(project: Path) -> None:
    """No library that we use, and no module of ours but those that declare options."""
    assert loaded(project) == LIGHT


def test_workers_of_a_run_without_us_are_started_without_us(project: Path) -> None:
    """The controller of pytest-xdist stays as light."""
    assert loaded(project, "-n1") == LIGHT


@pytest.mark.parametrize(
    ("arguments", "ini", "variable"),
    [
        (["--researchenv-results=elsewhere"], "", ""),
        ([], "researchenv_results = elsewhere", ""),
        ([], "researchenv_allow = example.org", ""),
        ([], "", "RESEARCHENV_RESULTS"),
    ],
    ids=["option", "ini", "ini list", "variable"],
)
def test_whatever_is_given_of_ours_is_looked_at(
    project: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], ini: str, variable: str
) -> None:
    """On the command line, in the ini file, and in the environment."""
    (project / "pytest.ini").write_text(f"[pytest]\n{ini}\n")
    if variable:
        monkeypatch.setenv(variable, "elsewhere")

    assert "pytest_researchenv.wiring" in loaded(project, *arguments)


def test_a_suite_among_other_tests_is_found_late(pytester: pytest.Pytester) -> None:
    """A suite's module brings its fixtures along when it is collected, after tests of other kinds."""
    pytester.makepyfile(test_a="def test_it(): pass")
    folder = pytester.mkdir("suite")
    (folder / "suite.toml").write_text('name = "mine"\ndescription = "for a test"\n')
    (folder / "test_pyramid.py").write_text((SUITES / "quickstart/test_pyramid.py").read_text())
    repository = folder / "fine"
    repository.mkdir()
    (repository / "repo.toml").write_text('name = "owner/fine"\n[source]\npath = "."\n[tiers.C0]\n')

    listed = pytester.runpytest("test_a.py", "suite", "--collect-only", "-q", "--strict-markers")
    run = pytester.runpytest("test_a.py", "suite")

    listed.stdout.fnmatch_lines(["test_a.py::test_it", "*::test_c0_static_imports?no-agent-fine?"])
    assert run.ret is pytest.ExitCode.USAGE_ERROR
    run.stderr.fnmatch_lines(["*no agent was chosen: give --researchenv-agent=NAME*"])


@pytest.mark.parametrize("described", ["repo.toml", "task.toml"])
def test_what_a_suite_holds_of_others_is_no_test(pytester: pytest.Pytester, described: str) -> None:
    """Files of a repository or a task are not imported, whatever their names; without a suite they are anybody's."""
    (folder := pytester.mkdir("fine") / "probes").mkdir()
    (folder / "test_of_theirs.py").write_text("def test_it(): pass")
    (folder.parent / described).touch()

    pytester.runpytest().assert_outcomes(passed=1)
    (pytester.path / "suite.toml").touch()
    pytester.runpytest().assert_outcomes()


def test_workers_that_find_a_suite_late_have_their_controller_tell(pytester: pytest.Pytester) -> None:
    """Without an agent, a run that is spread over workers ends as one in a single process does."""
    result = pytester.runpytest_subprocess(str(SUITES / "quickstart"), "-n2")

    assert result.ret is pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no agent was chosen: give --researchenv-agent=NAME*"])


def test_a_test_outside_of_suites_is_told_what_it_lacks(pytester: pytest.Pytester) -> None:
    """Whichever of our fixtures it asks for."""
    pytester.makepyfile("def test_it(c3): pass")

    result = pytester.runpytest()

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*asks for researchenv_case, but its folder holds no suite.toml*"])


def test_all_fixtures_are_known_before_they_are_loaded() -> None:
    """So that a test that asks for one is noticed."""
    assert {name for name in fixtures.__all__ if name.islower()} - {"harness_of"} == FIXTURES


def test_the_package_has_only_what_it_names() -> None:
    """Its public names are imported on first use, and others are not there."""
    import pytest_researchenv  # noqa: PLC0415

    assert callable(pytest_researchenv.check)
    with pytest.raises(AttributeError, match="has no attribute 'chekc'"):
        _ = pytest_researchenv.chekc  # type: ignore[attr-defined]
