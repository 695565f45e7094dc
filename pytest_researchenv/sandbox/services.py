"""Containers of our own that serve several sessions: they have a name, and a volume that outlives them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from docker.types import LogConfig
from docker.types import Mount as EngineMount

from pytest_researchenv.sandbox._config import container_options
from pytest_researchenv.sandbox._network import closed_network, join_the_rest, network_options
from pytest_researchenv.sandbox._seccomp import filter_options
from pytest_researchenv.sandbox._stdin import Feed
from pytest_researchenv.sandbox._stream import engine_call
from pytest_researchenv.sandbox.protocol import ContainerSpec


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["Feed", "closed_network", "create_service", "engine_call"]


def create_service(
    client: DockerClient, spec: ContainerSpec, *, name: str, labels: Mapping[str, str], volume: str, target: str
) -> str:
    """Create its container, as hardened as every other; nothing runs yet. Returns its id.

    Args:
        client: the engine.
        spec: what is wanted.
        name: of the container.
        labels: likewise.
        volume: name of the volume that it may write to.
        target: where it has the volume.

    Raises:
        SandboxError: the engine refuses.
    """
    api = client.api
    with engine_call(f"create the container {name}"):
        image: dict[str, Any] = api.inspect_image(spec.image).get("Config") or {}  # type: ignore[no-untyped-call]
        options = container_options(spec, image, labels)
        options |= network_options(api, spec)
        options["mounts"].append(EngineMount(target, volume, type="volume", no_copy=True))
        options["security_opt"] = [*options["security_opt"], *filter_options(client.version(), client.info())]
        # Only what it says of a start that failed: it logs nothing else.
        options["log_config"] = LogConfig(type="json-file", config={"max-size": "1m"})
        made = client.containers.create(spec.image, name=name, **options)
        join_the_rest(api, str(made.id), spec)
        return str(made.id)
