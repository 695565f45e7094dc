"""A place where scripts play agents, and what they leave is judged, with real containers."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.agents.script import ScriptAgent
from pytest_researchenv.agentwork import Order
from pytest_researchenv.engine import Engine
from pytest_researchenv.model import Environment, Repository, Tier, TierResult
from pytest_researchenv.probes.c0 import C0Probe
from pytest_researchenv.probes.c1 import C1Probe
from pytest_researchenv.probes.c5 import C5Probe
from pytest_researchenv.probes.protocol import Probe, ProbeTask
from pytest_researchenv.provision import provision
from pytest_researchenv.sandbox.protocol import Limits
from pytest_researchenv.source import fetch
from pytest_researchenv.store import Store
from pytest_researchenv.suite import load_suite


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner


_log = logging.getLogger(__name__)
_TINY = Path(__file__).parents[2] / "fixtures" / "suites" / "tiny"
_PROBES: dict[Tier, Probe] = {probe.tier: probe for probe in (C0Probe(), C1Probe(), C5Probe())}


@dataclass
class Workshop:
    """Lets scripts build environments, and probes judge them."""

    engine: Engine
    folder: Path
    limits: Limits = field(default_factory=Limits)
    images: list[str] = field(default_factory=list)

    def build(self, repository: Repository, script: str, *, timeout_s: float = 120) -> Environment:
        """Let a script build an environment; it may call `report`, as recipes do."""
        agent = ScriptAgent("script", lambda _: script)
        attempt = Store(self.folder / "results", "tests").begin(agent.name, repository.slug, "session")
        environment = provision(
            self.engine,
            Order(agent, agent.needs, repository, timeout_s, self.limits),
            attempt=attempt,
            tree=fetch(repository, cache=self.folder / "cache"),
            inputs={},
        )
        self.images.append(environment.image)
        return environment

    def judge(self, environment: Environment, repository: Repository, tier: Tier) -> TierResult:
        """Judge one tier; everything that is printed goes to a log for people."""
        return _PROBES[tier].judge(self.task(environment, repository))

    def task(self, environment: Environment, repository: Repository) -> ProbeTask:
        """What a probe and the audit get."""
        return ProbeTask(
            environment=environment,
            repository=repository,
            tree=fetch(repository, cache=self.folder / "cache"),
            sandbox=self.engine.sandbox,
            tools=self.engine.tools,
            log=lambda text: _log.debug("%s", text),
            settings={},
        )


@pytest.fixture
def workshop(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str, owner: Owner, tmp_path: Path
) -> Iterator[Workshop]:
    """A workshop whose frozen images are removed at the end."""
    from pytest_researchenv.sandbox.tools import ensure_tools  # noqa: PLC0415 - docker only for tests that want it.

    engine = Engine(
        sandbox=docker_sandbox,
        base_image=base_image,
        base_key="",
        mounts=(),
        environment={},
        tools=ensure_tools(docker_client, owner=owner, image=base_image, say=_log.info),
    )
    shop = Workshop(engine, tmp_path)
    yield shop
    for image in shop.images:
        docker_sandbox.remove_image(image)


@pytest.fixture
def needy() -> Repository:
    """A repository that a bare environment does not satisfy."""
    return next(item for item in load_suite(_TINY).repositories if item.slug == "needy")
