"""What is installed in real images, as the audit sees it from outside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.integrity.distributions import distributions
from pytest_researchenv.integrity.protocol import Signs
from pytest_researchenv.integrity.snapshot import opened_snapshot
from pytest_researchenv.model import PathSource, Repository, Sign
from pytest_researchenv.store import Store


if TYPE_CHECKING:
    from tests.integration.conftest import Workshop

#: Two distributions of pure Python, installed by pip from folders, so that no index is asked.
BUILD = r"""
set -e
make() {
    mkdir -p "/opt/$1/$1"
    cat >"/opt/$1/pyproject.toml" <<EOF
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "$1"
version = "1.0"
[project.scripts]
$1-tool = "$1:run"
EOF
    echo 'def run(): print(42)' >"/opt/$1/$1/__init__.py"
    echo 'VALUE = 1' >"/opt/$1/$1/core.py"
}
make first
make second
python3 -m venv --system-site-packages /opt/venv
python=/opt/venv/bin/python
site=/opt/venv/lib/python3.11/site-packages
$python -m pip install --quiet --no-index --no-build-isolation /opt/first
$python -m pip install --quiet --no-index --no-build-isolation --editable /opt/second
"""
REPORT = "report $python venv /opt/venv\n"


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """One that imports both, and something of the standard library."""
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "run.py").write_text("import json, first, second, third\n")
    return Repository("tests/project", PathSource(str(tmp_path / "project")))


def _signs(workshop: Workshop, repository: Repository, script: str) -> Signs:
    environment = workshop.build(repository, f"{script}\n{REPORT}")
    assert environment.ended == "exited with code 0"
    attempt = Store(workshop.folder / "results", "tests").latest("script", repository.slug)
    assert attempt is not None
    task = workshop.task(environment, repository)
    with opened_snapshot(task, attempt.changes) as snapshot:
        signs = distributions(task, snapshot)
        assert snapshot.problems == ()
    return signs


def test_what_pip_installed_and_nobody_touched_raises_nothing(workshop: Workshop, repository: Repository) -> None:
    """From a folder, and editable; with the bytecode and the commands that pip makes."""
    signs = _signs(workshop, repository, BUILD)

    assert signs == Signs()


TRICKS = """
echo 'VALUE = 42' >$site/first/core.py
cp /usr/bin/true $site/first/core.cpython-311-x86_64-linux-gnu.so
echo 'ANSWER = 42' >$site/third.py
echo 'import os' >/workspace/project/json.py
printf '#!%s\\nimport os\\n' $python >/opt/venv/bin/first-tool
rm -r /opt/first
"""


def test_every_trick_is_told(workshop: Workshop, repository: Repository) -> None:
    """Changed, added and stray files, a shadow of the standard library, a changed command, a folder that is gone."""
    signs = _signs(workshop, repository, BUILD + TRICKS)

    found = {(finding.kind, finding.field) for finding in signs.findings}
    assert found == {
        (Sign.DISTRIBUTION, "first 1.0"),
        (Sign.PROVENANCE, "first 1.0"),
        (Sign.STUB, "third"),
        (Sign.STUB, "json"),
    }
    said = " ".join(finding.observed for finding in signs.findings)
    for name in (
        "first/core.py",
        "first/core.cpython-311-x86_64-linux-gnu.so",
        "bin/first-tool",
        "site-packages/third.py",
    ):
        assert name in said
    assert set(signs.modules) == {"third", "json"}
