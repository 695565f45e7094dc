"""Pages made from stored results and descriptions: they claim what was run, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.basis import tier_basis
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import Environment, Tier, TierResult, Verdict
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
    (tmp_path / "suite" / "suite.toml").write_text('name = "mine"\n')
    (tmp_path / "suite" / "one" / "repo.toml").write_text(REPOSITORY)
    (tmp_path / "suite" / "one" / "oracle.sh").write_text("report /usr/bin/python3 system ''\n")
    return load_suite(tmp_path / "suite")


class Results:
    """A run in which attempts are recorded by hand."""

    def __init__(self, suite: Suite, folder: Path) -> None:
        (self.repository,) = suite.repositories
        self.store = Store(folder, "proof")

    def record(
        self,
        agent: str,
        verdicts: dict[Tier, Verdict],
        *,
        image: str = "sha256:good",
        inputs: dict[str, str] | None = None,
        emulated: bool = False,
    ) -> None:
        """Record an attempt with its results."""
        attempt = self.store.begin(agent, self.repository.key, "session")
        known = inputs if inputs is not None else dict(find_agent(agent).inputs(self.repository))
        attempt.save_environment(
            Environment(attempt.key, image, "sha256:base", "/workspace/one", None, "", (), known, {}, "", "")
        )
        for tier, verdict in verdicts.items():
            accelerator = Accelerator.CPU if emulated else Accelerator.CUDA
            basis = tier_basis(self.repository, tier, accelerator=accelerator, settings={"c0_max_missing": 0.0})
            result = TierResult(
                tier, verdict, duration_s=3.4, emulated=emulated, basis=basis, created="2026-01-02T03:04:05+00:00"
            )
            attempt.save_result(attempt.next_log(tier), result)


@pytest.fixture
def results(suite: Suite, tmp_path: Path) -> Results:
    """An empty run."""
    return Results(suite, tmp_path / "results")


def row(page: str, heading: str) -> str:
    """The repository's line in the table below a heading."""
    return next(line for line in page.partition(heading)[2].splitlines() if line.startswith("| one |"))


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
    assert "1 of 1 repositories were run, between 2026-01-02 and 2026-01-02" in page
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
    results.record("oracle", {Tier.C1: Verdict.PASSED})
    results.record("noop", {Tier.C0: Verdict.FAILED, Tier.C1: Verdict.PASSED})
    results.record("sabotage-package", {Tier.C1: Verdict.FAILED}, inputs={"image": "base, then sha256:good"})

    page = validation_page(suite, results.store)
    assert row(page, "## Bare") == "| one | C0, C1 **missed it**, C3 not run | `einops`: C1 | - | - |"

    results.record("oracle", {Tier.C1: Verdict.PASSED}, image="sha256:newer")
    assert "`einops`: C1 not run" in row(validation_page(suite, results.store), "## Bare")


def test_deviations_are_sentences_and_defects_stand_with_them(suite: Suite) -> None:
    """Both come from repo.toml."""
    page = deviations_page(suite)

    assert "- **C4, defective upstream**: the launcher starts a file that does not exist" in page
    assert (
        "- **C1, C3**: published: downloads weights. Here: random weights from a seed. a hub that does not answer is "
        "no failure of the agent." in page
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
