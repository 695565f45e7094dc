"""Agents that would rather look good than be good: none passes what it does not deserve, and none becomes an error.

Each script of `fixtures/agents/adversaries` builds an environment in a real container, which is then judged as any
other: by the harness, with every check of the audit. What came of it is a property of the test's result, from which
`benchmarks/security.py` makes the table in `docs/security.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from fixtures.agents.adversaries.corpus import Adversary, adversaries
from pytest_researchenv.agents.protocol import Needs
from pytest_researchenv.agents.script import ScriptAgent
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.harness import Harness
from pytest_researchenv.integrity import labelled
from pytest_researchenv.model import Examination, FindingKind, Repository, Sign, Tier, TierResult
from pytest_researchenv.probes import asked, c0
from pytest_researchenv.probes.table import PROBES
from pytest_researchenv.sandbox.protocol import Limits
from pytest_researchenv.settings import Settings
from pytest_researchenv.suite import load_suite
from tests.unit.integrity.packageindexes import serving, wheel


_log = logging.getLogger(__name__)

_ROOT = Path(__file__).parents[3]
_SUITES = ("fixtures/suites/guarded", "suites/quickstart")
_CANARY = "pytest-researchenv canary febcbe79-36b0-4284-b305-e27b1a79d212"

#: Enough for torch, and little enough for a disk and a table of processes to be filled in seconds.
_LIMITS = Limits(memory_bytes=6 * 1024**3, pids=1024, disk_bytes=4 * 1024**3)
_BUILD_S = 400.0
#: How long an interpreter that never comes back is waited for, in seconds; pyright gets some times that.
_PATIENCE_S = 20.0

Judge = Callable[[Adversary], dict[str, TierResult | str]]


@pytest.fixture(scope="module")
def repositories() -> dict[str, Repository]:
    """The repositories that the scripts name."""
    return {item.slug: item for folder in _SUITES for item in load_suite(_ROOT / folder).repositories}


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    """The engine as users get it, with the CPU standing in for accelerators."""
    from pytest_researchenv.sandbox.ready import docker_engine  # noqa: PLC0415 - docker only for tests that want it.

    made = docker_engine("adversaries", image="", accelerator="cpu", say=_log.info)
    yield made
    made.close()


@pytest.fixture(autouse=True)
def builds_of_torch(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A stand-in for PyTorch's own index, which has one build of torch, and none by the labels of the scripts."""
    with serving() as server:
        server.files = {"torch-1.0+cpu-py3-none-any.whl": wheel(home="torch-1.0+cpu.dist-info")}
        server.projects = {"/torch/"}
        monkeypatch.setattr(labelled, "WHEELS", server.url)
        yield


@pytest.fixture
def judge(engine: Engine, repositories: dict[str, Repository], tmp_path: Path) -> Iterator[Judge]:
    """Lets an adversary build, and judges what it left; its image is removed in the end."""
    images: list[str] = []

    def run(adversary: Adversary) -> dict[str, TierResult | str]:
        script = f"CANARY='{_CANARY}'\n{adversary.script}"
        needs = Needs(reach=Reach.NONE) if adversary.offline else None
        agent = ScriptAgent("adversary", lambda _: script, needs=needs)
        harness = Harness(_settings(tmp_path), engine=lambda: engine, probes=PROBES, agents=lambda _: agent)
        repository = repositories[adversary.repository]
        _, environment = harness.environments.get(agent.name, repository)
        images.append(environment.image)
        subjects: list[Tier | Examination] = [*map(Tier, adversary.verdicts), Examination.INTEGRITY]
        return {str(subject): _came(partial(harness.judge, agent.name, repository, subject)) for subject in subjects}

    yield run
    for image in images:
        engine.sandbox.remove_image(image)


def _came(call: Callable[[], object]) -> TierResult | str:
    try:
        return call().result  # type: ignore[attr-defined,no-any-return] # a Judged
    except InfrastructureError as error:
        return f"error: {error}"


def _settings(folder: Path) -> Settings:
    return Settings(
        results=folder / "results",
        run="adversaries",
        continued=False,
        rebuild=False,
        reuse_anyway=False,
        agent_timeout_s=_BUILD_S,
        agent_limits=_LIMITS,
        c0_max_missing=0.0,
        cache=folder / "cache",
        session="session",
    )


@pytest.mark.parametrize(
    "adversary",
    [pytest.param(one, id=one.name, marks=[pytest.mark.slow] if one.slow else []) for one in adversaries()],
)
def test_no_trick_comes_to_more_than_it_deserves(
    judge: Judge,
    adversary: Adversary,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every tier comes to what the script says that it must, and the audit sees what was done."""
    if adversary.hangs:
        monkeypatch.setattr(c0, "_LOOKUP_TIMEOUT_S", _PATIENCE_S)
        monkeypatch.setattr(asked, "_TIMEOUT_S", _PATIENCE_S)
        monkeypatch.setattr(c0, "_TIMEOUT_S", 6 * _PATIENCE_S)

    came = judge(adversary)

    # Not `record_property`, which warns of the form of results that this project's settings choose.
    request.node.user_properties.append(
        ("came", "; ".join(f"{name} {_shown(result)}" for name, result in came.items()))
    )
    for name, wanted in adversary.verdicts.items():
        result = came[name]
        assert isinstance(result, TierResult), f"{name}: {result}"
        assert result.verdict == wanted, f"{name}: {result}"
    kinds = _kinds(came["C5"])
    assert {FindingKind(kind) for kind in adversary.claims} <= kinds, came["C5"]
    audit = came["integrity"]
    assert isinstance(audit, TierResult), audit
    for group in adversary.signs:
        assert {Sign[name.upper()] for name in group} & _kinds(audit), audit


def _kinds(result: TierResult | str) -> set[FindingKind | Sign]:
    return set() if isinstance(result, str) else {finding.kind for finding in result.findings}


def _shown(result: TierResult | str) -> str:
    """A verdict with what was found, in a few words."""
    if isinstance(result, str):
        return "error"
    kinds = ", ".join(sorted({_name(finding.kind) for finding in result.findings}))
    return f"{result.verdict.value} ({kinds})" if kinds else result.verdict.value


def _name(kind: FindingKind | Sign) -> str:
    return kind.name.lower() if isinstance(kind, Sign) else kind.value
