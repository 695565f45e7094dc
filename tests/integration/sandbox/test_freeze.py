"""A frozen image's configuration is its base image's."""

from __future__ import annotations

import contextlib
import io
import json
import tarfile
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from docker.errors import ImageNotFound
from docker.utils.proxy import ProxyConfig

from pytest_researchenv.sandbox.labels import KIND, PREFIX
from pytest_researchenv.sandbox.protocol import ContainerSpec


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox


#: Dockerfiles as people write them.
RECIPES = {
    "bare": "",
    "command": 'CMD ["bash"]',
    "entry point": 'ENTRYPOINT ["/bin/echo"]\nENV A=b',
    "everything": """
ENV PATH=/custom:/usr/bin:/bin MODEL="a b"
ENTRYPOINT ["/bin/echo", "entry"]
CMD ["argument"]
USER 1000:1000
WORKDIR /srv
HEALTHCHECK --interval=1s CMD false
EXPOSE 80
STOPSIGNAL SIGINT
LABEL maintainer=somebody researchenv.kind=base-image
""",
}

_ROOTFS = """
for program in /bin/sh /bin/sleep /bin/cat /bin/echo; do echo $program; ldd $program | grep -o '/[^ ]*'; done > /list
sort -u /list | tar -chf /rootfs.tar -T -
"""


@pytest.fixture(scope="module")
def rootfs(docker_sandbox: DockerSandbox, base_image: str) -> bytes:
    """A file system with a shell, and nothing of an image's configuration."""
    with docker_sandbox.opened(ContainerSpec(base_image)) as container:
        container.start()
        done = container.exec(["sh", "-c", _ROOTFS], timeout_s=60)
        assert done.ok, done.output.text()
        with container.get("/rootfs.tar") as stream:
            assert stream is not None
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                member = archive.next()
                assert member is not None
                file = archive.extractfile(member)
                assert file is not None
                return file.read()


@pytest.fixture
def image(docker_client: DockerClient, rootfs: bytes, request: pytest.FixtureRequest) -> Iterator[str]:
    """An image built from one of the recipes."""
    name = f"researchenv-test-a:{uuid.uuid4().hex[:12]}"
    context = io.BytesIO()
    with tarfile.open(fileobj=context, mode="w") as archive:
        recipe = f"FROM scratch\nADD rootfs.tar /\n{RECIPES[request.param]}\n".encode()
        for path, content in {"Dockerfile": recipe, "rootfs.tar": rootfs}.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    context.seek(0)
    docker_client.images.build(fileobj=context, custom_context=True, tag=name, rm=True, forcerm=True)
    yield name
    # One that carries our label may have been reaped by a test that runs beside this one.
    with contextlib.suppress(ImageNotFound):
        docker_client.images.remove(name)


def _config(client: DockerClient, image: str) -> dict[str, Any]:
    config = dict(client.images.get(image).attrs["Config"])
    # The builder's note of what it built from; nothing reads it.
    config.pop("Image", None)
    # What an engine leaves out and what it writes as empty mean the same.
    return {key: value for key, value in config.items() if value not in (None, [], {}, "", False)}


@pytest.mark.parametrize("image", list(RECIPES), indirect=True)
def test_the_configuration_is_the_base_images(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, image: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Entry point, command, environment, user, folder, health check and foreign labels survive; ours are added.

    The attack: proxies in the user's Docker settings, which docker-py would put into every container's environment.
    """
    monkeypatch.setattr(docker_client.api, "_proxy_configs", ProxyConfig(http="http://secret@proxy"))
    snapshot = f"researchenv-test-a:{uuid.uuid4().hex[:12]}"
    try:
        with docker_sandbox.opened(ContainerSpec(image)) as container:
            container.start()
            done = container.exec(["sh", "-c", "echo $TOKEN"], timeout_s=30, environment={"TOKEN": "secret"})
            container.stop()
            frozen = container.freeze(snapshot, labels={f"{PREFIX}attempt": "7"})
        before, after = _config(docker_client, image), _config(docker_client, frozen)
        history = json.dumps(docker_client.images.get(frozen).history())
    finally:
        docker_sandbox.remove_image(snapshot)

    foreign = {key: value for key, value in before.pop("Labels", {}).items() if not key.startswith(PREFIX)}
    labels = after.pop("Labels")
    assert done.output.text() == "secret\n"
    assert after == before
    assert {key: value for key, value in labels.items() if not key.startswith(PREFIX)} == foreign
    assert (labels[KIND], labels[f"{PREFIX}run"], labels[f"{PREFIX}attempt"]) == ("snapshot", "tests", "7")
    assert "secret" not in history


@pytest.mark.parametrize("image", ["everything"], indirect=True)
def test_the_image_runs_as_its_base_does(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, image: str
) -> None:
    """Entry point and command are in force again."""
    snapshot = f"researchenv-test-a:{uuid.uuid4().hex[:12]}"
    try:
        with docker_sandbox.opened(ContainerSpec(image)) as container:
            container.start()
            container.stop()
            container.freeze(snapshot, labels={})
        assert docker_client.containers.run(snapshot, remove=True, network_mode="none") == b"entry argument\n"
    finally:
        docker_sandbox.remove_image(snapshot)


@pytest.mark.parametrize("image", ["everything"], indirect=True)
def test_our_command_is_run_not_the_images(docker_sandbox: DockerSandbox, image: str) -> None:
    """A main process is what was asked for, whatever the image's entry point is; its health check is off."""
    with docker_sandbox.opened(ContainerSpec(image, argv=("/bin/sh", "-c", "echo ours"))) as container:
        assert container.run(timeout_s=30).output.text() == "ours\n"
