"""Small things that images and volumes both need from the container engine's client."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import docker
import requests
from docker.errors import DockerException, NotFound
from docker.models.containers import Container
from docker.types import Mount as EngineMount

from pytest_researchenv._cache import PATIENCE_S, cache_folder, locked
from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox._stat import look
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


__all__ = ["architecture", "engine_errors", "engine_version", "ensure_volume", "helper", "patience"]

#: Written last into a volume; a volume without it was filled only in part.
MARKER = ".researchenv-complete"


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn what docker-py raises (two unrelated families) into an `ImageError`."""
    try:
        yield
    except (DockerException, requests.RequestException) as error:
        reason = getattr(error, "explanation", None) or error
        raise ImageError(f"the container engine failed while {doing}: {reason}") from error


@contextmanager
def patience(client: docker.DockerClient, seconds: int) -> Iterator[None]:
    """Let the client wait for `seconds` of silence before it gives up; its own limit of 60 s is one of silence, too."""
    before = client.api.timeout
    client.api.timeout = seconds
    try:
        yield
    finally:
        client.api.timeout = before


def architecture(client: docker.DockerClient) -> str:
    """The engine's architecture, as Docker and Debian name it (`amd64`)."""
    with engine_errors("asking for its architecture"):
        return str(client.version()["Arch"])


def engine_version(client: docker.DockerClient) -> str:
    """The engine's name and version (`Docker 20.10.24`)."""
    with engine_errors("asking for its version"):
        known = client.version()
    # Podman answers as Docker does, and names itself among its components.
    names = [str(component.get("Name", "")) for component in known.get("Components") or ()]
    return f"{'Podman' if any(name.startswith('Podman') for name in names) else 'Docker'} {known['Version']}"


@contextmanager
def helper(client: docker.DockerClient, *, owner: Owner, image: str, **settings: Any) -> Iterator[Container]:  # noqa: ANN401 - docker-py's keywords
    """Create a container of our own, which is removed at the end."""
    with engine_errors(f"creating a helper container from {image}"):
        # Not `volumes=`: docker-py then declares them in the container's configuration, and a commit would keep that.
        container = client.containers.create(image, labels=owner.labels("container"), **settings)
    try:
        yield container
    finally:
        with engine_errors("removing a helper container"):
            container.remove(force=True, v=True)


def ensure_volume(
    client: docker.DockerClient,
    mount: Mount,
    *,
    owner: Owner,
    image: str,
    fill: Callable[[tarfile.TarFile], None],
    cache: Path | None,
    say: Callable[[str], None],
) -> Mount:
    """Make a named volume and fill it once, through a container that is never started.

    The volume's name must hold a key of its content. Its marker is the last file of the stream, so that a volume whose
    filling was interrupted is recognised and filled again.

    Args:
        client: the engine.
        mount: name of the volume, and where it is seen in containers.
        owner: whose labels it gets.
        image: any image that exists.
        fill: adds the content to an archive whose names are relative to the volume.
        cache: folder of the lock; None: the user's cache folder.
        say: told what happens.
    """
    if _complete(client, mount, owner=owner, image=image):
        return mount
    with locked(mount.volume, cache, say):
        if _complete(client, mount, owner=owner, image=image):
            return mount
        say(f"filling the volume {mount.volume}")
        with engine_errors(f"making the volume {mount.volume}"):
            client.volumes.create(mount.volume, labels=owner.labels("tool-volume"))
        with tempfile.TemporaryFile(dir=cache or cache_folder()) as stream:
            with tarfile.open(fileobj=stream, mode="w") as archive:
                fill(archive)
                archive.addfile(tarfile.TarInfo(MARKER))
            stream.seek(0)
            target = EngineMount(mount.target, mount.volume, type="volume", no_copy=True)
            with (
                helper(client, owner=owner, image=image, mounts=[target]) as container,
                engine_errors(f"filling the volume {mount.volume}"),
                patience(client, PATIENCE_S),
            ):
                container.put_archive(mount.target, stream)
    return mount


def _complete(client: docker.DockerClient, mount: Mount, *, owner: Owner, image: str) -> bool:
    with engine_errors(f"looking for the volume {mount.volume}"):
        try:
            client.volumes.get(mount.volume)
        except NotFound:
            return False
    target = EngineMount(mount.target, mount.volume, type="volume", read_only=True, no_copy=True)
    with (
        helper(client, owner=owner, image=image, mounts=[target]) as container,
        engine_errors(f"checking the volume {mount.volume}"),
    ):
        marker = f"{mount.target}/{MARKER}"
        if look(client.api, str(container.id), marker).mode:
            return True
        try:
            stream, _ = container.get_archive(marker)
        except NotFound:
            return False
        for _ in stream:
            pass
        return True
