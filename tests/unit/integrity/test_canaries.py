"""Each answer of ours holds a canary, and nothing that an agent is given does."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from pathlib import Path

import pytest

import pytest_researchenv
from pytest_researchenv.agents.prompt import render_prompt
from pytest_researchenv.agents.script import noop_script, oracle_script
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.integrity.canaries import OWN_NAMES, PACKAGE_CANARY, canaries_of, without_canaries
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.suite import Suite, find_suite, load_suite, suite_names


PACKAGE = Path(pytest_researchenv.__file__).parent


@pytest.fixture(params=suite_names(of_tasks=False))
def suite(request: pytest.FixtureRequest) -> Suite:
    """Each suite that comes with this package."""
    return load_suite(find_suite(request.param))


def test_each_answer_of_a_suite_holds_its_canary(suite: Suite) -> None:
    """Its recipes, its probes, what these share, its test module; and its own file, by nature."""
    files = [*suite.folder.rglob("*.py"), *suite.folder.rglob("*.sh"), suite.folder / "suite.toml"]

    assert len(files) > 5
    assert len(suite.canary) > 30
    assert [str(file) for file in files if suite.canary not in file.read_text(encoding="utf-8")] == []


def test_each_probe_of_the_package_holds_its_canary() -> None:
    """What runs beside probes, what they import, and the first file of a wheel, at which a download is cut."""
    files = [PACKAGE / "__init__.py", *PACKAGE.glob("probes/inside/*.py"), *PACKAGE.glob("probes/kit/*.py")]

    assert len(files) > 8
    assert [str(file) for file in files if PACKAGE_CANARY not in file.read_text(encoding="utf-8")] == []


def test_all_canaries_are_known_in_one_place(suite: Suite) -> None:
    """The package's, those of all its suites, and that of the repository's suite, whoever made it."""
    known = canaries_of()

    assert known[PACKAGE_CANARY] == "this package"
    assert known[suite.canary] == f"the suite {suite.name}"
    assert len(known) == 1 + len(suite_names())


def test_a_users_suite_has_its_own(tmp_path: Path) -> None:
    """A short one is left out: it would be found by accident. A suite that cannot be read has none."""
    repository = Repository("one", PathSource("."), folder=str(tmp_path / "one"))

    assert canaries_of(repository) == canaries_of()
    (tmp_path / "suite.toml").write_text('name = "mine"\ncanary = "mine canary 1234567890"\n')
    assert canaries_of(repository)["mine canary 1234567890"] == "the suite mine"
    (tmp_path / "suite.toml").write_text('name = "mine"\ncanary = "canary 42"\n')
    assert canaries_of(repository) == canaries_of()
    (tmp_path / "suite.toml").write_text("= broken")
    assert canaries_of(repository) == canaries_of()


def test_what_runs_in_agents_containers_holds_none() -> None:
    """The scripts that are put there; a tool's own files come from elsewhere."""
    folder = resources.files("pytest_researchenv.agents") / "inside"
    scripts = [file.read_text(encoding="utf-8") for file in folder.iterdir() if file.is_file()]

    assert len(scripts) > 3
    assert not [one for one in scripts if any(canary in one for canary in canaries_of())]


@pytest.mark.parametrize("reach", list(Reach))
@pytest.mark.parametrize("devices", [0, 2])
def test_no_prompt_holds_one_or_names_the_benchmark(suite: Suite, reach: Reach, devices: int) -> None:
    """So whoever asks for it knows of it from elsewhere, and who echoes what it was told is not accused."""
    for repository in suite.repositories:
        prompt = render_prompt(repository, reach=reach, devices=devices, timeout_s=3600)

        assert not [canary for canary in canaries_of(repository) if canary in prompt]
        assert not [name for name in OWN_NAMES if name in prompt.lower()]


def test_who_is_given_an_answer_is_given_no_canary(suite: Suite) -> None:
    """The oracle's script does what the recipe does, line by line, and noop's is none of ours."""
    for repository in suite.repositories:
        recipe = Path(repository.folder, "oracle.sh").read_text(encoding="utf-8")
        script = oracle_script(repository)

        assert suite.canary in recipe
        assert not [canary for canary in canaries_of(repository) if canary in script]
        assert not [canary for canary in canaries_of(repository) if canary in noop_script(repository)]
        before, after = recipe.splitlines(), script.splitlines()
        assert len(before) == len(after)
        assert all(old == new or old.startswith("#") for old, new in zip(before, after, strict=True))


def test_a_recipe_without_canary_stays_as_it_is(tmp_path: Path) -> None:
    """Nothing else is taken out, whatever it says."""
    repository = replace(Repository("one", PathSource(".")), folder=str(tmp_path / "one"))
    recipe = "# pytest-researchenv canary\npip install researchenvbench\n"

    assert without_canaries(recipe, repository) == recipe
