"""The plugin as its users see it: selection, outcomes, JUnit and summary.

Only what judges is replaced here (`FakeHarness`, by overriding the fixture): everything else is the real plugin. The
same ways are walked with real containers in `tests/integration`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import cast

import pytest
from junitparser import Error, Failure, Properties, Skipped
from junitparser.xunit2 import JUnitXml, TestCase

# What a run inside this process is the first to import, is forgotten after it, and takes longer than the run.
import pytest_researchenv.harness
import pytest_researchenv.probes.table
import pytest_researchenv.recording.plugin
import pytest_researchenv.sandbox.ready  # noqa: F401
from pytest_researchenv.testids import environment_of


SUITES = Path(__file__).parents[2] / "suites"

FAKE_HARNESS = '''
from __future__ import annotations
import pytest
from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.harness import Judged
from pytest_researchenv.model import Cause, Tier, TierResult, Verdict

class FakeHarness:
    """Gives scripted verdicts: the repository's name says which."""

    def judge(self, agent, repository, tier, *, retry=False, trial=1):
        if repository.slug == "outage":
            raise InfrastructureError("the registry did not answer")
        if repository.slug == "absent" and tier is Tier.C1:
            return Judged(TierResult(tier, Verdict.SKIPPED, Cause.NOT_APPLICABLE, "needs a robot"))
        if repository.slug == "broken":
            return Judged(TierResult(tier, Verdict.FAILED, Cause.EXIT_CODE, "exited with code 1", "boom", 2.5))
        return Judged(TierResult(tier, Verdict.PASSED, duration_s=1.25, evidence={"missing": ["a", "b"], "total": 9}))

@pytest.fixture(scope="session")
def researchenv_harness():
    return FakeHarness()
'''

#: Two of the six tiers are enough.
PYRAMID = (SUITES / "quickstart/test_pyramid.py").read_text().partition("def test_c2")[0]

TIER = """
[tiers.C0]
[tiers.C1]
argv = ["{python}", "run.py"]
[tiers.C1.evidence]
output = ["done"]
"""


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    """A suite of four repositories: fine, broken, outage and absent."""
    folder = pytester.mkdir("mine")
    (folder / "suite.toml").write_text('name = "mine"\ndescription = "for a test"\n')
    (folder / "test_pyramid.py").write_text(PYRAMID)
    for name in ("fine", "broken", "outage", "absent"):
        repository = folder / name
        repository.mkdir()
        (repository / "repo.toml").write_text(f'name = "owner/{name}"\n[source]\npath = "."\n{TIER}')
        (repository / "run.py").write_text("print('done')\n")
    pytester.makeconftest(FAKE_HARNESS)
    return pytester


def _cases(path: Path) -> dict[str, TestCase]:
    return {case.name: cast("TestCase", case) for tests in JUnitXml.fromfile(str(path)) for case in tests}


def _properties(case: TestCase) -> dict[str, str]:
    found = case.child(Properties)  # type: ignore[no-untyped-call] # the library does not annotate it
    return {prop.name: prop.value for prop in found} if found is not None else {}


def test_each_verdict_is_the_pytest_outcome_of_the_same_meaning(suite: pytest.Pytester) -> None:
    """Passed, failed, skipped and error are told apart: trouble with the infrastructure is never a failure."""
    result = suite.runpytest("mine", "--researchenv-agent=oracle")

    result.assert_outcomes(passed=3, failed=2, skipped=1, errors=2)


def test_junit_has_verdict_duration_and_properties(suite: pytest.Pytester) -> None:
    """The written XML carries the probe's own time, the outcome, and the facts per test."""
    suite.runpytest("mine", "--researchenv-agent=oracle", "--junitxml=out.xml", "-o", "junit_duration_report=call")
    cases = _cases(suite.path / "out.xml")

    fine = cases["test_c0_static_imports[oracle-fine]"]
    properties = _properties(fine)

    assert fine.time == pytest.approx(1.25)
    assert properties["researchenv_verdict"] == "passed"
    assert properties["researchenv_repository"] == "owner/fine"
    assert properties["researchenv_evidence_missing"] == "a, b"
    assert isinstance(cases["test_c1_cpu_execution[oracle-broken]"].result[0], Failure)
    assert isinstance(cases["test_c1_cpu_execution[oracle-outage]"].result[0], Error)
    assert isinstance(cases["test_c1_cpu_execution[oracle-absent]"].result[0], Skipped)
    outage = _properties(cases["test_c1_cpu_execution[oracle-outage]"])
    assert outage["researchenv_tier"] == "C1"
    assert "researchenv_verdict" not in outage


def test_the_summary_counts_errors_and_skips_apart(suite: pytest.Pytester) -> None:
    """The terminal shows repositories by tiers, with what each rate is out of."""
    result = suite.runpytest("mine", "--researchenv-agent=oracle")

    result.stdout.re_match_lines_random(
        [r".*repository +C0 +C1", r".*passed of judged +2 of 3 +1 of 2", r".*errors +1 +1"]
    )


def test_a_failure_is_told_in_short_without_traceback(suite: pytest.Pytester) -> None:
    """Tier, cause and decisive line; no frames of ours."""
    result = suite.runpytest("mine", "--researchenv-agent=oracle", "-k", "broken and c1")

    result.stdout.fnmatch_lines(["C1 CPU execution failed: non-zero exit: exited with code 1", "  > boom"])
    result.stdout.no_fnmatch_line("*fixtures.py*")


def test_one_tier_is_selected_by_its_name(suite: pytest.Pytester) -> None:
    """`-k C1` selects that tier of every repository and nothing else."""
    result = suite.runpytest("mine", "--researchenv-agent=oracle", "-k", "C1", "--collect-only", "-q")

    selected = [line for line in result.outlines if "::" in line]
    assert len(selected) == 4
    assert all("test_c1_" in line for line in selected)


def test_two_agents_make_two_cases_of_each_repository(suite: pytest.Pytester) -> None:
    """Ids say agent and repository, so that either can be selected."""
    result = suite.runpytest(
        "mine", "--researchenv-agent=oracle", "--researchenv-agent=noop", "-k", "noop and fine", "--collect-only", "-q"
    )

    result.stdout.fnmatch_lines(["*test_c0_static_imports[[]noop-fine]", "*test_c1_cpu_execution[[]noop-fine]"])


def test_several_attempts_are_listed_one_after_the_other(suite: pytest.Pytester) -> None:
    """All first ones, then all second ones; the first has the id that it has alone."""
    result = suite.runpytest(
        "mine", "--researchenv-agent=oracle", "--researchenv-attempts=2", "-k", "c0", "--collect-only", "-q"
    )

    listed = re.findall(r"\[oracle-(.+)\]", result.stdout.str())
    assert listed == ["absent", "broken", "fine", "outage", "absent-2", "broken-2", "fine-2", "outage-2"]


def test_two_tests_never_have_the_same_id(suite: pytest.Pytester) -> None:
    """A repository whose name looks like another's second attempt is told, before anything is done."""
    (suite.path / "mine/fine").rename(suite.path / "mine/broken-2")
    path = suite.path / "mine/broken-2/repo.toml"
    path.write_text(path.read_text().replace("owner/fine", "owner/broken-2"))

    result = suite.runpytest("mine", "--researchenv-agent=oracle", "--researchenv-attempts=2")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*oracle-broken-2 would be both*"])


def test_listing_needs_no_agent(suite: pytest.Pytester) -> None:
    """Without an agent tests are listed, and their ids say so."""
    result = suite.runpytest("mine", "--collect-only", "-q")

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*[[]no-agent-fine]"])


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "xdist"])
def test_running_without_an_agent_is_a_usage_error_that_lists_them(suite: pytest.Pytester, workers: list[str]) -> None:
    """Nothing runs, the message names every known agent, and the exit code is pytest's for a wrong call."""
    result = suite.runpytest_subprocess("mine", *workers)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*no agent was chosen*--researchenv-agent*", "*oracle:*", "*noop:*"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--researchenv-agent=orakel"], "*no agent is called 'orakel'; did you mean 'oracle'*"),
        (["--researchenv-agent=oracle", "--researchenv-agent-timeout=soon"], "*agent-timeout*'soon'*positive number*"),
        (["--researchenv-agent=oracle", "--researchenv-agent-timeout=0"], "*agent-timeout*'0'*positive number*"),
        (["--researchenv-agent=oracle", "--researchenv-c0-max-missing=2"], "*c0-max-missing*'2'*from 0 to 1*"),
        (["--researchenv-agent=oracle", "--researchenv-suite=quikstart"], "*quikstart*quickstart*"),
        (["--researchenv-agent=oracle", "--researchenv-run=../x"], "*run*'../x'*"),
        (["--researchenv-agent=oracle", "--researchenv-network=foo"], "*network*'foo'*open, allowlist, none*"),
        (["--researchenv-allow=https://example.org/x"], "*allow*no host*example.org*"),
        (["--researchenv-allow=*.org"], "*allow*no host*"),
        (["--researchenv-max-cost=much"], "*max-cost*'much'*US dollars*"),
        (["--researchenv-attempts=0"], "*attempts*'0'*whole number*"),
        (["--researchenv-attempts=1.5"], "*attempts*'1.5'*whole number*"),
        (["--researchenv-rerun=broken"], "*rerun*'broken'*infra, missing, failed, tier:C0*"),
        (["--researchenv-junit=."], "*junit*'.'*folder*"),
        (["--researchenv-gpus=device=first"], "*gpus*'device=first'*device=0,2*"),
        (["--researchenv-agent-gpus=-1"], "*agent-gpus*'-1'*whole number*"),
        (["--researchenv-inspector=nobody"], "*inspector*nobody*"),
        (["--researchenv-inspector=noop"], "*inspector is 'noop', which has no model*"),
        (["--researchenv-keep=some"], "*keep: 'some' is no policy: give all, failed, none*"),
        (["--researchenv-disk-floor=-1"], "*disk-floor*'-1'*GiB*"),
        (["--researchenv-package-cache=much"], "*package-cache*'much'*GiB, or 0*"),
        (
            ["--researchenv-agent=paper-glm", "--researchenv-package-cache=1"],
            "*package-cache*not for paper-glm*Leave it out*",
        ),
        (["--researchenv-slots=many"], "*slots*'many'*auto*"),
        (["--researchenv-lease-timeout=0"], "*lease-timeout*'0'*seconds*"),
        (["--researchenv-retries=-1"], "*retries*'-1'*whole number*"),
        (["--researchenv-prompt=nowhere.md"], "*prompt*nowhere.md*no file*"),
        (["--researchenv-prices=nowhere.toml"], "*prices*nowhere.toml*no file*"),
        (["--researchenv-agent=x", "--researchenv-agents-file=nowhere.toml"], "*nowhere.toml does not exist*"),
    ],
)
def test_a_wrong_option_is_a_usage_error(suite: pytest.Pytester, arguments: list[str], message: str) -> None:
    """The message names the option, the value and what would be right."""
    result = suite.runpytest("mine", *arguments)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_a_broken_suite_is_a_usage_error_that_names_the_file(suite: pytest.Pytester) -> None:
    """A typo in a TOML file stops the run and says where it is."""
    (suite.path / "mine/fine/repo.toml").write_text('name = "fine"\nsorce = 1\n')

    result = suite.runpytest("mine", "--researchenv-agent=oracle")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*repo.toml: sorce*"])
    assert "Traceback" not in result.stdout.str() + result.stderr.str()


def test_workers_share_one_session_and_report_to_one_summary(suite: pytest.Pytester) -> None:
    """With -n the outcomes, the XML and the summary are the same."""
    result = suite.runpytest_subprocess("mine", "--researchenv-agent=oracle", "-n", "2", "--junitxml=out.xml")

    result.assert_outcomes(passed=3, failed=2, skipped=1, errors=2)
    result.stdout.re_match_lines_random([r".*passed of judged +2 of 3 +1 of 2"])
    assert len(_cases(suite.path / "out.xml")) == 8


@pytest.mark.parametrize("dist", [[], ["--dist", "load"]], ids=["default", "chosen"])
def test_the_tiers_of_an_environment_stay_on_one_worker(suite: pytest.Pytester, dist: list[str]) -> None:
    """With -n, unless the user chose how tests are distributed, while others are still to be built."""
    result = suite.runpytest_subprocess("mine", "--researchenv-agent=oracle", "-n", "2", "-v", *dist)

    ran = re.findall(r"\[(gw\d)\].*::test_c\d_\w+\[(oracle-\w+)\]", result.stdout.str())
    workers = {name: {worker for worker, which in ran if which == name} for _, name in ran}
    assert len(workers) == 4
    assert dist or all(len(used) == 1 for used in list(workers.values())[:2])
    result.assert_outcomes(passed=3, failed=2, skipped=1, errors=2)


def test_a_suite_by_name_is_what_workers_collect(suite: pytest.Pytester) -> None:
    """`--researchenv-suite` with -n runs that suite and nothing else that lies around."""
    suite.makepyfile(test_other="def test_other(): raise AssertionError")

    result = suite.runpytest_subprocess("--researchenv-suite=mine", "--researchenv-agent=oracle", "-n", "2")

    result.assert_outcomes(passed=3, failed=2, skipped=1, errors=2)


def test_a_damaged_record_stops_its_own_tests_only(suite: pytest.Pytester) -> None:
    """The plan is shown and all tests run, whatever lies in the results folder."""
    attempt = suite.path / "researchenv-results/default/oracle/mine/fine/attempt-001"
    attempt.mkdir(parents=True)
    (attempt / "environment.json").write_text("{")

    result = suite.runpytest_subprocess("mine", "--researchenv-agent=oracle")

    result.assert_outcomes(passed=3, failed=2, skipped=1, errors=2)
    result.stdout.fnmatch_lines(["researchenv: environments: 3 to build, 1 to reuse; tiers: 8 to judge, 0 not*"])


def test_the_plan_is_shown_by_a_verbose_listing(suite: pytest.Pytester) -> None:
    """`--collect-only -v` says what a run would do, and does nothing."""
    result = suite.runpytest("mine", "--researchenv-agent=oracle", "--collect-only", "-v")

    result.stdout.fnmatch_lines(["researchenv: environments: 4 to build, 0 to reuse; tiers: 8 to judge, 0 not*"])


def test_a_probes_time_is_counted_once(suite: pytest.Pytester) -> None:
    """In JUnit's default mode, too, set-up and call together are no longer than the session."""
    suite.runpytest_subprocess("mine", "--researchenv-agent=oracle", "--junitxml=out.xml", "-k", "fine and c0")

    assert _cases(suite.path / "out.xml")["test_c0_static_imports[oracle-fine]"].time == pytest.approx(1.25, abs=0.2)


def test_a_suite_is_found_by_name_in_an_empty_folder(pytester: pytest.Pytester) -> None:
    """`--researchenv-suite` collects a shipped suite from anywhere."""
    result = pytester.runpytest_subprocess("--researchenv-suite=quickstart", "--collect-only", "-q")

    assert result.ret == pytest.ExitCode.OK
    result.stdout.fnmatch_lines(["*test_c0_static_imports[[]no-agent-kvpress]"])


def test_the_plugin_costs_nothing_when_it_is_not_used(pytester: pytest.Pytester) -> None:
    """A run without suites imports neither Docker nor pydantic nor anything else heavy."""
    pytester.makepyfile(
        """
        import sys

        def test_modules():
            heavy = {"docker", "pydantic", "requests", "rich", "pyright", "scipy", "torch", "filelock"}
            assert not heavy & set(sys.modules)
        """
    )

    pytester.runpytest_subprocess("-p", "no:xdist").assert_outcomes(passed=1)


def test_the_suites_of_a_checkout_are_listed_without_docker(pytester: pytest.Pytester) -> None:
    """Listing asks no container engine, and does not even load its client."""
    script = (
        "import sys, pytest; code = pytest.main(['--collect-only', '-q', '--researchenv-suite=quickstart']); "
        "sys.exit(code or int('docker' in sys.modules))"
    )

    done = subprocess.run([sys.executable, "-c", script], cwd=pytester.path, check=False, capture_output=True)

    assert done.returncode == 0, done.stdout


def test_sub_tasks_of_a_research_task_stay_on_one_worker() -> None:
    """One environment is for all of them; each attempt has its own."""
    ids = (
        "s/test_research.py::test_improvement[codex-mini-digits_continual-steps2]",
        "s/test_research.py::test_improvement[codex-mini-digits_continual-steps10]",
        "s/test_research.py::test_improvement[codex-mini-digits_continual-steps2-2]",
        "s/test_research.py::test_improvement[codex-digits_continual-steps2]",
        "s/test_research.py::test_improvement[codex-mini-morpheme_tokens-pieces100]",
    )
    units = [environment_of(one, ("codex", "codex-mini"), is_research=lambda _: True) for one in ids]

    assert units[0] == units[1]
    assert len(set(units)) == 4
