"""`docs/ci.md`: the scripts of each recipe are run in order, and servers would take the files."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from pytest_researchenv.suite import find_suite
from tests.pages import DOCS, Block, blocks_of, write_file


RECIPES = {block.rest: block for block in blocks_of((DOCS / "ci.md").read_text())}


def _github(recipe: str) -> Iterator[str]:
    for step in _yaml(recipe)["jobs"]["judge"]["steps"]:
        if "run" in step and step["name"] != "Install":
            yield step["run"]


def _gitlab(recipe: str) -> Iterator[str]:
    job = _yaml(recipe)["researchenv"]
    yield "\n".join(job["script"])
    yield "\n".join(job["after_script"])


def _jenkins(recipe: str) -> Iterator[str]:
    for found in re.finditer(r"sh ('''|')(.*?)\1", recipe, re.DOTALL):
        if "pip install" not in found[2]:
            # In such a string of Groovy's, a backslash stands for itself when it is written twice.
            yield found[2].replace("\\\\", "\\")


def _yaml(text: str) -> Any:  # noqa: ANN401 - as YAML has it
    return YAML(typ="safe").load(text)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with the small suite that `docs/results.md` shows."""
    folder = tmp_path_factory.mktemp("project")
    for block in blocks_of((DOCS / "results.md").read_text()):
        if block.rest.startswith(("hello/", "my-suite/")):
            write_file(block, folder, "results.md")
    tests = Path(find_suite("quickstart"), "test_pyramid.py").read_text()
    write_file(Block("python", "my-suite/test_pyramid.py", tests, 0), folder, "quickstart")
    return folder


@pytest.mark.parametrize(
    ("name", "scripts"),
    [(".github/workflows/researchenv.yml", _github), (".gitlab-ci.yml", _gitlab), ("Jenkinsfile", _jenkins)],
    ids=["github", "gitlab", "jenkins"],
)
def test_a_recipe_does_what_it_says(project: Path, name: str, scripts: Callable[[str], Iterator[str]]) -> None:
    """Its scripts end well although the agent fails tiers, and leave what the recipe keeps."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("RESEARCHENV_", "PYTEST_"))}
    path = f"{Path(sys.executable).parent}:{kept['PATH']}"
    environment = {**kept, "PATH": path, "GITHUB_STEP_SUMMARY": str(project / "summary.md")}
    commands = list(scripts(RECIPES[name].body))
    assert len(commands) > 1

    for command in commands:
        done = subprocess.run(
            ["bash", "-e", "-c", command],
            cwd=project, env=environment, check=False, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"

    for left in ("out/junit.xml", "out/report/index.html", "out/report/badges/noop.svg", "researchenv-results/ci"):
        assert (project / left).exists()
    if name.startswith(".github"):
        assert "| noop |" in (project / "summary.md").read_text()


@pytest.mark.parametrize(
    ("name", "schema"),
    [(".github/workflows/researchenv.yml", "vendor.github-workflows"), (".gitlab-ci.yml", "vendor.gitlab-ci")],
)
@pytest.mark.parametrize("broken", [False, True])
def test_a_recipe_follows_the_schema_of_its_server(tmp_path: Path, name: str, schema: str, *, broken: bool) -> None:
    """As published by them; a key that they do not know is no longer accepted."""
    body = RECIPES[name].body
    (tmp_path / "recipe.yml").write_text(re.sub(r"timeout(-minutes)?: ", r"time-out: ", body) if broken else body)

    done = subprocess.run(
        [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, "recipe.yml"],
        cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60,
    )  # fmt: skip

    assert (done.returncode == 0) is not broken, done.stdout
