"""Rules of the cache's container, with an engine that is none."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import pytest
from docker.errors import APIError, NotFound

from pytest_researchenv.errors import InfrastructureError, SandboxError
from pytest_researchenv.packagecache import sidecar as module
from pytest_researchenv.packagecache.sidecar import Sidecar
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


#: Key → index.
KEPT = {"yesterday": "index", "used": "index", "elsewhere": "other"}


class Volumes:
    """What an engine keeps."""

    def __init__(self, kept: dict[str, Mapping[str, str]]) -> None:
        self._kept = kept

    def create(self, name: str, *, labels: Mapping[str, str]) -> None:
        """Make one."""
        self._kept[name] = labels

    def __call__(self, *, filters: Mapping[str, Any]) -> Mapping[str, Any]:
        """Those that have all these labels."""
        asked = filters["label"] if isinstance(filters["label"], list) else [filters["label"]]
        return {
            "Volumes": [
                {"Name": name, "Labels": labels}
                for name, labels in self._kept.items()
                if {f"{key}={value}" for key, value in labels.items()} >= set(asked)
            ]
        }


class Engine:
    """Has containers, of which none answers; client and its `api` in one."""

    def __init__(self) -> None:
        self.api = self
        self.containers: set[str] = set()
        self.refuses = False
        self.kept: dict[str, Mapping[str, str]] = {}

    @property
    def volumes(self) -> Volumes:
        """Of the client, or of its `api`."""
        return Volumes(self.kept)

    def remove_volume(self, name: str) -> None:
        """Remove it."""
        del self.kept[name]

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
    monkeypatch.setattr(module, "closed_network", lambda *_, **__: None)
    monkeypatch.setattr(Sidecar, "_create", create)
    monkeypatch.setattr(Sidecar, "_await", never)
    return engine


def test_what_is_kept_for_other_credentials_goes_when_nobody_uses_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise each new token would leave the packages of the one before it; other indexes' packages stay."""
    monkeypatch.setattr(Sidecar, "_await", lambda *_: None)
    client: Any = engine
    owner = Owner.current("tests")
    caches = {key: Sidecar(client, owner, key, index) for key, index in KEPT.items()}
    for one in caches.values():
        one.start("image", Mount("tool", "/tool"), b"")
        one.begin_use()
    for key in ("elsewhere", "yesterday"):
        engine.remove_volume(caches[key]._mark)

    Sidecar(client, owner, "today", "index").start("image", Mount("tool", "/tool"), b"")

    files = {name for name in engine.kept if name.endswith("-files")}
    assert files == {f"researchenv-packages-{key}-files" for key in ("elsewhere", "used", "today")}


@pytest.mark.parametrize(("refuses", "raised"), [(False, InfrastructureError), (True, SandboxError)])
def test_one_that_does_not_come_to_answer_is_removed(engine: Engine, raised: type[Exception], *, refuses: bool) -> None:
    """Other sessions would take it for the cache, since it runs."""
    engine.refuses = refuses
    client: Any = engine
    sidecar = Sidecar(client, Owner.current("tests"), "key", "index")

    with pytest.raises(raised):
        sidecar.start("image", Mount("tool", "/tool"), b"")

    assert (sidecar.running(), engine.containers) == ("", set())
