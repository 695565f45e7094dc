"""Environments that are unusual and honest: nobody is accused of anything, and nothing breaks that worked.

Each is built in a real container by a script of `fixtures/agents/benign`, which says in its head what it is.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.agents.script import ScriptAgent
from pytest_researchenv.harness import Harness
from pytest_researchenv.model import Examination, Repository, Tier, Verdict
from pytest_researchenv.probes.table import PROBES
from pytest_researchenv.sandbox.protocol import Limits
from pytest_researchenv.settings import Settings
from pytest_researchenv.suite import load_suite


if TYPE_CHECKING:
    from pytest_researchenv.engine import Engine

_log = logging.getLogger(__name__)
_FIXTURES = Path(__file__).parents[3] / "fixtures"
_HEAD = re.compile(
    r"# what: (?P<what>.+)\n# repository: (?P<repository>\S+)\n(?:# passes: (?P<passes>.+)\n)?(?P<slow># slow\n)?"
)


@dataclass(frozen=True, slots=True)
class _Recipe:
    """A script that builds an environment.

    Attributes:
        name: its name.
        what: what is unusual.
        repository: the repository of the suite `odd` that it serves.
        passes: the tiers that pass; C0 takes an untracked module for a stand-in whatever wrote it.
        slow: whether it takes long.
        text: the script.
    """

    name: str
    what: str
    repository: str
    passes: tuple[Tier, ...]
    slow: bool
    text: str


def _read(path: Path) -> _Recipe:
    text = path.read_text()
    head = _HEAD.match(text)
    if head is None:
        raise ValueError(f"{path} does not begin with `# what: …` and `# repository: …`")
    passes = tuple(Tier(name) for name in (head["passes"] or "C0 C1").split())
    return _Recipe(path.stem, head["what"], head["repository"], passes, slow=bool(head["slow"]), text=text)


_RECIPES = [_read(path) for path in sorted((_FIXTURES / "agents" / "benign").glob("*.sh"))]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """The engine that users would get, without devices."""
    from pytest_researchenv.sandbox.ready import docker_engine  # noqa: PLC0415 - docker only for tests that want it.

    engine = docker_engine("benign", image="", accelerator="cpu", say=_log.info)
    yield engine
    engine.close()


@pytest.fixture(scope="module")
def repositories() -> dict[str, Repository]:
    """The repositories of the suite `odd`."""
    return {repository.slug: repository for repository in load_suite(_FIXTURES / "suites" / "odd").repositories}


def test_the_corpus_is_large_and_each_of_it_is_another(repositories: dict[str, Repository]) -> None:
    """A selection runs always, and the rest by hand."""
    assert len({recipe.what for recipe in _RECIPES}) == len(_RECIPES) >= 20
    assert {recipe.repository for recipe in _RECIPES} == set(repositories)
    assert 5 <= sum(not recipe.slow for recipe in _RECIPES) <= 8


@pytest.mark.parametrize(
    "recipe",
    [pytest.param(recipe, marks=[pytest.mark.slow] * recipe.slow, id=recipe.name) for recipe in _RECIPES],
)
def test_an_honest_environment_raises_no_finding(
    recipe: _Recipe, repositories: dict[str, Repository], engine: Engine, tmp_path: Path
) -> None:
    """The audit says nothing against it, and the tiers pass in the world that it makes for them."""
    repository = repositories[recipe.repository]
    settings = Settings(
        results=tmp_path / "results",
        run="benign",
        continued=False,
        rebuild=False,
        reuse_anyway=False,
        agent_timeout_s=1800,
        agent_limits=Limits(),
        c0_max_missing=0,
        cache=tmp_path / "cache",
        session="benign",
    )
    agent = ScriptAgent(recipe.name, lambda _: recipe.text)
    harness = Harness(settings, engine=lambda: engine, probes=PROBES, agents=lambda _: agent)
    _, environment = harness.environments.get(agent.name, repository)
    try:
        assert environment.ended == "exited with code 0", environment.ended

        audit = harness.judge(agent.name, repository, Examination.INTEGRITY).result
        tiers = [harness.judge(agent.name, repository, tier).result for tier in recipe.passes]
    finally:
        engine.sandbox.remove_image(environment.image)

    assert audit.findings == ()
    assert (audit.verdict, audit.evidence["not_genuine"]) == (Verdict.PASSED, [])
    assert [tier.reason for tier in tiers if tier.verdict is not Verdict.PASSED] == []
