"""Rules of the cache's container, with an engine that is none."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from pytest_researchenv.errors import InfrastructureError, SandboxError
from pytest_researchenv.packagecache import sidecar as module
from pytest_researchenv.packagecache.sidecar import Sidecar
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


class Engine:
    """Has containers, of which none answers; client and its `api` in one."""

    def __init__(self) -> None:
        self.api = self
        self.volumes = self
        self.containers: set[str] = set()
        self.refuses = False

    def create(self, name: str, **_: object) -> None:
        """Make a volume."""

    def start(self, container: str) -> None:
        """Start a container, or not."""
        if self.refuses:
            raise APIError(f"no room for {container}")

    def inspect_container(self, name: str) -> dict[str, Any]:
        """As the engine tells of it."""
        if name not in self.containers:
            raise NotFound(name)
        return {"Id": name, "State": {"Running": True}}

    def remove_container(self, name: str, **_: object) -> None:
        """Remove it."""
        if name not in self.containers:
            raise NotFound(name)
        self.containers.remove(name)


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Engine:
    """One whose containers run and do not answer."""
    engine = Engine()

    def create(sidecar: Sidecar, *_: object) -> str:
        engine.containers.add(sidecar.name)
        return sidecar.name

    def never(*_: object) -> None:
        raise InfrastructureError("it does not answer")

    monkeypatch.setattr(module, "Feed", lambda *_: nullcontext())
    monkeypatch.setattr(Sidecar, "_network", lambda _: None)
    monkeypatch.setattr(Sidecar, "_create", create)
    monkeypatch.setattr(Sidecar, "_await", never)
    return engine


@pytest.mark.parametrize(("refuses", "raised"), [(False, InfrastructureError), (True, SandboxError)])
def test_one_that_does_not_come_to_answer_is_removed(engine: Engine, raised: type[Exception], *, refuses: bool) -> None:
    """Other sessions would take it for the cache, since it runs."""
    engine.refuses = refuses
    client: Any = engine
    sidecar = Sidecar(client, Owner.current("tests"), "key")

    with pytest.raises(raised):
        sidecar.start("image", Mount("tool", "/tool"), b"")

    assert (sidecar.running(), engine.containers) == ("", set())
