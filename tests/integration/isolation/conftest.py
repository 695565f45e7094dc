"""Attempts at work, and somebody who looks on from outside."""

from __future__ import annotations

import io
import json
import logging
import tarfile
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from pytest_researchenv.agents.protocol import TOOL_TARGET
from pytest_researchenv.engine import Engine
from pytest_researchenv.gateway.sidecar import open_gateway
from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Join, Mount
from pytest_researchenv.suite import load_suite
from tests.integration.isolation.cells import INSIDE, PORT, Cell, opened_cell, serve
from tests.integration.workplace import FIXTURES


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner

__all__ = ["Outside", "Service", "Warder"]

_log = logging.getLogger(__name__)

#: What an attempt must not be able to change, as another container of the same engine sees it.
_WATCH = """
import hashlib, json, pathlib, time
names = (
    "/proc/sys/kernel/core_pattern /proc/sys/kernel/modprobe /proc/sys/kernel/randomize_va_space "
    "/proc/sys/kernel/sysrq /proc/sys/kernel/panic /proc/sys/vm/overcommit_memory /proc/sys/fs/file-max "
    "/proc/irq/default_smp_affinity /sys/kernel/uevent_helper /sys/kernel/mm/transparent_hugepage/enabled"
).split()
seen = {name: path.read_text() for name in names if (path := pathlib.Path(name)).exists()}
modules = pathlib.Path("/proc/modules")
seen["modules"] = sorted(line.split()[0] for line in modules.read_text().splitlines()) if modules.exists() else []
seen["clock"] = round((time.time() - time.monotonic()) / 10)
seen["tools"] = {
    path.name: [hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mode]
    for path in pathlib.Path("/outside").iterdir()
}
print(json.dumps(seen))
"""


@dataclass(frozen=True, slots=True)
class Warder:
    """Sees the same kernel and the same volume as an attempt, and is none."""

    client: DockerClient
    container: Container

    def look(self) -> dict[str, Any]:
        """What must stay as it is."""
        done = self.container.exec(["python3", "-c", _WATCH], timeout_s=30)
        assert done.ok, done.output.text()
        return {**json.loads(done.output.text()), "host": self.client.info()["Name"]}


@dataclass(frozen=True, slots=True)
class Service:
    """Something that answers.

    Attributes:
        address: where, as `host:port`.
        count: tells how often it was asked.
    """

    address: str
    count: Callable[[], int]


@dataclass(frozen=True, slots=True)
class Outside:
    """What plays the outside.

    Attributes:
        network: the name of its network.
        allowed: a service that an attempt may reach.
        forbidden: one that it may not reach.
    """

    network: str
    allowed: Service
    forbidden: Service


@pytest.fixture(scope="session")
def tools(docker_client: DockerClient, base_image: str, owner: Owner) -> Iterator[str]:
    """Name of a volume with one tool."""
    name = f"researchenv-test-isolation-{uuid.uuid4().hex[:12]}"
    volume = docker_client.volumes.create(name, labels=owner.labels("test"))
    try:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as writer:
            member = tarfile.TarInfo("tool")
            member.size, member.mode = 5, 0o755
            writer.addfile(member, io.BytesIO(b"whole"))
        helper = docker_client.containers.create(
            base_image, labels=owner.labels("container"), volumes={name: {"bind": "/fill", "mode": "rw"}}
        )
        helper.put_archive("/fill", archive.getvalue())
        helper.remove(force=True)
        yield name
    finally:
        volume.remove(force=True)


@pytest.fixture(scope="session")
def warder(docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str, tools: str) -> Iterator[Warder]:
    """Somebody who looks on."""
    with docker_sandbox.opened(ContainerSpec(base_image, mounts=(Mount(tools, "/outside"),))) as container:
        container.start()
        yield Warder(docker_client, container)


@pytest.fixture(scope="session")
def engine(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str, owner: Owner, tools: str
) -> Engine:
    """An engine whose only tool and only volume of the host's are the test's own."""
    from pytest_researchenv.gateway.volume import ensure_proxy  # noqa: PLC0415 - docker only for tests that want it.

    proxy = ensure_proxy(docker_client, owner=owner, image=base_image, say=_log.info)
    return Engine(
        sandbox=docker_sandbox,
        base_image=base_image,
        base_key="",
        mounts=(Mount(tools, "/researchenv/host"),),
        environment={},
        tools=Mount("unused", "/unused"),
        tool_volume=lambda _: Mount(tools, TOOL_TARGET),
        gateway=lambda request: open_gateway(docker_sandbox, base_image, proxy, request),
    )


@pytest.fixture(scope="session")
def repository() -> Repository:
    """What the attempts are at work on."""
    return next(item for item in load_suite(FIXTURES / "suites/tiny").repositories if item.slug == "needy")


@pytest.fixture(scope="session")
def inside() -> Callable[[str], str]:
    """The text of a script that runs in containers."""
    return lambda name: (INSIDE / name).read_text()


@pytest.fixture(scope="session")
def outside(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str, inside: Callable[[str], str]
) -> Iterator[Outside]:
    """A second network of the tests' own, with two services."""
    with docker_sandbox.private_network(outward=False, labels={}) as network:
        spec = ContainerSpec(base_image, joins=(Join(network),))
        with docker_sandbox.opened(spec) as allowed, docker_sandbox.opened(spec) as other:
            services = []
            for container in (allowed, other):
                container.start()
                facts = docker_client.api.inspect_container(container.id)
                address = facts["NetworkSettings"]["Networks"][network]["IPAddress"]
                services.append(Service(f"{address}:{PORT}", serve(container, inside("serve.py"))))
            yield Outside(network, *services)


@pytest.fixture(scope="session")
def cell(
    docker_client: DockerClient, engine: Engine, repository: Repository, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cell]:
    """An attempt at work, which may reach nothing."""
    with opened_cell(docker_client, engine, repository, tmp_path_factory.mktemp("cell")) as cell:
        yield cell


@pytest.fixture(scope="session")
def other(
    docker_client: DockerClient,
    engine: Engine,
    repository: Repository,
    outside: Outside,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cell]:
    """Another attempt at work, which may reach one service of the outside, and whose gateway could reach both."""
    folder = tmp_path_factory.mktemp("other")
    with opened_cell(docker_client, engine, repository, folder, allow=(outside.allowed.address,)) as cell:
        docker_client.networks.get(outside.network).connect(cell.sidecar)
        yield cell
