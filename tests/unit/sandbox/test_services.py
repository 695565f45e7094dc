"""Rules of the networks of services, with an engine that is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from docker.errors import NotFound

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox.services import closed_network


class Engine:
    """Has networks; client and its `api` in one."""

    def __init__(self) -> None:
        self.api = self
        self.networks: dict[str, Mapping[str, Any]] = {}

    def inspect_network(self, name: str) -> Mapping[str, Any]:
        """As the engine tells of it."""
        if name not in self.networks:
            raise NotFound(name)
        return self.networks[name]

    def create_network(
        self, name: str, *, driver: str, internal: bool, options: Mapping[str, str], labels: Mapping[str, str]
    ) -> None:
        """Make one."""
        assert (driver, labels) == ("bridge", {"a": "b"})
        self.networks[name] = {"Internal": internal, "Options": options, "EnableIPv6": False}


def test_a_services_network_has_no_way_out_and_reaches_no_host() -> None:
    """It is made once, like the private networks of attempts."""
    engine: Any = Engine()
    for _ in range(2):
        closed_network(engine, "service", labels={"a": "b"})
    made = engine.networks["service"]
    assert made["Internal"]
    assert made["Options"] == {"com.docker.network.bridge.inhibit_ipv4": "true"}


def test_one_that_reaches_the_host_is_not_used() -> None:
    """An engine that knows no such option makes it all the same; and one of that name may be there already."""
    engine: Any = Engine()
    engine.networks["service"] = {"Internal": True, "Options": None, "EnableIPv6": False}
    with pytest.raises(SandboxError, match="without a way out"):
        closed_network(engine, "service", labels={"a": "b"})
