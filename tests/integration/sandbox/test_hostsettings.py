"""The host's settings, for real: containers reach what the host reaches, and images keep no trace of it."""

from __future__ import annotations

import logging
import zipfile
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest

from pytest_researchenv.sandbox.hostsettings import HostSettings, host_settings
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Completed, Container, ContainerSpec, Network, Sandbox


_log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def settings(docker_client: docker.DockerClient, base_image: str, owner: Owner) -> HostSettings:
    """What this host has."""
    return host_settings(docker_client, owner=owner, image=base_image, say=_log.info)


@pytest.fixture
def container(docker_sandbox: Sandbox, base_image: str, settings: HostSettings) -> Iterator[Container]:
    """A started container on the default network, with the volume but no variables."""
    mounts = (settings.mount,) if settings.mount else ()
    with docker_sandbox.opened(ContainerSpec(base_image, network=Network.OPEN, mounts=mounts)) as opened:
        opened.start()
        yield opened


def _shell(container: Container, line: str, settings: HostSettings) -> Completed:
    return container.exec(["sh", "-euc", line], timeout_s=300, environment=settings.environment)


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("cd /tmp && pip download six", id="pip"),
        pytest.param("python3 -m venv /tmp/v && uv pip install --python /tmp/v six", id="uv"),
        pytest.param("apt-get update", id="apt"),
    ],
)
def test_the_hosts_indexes_are_reached(container: Container, settings: HostSettings, line: str) -> None:
    """Each installer works in a container as it does on the host, with the variables and the volume alone."""
    done = _shell(container, line, settings)

    assert done.ok, done.output.text()


def test_tls_is_trusted(container: Container, settings: HostSettings) -> None:
    """Curl, git and Python get past the certificate check of whatever stands between this host and the index."""
    default = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)"
    line = (
        f'url="${{PIP_INDEX_URL:-$(python3 -c "{default}")}}/six/"; curl -sSL -o /dev/null "$url"; '
        'python3 -c "import sys, urllib.request as u; u.urlopen(sys.argv[1]).read()" "$url"; '
        # Not a repository, so it ends with an error, but after the certificate was checked.
        'git ls-remote "$url" 2>&1 || true'
    )
    done = _shell(container, line, settings)

    assert done.ok, done.output.text()
    assert "certificate" not in done.output.text().lower()
    assert "not found" in done.output.text()


def test_what_is_local_to_the_host_is_installed(
    docker_client: docker.DockerClient, docker_sandbox: Sandbox, base_image: str, tmp_path: Path
) -> None:
    """A wheel that exists only in a find-links folder of the host installs in a container without network."""
    wheels, bundle, constraint = tmp_path / "wheels", tmp_path / "ca.pem", tmp_path / "c.txt"
    wheels.mkdir()
    with zipfile.ZipFile(wheels / "only_here-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("only_here.py", "VALUE = 42\n")
        wheel.writestr("only_here-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: only-here\nVersion: 1.0\n")
        wheel.writestr(
            "only_here-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("only_here-1.0.dist-info/RECORD", "")
    bundle.write_text("a bundle\n")
    constraint.write_text("only-here<2\n")
    environ = {
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_FIND_LINKS": str(wheels),
        "PIP_NO_INDEX": "1",
        "PIP_CONSTRAINT": str(constraint),
        "GIT_SSL_CAINFO": str(bundle),
    }
    settings = host_settings(
        docker_client, owner=Owner.current("tests"), image=base_image, say=_log.info, environ=environ, cache=tmp_path
    )
    assert settings.mount is not None
    try:
        with docker_sandbox.opened(ContainerSpec(base_image, mounts=(settings.mount,))) as container:
            container.start()
            done = _shell(
                container,
                'python3 -m venv /tmp/v; /tmp/v/bin/pip install only-here; /tmp/v/bin/python -c "import only_here"; '
                "uv venv -q /tmp/u; uv pip install --offline --python /tmp/u only-here; "
                'grep -q bundle "$GIT_SSL_CAINFO"',
                settings,
            )
        assert done.ok, done.output.text()
    finally:
        docker_client.volumes.get(settings.mount.volume).remove(force=True)


def test_nothing_is_frozen(
    docker_client: docker.DockerClient, container: Container, settings: HostSettings, base_image: str, owner: Owner
) -> None:
    """After work with the settings, the snapshot has the base image's configuration, and an empty mount point."""
    _shell(container, "env >/dev/null; ls /researchenv/host", settings)
    container.stop()
    image = container.freeze("researchenv-test-hostsettings:latest", labels={})

    try:
        before, after = (docker_client.images.get(name).attrs["Config"] for name in (base_image, image))
        listing = docker_client.containers.run(
            image, ["ls", "-A", "/researchenv/host"], remove=True, network_mode="none", labels=owner.labels("container")
        )
    finally:
        docker_client.images.remove(image, force=True)
    assert after["Env"] == before["Env"]
    assert not after.get("Volumes")
    assert listing == b""


def test_the_volume_is_read_only(container: Container, settings: HostSettings) -> None:
    """An agent cannot change what the next one gets."""
    if settings.mount is None:
        pytest.skip("this host has no files to carry")

    done = _shell(container, f"! touch {settings.mount.target}/x", settings)

    assert "Read-only file system" in done.output.text()
