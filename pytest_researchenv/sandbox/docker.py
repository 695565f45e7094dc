"""The `Sandbox` protocol over Docker's engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

from docker.errors import ImageNotFound

from pytest_researchenv.errors import ImageError, SandboxError
from pytest_researchenv.sandbox._check import check_spec
from pytest_researchenv.sandbox._config import container_options
from pytest_researchenv.sandbox._container import DockerContainer
from pytest_researchenv.sandbox._network import join_the_rest, network_options, private_network
from pytest_researchenv.sandbox._seccomp import filter_options
from pytest_researchenv.sandbox._stream import engine_call
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Image


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["DockerContainer", "DockerSandbox"]


class DockerSandbox:
    """Containers of a Docker engine.

    Args:
        client: a client of the engine, from `daemon.connect`.
        owner: on whose behalf things are made.
    """

    def __init__(self, client: DockerClient, owner: Owner) -> None:
        self._client = client
        self._owner = owner

    @cached_property
    def _filter(self) -> list[str]:
        return filter_options(self._client.version(), self._client.info())

    def create(self, spec: ContainerSpec) -> DockerContainer:
        """Create a hardened container; nothing runs yet.

        Raises:
            ImageError: the image is not there, or what an idle container does could not be frozen.
            SandboxError: the engine refuses.
        """
        check_spec(spec)
        image = self._image(spec.image)
        configuration = image.get("Config") or {}
        if spec.argv is None and configuration.get("Volumes"):
            raise ImageError(
                f"image {spec.image} declares the volumes {', '.join(sorted(configuration['Volumes']))}: what is "
                "written there would not be frozen. Use a base image without VOLUME."
            )
        with engine_call(f"create a container from {spec.image}"):
            for mount in spec.mounts:
                # The engine makes a missing volume, empty and without labels.
                self._client.volumes.get(mount.volume)
            options = container_options(spec, configuration, self._owner.labels("container"))
            options |= network_options(self._client.api, spec)
            options["security_opt"] = [*options["security_opt"], *self._filter]
            made = self._client.containers.create(image["Id"], **options)
        container = DockerContainer(self._client, self._owner, cast("str", made.id), spec)
        try:
            with engine_call("put the container into its private networks"):
                join_the_rest(self._client.api, container.id, spec)
        except BaseException:
            container.remove()
            raise
        return container

    @contextlib.contextmanager
    def opened(self, spec: ContainerSpec) -> Iterator[DockerContainer]:
        """Create a container that is removed at the end of the block."""
        container = self.create(spec)
        try:
            yield container
        except BaseException:
            # An engine that has gone away breaks the removal, too: what broke first is what is told.
            with contextlib.suppress(SandboxError):
                container.remove()
            raise
        container.remove()

    def private_network(self, *, outward: bool, labels: Mapping[str, str]) -> contextlib.AbstractContextManager[str]:
        """Make a network of its own, which is removed at the end of the block; yields its name."""
        return private_network(self._client, self._owner, outward=outward, labels=labels)

    def image_exists(self, image: str) -> bool:
        """Whether the image is there, locally."""
        with engine_call(f"look for image {image}"):
            try:
                self._client.images.get(image)
            except ImageNotFound:
                return False
        return True

    def find_image(self, image: str) -> Image | None:
        """What the engine knows of an image; None when it is not there."""
        with engine_call(f"look for image {image}"):
            try:
                known = self._client.images.get(image)
            except ImageNotFound:
                return None
        layers = (known.attrs.get("RootFS") or {}).get("Layers") or []
        return Image(str(known.id), dict(known.labels), tuple(map(str, layers)))

    def image_size(self, image: str) -> int:
        """Size of an image in bytes, layers shared with others included."""
        return int(self._image(image)["Size"])

    def remove_image(self, image: str) -> None:
        """Remove an image. Removing twice is no error."""
        # Without noprune an untagged base image would go with its last snapshot.
        with engine_call(f"remove image {image}"), contextlib.suppress(ImageNotFound):
            self._client.images.remove(image, force=True, noprune=True)

    def _image(self, image: str) -> dict[str, Any]:
        with engine_call(f"inspect image {image}"):
            # Asked first: create would look in a registry, and answer with that failure.
            try:
                return cast("dict[str, Any]", self._client.api.inspect_image(image))  # type: ignore[no-untyped-call]
            except ImageNotFound as error:
                raise ImageError(
                    f"image {image} is not on this engine: it was never built here, or it was removed. "
                    "Build the environment again with --researchenv-rebuild."
                ) from error
