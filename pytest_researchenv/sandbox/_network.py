"""Private networks of a Docker engine, and how containers get into them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, NotFound

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox._stream import engine_call
from pytest_researchenv.sandbox.protocol import ContainerSpec, Join, Network


if TYPE_CHECKING:
    from docker import DockerClient
    from docker.api import APIClient

    from pytest_researchenv.sandbox.labels import Owner


__all__ = ["closed_network", "join_the_rest", "network_options", "private_network"]

#: Keeps the engine's host off an internal network's bridge: with an address there it answers, and with it every service
#: that listens on all its addresses (tried). Engines from 28 on also know `gateway_mode_ipv4=isolated`, which does the
#: same, and which older ones refuse; this option all of them know. What is said of any other engine is checked.
_NO_HOST = {"com.docker.network.bridge.inhibit_ipv4": "true"}

#: How names are looked up where nothing outside can be reached. The engine's resolver asks nobody then, and old ones
#: answer nothing at all, so that one lookup took 10 s; so it is 1 s (tried, and 1 s is the least that can be said).
#: The name server is the container itself: otherwise a resolver on the host's loopback would be asked, from the host
#: (CVE-2024-29018), and a name can carry data out.
_NO_NAMES = {"dns": ["127.0.0.1"], "dns_opt": ["timeout:1", "attempts:1"], "dns_search": ["."]}

#: How engines begin to say that they have no address range left: 31 networks are a lot to them.
_NO_RANGE = "could not find an available"


@contextlib.contextmanager
def private_network(client: DockerClient, owner: Owner, *, outward: bool, labels: Mapping[str, str]) -> Iterator[str]:
    """Make a network of its own, which is removed at the end of the block; yields its name."""
    name = f"researchenv-{uuid.uuid4().hex[:16]}"
    with engine_call("make a private network"):
        try:
            identifier = client.api.create_network(
                name,
                driver="bridge",
                internal=not outward,
                options=None if outward else _NO_HOST,
                labels={**labels, **owner.labels("network")},
            )["Id"]
        except APIError as error:
            if _NO_RANGE not in str(error.explanation):
                raise
            raise SandboxError(
                f"cannot make a private network: {error.explanation}. Remove what dead runs left with `researchenv "
                "reap` and networks that nobody needs with `docker network prune`, run fewer attempts at a time, or "
                "give the engine more ranges (default-address-pools in its daemon.json)."
            ) from error
    try:
        if not outward:
            _check_closed(client.api, identifier)
        yield name
    finally:
        with engine_call(f"remove the private network {name}"):
            _remove(client.api, identifier)


def closed_network(client: DockerClient, name: str, *, labels: Mapping[str, str]) -> None:
    """Make a network without a way out, not even to the engine's host, where it is not there yet; it stays.

    Raises:
        SandboxError: the engine makes, or has, another one.
    """
    with engine_call(f"make the network {name}"):
        try:
            client.api.inspect_network(name)
        except NotFound:
            client.api.create_network(name, driver="bridge", internal=True, options=_NO_HOST, labels=dict(labels))
        _check_closed(client.api, name)


def network_options(api: APIClient, spec: ContainerSpec) -> dict[str, Any]:
    """Arguments of docker-py's `containers.create` that say what it reaches; `join_the_rest` does the rest.

    Raises:
        NotFound: it joins a network that is not there.
    """
    # The engine itself would notice a missing network at the start only.
    closed = [api.inspect_network(join.network)["Internal"] for join in spec.joins]
    if spec.network is Network.OPEN:
        options: dict[str, Any] = {"network_mode": "bridge"}
    elif spec.joins:
        first = spec.joins[0]
        options = {"network": first.network, "networking_config": {first.network: _endpoint(api, first)}}
        if all(closed):
            options |= _NO_NAMES
    else:
        options = {"network_mode": "none"}
    if spec.publish:
        # Only a range of the loopback address is named, so that the engine picks the port.
        options["ports"] = {f"{spec.publish}/tcp": ("127.0.0.1", None)}
    return options


def join_the_rest(api: APIClient, container: str, spec: ContainerSpec) -> None:
    """Put a container that does not run yet into the networks in which `network_options` did not put it.

    Engines before 25 take one network only when a container is created.
    """
    for join in spec.joins if spec.network is Network.OPEN else spec.joins[1:]:
        api.connect_container_to_network(container, join.network, aliases=[join.alias] if join.alias else None)


def _endpoint(api: APIClient, join: Join) -> dict[str, Any]:
    return dict(api.create_endpoint_config(aliases=[join.alias] if join.alias else None))


def _check_closed(api: APIClient, network: str) -> None:
    found = api.inspect_network(network)
    closed = found["Internal"] and (found.get("Options") or {}).items() >= _NO_HOST.items()
    if not closed or found.get("EnableIPv6"):
        raise SandboxError(
            "cannot make a private network without a way out: the engine made it with "
            f"internal={found['Internal']}, ipv6={found.get('EnableIPv6')}, options={found.get('Options')}. Use a "
            f"Docker engine that knows {', '.join(_NO_HOST)}, with IPv6 off for new networks."
        )


def _remove(api: APIClient, network: str) -> None:
    """Remove a network, though containers that are about to be removed are still in it."""
    with contextlib.suppress(NotFound):
        try:
            api.remove_network(network)
        except APIError as error:
            if "active endpoints" not in str(error.explanation):
                raise
            for container in api.inspect_network(network)["Containers"]:
                # One that has just ended is no longer in it, which engines call forbidden or not found.
                with contextlib.suppress(APIError):
                    api.disconnect_container_from_network(container, network, force=True)
            api.remove_network(network)
