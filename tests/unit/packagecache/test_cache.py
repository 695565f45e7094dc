"""Rules of when a session uses the cache, with a sidecar that is none."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from pytest_researchenv.errors import ConfigurationError, InfrastructureError
from pytest_researchenv.packagecache.cache import SharedCache, _Used
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import CACHE_FILES, CACHE_PART, CACHE_USER, abandoned


ME = Owner.current("tests")


class Sidecar:
    """Remembers what was asked of it."""

    name = "researchenv-packages-key"

    def __init__(self) -> None:
        self.container = ""
        self.starts = 0
        self.broken = self.lost = False
        self.joined: list[str] = []
        self.ended = False
        self.held: threading.Event | None = None
        self.unseen: threading.Event | None = None

    def running(self) -> str:
        """Id of the container, once it may be seen."""
        if self.unseen:
            assert self.unseen.wait(60)
        return self.container

    def start(self) -> str:
        """Start it, or not; not before it may."""
        if self.held:
            assert self.held.wait(60)
        self.starts += 1
        if self.lost:
            raise ConnectionResetError("the engine hung up")
        if self.broken:
            raise InfrastructureError("it does not answer: out of memory")
        self.container = f"container-{self.starts}"
        self.joined = []
        return self.container

    def join(self, network: str) -> None:
        """Remember the network."""
        self.joined.append(network)

    def end_use(self) -> None:
        """Remember that."""
        self.ended = True


def until(holds: Callable[[], bool]) -> None:
    """Wait for what is done in another thread."""
    end = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def sidecar() -> Sidecar:
    """One that works."""
    return Sidecar()


@pytest.fixture
def said() -> list[str]:
    """What people were told."""
    return []


@pytest.fixture
def cache(sidecar: Sidecar, said: list[str], monkeypatch: pytest.MonkeyPatch) -> SharedCache:
    """A cache of this sidecar."""
    client: Any = None
    cache = SharedCache(client, owner=Owner.current("tests"), limit_bytes=1, say=said.append)

    def prepared() -> _Used:
        fake: Any = sidecar
        return _Used(fake, start=sidecar.start, lock=nullcontext, uv_own=frozenset(), broken=cache._give_up)

    monkeypatch.setattr(cache, "_prepared", prepared)
    monkeypatch.setattr("pytest_researchenv.packagecache.cache._LOOK_S", 0)
    return cache


def test_it_is_started_once(cache: SharedCache, sidecar: Sidecar) -> None:
    """A session whose agents come one after the other starts nothing anew."""
    assert cache.use() is cache.use() is not None
    assert sidecar.starts == 1


def test_what_another_session_has_started_is_used(cache: SharedCache, sidecar: Sidecar) -> None:
    """One serves all."""
    sidecar.container = "another's"
    assert cache.use()
    assert not sidecar.starts


def test_one_that_ended_is_started_again_in_the_networks_that_it_was_in(cache: SharedCache, sidecar: Sidecar) -> None:
    """Agents at work find it by its name as before; in networks that are gone it is not looked for."""
    packages = cache.use()
    assert packages
    with packages.joined("gone"):
        pass
    with packages.joined("agent"):
        sidecar.container = ""
        packages.look()
        until(lambda: (sidecar.starts, sidecar.joined) == (2, ["agent"]))


def test_one_that_cannot_be_started_is_told_once_and_not_tried_again(
    cache: SharedCache, sidecar: Sidecar, said: list[str]
) -> None:
    """The run says so, and its agents use the host's settings."""
    sidecar.broken = True
    assert cache.use() is cache.use() is None
    assert sidecar.starts == 1
    assert len(said) == 1
    assert "this host's own index settings" in said[0]
    assert cache.notes == tuple(said)


def test_its_death_ends_no_agents_work(cache: SharedCache, sidecar: Sidecar) -> None:
    """Otherwise an agent that kills it would turn a failure into an error; the next one has the host's settings."""
    packages = cache.use()
    assert packages
    sidecar.broken, sidecar.container = True, ""
    packages.look()
    until(lambda: "out of memory" in "".join(cache.notes))
    assert cache.use() is None


def test_an_engine_that_hangs_up_is_no_more_than_that(cache: SharedCache, sidecar: Sidecar, said: list[str]) -> None:
    """Whatever error comes of it: the next agents have the host's settings, and what the run is at stays told."""
    packages = cache.use()
    assert packages
    sidecar.lost, sidecar.container = True, ""
    packages.look()
    until(lambda: "hung up" in "".join(cache.notes))

    assert cache.use() is None
    assert said == []


def test_an_agent_that_is_done_does_not_wait_until_it_is_started(cache: SharedCache, sidecar: Sidecar) -> None:
    """Its network is not joined any more, and can be removed."""
    packages = cache.use()
    assert packages
    sidecar.held = threading.Event()
    with packages.joined("agent"):
        sidecar.container = ""
        packages.look()
    sidecar.held.set()

    until(lambda: sidecar.container == "container-2")
    cache.use()
    assert sidecar.joined == []


def test_one_that_is_slow_to_start_keeps_nobody_waiting(cache: SharedCache, sidecar: Sidecar) -> None:
    """While it is looked at an agent's time runs, and its deadline is kept; nobody looks twice at once."""
    packages = cache.use()
    assert packages
    sidecar.container, sidecar.held = "", threading.Event()

    for _ in range(3):
        packages.look()

    assert sidecar.starts == 1
    sidecar.held.set()
    until(lambda: sidecar.container == "container-2")
    with packages.joined("later"):
        assert sidecar.starts == 2


def test_a_host_whose_index_no_container_reaches_has_none(
    cache: SharedCache, sidecar: Sidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is told, and nothing started."""

    def prepared() -> _Used:
        raise ConfigurationError("no container reaches pip's index-url http://localhost:3141/")

    monkeypatch.setattr(cache, "_prepared", prepared)
    assert cache.use() is None
    assert "localhost:3141" in cache.notes[0]
    assert not sidecar.starts


def test_a_session_that_never_used_it_lets_go_of_nothing(cache: SharedCache, sidecar: Sidecar) -> None:
    """Whoever only judges starts none."""
    cache.close()
    assert not sidecar.ended
    cache.use()
    cache.close()
    assert sidecar.ended


def test_a_look_that_goes_on_starts_nothing_once_it_is_let_go_of(
    cache: SharedCache, sidecar: Sidecar, said: list[str]
) -> None:
    """Nobody would remove it any more; and nobody is told of a cache that is used no longer."""
    packages = cache.use()
    assert packages
    sidecar.container, sidecar.unseen = "", threading.Event()

    packages.look()
    cache.close()
    sidecar.unseen.set()
    for thread in threading.enumerate():
        if thread.name == "package cache":
            thread.join(60)
    packages.look()

    assert (sidecar.starts, sidecar.ended, said) == (1, True, [])


@pytest.mark.parametrize(
    ("kind", "everything", "used", "goes"),
    [
        (CACHE_PART, False, True, False),
        (CACHE_PART, True, True, False),
        (CACHE_PART, False, False, True),
        (CACHE_FILES, False, False, False),
        (CACHE_FILES, True, False, True),
        (CACHE_FILES, True, True, False),
        (CACHE_USER, True, False, False),
    ],
)
def test_the_reaper_takes_what_nobody_uses(kind: str, *, everything: bool, used: bool, goes: bool) -> None:
    """Whether its starter lives says nothing; its packages stay for later runs, and a live process's mark as well."""
    labels = ME.labels(kind, cache="key")
    keys = frozenset({"key"} if used else ())
    assert abandoned(labels, owner=ME, everything=everything, now=0, used=keys) is goes
    elsewhere = {**labels, "researchenv.host": "another"}
    assert not abandoned(elsewhere, owner=ME, everything=everything, now=0, used=keys)
