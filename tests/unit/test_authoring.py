"""Commands for suite authors, and the shipped suite of 44 repositories."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pytest_researchenv.cli import main
from pytest_researchenv.lock import lock_problems
from pytest_researchenv.model import SabotageKind, Tier
from pytest_researchenv.suite import find_suite, load_suite


TINY = Path(__file__).parents[2] / "fixtures" / "suites" / "tiny"


def test_researchenvbench_has_the_published_denominators(capsys: pytest.CaptureFixture[str]) -> None:
    """44 repositories, C1 29, C2 44, C3 43, C4 32, and 2858 imports (arXiv 2603.06739)."""
    assert main(["validate", "researchenvbench"]) == 0

    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    published = {line[0]: int(line[1]) for line in lines if line and line[0] in [*map(str, Tier)]}
    assert published == {"C0": 44, "C1": 29, "C2": 44, "C3": 43, "C4": 32, "C5": 44}
    assert sum(
        item.imports.published_total or 0 for item in load_suite(find_suite("researchenvbench")).repositories
    ) == (2858)


def test_researchenvbench_is_what_its_lock_says() -> None:
    """Whoever changes a description, a probe or a recipe locks the suite anew: `researchenv lock researchenvbench`."""
    assert lock_problems(find_suite("researchenvbench")) == []


def test_each_of_its_repositories_can_be_proven() -> None:
    """Each has a recipe, no tier that waits for its probe, its deviations, and ways to break a good environment.

    A package that is removed for each, an entry point that does nothing where code of its own runs, and a wrong version
    where that can be tried without CUDA.
    """
    for repository in load_suite(find_suite("researchenvbench")).repositories:
        launched = [repository.spec(tier) for tier in (Tier.C1, Tier.C3, Tier.C4) if repository.spec(tier).supported]
        wanted = {SabotageKind.PACKAGE} | ({SabotageKind.ENTRY} if launched else set())
        wanted |= {SabotageKind.VERSION} if any(not spec.needs_cuda for spec in launched) else set()

        assert Path(repository.folder, "oracle.sh").exists(), repository.name
        assert repository.deviations, repository.name
        assert not any(spec.pending for spec in repository.tiers.values()), repository.name
        assert wanted <= repository.sabotage.keys(), repository.name


def test_a_suite_that_was_changed_after_it_was_locked_is_not_valid(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`validate --locked` names the file and ends with code 1."""
    suite = tmp_path / "tiny"
    shutil.copytree(TINY, suite)

    assert main(["lock", str(suite)]) == 0
    assert main(["validate", str(suite), "--locked"]) == 0
    (suite / "needy" / "oracle.sh").write_text("true\n")
    assert main(["validate", str(suite), "--locked"]) == 1
    assert "needy/oracle.sh has changed since the suite was locked" in capsys.readouterr().out


def test_a_tree_that_is_not_there_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong path is seen before a run is; and a suite may be looked at where its trees are not."""
    suite = tmp_path / "tiny"
    shutil.copytree(TINY, suite)

    assert main(["validate", str(TINY)]) == 0
    assert "warning" not in capsys.readouterr().out
    assert main(["validate", str(suite)]) == 0
    assert "warning: plain: source.path: '../../../repos/plain' leads to no folder here" in capsys.readouterr().out


def test_imports_are_compared_with_the_published_total(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A total that differs makes the suite invalid, and the page says both figures."""
    suite = tmp_path / "suite"
    (suite / "one").mkdir(parents=True)
    (suite / "suite.toml").write_text('name = "mine"\n')
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree" / "run.py").write_text("import json, numpy.linalg\n")
    text = 'name = "one"\nsource.path = "../../tree"\nimports.published_total = {total}\n[tiers.C0]\n'
    page, cache = tmp_path / "imports.md", ["--cache", str(tmp_path / "cache")]

    (suite / "one" / "repo.toml").write_text(text.replace("{total}", "2"))
    assert main(["validate", str(suite), "--imports", "--output", str(page), *cache]) == 0
    (suite / "one" / "repo.toml").write_text(text.replace("{total}", "3"))
    assert main(["validate", str(suite), "--imports", *cache]) == 1
    shutil.rmtree(tmp_path / "tree")
    assert main(["validate", str(suite), "--imports", *cache]) == 1  # Nothing was compared.

    assert "one: 3 published, 2 found" in capsys.readouterr().out
    assert "| one † | 2 | 2 | 0 |" in page.read_text(encoding="utf-8")


def test_no_page_is_made_of_a_run_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A slip must not replace the page of what was proven by one that says that nothing was."""
    arguments = ["document", str(TINY), "--results", str(tmp_path), "--docs", str(tmp_path / "docs")]

    assert main(arguments) == 1
    (tmp_path / "proof").mkdir()
    assert main(arguments) == 1
    (tmp_path / "docs").mkdir()
    assert main(arguments) == 0

    said = capsys.readouterr().err
    assert f"there is no run in {tmp_path / 'proof'}" in said
    assert "validation.md cannot be written" in said


def test_only_known_repositories_are_proven(capsys: pytest.CaptureFixture[str]) -> None:
    """A slip is answered with the names there are, before any container is made."""
    assert main(["prove", str(TINY), "--only", "nedy"]) == 1
    assert "no repository is called 'nedy'; known: needy, plain" in capsys.readouterr().err


def test_a_page_is_written_of_imports_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A place for it without `--imports` or `--probes` is a slip, and not passed over."""
    assert main(["validate", str(TINY), "--output", str(tmp_path / "page.md")]) == 1
    assert "is for what --imports or --probes finds: give one of them" in capsys.readouterr().err
