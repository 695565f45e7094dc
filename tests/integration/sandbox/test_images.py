"""The base image, for real: what it holds, and what a build does when it is disturbed."""

from __future__ import annotations

import io
import logging
import multiprocessing
import os
import signal
import tarfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from docker.models.images import Image

from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox import images
from pytest_researchenv.sandbox._recipe import host_certificates
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.images import BaseImage, ensure_base_image
from pytest_researchenv.sandbox.labels import KIND, PREFIX, Owner


_log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def run(docker_client: docker.DockerClient, base_image: str, owner: Owner) -> Run:
    """Runs a shell line in a container of the base image."""
    return Run(docker_client, base_image, owner)


class Run:
    """Runs shell lines in fresh containers without network."""

    def __init__(self, client: docker.DockerClient, image: str, owner: Owner) -> None:
        """Hold what containers are made from."""
        self.client, self.image, self.labels = client, image, owner.labels("container")

    def __call__(self, line: str) -> str:
        """Output of the line; an error when it fails."""
        output = self.client.containers.run(
            self.image, ["sh", "-euc", line], remove=True, network_mode="none", labels=self.labels
        )
        return bytes(output).decode()


@pytest.fixture
def scratch(docker_client: docker.DockerClient, base_image: str, owner: Owner) -> Iterator[Scratch]:
    """Images derived from the base image, removed at the end with all that was built on them."""
    made = Scratch(docker_client, base_image, owner)
    yield made
    made.remove()


class Scratch:
    """Makes derived images."""

    def __init__(self, client: docker.DockerClient, image: str, owner: Owner) -> None:
        """Start without any."""
        self.client, self.image, self.owner = client, image, owner
        self.references: list[str] = []

    def derive(self, line: str = "true", **config: object) -> str:
        """Reference of a new image: the base image after a shell line, with another configuration."""
        reference = f"researchenv-test-{uuid.uuid4().hex[:12]}:latest"
        # Its own content, so that its key is new, too.
        line = f"{line}; echo {reference} >/etc/scratch"
        container = self.client.containers.create(
            self.image, ["sh", "-euc", line], labels=self.owner.labels("container")
        )
        try:
            container.start()
            assert container.wait()["StatusCode"] == 0
            container.commit(*reference.split(":"), conf={"Labels": self.owner.labels("snapshot"), **config})
        finally:
            container.remove(force=True)
        self.references.append(reference)
        return reference

    def built(self, base: BaseImage) -> Image:
        """The engine's view of an image built on a scratch image; it is removed at the end, too."""
        self.references.insert(0, f"{images._REPOSITORY}:{base.key}")
        return self.client.images.get(base.image)

    def remove(self) -> None:
        """Remove all."""
        for reference in self.references:
            self.client.images.remove(reference, force=True)


def test_an_image_that_is_there_is_used_at_once(
    docker_client: docker.DockerClient, base_image: str, owner: Owner
) -> None:
    """The second call builds nothing, says nothing, and takes less than 0.2 s."""
    said: list[str] = []
    start = time.monotonic()

    found = ensure_base_image(docker_client, owner=owner, say=said.append)

    assert time.monotonic() - start < 0.2
    assert found.image == base_image
    assert said == []
    assert found.description


def test_its_configuration_is_bare(docker_client: docker.DockerClient, base_image: str) -> None:
    """PATH and LANG are the only variables; no entry point, no volume; a shell; labels that say what it is."""
    config = docker_client.images.get(base_image).attrs["Config"]

    assert {item.partition("=")[0] for item in config["Env"]} == {"PATH", "LANG"}
    assert "LANG=C.UTF-8" in config["Env"]
    assert config["Cmd"] == ["bash"]
    assert not config.get("Entrypoint")
    assert not config.get("Volumes")
    assert not config.get("User")
    assert config["Labels"][KIND] == "base-image"
    assert f"{PREFIX}key" in config["Labels"]


def test_the_tools_are_there(run: Run) -> None:
    """What research code's installation asks for works as root without network, uv and a compiler included."""
    run("python3 -m venv /tmp/v && uv venv --quiet --offline /tmp/u && git --version && curl --version")
    run("echo 'int main(){return 0;}' >/tmp/a.c && cc /tmp/a.c -o /tmp/a && /tmp/a")
    run("c++ --version && cmake --version && ninja --version")
    run('test -f "$(python3 -c "import sysconfig; print(sysconfig.get_path(\'include\'))")/Python.h"')


def test_the_interpreter_is_bare(run: Run) -> None:
    """The system's Python has only what comes with pip: not even uv."""
    packages = run("python3 -m pip list --format=freeze --disable-pip-version-check")

    assert {line.partition("==")[0] for line in packages.split()} <= {"pip", "setuptools", "wheel"}


def test_mount_points_exist_and_nothing_is_left_over(run: Run) -> None:
    """Mounting leaves no trace, since the folders are there; caches and the build's own files are not."""
    listing = run(
        "ls -d /researchenv/* && stat -c %a /researchenv /workspace && ls -A /workspace /var/cache/apt/archives"
    )

    assert listing.split()[:4] == ["/researchenv/host", "/researchenv/tools", "1777", "1777"]
    assert run("ls /var/cache/apt/archives/*.deb /var/lib/apt/lists/*Packages* /root/.cache 2>/dev/null || true") == ""


def test_the_hosts_certificates_are_trusted(run: Run) -> None:
    """Each extra certificate of this host is in the image's bundle."""
    bundle = run("cat /etc/ssl/certs/ca-certificates.crt")

    for name, pem in host_certificates():
        assert pem.decode().strip().splitlines()[1] in bundle, name


def test_an_image_of_the_users_is_completed(
    docker_client: docker.DockerClient, scratch: Scratch, owner: Owner, tmp_path: Path
) -> None:
    """Missing packages are added; its variables stay; entry point, user and health check do not get in the way."""
    reference = scratch.derive(
        "rm -rf /opt/uv /usr/local/bin/uv /researchenv; dpkg --purge ninja-build",
        Env=["CUDA_HOME=/usr/local/cuda"],
        Entrypoint=["/bin/false"],
        Cmd=["-x"],
        User="nobody",
        Healthcheck={"Test": ["CMD", "false"]},
    )
    said: list[str] = []

    base = ensure_base_image(docker_client, owner=owner, wanted=reference, say=said.append, cache=tmp_path)
    config = scratch.built(base).attrs["Config"]

    assert {item.partition("=")[0] for item in config["Env"]} == {"PATH", "LANG", "CUDA_HOME"}
    assert not config.get("Entrypoint")
    assert not config.get("Volumes")
    assert (config["Cmd"], config["User"], config["Healthcheck"]["Test"]) == (["bash"], "root", ["NONE"])
    Run(docker_client, base.image, owner)(
        "ninja --version && uv --version && test -d /researchenv/host && ! ls /researchenv/layer"
    )
    assert ensure_base_image(docker_client, owner=owner, wanted=reference, say=said.append, cache=tmp_path) == base
    assert len([line for line in said if "adding" in line]) == 1


def test_an_image_with_a_volume_is_refused(docker_client: docker.DockerClient, scratch: Scratch, owner: Owner) -> None:
    """What is written to a volume is not frozen, so such an image would lose the agent's work."""
    reference = scratch.derive(Volumes={"/data": {}})

    with pytest.raises(ImageError, match=r"declares the volumes /data: .*not frozen"):
        ensure_base_image(docker_client, owner=owner, wanted=reference, say=_log.info)


def test_a_layer_that_fails_makes_no_image(
    docker_client: docker.DockerClient, scratch: Scratch, owner: Owner, tmp_path: Path
) -> None:
    """An image without apt is refused with the reason, and neither image nor container is left."""
    reference = scratch.derive("mv /usr/bin/apt-get /usr/bin/apt-gone")

    with pytest.raises(ImageError, match=r"code 3(?s:.*)only images based on Debian or Ubuntu"):
        ensure_base_image(docker_client, owner=owner, wanted=reference, say=_log.info, cache=tmp_path)

    assert not _tagged(docker_client, reference)
    assert not docker_client.containers.list(all=True, filters={"ancestor": reference})


def _tagged(client: docker.DockerClient, reference: str) -> bool:
    parent = client.images.get(reference).id
    tagged = client.images.list(images._REPOSITORY)
    return any(image.attrs["Parent"] == parent for image in tagged)


def _build(reference: str, cache: Path, log: Path) -> None:
    with log.open("a", buffering=1) as stream:
        ensure_base_image(
            connect(),
            owner=Owner.current("tests"),
            wanted=reference,
            say=lambda line: print(line, file=stream),
            cache=cache,
        )


def test_two_processes_build_once(
    docker_client: docker.DockerClient, scratch: Scratch, owner: Owner, tmp_path: Path
) -> None:
    """The second process waits for the first, and finds its image."""
    reference = scratch.derive()
    context = multiprocessing.get_context("spawn")
    logs = [tmp_path / "one", tmp_path / "two"]
    processes = [context.Process(target=_build, args=(reference, tmp_path, log)) for log in logs]
    for process in processes:
        process.start()
    for process in processes:
        process.join(120)

    said = "".join(log.read_text() for log in logs)
    scratch.built(ensure_base_image(docker_client, owner=owner, wanted=reference, say=_log.info, cache=tmp_path))
    assert [process.exitcode for process in processes] == [0, 0]
    assert said.count("adding the build tools") == 1


@pytest.mark.slow
def test_a_killed_build_leaves_nothing_tagged(
    docker_client: docker.DockerClient, scratch: Scratch, owner: Owner, tmp_path: Path
) -> None:
    """After SIGKILL in the middle there is no image under the key, and the next build is not blocked by a lock."""
    # Slow, so that the kill comes in the middle of the layer.
    reference = scratch.derive("printf '#!/bin/sh\\nsleep 3\\n' >/usr/sbin/update-ca-certificates")
    log = tmp_path / "log"
    process = multiprocessing.get_context("spawn").Process(target=_build, args=(reference, tmp_path, log))
    process.start()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (log.exists() and "fetching" in log.read_text()):
        time.sleep(0.05)
    time.sleep(1.5)
    assert process.pid
    os.kill(process.pid, signal.SIGKILL)
    process.join(10)

    assert not _tagged(docker_client, reference)
    orphans = docker_client.containers.list(all=True, filters={"ancestor": reference})
    assert orphans, "the build was over before it was killed"
    for container in orphans:
        container.remove(force=True, v=True)
    scratch.built(ensure_base_image(docker_client, owner=owner, wanted=reference, say=_log.info, cache=tmp_path))


def test_labels_survive_odd_characters(docker_client: docker.DockerClient, owner: Owner) -> None:
    """The lines that configure an imported image keep quotes, blanks, backslashes and dollar signs as they are."""
    labels = owner.labels("snapshot", odd='it\'s "$HOME" ${PATH} \\ \\$x run')
    reference = f"researchenv-test-{uuid.uuid4().hex[:12]}"
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("file"))

    docker_client.api.import_image_from_stream(
        iter([stream.getvalue()]), repository=reference, tag="latest", changes=images._import_changes(labels)
    )

    try:
        assert docker_client.images.get(reference).attrs["Config"]["Labels"] == labels
    finally:
        docker_client.images.remove(reference, force=True)
