"""Ways to distribute tests: whichever it is, each environment is built once, and no verdict is lost.

The real harness and store, over a fake container engine; the same with real containers, and with other plugins, is in
`tests/integration/test_pytest_behaviours.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pytest_researchenv.expected import Durations
from pytest_researchenv.recording.entry import Entry, Outcome
from pytest_researchenv.recording.journal import Finished, Journal
from pytest_researchenv.report.properties import PREFIX
from pytest_researchenv.store import Store
from tests.choosing import mostly_slow
from tests.simulated import NAMES, TIERS, stored, write_suite


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A folder with a suite of three repositories with three tiers each."""
    write_suite(pytester.path)
    return pytester


def _run(suite: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    return suite.runpytest_subprocess("mine", "--researchenv-agent=oracle", "-v", *arguments)


@pytest.mark.parametrize(
    "arguments",
    mostly_slow(
        (
            ["-n0"],
            ["-p", "no:xdist"],
            ["-n2"],
            ["-n2", "--dist=load"],
            ["-n2", "--dist=loadgroup"],
            ["-n2", "--dist=worksteal"],
            ["--tx=2*popen"],
        ),
        but=(["-n0"], ["-n2"], ["-n2", "--dist=worksteal"]),
    ),
    ids=" ".join,
)
def test_each_environment_is_built_once_and_each_tier_judged_once(suite: pytest.Pytester, arguments: list[str]) -> None:
    """However pytest is told to distribute tests, and where it distributes none."""
    result = _run(suite, *arguments)

    result.assert_outcomes(passed=9)
    assert stored(suite.path) == {f"{name}/attempt-001": [f"{tier}-001" for tier in TIERS] for name in NAMES}
    assert ("[gw1]" in result.stdout.str()) == (arguments[0] in ("-n2", "--tx=2*popen"))


def _told(results: Path, session: str, agent: str, name: str, *, probe_s: float, build_s: float) -> None:
    """Write what a session's journal tells of one test."""
    facts = {"agent": agent, "key": f"mine/{name}", "trial": 1, "probe_s": probe_s, "agent_wall_s": build_s}
    properties = tuple((f"{PREFIX}{key}", str(value)) for key, value in facts.items())
    test = f"mine/test_pyramid.py::test_c1_x[{agent}-{name}]"
    entry = Entry(test, Outcome.PASSED, started=0.0, duration_s=9.0, properties=properties)
    Journal(results / "earlier", session).append(Finished(entry))


def test_what_took_longest_is_begun_first(suite: pytest.Pytester) -> None:
    """By all runs of the results folder; what nothing is known of comes before."""
    results = suite.path / "researchenv-results"
    (results / "earlier").mkdir(parents=True)
    _told(results, "1", "oracle", "first", probe_s=1.0, build_s=10.0)
    _told(results, "1", "oracle", "third", probe_s=1.0, build_s=20.0)

    result = _run(suite, "-n1")

    assert list(dict.fromkeys(re.findall(r"PASSED.*oracle-(\w+)\]", result.stdout.str()))) == ["long", "third", "first"]


def test_what_is_expected_is_what_was_seen_last(tmp_path: Path) -> None:
    """Building counts where there is something to build; of an agent that is new, what others took."""
    (tmp_path / "earlier").mkdir()
    _told(tmp_path, "1", "oracle", "long", probe_s=1.0, build_s=10.0)
    _told(tmp_path, "2", "oracle", "long", probe_s=3.0, build_s=50.0)
    _told(tmp_path, "3", "noop", "long", probe_s=5.0, build_s=0.0)
    journal = tmp_path / "earlier/journal-4.jsonl"
    journal.write_bytes(b"torn\n")
    store = Store(tmp_path, "default")

    def expected(agent: str, name: str = "long", *, rebuild: bool = False) -> float | None:
        tests = [f"mine/test_pyramid.py::test_{tier}_x[{agent}-{name}]" for tier in ("c1", "c3")]
        return Durations(tmp_path).expected(tests, agent=agent, trial=1, store=store, rebuild=rebuild)

    assert expected("oracle") == 53.0
    assert expected("new") == 4.0 + 25.0
    assert expected("oracle", "other") is None

    attempt = store.begin("oracle", "mine/long", "session")
    (attempt.folder / "environment.json").touch()

    assert expected("oracle") == 3.0
    assert expected("oracle", rebuild=True) == 53.0


def test_a_worker_that_dies_takes_nothing_with_it(suite: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test at which it died failed; the others are run by the worker in its place, on the environment as it is."""
    monkeypatch.setenv("DIES", "mine/long C1")

    result = _run(suite, "-n2")

    result.assert_outcomes(passed=8, failed=1)
    result.stdout.fnmatch_lines(["*worker 'gw?' crashed while running*test_c1_x?oracle-long*"])
    judged = {name: [f"{tier}-001" for tier in TIERS] for name in NAMES} | {"long": ["C0-001", "C3-001"]}
    assert stored(suite.path) == {f"{name}/attempt-001": results for name, results in judged.items()}


def test_a_run_stops_at_the_first_failure_on_workers_too(suite: pytest.Pytester) -> None:
    """`--maxfail` ends a run with workers, and does not hang."""
    (suite.path / "mine/test_broken.py").write_text("def test_broken():\n    raise AssertionError\n")

    result = suite.runpytest_subprocess(
        "mine/test_broken.py", "mine", "--researchenv-agent=oracle", "-n2", "--maxfail=1"
    )

    assert "stopping after 1 failures" in result.stdout.str()
    assert result.parseoutcomes()["failed"] == 1
