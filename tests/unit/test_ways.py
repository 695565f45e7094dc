"""Rules of how an agent's container reaches a package cache, with a fake engine, gateway and cache."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import SandboxError
from pytest_researchenv.gateway.protocol import Gateway, GatewayRequest, Reach
from pytest_researchenv.packagecache.protocol import HOST
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.ways import open_ways


@dataclass
class FakeCache:
    """A cache and its use in one."""

    there: bool = True
    reachable: bool = True
    network: str = "cache"
    notes: tuple[str, ...] = ()
    used: int = 0
    joined_now: list[str] = field(default_factory=list)

    def use(self) -> FakeCache | None:
        """Be there, or not."""
        self.used += 1
        return self if self.there else None

    @contextmanager
    def joined(self, network: str) -> Iterator[None]:
        """Be in a network, or not."""
        if not self.reachable:
            raise SandboxError("cannot let the package cache answer in a private network: no such container")
        self.joined_now.append(network)
        yield
        self.joined_now.remove(network)

    def look(self) -> None:
        """Be looked after."""

    def environment(self, settings: Mapping[str, str], *, proxied: bool) -> dict[str, str]:
        """Say what was asked."""
        return {**settings, "proxied": str(proxied)}


@dataclass
class Desk:
    """An engine with a cache."""

    cache: FakeCache = field(default_factory=FakeCache)
    requests: list[GatewayRequest] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)

    @property
    def engine(self) -> Engine:
        """What `open_ways` gets."""
        sandbox: Any = SimpleNamespace(private_network=self._private)
        return Engine(sandbox, "base", "", (), {"PIP_INDEX_URL": "host's"}, Mount("", ""), gateway=self._gateway,
                      packages=self.cache)  # fmt: skip

    @contextmanager
    def _private(self, *, outward: bool, labels: Mapping[str, str]) -> Iterator[str]:
        assert not outward
        assert labels
        self.networks.append("own")
        yield "own"
        assert not self.cache.joined_now

    @contextmanager
    def _gateway(self, request: GatewayRequest) -> Iterator[Gateway]:
        self.requests.append(request)
        yield cast("Gateway", SimpleNamespace(network="gateway's", environment={"https_proxy": "x"}, authority=b""))


@pytest.mark.parametrize("gateway", [False, True])
def test_with_an_open_network_it_is_in_the_containers_private_one(*, gateway: bool) -> None:
    """The gateway's, or one that is made for it; no other agent is in there."""
    desk = Desk()
    request = GatewayRequest(reach=Reach.OPEN) if gateway else None
    with open_ways(desk.engine, request, Reach.OPEN, labels={"a": "b"}, say=print) as ways:
        assert ways.networks == (("gateway's",) if gateway else ("own",))
        assert ways.notes == ("packages came from the package cache",)
        assert desk.cache.joined_now == list(ways.networks)
        container: Any = None
        assert ways.environment(container, folder="/x")["proxied"] == "False"


def test_with_an_allowlist_it_is_in_no_network_of_the_container() -> None:
    """Otherwise an agent could get what nobody writes down."""
    desk = Desk()
    request = GatewayRequest(reach=Reach.ALLOWLIST, allow=("pypi.org",))
    with open_ways(desk.engine, request, Reach.ALLOWLIST, labels={}, say=print) as ways:
        assert (ways.networks, desk.cache.joined_now) == (("gateway's",), [])
        container: Any = None
        assert ways.environment(container, folder="/x")["proxied"] == "True"
    assert (desk.requests[0].allow, desk.requests[0].package_network) == (("pypi.org", HOST), "cache")


def test_without_network_it_is_not_even_started() -> None:
    """An agent that may reach nothing reaches no packages."""
    desk = Desk()
    with open_ways(desk.engine, GatewayRequest(reach=Reach.NONE), Reach.NONE, labels={}, say=print) as ways:
        assert (ways.packages, ways.notes) == (None, ())
    assert (desk.cache.used, desk.requests) == (0, [GatewayRequest(reach=Reach.NONE)])


@pytest.mark.parametrize("reach", [Reach.OPEN, Reach.ALLOWLIST])
def test_one_that_cannot_be_had_changes_nothing(reach: Reach) -> None:
    """Containers get the host's own settings, and no gateway lets anything through to it."""
    desk = Desk(FakeCache(there=False))
    request = GatewayRequest(reach=reach)
    with open_ways(desk.engine, request, reach, labels={}, say=print) as ways:
        container: Any = None
        assert ways.environment(container, folder="/x") == {"PIP_INDEX_URL": "host's", "https_proxy": "x"}
    assert desk.requests == [request]


@pytest.mark.parametrize("gateway", [False, True])
def test_one_that_cannot_be_reached_is_not_used(*, gateway: bool) -> None:
    """What only spares time ends no attempt: people are told, and the container gets the host's own settings."""
    desk = Desk(FakeCache(reachable=False))
    said: list[str] = []
    request = GatewayRequest(reach=Reach.OPEN) if gateway else None
    with open_ways(desk.engine, request, Reach.OPEN, labels={"a": "b"}, say=said.append) as ways:
        assert (ways.packages, ways.networks) == (None, ("gateway's",) if gateway else ())
        container: Any = None
        assert ways.environment(container, folder="/x")["PIP_INDEX_URL"] == "host's"
        assert ways.notes == (said[-1],)
    assert "no such container" in said[-1]
