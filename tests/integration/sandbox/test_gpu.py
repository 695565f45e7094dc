"""The monitor beside a probe in real containers; a script stands in for nvidia-smi, since no GPU is needed for that.

The stand-in knows processes by looking into /proc of the engine's host, as the real driver knows them by the host's
ids: whoever runs `sleep 3141` holds memory.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from pytest_researchenv.sandbox.docker import DockerContainer, DockerSandbox
from pytest_researchenv.sandbox.gpu import monitored
from pytest_researchenv.sandbox.protocol import ContainerSpec


MIB = 1024**2

STAND_IN = r"""#!/bin/sh
case "$1" in
--query-gpu=uuid*) echo "GPU-7, 512";;
*) for f in /proc/[0-9]*/cmdline; do
       [ "$(tr '\0' ' ' < $f 2>/dev/null)" = "sleep 3141 " ] || continue
       pid=${f#/proc/}; echo "${pid%/cmdline}, GPU-7, 300"
   done;;
esac
"""


class WithoutDevices:
    """Docker, but the devices that a container asks for are left out."""

    def __init__(self, sandbox: DockerSandbox) -> None:
        self._sandbox = sandbox

    def __getattr__(self, name: str) -> object:
        return getattr(self._sandbox, name)

    def opened(self, spec: ContainerSpec) -> object:
        """As Docker's."""
        return self._sandbox.opened(replace(spec, devices=()))


@pytest.fixture(scope="module")
def image(docker_sandbox: DockerSandbox, base_image: str) -> Iterator[str]:
    """The base image with the stand-in; removed at the end."""
    with docker_sandbox.opened(ContainerSpec(base_image)) as container:
        container.start()
        script = f"cat > /usr/bin/nvidia-smi <<'END'\n{STAND_IN}END\nchmod +x /usr/bin/nvidia-smi"
        assert container.exec(("sh", "-c", script), timeout_s=30).ok
        container.stop()
        made = container.freeze("researchenv-test-gpu:stand-in", labels={})
    yield made
    docker_sandbox.remove_image(made)


def _run(container: DockerContainer) -> threading.Thread:
    thread = threading.Thread(target=lambda: container.run(timeout_s=60))
    thread.start()
    return thread


def test_only_the_watched_containers_processes_count(
    docker_sandbox: DockerSandbox, image: str, base_image: str
) -> None:
    """Two processes of one container count, a third in another container does not."""
    sandbox = WithoutDevices(docker_sandbox)
    two = ("sh", "-c", "sleep 3141 & sleep 3141 & wait")
    with (
        monitored(sandbox, image=image, devices=("GPU-7",)) as use,  # type: ignore[arg-type] # a wrapper
        docker_sandbox.opened(ContainerSpec(base_image, argv=two)) as probe,
        docker_sandbox.opened(ContainerSpec(base_image, argv=("sleep", "3141"))) as other,
    ):
        use.watch(probe)
        threads = [_run(other), _run(probe)]
        assert use.await_sample(30)
        peaks, source = use.peaks(), use.source("GPU-7")
        for container in (probe, other):
            container.stop()
        for thread in threads:
            thread.join(30)

    assert peaks == {"GPU-7": 600 * MIB}
    assert source == "held by the container's processes"


def test_nothing_is_left_behind(docker_sandbox: DockerSandbox, image: str) -> None:
    """The monitor's container goes with the block."""
    sandbox = WithoutDevices(docker_sandbox)
    client = docker_sandbox._client
    with monitored(sandbox, image=image, devices=("GPU-7",)):  # type: ignore[arg-type] # a wrapper
        running = client.containers.list(filters={"ancestor": image})
        assert [container.attrs["HostConfig"]["PidMode"] for container in running] == ["host"]

    assert not client.containers.list(all=True, filters={"ancestor": image})
