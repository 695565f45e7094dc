"""Sessions that keep a manifest, a journal and reports, alone and with workers, one after the other."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from junitparser.xunit2 import JUnitXml

from pytest_researchenv.provenance import seal_of
from tests.simulated import TESTS, Workplace
from tests.unit.recording.valid import problems_of_ctrf, problems_of_junit


WORKERS = pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
FAILING = "test_c1_cpu_execution[fake-failing]"
BROKEN_C1 = "test_c1_cpu_execution[fake-broken]"
BROKEN = {BROKEN_C1, "test_c0_static_imports[fake-broken]"}
EXPECTED = {
    FAILING: "failure",
    **dict.fromkeys(BROKEN, "error"),
    "test_c1_cpu_execution[fake-absent]": "skipped",
}


#: A workplace in which a session was run, with such arguments for workers.
Ran = Callable[[Sequence[str]], Workplace]


@pytest.fixture
def workplace(tmp_path: Path) -> Workplace:
    """A folder with a suite."""
    return Workplace(tmp_path)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    """One session for all tests that begin with one; they look at it, and leave it as it is."""
    made: dict[tuple[str, ...], Workplace] = {}

    def ran(workers: Sequence[str]) -> Workplace:
        key = tuple(workers)
        if key not in made:
            made[key] = Workplace(tmp_path_factory.mktemp("first"))
            made[key].run("--junitxml=own.xml", "-o", "my_token=hidden", *workers)
        return made[key]

    return ran


@pytest.fixture
def ran(tmp_path: Path, first: Ran) -> Ran:
    """Likewise, in a copy of the test's own, in which nothing is noted as done yet."""

    def copied(workers: Sequence[str]) -> Workplace:
        workplace = first(workers).copied(tmp_path)
        workplace.done()
        return workplace

    return copied


def text_of(workplace: Workplace, name: str) -> str:
    """What a test's output holds."""
    return "".join(workplace.cases()[name]._elem.itertext())


@WORKERS
def test_both_reports_say_what_pytest_says(first: Ran, workers: list[str]) -> None:
    """Valid, complete, with properties, log, output and the same outcomes as pytest's own XML."""
    workplace = first(workers)

    assert problems_of_junit(workplace.junit.read_bytes()) == []
    assert problems_of_ctrf(workplace.ctrf.read_bytes()) == []
    outcomes = workplace.outcomes()
    assert len(outcomes) == TESTS
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "passed"} == EXPECTED

    own = {
        (case.classname, case.name): [result._tag for result in case.result]
        for suite in JUnitXml.fromfile(str(workplace.folder / "own.xml"))
        for case in suite
    }
    ours = {(case.classname, case.name): [result._tag for result in case.result] for case in workplace.cases().values()}
    assert ours == own

    failing = text_of(workplace, "test_c1_cpu_execution[fake-failing]")
    assert "[[PROPERTY|researchenv_verdict=failed]]" in failing
    assert "[[PROPERTY|researchenv_cause=non-zero exit]]" in failing
    assert "probing\\x00\N{REPLACEMENT CHARACTER} failing" in failing
    assert "probing\\x00\N{REPLACEMENT CHARACTER} broken" in text_of(workplace, BROKEN_C1)
    assert "said by the test" in text_of(workplace, "test_c0_static_imports[fake-fine]")
    tests = json.loads(workplace.ctrf.read_text())["results"]["tests"]
    assert {test["name"]: test["rawStatus"] for test in tests}[
        "mine/test_pyramid.py::test_c1_cpu_execution[fake-failing]"
    ] == "failed"


@WORKERS
def test_a_session_leaves_its_record(ran: Ran, workers: list[str]) -> None:
    """Command line, versions, host, engine, suites, outcomes, end and exit status; the next session has its own."""
    workplace = ran(workers)
    workplace.run("--researchenv-run=default", *workers)

    first, second = workplace.manifests()
    assert first["seal"] == seal_of(first)
    assert first["session"] != second["session"]
    assert first["exit_status"] == second["exit_status"] == 1
    assert first["outcomes"] == {"error": 2, "failed": 1, "passed": TESTS - 4, "skipped": 1}
    assert first["tests"] == TESTS
    assert list(first["suites"]) == ["mine"]  # type: ignore[call-overload] # an object
    assert {facts["engine"] for facts in first["engines"]} == {"Fake 1"}  # type: ignore[attr-defined] # likewise
    assert "my_token=[redacted]" in first["command"]  # type: ignore[operator] # likewise
    versions: Any = first["versions"]
    assert {"pytest", "pytest-xdist", "docker", "pytest-researchenv"} <= set(versions)


@WORKERS
def test_a_continued_run_repeats_no_finished_work(ran: Ran, workers: list[str]) -> None:
    """Only what ended in an error is judged again; the report is the run's."""
    workplace = ran(workers)

    workplace.run("--researchenv-run=default", *workers, MENDED="1")

    assert sorted(workplace.done()) == ["probed fake broken C0", "probed fake broken C1"]
    assert len(workplace.outcomes()) == TESTS


@pytest.mark.parametrize(
    ("rerun", "probed", "again", "left"),
    [
        ("infra", ["broken C0", "broken C1"], 2, {FAILING}),
        ("failed", ["failing C1"], 1, BROKEN),
        ("tier:c1", ["another C1", "broken C1", "failing C1", "fine C1", "other C1"], 6, BROKEN - {BROKEN_C1}),
        # What does not apply is never judged.
        ("missing", [], 1, {FAILING, *BROKEN}),
    ],
)
def test_some_of_a_run_is_run_again(ran: Ran, rerun: str, probed: list[str], again: int, left: set[str]) -> None:
    """What was chosen is judged again, what was not stays as it was, and stands in the report of the run."""
    workplace = ran([])

    _, printed = workplace.run(f"--researchenv-rerun={rerun}", MENDED="1")

    assert sorted(workplace.done()) == [f"probed fake {name}" for name in probed]
    outcomes = workplace.outcomes()
    assert len(outcomes) == TESTS
    assert {name for name, outcome in outcomes.items() if outcome not in ("passed", "skipped")} == left
    suites = list(JUnitXml.fromfile(str(workplace.junit)))
    assert [suite.tests for suite in suites] == [TESTS - again, again]
    assert f"{TESTS - again} deselected" in printed


def test_a_session_of_its_own_reports_its_own_tests(ran: Ran) -> None:
    """Without `--researchenv-run` nothing of earlier sessions is told."""
    workplace = ran([])

    workplace.run("-k", "fine")

    assert len(workplace.outcomes()) == 3


def test_a_tests_entry_says_which_session_it_is_from(ran: Ran) -> None:
    """One suite for each session, an earlier one marked as such."""
    workplace = ran([])
    workplace.run("--researchenv-run=default", "-k", "fine")

    earlier, own = JUnitXml.fromfile(str(workplace.junit))
    first, second = (record["session"] for record in workplace.manifests())
    about = [
        {prop.name: prop.value for prop in suite.properties()}  # type: ignore[no-untyped-call] # not annotated
        for suite in (earlier, own)
    ]
    assert [(one["session"], one["earlier"]) for one in about] == [(first, "true"), (second, "false")]
    tests = json.loads(workplace.ctrf.read_text())["results"]["tests"]
    assert {test["extra"]["researchenv_session"] for test in tests} == {first, second}


def test_reports_need_no_agent(pytester: pytest.Pytester) -> None:
    """Tests of the user's own are reported like any others; nothing is recorded elsewhere."""
    pytester.makepyfile(
        """
        import pytest

        @pytest.fixture
        def torn():
            yield
            raise OSError("torn")

        def test_good(): pass
        def test_bad(): assert 1 == 2
        def test_torn(torn): pass
        @pytest.mark.xfail(reason="known")
        def test_known(): assert 0
        """
    )

    result = pytester.runpytest_subprocess("--researchenv-junit=a/x.xml", "--researchenv-ctrf=b/x.json")

    result.assert_outcomes(passed=2, failed=1, errors=1, xfailed=1)
    content = (pytester.path / "a/x.xml").read_bytes()
    assert problems_of_junit(content) == []
    assert b'tests="4" failures="1" errors="1" skipped="1"' in content
    assert b"teardown: " in content
    assert problems_of_ctrf((pytester.path / "b/x.json").read_bytes()) == []
    assert not (pytester.path / "researchenv-results").exists()


def test_a_wrong_path_is_a_usage_error(workplace: Workplace) -> None:
    """A folder in the place of the file, and a file in the place of the folder."""
    (workplace.folder / "taken").write_text("")

    for wrong in ("--researchenv-junit=.", "--researchenv-junit=taken/x.xml", "--researchenv-results=taken/x"):
        code, printed = workplace.run(wrong)
        assert code == pytest.ExitCode.USAGE_ERROR, printed
    assert workplace.done() == []


@WORKERS
def test_each_of_several_attempts_is_a_test_with_an_environment_of_its_own(
    workplace: Workplace, workers: list[str]
) -> None:
    """The first has the id that it has alone; more are added to a run without repeating those that are there."""
    workplace.run("--researchenv-run=many", "-k", "fine", *workers)
    workplace.done()

    _, printed = workplace.run("--researchenv-run=many", "--researchenv-attempts=3", "-k", "fine", *workers)

    assert "environments: 2 to build, 1 to reuse" in printed or workers
    done = workplace.done()
    assert done.count("built fake") == 2
    probed = sorted(one for one in done if one.startswith("probed"))
    assert probed == [*["probed fake fine C0"] * 2, *["probed fake fine C1"] * 2]
    names = ("test_c0_static_imports", "test_c1_cpu_execution", "test_integrity")
    expected = {f"{name}[fake-fine{suffix}]" for name in names for suffix in ("", "-2", "-3")}
    assert set(workplace.outcomes()) == expected
    folder = workplace.folder / "researchenv-results/many/fake/mine/fine"
    starts = [json.loads((folder / f"attempt-00{number}/attempt.json").read_text()) for number in (1, 2, 3)]
    assert sorted(start["trial"] for start in starts) == [1, 2, 3]
    assert "fine-3" in printed
