"""Probes that this machine cannot run on their repositories, run on small stand-ins of them.

What is tested is the probe, not the repository: its inputs, its own reference, its ranks, and that the evidence which
`repo.toml` demands can be met by right answers and is missed by an entry point that does nothing. A stand-in is written
by us, from the names and the meaning of what the probe calls, in plain torch. So nothing is shown of the repository
itself: not that it has these names (`researchenv validate --probes` looks them up in the pinned tree), nor that its
kernels compile, run on CUDA and agree as closely as is demanded, nor that the recipe builds them.
"""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.model import (
    Environment,
    EnvironmentKey,
    PathSource,
    Repository,
    SabotageKind,
    SelfReport,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.table import PROBES
from pytest_researchenv.proving import noticed, probed_tiers
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount, Network
from pytest_researchenv.source import fetch
from pytest_researchenv.suite import find_suite, load_suite
from tests.choosing import mostly_slow


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner


_log = logging.getLogger(__name__)

_STANDINS = Path(__file__).parents[3] / "fixtures/standins"
_PYTHON = "/opt/venv/tinyddp/bin/python"
_NUMPY = f"""\
export UV_NO_CACHE=1 UV_FIND_LINKS="${{UV_FIND_LINKS:-${{PIP_FIND_LINKS// /,}}}}"
uv pip install --python {_PYTHON} numpy==2.2.6
"""
#: One process first; the widest that is probed second, where it is another.
_TIERS = (Tier.C3, Tier.C1), (Tier.C4,)

#: Their engine starts its ranks itself; without devices these are not observed, so that C4 can be run on devices alone.
_ALONE = {"nano-vllm"}

Judge = Callable[[Repository, Tier, Path], TierResult]


def _folder(repository: Repository) -> Path:
    return _STANDINS / Path(repository.folder).name


def _tiers(repository: Repository) -> list[Tier]:
    """The tiers that are run, as few as show the probe alone and with ranks."""
    probed = probed_tiers(repository)
    choices = _TIERS[:1] if repository.slug in _ALONE else _TIERS
    return [tier for choice in choices for tier in [tier for tier in choice if tier in probed][:1]]


def _named(value: Repository | Tier) -> str:
    return value.slug if isinstance(value, Repository) else str(value)


#: What every change is tried with: one process, ranks, and an entry point that does nothing.
_ALWAYS = {"MoBA"}

#: The repositories that have a stand-in, and a probe.
_REPOSITORIES = [
    repository
    for repository in load_suite(find_suite("researchenvbench")).repositories
    if _folder(repository).is_dir() and _tiers(repository)
]


@pytest.fixture(scope="module")
def environment(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, owner: Owner, base_image: str, tinyddp_environment: str
) -> str:
    """Reference of an image with torch for the CPU and NumPy; kept for later sessions, as the one it grew from is."""
    from pytest_researchenv.sandbox.hostsettings import host_settings  # noqa: PLC0415 - only when it is built.

    reference = f"researchenv/test-torch-numpy:{tinyddp_environment.rpartition(':')[2]}"
    if docker_sandbox.image_exists(reference):
        return reference
    settings = host_settings(docker_client, owner=owner, image=base_image, say=_log.info)
    mounts = (settings.mount,) if settings.mount else ()
    with docker_sandbox.opened(ContainerSpec(tinyddp_environment, network=Network.OPEN, mounts=mounts)) as container:
        container.start()
        added = {**settings.environment, "HOME": "/root"}
        done = container.exec(["bash", "-ec", _NUMPY], timeout_s=300, environment=added)
        assert done.ok, done.output.text()
        container.stop()
        container.freeze(reference, labels={})
    return reference


@pytest.fixture
def judge(docker_sandbox: DockerSandbox, base_image: str, environment: str, tmp_path: Path) -> Judge:
    """Judges a tier of a repository on the CPU, with another tree in the place of its own."""

    def run(repository: Repository, tier: Tier, folder: Path) -> TierResult:
        spec = replace(repository.tiers[tier], needs_cuda=False)
        stand_in = replace(repository, source=PathSource(str(folder)), root_on_path=True, tiers={tier: spec})
        tree = fetch(stand_in, cache=tmp_path / "cache")
        left = Environment(
            key=EnvironmentKey("run", "agent", repository.slug, 1),
            image=environment,
            base_image=base_image,
            workdir=repository.workdir,
            report=SelfReport(python_path=_PYTHON),
            report_problem="",
            # The image holds nothing of it: the whole tree is put there.
            changed=tree.files,
            inputs={},
            telemetry={},
            ended="exited with code 0",
            created="",
        )
        task = ProbeTask(
            environment=left,
            repository=stand_in,
            tree=tree,
            sandbox=docker_sandbox,
            tools=Mount("unused", "/unused"),
            log=lambda text: _log.info("%s", text.decode(errors="replace")),
            settings={},
        )
        return PROBES[tier].judge(task)

    return run


@pytest.mark.parametrize(
    ("repository", "tier"),
    mostly_slow(
        [(repository, tier) for repository in _REPOSITORIES for tier in _tiers(repository)],
        but=_ALWAYS,
        by=lambda both: both[0].slug,
    ),
    ids=_named,
)
def test_a_probe_passes_a_working_stand_in(judge: Judge, repository: Repository, tier: Tier) -> None:
    """Right answers, computed by one process and by ranks, meet all the evidence that is demanded."""
    result = judge(repository, tier, _folder(repository))

    assert result.verdict is Verdict.PASSED, f"{result.reason}: {result.decisive}"


@pytest.mark.parametrize("repository", mostly_slow(_REPOSITORIES, but=_ALWAYS, by=lambda one: one.slug), ids=_named)
def test_a_probe_fails_a_stand_in_whose_entry_point_does_nothing(
    judge: Judge, repository: Repository, tmp_path: Path
) -> None:
    """As `researchenv prove` hollows the file that `repo.toml` names."""
    target = repository.sabotage[SabotageKind.ENTRY].target
    hollow = tmp_path / "hollow"
    shutil.copytree(_folder(repository), hollow)
    assert (hollow / target).is_file(), "the stand-in lacks the file that sabotage.entry names"
    (hollow / target).write_text('"""Nothing."""\n')

    result = judge(repository, _tiers(repository)[0], hollow)

    assert noticed(result), f"{result.verdict}: {result.reason}: {result.decisive}"


def test_every_stand_in_is_of_a_repository_that_is_probed() -> None:
    """None is passed over because its folder has another name."""
    folders = {folder.name for folder in _STANDINS.glob("*") if folder.is_dir()}

    assert folders == {_folder(repository).name for repository in _REPOSITORIES}
