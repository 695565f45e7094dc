"""Gateways in front of the stand-in of the model services, and what plays the outside."""

from __future__ import annotations

import contextlib
import io
import logging
import tarfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_researchenv.gateway.protocol import Api, Auth, GatewayRequest, ModelService
from pytest_researchenv.gateway.sidecar import HostNetwork, open_gateway
from pytest_researchenv.sandbox.protocol import ContainerSpec, Join, Mount, Network
from tests.contract.standin import StandIn, in_container
from tests.integration.gateway.desk import KEY, MODEL, PRICE, Desk, Outside


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner


_log = logging.getLogger(__name__)
_INSIDE = Path(__file__).parent / "inside"
#: Marks the containers of these tests, so that they are told from others'.
_LABEL = "test.gateway"
#: Others may run the same tests at the same time.
_MINE = uuid.uuid4().hex


@pytest.fixture(scope="module")
def standin(docker_client: DockerClient, base_image: str) -> Iterator[StandIn]:
    """The services."""
    with in_container(docker_client, base_image, {}) as standin:
        yield standin


@pytest.fixture(scope="module")
def outside(docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str) -> Iterator[Outside]:
    """A host with TLS, and a proxy."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as writer:
        for name in ("outside.py", "bodies.py"):
            writer.add(_INSIDE / name, f"outside/{name}")
    archive.seek(0)
    said = bytearray()
    spec = ContainerSpec(base_image, argv=("python3", "/outside/outside.py"), network=Network.OPEN)
    with docker_sandbox.opened(spec) as container:
        container.put("/", archive)
        thread = threading.Thread(target=lambda: container.run(timeout_s=1800, on_output=said.extend), daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + 60
            while b"everything listens" not in said:
                assert time.monotonic() < deadline, said.decode(errors="replace")
                time.sleep(0.1)
            inspected = docker_client.containers.get(container.id).attrs
            with container.get("/outside/cert.pem") as stream:
                assert stream is not None
                with tarfile.open(fileobj=stream, mode="r|") as reader:
                    authority = b"".join(f.read() for member in reader if (f := reader.extractfile(member)))
            address = inspected["NetworkSettings"]["Networks"]["bridge"]["IPAddress"]
            yield Outside(address, authority, said, str(container.id))
        finally:
            container.stop()
            thread.join(30)


@pytest.fixture(scope="session")
def proxy_volume(docker_client: DockerClient, owner: Owner, base_image: str) -> Mount:
    """The volume with mitmproxy."""
    from pytest_researchenv.gateway.volume import ensure_proxy  # noqa: PLC0415 - docker only for tests that want it.

    return ensure_proxy(docker_client, owner=owner, image=base_image, say=_log.info)


@pytest.fixture
def open_desk(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str, proxy_volume: Mount, standin: StandIn
) -> Callable[..., AbstractContextManager[Desk]]:
    """Opens a gateway in front of the stand-in, and an agent's container behind it."""

    @contextlib.contextmanager
    def open_(
        turns: Sequence[Mapping[str, Any]] = (),
        *,
        api: Api = Api.MESSAGES,
        host: HostNetwork | None = None,
        silence_s: float = 60,
        **changes: Any,  # noqa: ANN401 - fields of GatewayRequest
    ) -> Iterator[Desk]:
        standin.play({"key": KEY.value, "turn": list(turns) or [{"text": "done"}]})
        prefix, auth = ("/api/anthropic", Auth.API_KEY) if api is Api.MESSAGES else ("/v1", Auth.BEARER)
        service = ModelService(api, f"{standin.bridge_url}{prefix}", auth, KEY.name, MODEL)
        asked = {"service": service, "key": KEY, "prices": {MODEL: PRICE}, "labels": {_LABEL: _MINE}, **changes}
        with (
            open_gateway(
                docker_sandbox, base_image, proxy_volume, GatewayRequest(**asked), host=host, silence_s=silence_s
            ) as gateway,
            docker_sandbox.opened(ContainerSpec(base_image, joins=(Join(gateway.network),))) as agent,
        ):
            agent.start()
            sidecar = docker_client.containers.list(filters={"label": f"{_LABEL}={_MINE}"})[0]
            yield Desk(gateway, agent, str(sidecar.id), api)

    return open_


@pytest.fixture
def left_behind(docker_client: DockerClient) -> Callable[[], list[str]]:
    """What of these tests' gateways is still on the engine."""

    def find() -> list[str]:
        containers = docker_client.containers.list(all=True, filters={"label": f"{_LABEL}={_MINE}"})
        networks = docker_client.networks.list(filters={"label": f"{_LABEL}={_MINE}"})
        return [str(thing.id) for thing in (*containers, *networks)]

    return find
