"""What the rest of the package knows of the package cache. Importing this module imports nothing heavy."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from pytest_researchenv.gateway.protocol import GatewayRequest, Reach


__all__ = ["HOST", "INDEX_URL", "NAME", "PORT", "PackageCache", "Packages", "with_packages"]

#: The cache's name in every private network that it is in. No name of the internet looks like it.
NAME = "researchenv-packages"
PORT = 8765

#: As allowlists have it.
HOST = f"{NAME}:{PORT}"

#: Where pip and uv find it.
INDEX_URL = f"http://{HOST}/index/"


class Packages(Protocol):
    """A cache that answers."""

    @property
    def network(self) -> str:
        """Name of the private network in which gateways reach it; no agent is in there."""

    def joined(self, network: str) -> AbstractContextManager[None]:
        """Let it answer in another private network, by its `NAME`, until the end of the block.

        Raises:
            InfrastructureError: it cannot; the host's settings have to serve.
        """

    def look(self) -> None:
        """Begin to look whether it has ended, and to start it again then.

        Called about once a second while an agent is at work: it returns at once, raises nothing, and may leave out a
        look. What is done goes on beside the work; where it fails, the cache's `notes` say so.
        """

    def environment(self, settings: Mapping[str, str], *, proxied: bool) -> dict[str, str]:
        """The host's settings with the cache in the place of its package index.

        Args:
            settings: variables for processes in a container.
            proxied: whether all that they ask for has to go through a proxy.
        """


class PackageCache(Protocol):
    """The seam to the cache of one engine."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What people should know of it: why it is not used."""

    def use(self) -> Packages | None:
        """Return it, started where it was not; None where it cannot be had, and the host's settings have to serve."""


def with_packages(request: GatewayRequest, packages: Packages | None) -> GatewayRequest:
    """Let a gateway that keeps an allowlist pass on what is asked of the cache, and write it down like all else."""
    if packages is None or request.reach is not Reach.ALLOWLIST:
        return request
    return replace(request, allow=(*request.allow, HOST), package_network=packages.network)
