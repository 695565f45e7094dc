"""A package index of the tests' own, with one small wheel, and a cache in front of it."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import io
import logging
import os
import tarfile
import threading
import time
import uuid
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.engine import Engine
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount, Network


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.packagecache.cache import SharedCache
    from pytest_researchenv.packagecache.sidecar import Sidecar
    from pytest_researchenv.sandbox.docker import DockerSandbox


_log = logging.getLogger(__name__)
NAME = "demo-1.0-py3-none-any.whl"


@dataclass(frozen=True)
class Index:
    """The index behind the cache.

    Attributes:
        url: where it answers.
        wheel: what it has.
        container: id of its container.
    """

    url: str
    wheel: bytes
    container: str

    @property
    def digest(self) -> str:
        """SHA-256 of the wheel."""
        return hashlib.sha256(self.wheel).hexdigest()


@dataclass(frozen=True)
class Desk:
    """A cache with what it stands in front of."""

    index: Index
    cache: SharedCache
    engine: Engine
    sidecar: Sidecar


def _wheel() -> bytes:
    files = {
        "demo.py": "VALUE = 1\n",
        "demo-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: demo\nVersion: 1.0\n",
        "demo-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for name, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(text)}\n")
    files["demo-1.0.dist-info/RECORD"] = "".join(lines) + "demo-1.0.dist-info/RECORD,,\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return buffer.getvalue()


@pytest.fixture
def index(docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str) -> Iterator[Index]:
    """An index in a container."""
    wheel = _wheel()
    link = f'<a href="../../files/{NAME}#sha256={hashlib.sha256(wheel).hexdigest()}">{NAME}</a>'
    # Of its own, since an address is given again to others.
    place = uuid.uuid4().hex
    files = {
        "simple/index.html": b'<a href="demo/">demo</a>',
        "simple/demo/index.html": link.encode(),
        f"files/{NAME}": wheel,
    }
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(f"index/{place}/{name}")
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    buffer.seek(0)
    argv = ("python3", "-u", "-m", "http.server", "8000", "--directory", "/index")
    said = bytearray()
    with docker_sandbox.opened(ContainerSpec(base_image, argv=argv, network=Network.OPEN)) as container:
        container.put("/", buffer)
        thread = threading.Thread(target=lambda: container.run(timeout_s=900, on_output=said.extend), daemon=True)
        thread.start()
        deadline = time.monotonic() + 60
        while b"Serving" not in said:
            assert time.monotonic() < deadline, said
            time.sleep(0.1)
        found = docker_client.containers.get(container.id).attrs
        address = found["NetworkSettings"]["Networks"]["bridge"]["IPAddress"]
        yield Index(f"http://{address}:8000/{place}/simple/", wheel, container.id)
        container.stop()
        thread.join(30)


@pytest.fixture
def desk(
    docker_client: DockerClient,
    docker_sandbox: DockerSandbox,
    base_image: str,
    owner: Owner,
    index: Index,
) -> Iterator[Desk]:
    """A cache in front of the index; it is removed at the end, with its packages."""
    from pytest_researchenv.gateway.opening import Gateways  # noqa: PLC0415 - docker only for tests that want it.
    from pytest_researchenv.packagecache.cache import SharedCache  # noqa: PLC0415 - likewise.
    from pytest_researchenv.packagecache.sidecar import Sidecar  # noqa: PLC0415 - likewise.
    from pytest_researchenv.packagecache.upstream import Upstream  # noqa: PLC0415 - likewise.
    from pytest_researchenv.packagecache.volume import ensure_proxpi  # noqa: PLC0415 - likewise.
    from pytest_researchenv.sandbox._hostconfig import HostConfiguration  # noqa: PLC0415 - likewise.
    from pytest_researchenv.sandbox.hostsettings import HostSettings  # noqa: PLC0415 - likewise.

    ensure_proxpi(docker_client, owner=owner, image=base_image, say=_log.info)
    # A host that is made up, so that no sweep of a real run's takes it, and none here a real run's.
    ours = replace(owner, host=f"test-packages-{uuid.uuid4().hex[:12]}")
    environ = {"PIP_INDEX_URL": index.url, "PIP_CONFIG_FILE": os.devnull, "HOME": "/nonexistent"}
    cache = SharedCache(docker_client, owner=ours, limit_bytes=1024**3, say=_log.info, environ=environ)
    engine = Engine(
        sandbox=docker_sandbox,
        base_image=base_image,
        base_key="",
        mounts=(),
        environment={"PIP_INDEX_URL": index.url},
        tools=Mount("", ""),
        gateway=Gateways(docker_client, docker_sandbox, owner, HostSettings(None, {}, ()), _log.info),
        packages=cache,
    )
    sidecar = Sidecar.of(docker_client, ours, Upstream.of(HostConfiguration.read(environ)))
    try:
        yield Desk(index, cache, engine, sidecar)
    finally:
        cache.close()
        with contextlib.suppress(Exception):
            docker_client.api.remove_volume(sidecar.files)
