"""What a verdict rests on: it changes with what decides the verdict, and with nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.basis import tier_basis
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.model import Tier
from pytest_researchenv.suite import imported_modules, load_suite


REPOSITORY = """\
name = "one"
source.path = "tree"
[tiers.C1]
probe = "probes/c1.py"
evidence.files = [{ path = "{out}/x" }]
"""


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A suite with a probe script that imports one of three shared modules, which imports another."""
    for name, text in {
        "suite.toml": 'name = "mine"\n',
        "one/repo.toml": REPOSITORY,
        "one/probes/c1.py": "def main():\n    from kit.part import tool\n",
        "_shared/kit.py": "import os, base\n",
        "_shared/base.py": "import kit\n",
        "_shared/other.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def basis(suite: Path) -> str:
    """The digest for C1 on the CPU."""
    (repository,) = load_suite(suite).repositories
    return tier_basis(repository, Tier.C1, accelerator=Accelerator.CPU, settings={})


def modules(suite: Path) -> list[str]:
    """The names of the shared modules that the probe imports."""
    (repository,) = load_suite(suite).repositories
    return [file.stem for file in imported_modules(repository, Tier.C1)]


def test_modules_that_import_one_another_are_all_found(suite: Path) -> None:
    """Also inside a function, and in a circle."""
    assert modules(suite) == ["base", "kit"]


@pytest.mark.parametrize(
    ("name", "changes"),
    [("one/probes/c1.py", True), ("_shared/kit.py", True), ("_shared/base.py", True), ("_shared/other.py", False)],
)
def test_a_shared_module_counts_where_it_is_imported(suite: Path, name: str, *, changes: bool) -> None:
    """What one probe needs does not make the verdicts of all others stale."""
    before = basis(suite)
    with (suite / name).open("a") as file:
        file.write("# another word\n")
    assert (basis(suite) != before) is changes


def test_of_a_script_that_cannot_be_read_all_modules_count(suite: Path) -> None:
    """It may import anything."""
    (suite / "one/probes/c1.py").write_text("import (")
    assert modules(suite) == ["base", "kit", "other"]
