"""What users of pytest expect of any suite: selection, --lf, -x, and the plugins that many have installed.

Real containers, except where they would add nothing. The other plugins are put beside the test's own pytest only: in
the environment of all tests, pytest-randomly would reorder these, too.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from docker import DockerClient
from junitparser import JUnitXml

from pytest_researchenv.sandbox.labels import PREFIX
from tests.simulated import NAMES, stored, write_suite
from tests.simulated import TIERS as TIERS_OF_ALL


ROOT = Path(__file__).parents[2]
PLUGINS = ["pytest-randomly>=4", "pytest-rerunfailures>=15", "pytest-timeout>=2.3"]
BOTH = ["--researchenv-agent=oracle", "--researchenv-agent=noop"]
DEADLINE_S = 240

TIERS = """
[tiers.C0]
[tiers.C1]
argv = ["{python}", "run.py", "{out}"]
evidence = { files = [{ path = "{out}/answer" }] }
[tiers.C3]
argv = ["{python}", "run.py", "{out}"]
evidence = { files = [{ path = "{out}/answer" }] }
[tiers.C5]
"""
RUN = """
import pathlib
import sys

import needed


pathlib.Path(sys.argv[1], "answer").write_text(needed.ANSWER)
"""
ORACLE = """
python3 -m venv --without-pip /opt/env
echo "$PWD/vendor" > "$(/opt/env/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/needed.pth"
report /opt/env/bin/python venv /opt/env
"""
OUTAGE = '''
import pytest
from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.harness import Judged
from pytest_researchenv.model import TierResult, Verdict

class FakeHarness:
    """Passes where it is asked to try again."""

    def judge(self, agent, repository, tier, *, retry=False, trial=1):
        if not retry:
            raise InfrastructureError("the registry did not answer")
        return Judged(TierResult(tier, Verdict.PASSED))

@pytest.fixture(scope="session")
def researchenv_harness():
    return FakeHarness()
'''


class Workplace:
    """A folder with a suite of two repositories, both of which need a package, and what was run there."""

    def __init__(self, folder: Path, plugins: Path) -> None:
        self.folder = folder
        self.plugins = plugins
        suite = folder / "mine"
        for name in ("first", "second"):
            (suite / name / "tree/vendor").mkdir(parents=True)
            (suite / name / "tree/run.py").write_text(RUN)
            (suite / name / "tree/vendor/needed.py").write_text('ANSWER = "42"\n')
            (suite / name / "repo.toml").write_text(f'name = "owner/{name}"\n[source]\npath = "tree"\n{TIERS}')
            (suite / name / "oracle.sh").write_text(ORACLE)
        (suite / "suite.toml").write_text('name = "mine"\ndescription = "for a test"\n')
        (suite / "test_pyramid.py").write_text((ROOT / "suites/quickstart/test_pyramid.py").read_text())

    def run(self, *arguments: str) -> Ran:
        """Run pytest with all the other plugins; pytest-randomly shuffles every run."""
        (self.folder / "out.xml").unlink(missing_ok=True)
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "pytest",
                "-c",
                "/dev/null",
                "--rootdir=.",
                "--junitxml=out.xml",
                "mine",
                *arguments,
            ],
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            env={**os.environ, "PYTHONPATH": str(self.plugins)},
        )
        assert "Using --randomly-seed=" in done.stdout, done.stdout + done.stderr
        cases = [case for tests in JUnitXml.fromfile(str(self.folder / "out.xml")) for case in tests]
        outcomes = {_short(case.name): str(case.result[0]._tag) if case.result else "passed" for case in cases}
        return Ran(outcomes, done.stdout + done.stderr)

    def attempts(self) -> list[str]:
        """Every attempt, as agent/repository/attempt."""
        found = (self.folder / "researchenv-results").rglob("attempt.json")
        return sorted("/".join((path.parts[-5], path.parts[-3], path.parts[-2])) for path in found)

    def results(self, agent: str, repository: str) -> list[str]:
        """Every result of an environment's first attempt, as C0-001."""
        root = self.folder / "researchenv-results/default" / agent / "mine" / repository
        return sorted(path.stem for path in (root / "attempt-001").glob("C?-*.json"))


@dataclass(frozen=True)
class Ran:
    """How a run ended: `C0 oracle-first` → passed, failure, error or skipped; and what was printed."""

    outcomes: dict[str, str]
    text: str


def _short(name: str) -> str:
    found = re.fullmatch(r"test_(c\d)_\w+\[(.*)\]", name)
    assert found, name
    return f"{found[1].upper()} {found[2]}"


@pytest.fixture(scope="session")
def plugins(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the other plugins."""
    folder = tmp_path_factory.mktemp("plugins")
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder), *PLUGINS]
    subprocess.run(command, check=True, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def workplaces(
    tmp_path_factory: pytest.TempPathFactory, plugins: Path, docker_client: DockerClient
) -> Iterator[Callable[[], Workplace]]:
    """Make workplaces; what was frozen for them is removed in the end."""
    made: list[Workplace] = []

    def make() -> Workplace:
        made.append(Workplace(tmp_path_factory.mktemp("workplace"), plugins))
        return made[-1]

    yield make
    for record in (path for workplace in made for path in workplace.folder.rglob("environment.json")):
        docker_client.images.remove(json.loads(record.read_text())["image"], force=True)


@pytest.fixture(scope="module")
def shuffled(workplaces: Callable[[], Workplace]) -> tuple[Workplace, Ran]:
    """Both agents at both repositories in random order, on two workers; most tests below go on from there."""
    workplace = workplaces()
    return workplace, workplace.run(*BOTH, "-n", "2", "-k", "C0 or C1")


def test_in_any_order_each_thing_is_done_once(shuffled: tuple[Workplace, Ran]) -> None:
    """pytest-randomly with -n 2: one attempt per agent and repository, one result per tier, the usual verdicts."""
    workplace, ran = shuffled
    names = ("first", "second")

    assert ran.outcomes == {
        f"{tier} {agent}-{name}": outcome
        for tier in ("C0", "C1")
        for agent, outcome in (("oracle", "passed"), ("noop", "failure"))
        for name in names
    }, ran.text
    assert workplace.attempts() == [f"{agent}/{name}/attempt-001" for agent in ("noop", "oracle") for name in names]
    assert all(workplace.results(a, n) == ["C0-001", "C1-001"] for a in ("noop", "oracle") for n in names)


def test_only_what_failed_last_is_run_again(shuffled: tuple[Workplace, Ran]) -> None:
    """`--lf` selects the failed tests, and probes them on the environments that are there."""
    workplace, _ = shuffled

    ran = workplace.run(*BOTH, "--lf", "-k", "C0")

    assert ran.outcomes == {"C0 noop-first": "failure", "C0 noop-second": "failure"}, ran.text
    assert len(workplace.attempts()) == 4


def test_a_tier_above_those_that_were_judged_is_judged_alone(shuffled: tuple[Workplace, Ran]) -> None:
    """`-k C3 -n 2` judges that tier of both repositories, and builds nothing."""
    workplace, _ = shuffled

    ran = workplace.run("--researchenv-agent=oracle", "-k", "C3", "-n", "2")

    assert ran.outcomes == {"C3 oracle-first": "passed", "C3 oracle-second": "passed"}, ran.text
    assert len(workplace.attempts()) == 4


@pytest.mark.parametrize("option", ["-x", "--maxfail=1"])
def test_a_run_stops_at_the_first_failure(shuffled: tuple[Workplace, Ran], option: str) -> None:
    """What comes after the first failure is not run."""
    workplace, _ = shuffled

    ran = workplace.run("--researchenv-agent=noop", "-k", "C0", option)

    assert list(ran.outcomes.values()) == ["failure"], ran.text
    assert "stopping after 1 failures" in ran.text


def test_a_failure_that_is_run_again_is_the_same_verdict_at_once(shuffled: tuple[Workplace, Ran]) -> None:
    """pytest-rerunfailures: within a session a tier is judged once, so chance cannot turn a failure into a pass."""
    workplace, _ = shuffled
    before = workplace.results("noop", "first")

    ran = workplace.run("--researchenv-agent=noop", "-k", "first and C1", "--reruns", "2")
    names = re.findall(r'<property name="([^"]+)"', (workplace.folder / "out.xml").read_text())

    assert ran.outcomes == {"C1 noop-first": "failure"}
    assert "2 rerun" in ran.text
    assert len(workplace.results("noop", "first")) == len(before) + 1
    # pytest's own writer adds the facts of every attempt to the one test case.
    assert all(names.count(name) == 3 for name in names)


def test_c5_alone_has_what_it_needs(workplaces: Callable[[], Workplace]) -> None:
    """`-k C5` with nothing built yet: the environment is built once, and the tiers it compares with are probed."""
    workplace = workplaces()

    ran = workplace.run("--researchenv-agent=oracle", "-k", "first and C5")

    assert ran.outcomes == {"C5 oracle-first": "passed"}, ran.text
    assert workplace.attempts() == ["oracle/first/attempt-001"]
    assert "C5-001" in workplace.results("oracle", "first")


def test_an_error_that_is_run_again_is_tried_again(workplaces: Callable[[], Workplace]) -> None:
    """pytest-rerunfailures: what the infrastructure did is no verdict, and a rerun says so to the harness."""
    workplace = workplaces()
    (workplace.folder / "conftest.py").write_text(OUTAGE)

    ran = workplace.run("--researchenv-agent=oracle", "-k", "first and C0", "--reruns", "1")

    assert ran.outcomes == {"C0 oracle-first": "passed"}, ran.text
    assert "1 passed" in ran.text
    assert "1 rerun" in ran.text


def test_a_test_at_which_a_worker_died_is_run_again_where_that_is_wanted(tmp_path: Path, plugins: Path) -> None:
    """pytest-rerunfailures with -n: another worker does it, and nothing is built twice; without Docker."""
    write_suite(tmp_path)
    dying = {"DIES": "mine/long C1", "DIES_ONCE": str(tmp_path / "died"), "PYTHONPATH": f"{ROOT}:{plugins}"}

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir=.", "mine", BOTH[0], "-n", "2", "--reruns", "1"],
        cwd=tmp_path,
        check=False,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        env={**os.environ, **dying},
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed, 1 rerun" in done.stdout
    expected = {f"{name}/attempt-001": [f"{tier}-001" for tier in TIERS_OF_ALL] for name in NAMES}
    # Its first log is that of the worker that died.
    assert stored(tmp_path) == {**expected, "long/attempt-001": ["C0-001", "C1-002", "C3-001"]}


def test_a_timeout_of_pytest_is_an_error_and_leaves_no_container(
    workplaces: Callable[[], Workplace], docker_client: DockerClient
) -> None:
    """pytest-timeout ends a test from within: that says nothing of the environment."""
    workplace = workplaces()
    name = f"timeout-{uuid.uuid4().hex[:8]}"
    (workplace.folder / "mine/first/oracle.sh").write_text("echo begun; sleep 600\n")

    ran = workplace.run("--researchenv-agent=oracle", "-k", "first and C0", "--timeout=8", f"--researchenv-run={name}")

    assert ran.outcomes == {"C0 oracle-first": "error"}, ran.text
    assert [path.read_text() for path in workplace.folder.rglob("transcript.log")] == ["begun\n"]
    assert not docker_client.containers.list(all=True, filters={"label": f"{PREFIX}run={name}"})
