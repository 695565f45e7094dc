"""The volume of tools, for real: it works in a bare container, and is never used half-filled."""

from __future__ import annotations

import io
import json
import logging
import multiprocessing
import os
import signal
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest
from docker.types import Mount as EngineMount

from pytest_researchenv.sandbox._engine import MARKER, ensure_volume
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.labels import KIND, Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount, Sandbox
from pytest_researchenv.sandbox.tools import NODE, PYRIGHT, ensure_tools


_log = logging.getLogger(__name__)

OWNER = Owner.current("tests")


@pytest.fixture
def volume(docker_client: docker.DockerClient) -> Iterator[Mount]:
    """A volume that does not exist yet, removed at the end."""
    mount = Mount(f"researchenv-test-{uuid.uuid4().hex[:12]}", "/researchenv/tools")
    yield mount
    docker_client.volumes.get(mount.volume).remove(force=True)


def _fill(archive: tarfile.TarFile) -> None:
    member = tarfile.TarInfo("file")
    member.size = 5
    archive.addfile(member, io.BytesIO(b"whole"))


def _content(sandbox: Sandbox, image: str, mount: Mount) -> str:
    argv = ("sh", "-c", f"cd {mount.target} && ls -A && cat file")
    with sandbox.opened(ContainerSpec(image, argv, mounts=(mount,))) as container:
        return container.run(timeout_s=60).output.text()


def test_pyright_runs_in_a_bare_container(
    docker_client: docker.DockerClient, docker_sandbox: Sandbox, base_image: str
) -> None:
    """Without network, pyright finds the missing import and no other."""
    mount = ensure_tools(docker_client, owner=OWNER, image=base_image, say=_log.info)
    code = "import json, no_such_package"
    argv = ("sh", "-c", f"cd /workspace && echo '{code}' >a.py && {NODE} {PYRIGHT} --outputjson a.py")

    with docker_sandbox.opened(ContainerSpec(base_image, argv, mounts=(mount,))) as container:
        done = container.run(timeout_s=120)

    found = json.loads(done.output.text())["generalDiagnostics"]
    assert [(item["rule"], "no_such_package" in item["message"]) for item in found] == [("reportMissingImports", True)]


def test_the_tools_cannot_be_changed(
    docker_client: docker.DockerClient, docker_sandbox: Sandbox, base_image: str
) -> None:
    """An agent with root in its container can neither replace node nor add a file."""
    mount = ensure_tools(docker_client, owner=OWNER, image=base_image, say=_log.info)
    argv = ("sh", "-c", f"touch {mount.target}/x || echo x >{NODE} || rm {PYRIGHT}")

    with docker_sandbox.opened(ContainerSpec(base_image, argv, mounts=(mount,))) as container:
        done = container.run(timeout_s=60)

    assert done.exit_code != 0
    assert done.output.text().count("Read-only file system") == 3


def test_a_filled_volume_is_used_at_once(docker_client: docker.DockerClient, base_image: str) -> None:
    """The second call fills nothing, and takes less than a second."""
    first = ensure_tools(docker_client, owner=OWNER, image=base_image, say=_log.info)
    said: list[str] = []
    start = time.monotonic()

    assert ensure_tools(docker_client, owner=OWNER, image=base_image, say=said.append) == first
    assert time.monotonic() - start < 1
    assert said == []
    assert docker_client.volumes.get(first.volume).attrs["Labels"][KIND] == "tool-volume"


def test_an_interrupted_filling_is_repeated(
    docker_client: docker.DockerClient,
    docker_sandbox: Sandbox,
    base_image: str,
    volume: Mount,
    tmp_path: Path,
) -> None:
    """Whatever stops the filling, the volume stays without its marker, and the next call fills it."""

    def broken(archive: tarfile.TarFile) -> None:
        _fill(archive)
        raise KeyboardInterrupt

    def ensure(fill: Callable[[tarfile.TarFile], None]) -> None:
        ensure_volume(docker_client, volume, owner=OWNER, image=base_image, fill=fill, cache=tmp_path, say=_log.info)

    with pytest.raises(KeyboardInterrupt):
        ensure(broken)
    assert MARKER not in _content(docker_sandbox, base_image, volume)

    ensure(_fill)
    assert _content(docker_sandbox, base_image, volume).split() == [MARKER, "file", "whole"]


def test_a_half_filled_volume_is_filled_again(
    docker_client: docker.DockerClient,
    docker_sandbox: Sandbox,
    base_image: str,
    volume: Mount,
    tmp_path: Path,
) -> None:
    """A volume with a truncated file and no marker is what a crash leaves: its content is replaced."""
    docker_client.volumes.create(volume.volume, labels=OWNER.labels("tool-volume"))
    target = EngineMount(volume.target, volume.volume, type="volume")
    docker_client.containers.run(
        base_image, ["sh", "-c", f"printf who >{volume.target}/file"], mounts=[target], remove=True, network_mode="none"
    )

    ensure_volume(docker_client, volume, owner=OWNER, image=base_image, fill=_fill, cache=tmp_path, say=_log.info)

    assert _content(docker_sandbox, base_image, volume).split() == [MARKER, "file", "whole"]


def _fill_much(archive: tarfile.TarFile) -> None:
    _fill(archive)
    member = tarfile.TarInfo("big")
    member.size = 1024**3
    with Path("/dev/zero").open("rb") as zeros:
        archive.addfile(member, zeros)


def _fill_in_process(volume: Mount, image: str, cache: Path) -> None:
    ensure_volume(connect(), volume, owner=OWNER, image=image, fill=_fill_much, cache=cache, say=_log.info)


def _size(sandbox: Sandbox, image: str, mount: Mount) -> int:
    argv = ("sh", "-c", f"stat -c %s {mount.target}/big 2>/dev/null || echo 0")
    with sandbox.opened(ContainerSpec(image, argv, mounts=(mount,))) as container:
        return int(container.run(timeout_s=60).output.text())


def test_a_killed_process_leaves_no_complete_volume(
    docker_client: docker.DockerClient,
    docker_sandbox: Sandbox,
    base_image: str,
    volume: Mount,
    tmp_path: Path,
) -> None:
    """SIGKILL while the stream is on its way: the marker is missing, the lock is free, the next call succeeds."""
    process = multiprocessing.get_context("spawn").Process(target=_fill_in_process, args=(volume, base_image, tmp_path))
    process.start()
    deadline = time.monotonic() + 60
    docker_client.volumes.create(volume.volume, labels=OWNER.labels("tool-volume"))
    while time.monotonic() < deadline and not _size(docker_sandbox, base_image, volume):
        time.sleep(0.1)
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join(10)

    assert process.exitcode == -signal.SIGKILL
    assert MARKER not in _content(docker_sandbox, base_image, volume)
    for orphan in docker_client.containers.list(all=True, filters={"volume": volume.volume}):
        orphan.remove(force=True)
    ensure_volume(docker_client, volume, owner=OWNER, image=base_image, fill=_fill, cache=tmp_path, say=_log.info)
    assert MARKER in _content(docker_sandbox, base_image, volume)
