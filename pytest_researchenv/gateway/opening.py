"""Opens gateways on a Docker engine, making ready what they need when the first one is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import final

import docker

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.protocol import Gateway, GatewayRequest
from pytest_researchenv.gateway.sidecar import HostNetwork, open_gateway
from pytest_researchenv.gateway.volume import ensure_proxy
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.hostsettings import HostSettings
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner


__all__ = ["Gateways"]

#: Variables that name a file with the authorities that this host trusts, the most general first.
_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT")

_PROXIES = ("http_proxy", "https_proxy", "no_proxy")


@final
class Gateways:
    """Opens a gateway for each attempt that asks for one.

    Args:
        client: the engine.
        sandbox: the same, as a sandbox.
        owner: whose labels things get.
        host: this host's settings: what is named there may be reached, and its proxies are used.
        say: told what takes a while.
    """

    def __init__(
        self,
        client: docker.DockerClient,
        sandbox: DockerSandbox,
        owner: Owner,
        host: HostSettings,
        say: Callable[[str], None],
    ) -> None:
        self._client = client
        self._sandbox = sandbox
        self._owner = owner
        self._host = host
        self._say = say

    def __call__(self, request: GatewayRequest) -> AbstractContextManager[Gateway]:
        """Open a gateway; see `open_gateway`.

        Raises:
            ConfigurationError: the agent's tool runs on this host, and the engine elsewhere.
            ImageError: the gateway's image or its volume could not be made.
        """
        if request.on_host and not local(self._client):
            raise ConfigurationError(
                "the agent's tool runs on this host and would not reach its gateway, which is on the container "
                f"engine's ({self._client.api.base_url}): choose an agent whose tool runs in its container, or an "
                "engine on this host"
            )
        # Not the image that agents start from, which may have no Python.
        image = ensure_base_image(self._client, owner=self._owner, wanted="", say=self._say).image
        mount = ensure_proxy(self._client, owner=self._owner, image=image, say=self._say)
        return open_gateway(self._sandbox, image, mount, request, host=self._network(request))

    def _network(self, request: GatewayRequest) -> HostNetwork:
        environment = self._host.environment
        return HostNetwork(
            ca_bundle=_bundle(os.environ),
            proxies={name: environment[name] for name in _PROXIES if name in environment},
            # Many labs resolve registries' names to mirrors of their own. Nobody else can, for a name that is written
            # out; below a wildcard somebody might.
            private_hosts=tuple(host for host in request.allow if not host.startswith("*")),
        )


def local(client: docker.DockerClient) -> bool:
    """Whether an engine's loopback address is this host's."""
    # docker-py keeps the scheme of a socket in its own way: `http+docker://localhost`.
    return str(client.api.base_url).startswith(("http+docker:", "http+unix:"))


def _bundle(environ: Mapping[str, str]) -> bytes:
    for name in _BUNDLES:
        if path := environ.get(name):
            try:
                return Path(path).read_bytes()
            except OSError:
                continue
    return b""
