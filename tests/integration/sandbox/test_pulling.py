"""Pulling base images, from a real registry as far as the engine can tell."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import logging
import socket
import tarfile
import threading
import time
import uuid
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import docker
import pytest

from pytest_researchenv.doctor.engine import LookedAt
from pytest_researchenv.doctor.registries import image_findings
from pytest_researchenv.doctor.values import State
from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox import images
from pytest_researchenv.sandbox._bootstrap import Distribution
from pytest_researchenv.sandbox.images import BaseImage, ensure_base_image
from pytest_researchenv.sandbox.labels import Owner


_log = logging.getLogger(__name__)

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


class Registry:
    """Serves one image of one small layer, under every name and tag, by the registry's HTTP interface."""

    def __init__(self, *, volumes: dict[str, dict[str, str]]) -> None:
        """Make the image.

        Args:
            volumes: what it declares as VOLUME.
        """
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as archive:
            # Different each time, so that no earlier pull answers for this one.
            archive.addfile(tarfile.TarInfo(uuid.uuid4().hex))
        layer = stream.getvalue()
        root = {"type": "layers", "diff_ids": [_digest(layer)]}
        config = json.dumps(
            {"architecture": "amd64", "os": "linux", "config": {"Volumes": volumes}, "rootfs": root}
        ).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": _entry("application/vnd.docker.container.image.v1+json", config),
            "layers": [_entry("application/vnd.docker.image.rootfs.diff.tar.gzip", layer)],
        }
        self.manifest = json.dumps(manifest).encode()
        self.blobs = {_digest(blob): blob for blob in (layer, config)}
        self.requests: list[str] = []

    @property
    def digest(self) -> str:
        """Digest of the manifest."""
        return _digest(self.manifest)

    def handler(self) -> type[BaseHTTPRequestHandler]:
        """The HTTP side."""
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.requests.append(self.path)
                body = registry.blobs.get(self.path.rpartition("/")[2], b"")
                if "/manifests/" in self.path:
                    body = registry.manifest
                self.send_response(200)
                self.send_header(
                    "Content-Type", _MANIFEST if "/manifests/" in self.path else "application/octet-stream"
                )
                self.send_header("Content-Length", str(len(body)))
                if "/manifests/" in self.path:
                    self.send_header("Docker-Content-Digest", registry.digest)
                self.end_headers()
                if self.command == "GET":
                    self.wfile.write(body)

            do_HEAD = do_GET  # noqa: N815 - the library's name

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - the library's name
                _log.debug(format, *arguments)

        return Handler


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _entry(kind: str, content: bytes) -> dict[str, str | int]:
    return {"mediaType": kind, "size": len(content), "digest": _digest(content)}


@pytest.fixture
def registry(request: pytest.FixtureRequest, docker_client: docker.DockerClient) -> Iterator[tuple[Registry, str]]:
    """A running registry and its address; what was pulled from it is removed at the end."""
    registry = Registry(volumes=getattr(request, "param", {}))
    server = ThreadingHTTPServer(("127.0.0.1", 0), registry.handler())
    # Engines talk plain HTTP to registries on the loopback.
    address = f"127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield registry, address
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
        for image in docker_client.images.list(all=True):
            if any(name.startswith(address) for name in (image.tags + (image.attrs["RepoDigests"] or []))):
                docker_client.images.remove(str(image.id), force=True)


@pytest.mark.parametrize("registry", [{"/data": {}}], indirect=True)
def test_an_image_of_the_users_is_pulled_when_missing(
    docker_client: docker.DockerClient, registry: tuple[Registry, str], owner: Owner
) -> None:
    """It comes from the registry, and is looked at before anything is built on it: this one declares a volume."""
    served, address = registry
    said: list[str] = []

    with pytest.raises(ImageError, match=r"declares the volumes /data"):
        ensure_base_image(docker_client, owner=owner, wanted=f"{address}/lab/image:1", say=said.append)

    assert said == [f"pulling {address}/lab/image:1"]
    assert any("/lab/image/blobs/" in path for path in served.requests)


def test_the_doctor_has_the_engine_ask_a_registry_and_pulls_nothing(
    docker_client: docker.DockerClient, registry: tuple[Registry, str]
) -> None:
    """Whether it has an image that was named; one that does not answer is a problem with a fix."""
    served, address = registry
    engine = LookedAt()
    engine.reach()
    with contextlib.closing(engine), socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        (there,) = image_findings(engine, f"{address}/lab/image:1")
        (gone,) = image_findings(engine, f"127.0.0.1:{taken.getsockname()[1]}/lab/image:1")

    assert (there.state, "its registry has it" in there.value) == (State.OK, True)
    assert (gone.state, "docker login" in gone.fix) == (State.PROBLEM, True)
    assert served.requests
    assert docker_client.images.list(f"{address}/lab/image") == []


def test_debian_is_pulled_by_digest(
    docker_client: docker.DockerClient,
    registry: tuple[Registry, str],
    owner: Owner,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When a registry answers it is used, and what was asked for by tag is fetched by the digest it had then."""
    served, address = registry
    roots = []

    def layered(build: images._Build, root: str, description: str) -> BaseImage:
        roots.append(root)
        return BaseImage(root, build.recipe.key, description)

    monkeypatch.setattr(images, "DEBIAN", Distribution(f"{address}/debian", "bookworm"))
    monkeypatch.setattr(images, "host_distribution", lambda: None)
    monkeypatch.setattr(images, "_layered", layered)

    base = ensure_base_image(docker_client, owner=owner, say=_log.info, cache=tmp_path)

    assert docker_client.images.get(roots[0]).attrs["RepoDigests"] == [f"{address}/debian@{served.digest}"]
    assert served.digest[:19] in base.description
    assert any(path.endswith(f"/manifests/{served.digest}") for path in served.requests)


def test_a_registry_that_hangs_is_given_up(
    docker_client: docker.DockerClient, owner: Owner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A registry that accepts connections and never answers costs seconds, then the next way is tried."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"127.0.0.1:{silent.getsockname()[1]}/debian"
        monkeypatch.setattr(images, "DEBIAN", Distribution(name, "bookworm"))
        monkeypatch.setattr(images, "host_distribution", lambda: None)
        start = time.monotonic()

        with pytest.raises(ImageError, match=r"cannot be pulled \(.*timed out"):
            ensure_base_image(docker_client, owner=owner, say=_log.info, cache=tmp_path)

    assert time.monotonic() - start < images._REGISTRY_S + 5
