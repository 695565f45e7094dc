"""Pages made from stored results and descriptions: they claim what was run, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.agents.protocol import Agent
from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.basis import tier_basis
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import (
    Cause,
    Environment,
    GitSource,
    Sabotage,
    SabotageKind,
    SelfReport,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.proving import sabotage_agent
from pytest_researchenv.report.deviations import deviations_page
from pytest_researchenv.report.imports import ImportCount, imports_page
from pytest_researchenv.report.validation import validation_page
from pytest_researchenv.store import Store
from pytest_researchenv.suite import Suite, load_suite


REPOSITORY = """\
name = "owner/one"
source.path = "tree"

[tiers.C0]

[tiers.C1]
argv = ["{python}", "run.py"]
evidence.files = [{ path = "{out}/x" }]

[tiers.C3]
argv = ["{python}", "run.py"]
evidence.files = [{ path = "{out}/x" }]

[tiers.C4]
defective_upstream = "the launcher starts a file that does not exist"

[sabotage.package]
target = "einops"
tiers = ["C1"]
"""

DEVIATIONS = """\
[[deviations]]
tiers = ["C1", "C3"]
published = "downloads weights"
here = "random weights from a seed."
why = "a hub that does not answer is no failure of the agent"
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    """A suite of one repository."""
    (tmp_path / "suite" / "one").mkdir(parents=True)
    common = '[[deviations]]\ntiers = ["C0"]\npublished = "counts less"\nhere = "counts all"\n'
    (tmp_path / "suite" / "suite.toml").write_text(f'name = "mine"\n{common}')
    (tmp_path / "suite" / "one" / "repo.toml").write_text(REPOSITORY)
    (tmp_path / "suite" / "one" / "deviations.toml").write_text(DEVIATIONS)
    (tmp_path / "suite" / "one" / "oracle.sh").write_text("report /usr/bin/python3 system ''\n")
    return load_suite(tmp_path / "suite")


class Results:
    """A run in which attempts are recorded by hand."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        self.suite = suite
        (self.repository,) = suite.repositories
        self.store = Store(folder, "proof")

    def record(
        self,
        agent: str,
        verdicts: dict[Tier, Verdict],
        *,
        image: str = "sha256:good",
        ended: str = "exited with code 0",
        cause: Cause = Cause.NONE,
        emulated: bool = False,
        source: str = "",
    ) -> None:
        """Record an attempt with its results."""
        attempt = self.store.begin(agent, self.repository.key, "session")
        report = SelfReport(python_path="/opt/venv/one/bin/python")
        broken = agent.startswith("sabotage-")
        known = {
            "source": source or str(self.repository.source),
            "image": "base, then sha256:good" if broken else "base",
        }
        known |= (self.breaker(agent) if broken else find_agent(agent)).inputs(self.repository)
        environment = Environment(
            attempt.key, image, "sha256:base", "/workspace/one", report, "", (), known, {}, ended, ""
        )
        attempt.save_environment(environment)
        for tier, verdict in verdicts.items():
            accelerator = Accelerator.CPU if emulated else Accelerator.CUDA
            basis = tier_basis(self.repository, tier, accelerator=accelerator, settings={"c0_max_missing": 0.0})
            result = TierResult(
                tier,
                verdict,
                cause,
                duration_s=3.4,
                emulated=emulated,
                basis=basis,
                created="2026-01-02T03:04:05+00:00",
            )
            attempt.save_result(attempt.next_log(tier), result)

    def breaker(self, agent: str) -> Agent:
        """What breaks the newest good environment."""
        latest = self.store.latest("oracle", self.repository.key)
        oracle = latest.environment() if latest else None
        assert oracle
        kind = SabotageKind(agent.removeprefix("sabotage-"))
        return sabotage_agent(kind, self.repository.sabotage[kind], oracle)


@pytest.fixture
def results(suite: Suite, tmp_path: Path) -> Results:
    """An empty run."""
    return Results(suite, tmp_path / "results")


def row(page: str, heading: str) -> str:
    """The repository's line in the table below a heading."""
    return next(line for line in page.partition(heading)[2].splitlines() if line.startswith("| one "))


def test_nothing_is_claimed_that_was_not_run(suite: Suite, results: Results) -> None:
    """Without results the page says so for every tier that is probed."""
    page = validation_page(suite, results.store)

    assert row(page, "## Good") == "| one | not run | not run | - | not run | defective upstream | - |"
    assert "0 of 1 repositories were run" in page
    assert "| one |" not in page.partition("## Bare")[2]


def test_what_was_run_is_told_with_what_it_ran_on(suite: Suite, results: Results) -> None:
    """Emulated verdicts are marked and counted apart."""
    results.record("oracle", {Tier.C0: Verdict.PASSED, Tier.C1: Verdict.PASSED})
    results.record("oracle", {Tier.C1: Verdict.PASSED, Tier.C3: Verdict.PASSED}, emulated=True)

    page = validation_page(suite, results.store)

    assert "not run | passed, emulated, 3 s | - | passed, emulated, 3 s | defective" in row(page, "## Good")
    assert "1 of 1 repositories were run on 2026-01-02." in page
    assert "C3 1 (1 emulated)" in page


def test_a_result_of_another_probe_or_recipe_is_not_told(suite: Suite, results: Results) -> None:
    """What was judged by a probe that has changed since, or with a recipe that has, was not run as it is now."""
    results.record("oracle", {Tier.C1: Verdict.PASSED})
    (repository,) = suite.repositories
    changed = replace(repository.tiers[Tier.C1], timeout_s=5.0)
    other = replace(suite, repositories=(replace(repository, tiers={**repository.tiers, Tier.C1: changed}),))

    assert "passed" in row(validation_page(suite, results.store), "## Good")
    assert "passed" not in row(validation_page(other, results.store), "## Good")

    Path(repository.folder, "oracle.sh").write_text("something else\n")
    assert "passed" not in row(validation_page(suite, results.store), "## Good")


def test_sabotage_counts_only_on_the_environment_that_is_judged_good(suite: Suite, results: Results) -> None:
    """A tier that missed it stands out; a sabotage of an older good environment was not run."""
    results.record("oracle", {Tier.C0: Verdict.PASSED, Tier.C1: Verdict.PASSED})
    results.record("noop", {Tier.C0: Verdict.FAILED, Tier.C1: Verdict.PASSED})
    results.record("sabotage-package", {Tier.C1: Verdict.FAILED})

    page = validation_page(suite, results.store)
    assert row(page, "## Bare") == "| one | C0, C1 **missed it**, C3 not run | `einops`: C1 | - | - |"

    results.record("oracle", {Tier.C1: Verdict.PASSED}, image="sha256:newer")
    assert "`einops`: C1 not run" in row(validation_page(suite, results.store), "## Bare")


def pinned(suite: Suite, digit: str) -> Suite:
    """The suite with a commit of a Git repository."""
    source = GitSource("https://host.example/owner/one", digit * 40)
    return replace(suite, repositories=tuple(replace(item, source=source) for item in suite.repositories))


def test_the_results_of_another_source_or_sabotage_are_not_told(suite: Suite, results: Results) -> None:
    """A page that names one package must not count what happened when another was removed."""
    first = pinned(suite, "0")
    (results.repository,) = first.repositories
    results.record("oracle", {Tier.C1: Verdict.PASSED})
    results.record("sabotage-package", {Tier.C1: Verdict.FAILED})
    assert "`einops`: C1 |" in row(validation_page(first, results.store), "## Bare")

    numpy = {SabotageKind.PACKAGE: Sabotage("numpy", (Tier.C1,))}
    other = replace(first, repositories=(replace(results.repository, sabotage=numpy),))
    assert "`numpy`: C1 not run |" in row(validation_page(other, results.store), "## Bare")
    assert "| one ‡ |" in row(validation_page(pinned(suite, "1"), results.store), "## Good")


@pytest.mark.parametrize(
    ("good", "code", "cause", "told"),
    [
        (Verdict.PASSED, 0, Cause.EXIT_CODE, "C1 |"),
        (Verdict.PASSED, 1, Cause.NO_REPORT, "C1 not run |"),
        (Verdict.PASSED, 0, Cause.NO_REPORT, "C1 failed, which shows nothing |"),
        (Verdict.FAILED, 0, Cause.EXIT_CODE, "C1 failed, which shows nothing |"),
    ],
)
def test_a_failure_that_shows_nothing_is_not_counted(
    results: Results, good: Verdict, code: int, cause: Cause, told: str
) -> None:
    """A sabotage that was not carried out, a missing report, a good environment that fails as well."""
    results.record("oracle", {Tier.C1: good, Tier.C3: Verdict.PASSED})
    results.record("sabotage-package", {Tier.C1: Verdict.FAILED}, ended=f"exited with code {code}", cause=cause)

    assert f"`einops`: {told}" in row(validation_page(results.suite, results.store), "## Bare")


def test_deviations_are_sentences_and_defects_stand_with_them(suite: Suite) -> None:
    """What all repositories share, from suite.toml, comes first."""
    page = deviations_page(suite)

    common = "## All repositories\n\n- **C0** *Published*: counts less. *Here*: counts all.\n"
    assert page.index(common) < page.index("## owner/one")

    assert "- **C4, defective upstream**: the launcher starts a file that does not exist" in page
    assert (
        "- **C1, C3** *Published*: downloads weights. *Here*: random weights from a seed. *Why*: a hub that does not "
        "answer is no failure of the agent." in page
    )


def test_import_totals_that_differ_are_not_counted_as_the_same() -> None:
    """A tree that could not be read is told apart from one that differs."""
    page = imports_page(
        [
            ImportCount("a/same", 3, found=3),
            ImportCount("b/other", 3, found=4),
            ImportCount("c/gone", 9, problem="gone"),
        ]
    )

    assert "1 of the 2 trees that could be read have the published total." in page
    assert "7 of the 15 published names" in page
    assert "| c/gone | 9 | not read | |" in page


def test_what_was_judged_in_a_copy_of_the_tree_is_marked(suite: Suite, results: Results) -> None:
    """Where the pinned commit could not be had whole, a folder may stand in for it, and the page says so."""
    commit = pinned(suite, "0")
    results.record("oracle", {Tier.C1: Verdict.PASSED}, source="a" * 40)

    page = validation_page(commit, results.store)

    assert "| one † | not run | passed, 3 s |" in page
    assert "1 of 1 repositories were run on 2026-01-02, 1 of them from copies (†)" in page


def test_what_was_judged_at_another_revision_is_marked_and_counted_apart(suite: Suite, results: Results) -> None:
    """Where the pinned commit could not be had at all, another one shows what the probe does, and no more."""
    commit = pinned(suite, "0")
    other = GitSource(git="https://example.org/one", commit="1" * 40)
    results.record("oracle", {Tier.C1: Verdict.PASSED}, source=str(other))

    page = validation_page(commit, results.store)

    assert "| one ‡ | not run | passed, 3 s |" in page
    assert "0 of 1 repositories were run. Good environments that passed: C0 0, C1 0," in page
    assert "1 more were run at another revision (‡) and are not counted." in page
