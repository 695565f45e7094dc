"""The ways out of an agent's container: its gateway, and a package cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.gateway.protocol import Gateway, GatewayRequest, Reach
from pytest_researchenv.gateway.trust import trusting
from pytest_researchenv.packagecache.protocol import PackageCache, Packages, with_packages
from pytest_researchenv.sandbox.protocol import Container


__all__ = ["Ways", "open_ways"]

_CACHED = "packages came from the package cache"


@dataclass(frozen=True, slots=True)
class Ways:
    """What an agent's container reaches, and how.

    Attributes:
        gateway: what stands between it and the outside; None for nothing.
        packages: the package cache; None where the host's own settings hold.
        networks: the private networks that the container has to be in.
        settings: the host's, as variables.
        proxied: whether whatever it asks for has to go through the gateway.
        cache: the package cache that was to be used; None where none was.
        problem: why it is not used here, though others may use it; empty where it is, or none may.
    """

    gateway: Gateway | None
    packages: Packages | None
    networks: tuple[str, ...]
    settings: Mapping[str, str]
    proxied: bool
    cache: PackageCache | None = None
    problem: str = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Whether packages came from the package cache, as far as one was to be used; asked once the work is done."""
        if self.cache is None:
            return ()
        return tuple(filter(None, (_CACHED if self.packages else "", self.problem, *self.cache.notes)))

    def look(self) -> None:
        """See that they are still there; called about once a second."""
        if self.packages:
            self.packages.look()

    def environment(self, container: Container, *, folder: str) -> Mapping[str, str]:
        """What processes of the container need to find their way out, and to trust what is in it.

        Args:
            container: the container, started.
            folder: where files for them may lie.
        """
        environment: Mapping[str, str] = {**self.settings, **(self.gateway.environment if self.gateway else {})}
        if self.packages:
            environment = self.packages.environment(environment, proxied=self.proxied)
        if self.gateway is None or not self.gateway.authority:
            return environment
        return trusting(container, self.gateway.authority, environment, folder=folder)


@contextmanager
def open_ways(
    engine: Engine,
    request: GatewayRequest | None,
    reach: Reach,
    *,
    labels: Mapping[str, str],
    say: Callable[[str], object],
) -> Iterator[Ways]:
    """Open them for one attempt, until the end of the block.

    Args:
        engine: what to work with.
        request: what the gateway is to do; None where there is none.
        reach: what the container may reach.
        labels: labels of all that is made.
        say: called with what is being done.

    Raises:
        InfrastructureError: they cannot be opened. Where it is the package cache that cannot, there is none.
    """
    cache = None if reach is Reach.NONE else engine.packages
    packages = cache.use() if cache else None
    problem = ""
    networks: tuple[str, ...] = ()
    with ExitStack() as stack:
        gateway = None
        if request is not None:
            say("starting the gateway")
            gateway = stack.enter_context(engine.gateway(with_packages(request, packages)))
            networks = (gateway.network,)
        if packages and reach is Reach.OPEN:
            # Where there is an allowlist, the gateway asks it, and writes down what for.
            try:
                networks = (stack.enter_context(_reached(engine, packages, networks, labels=labels)),)
            except InfrastructureError as error:
                packages = None
                problem = f"the package cache is not used here, but this host's own index settings: {error}"
                say(problem)
        proxied = reach is Reach.ALLOWLIST
        yield Ways(gateway, packages, networks, engine.environment, proxied, cache=cache, problem=problem)


@contextmanager
def _reached(
    engine: Engine, packages: Packages, networks: tuple[str, ...], *, labels: Mapping[str, str]
) -> Iterator[str]:
    """Have the cache in the container's private network, or in one that is made for it; yields the network's name."""
    with ExitStack() as stack:
        private = networks or (stack.enter_context(engine.sandbox.private_network(outward=False, labels=labels)),)
        stack.enter_context(packages.joined(private[0]))
        yield private[0]
