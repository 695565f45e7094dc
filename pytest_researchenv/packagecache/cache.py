"""The package cache as a session uses it: started when the first agent needs it, and again where it has ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Lock, Thread, get_ident
from typing import TYPE_CHECKING, final

from pytest_researchenv._cache import locked
from pytest_researchenv.errors import ConfigurationError, InfrastructureError
from pytest_researchenv.packagecache.protocol import Packages
from pytest_researchenv.packagecache.sidecar import Sidecar
from pytest_researchenv.packagecache.upstream import Upstream, replaced
from pytest_researchenv.packagecache.volume import ensure_proxpi
from pytest_researchenv.sandbox._hostconfig import HostConfiguration
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["SharedCache"]

_log = logging.getLogger(__name__)

#: Seconds between two looks at whether it still runs.
_LOOK_S = 5.0


@final
class SharedCache:
    """The `PackageCache` of an engine.

    Args:
        client: the engine.
        owner: on whose behalf it is used.
        limit_bytes: what the packages that it keeps may take; where another session has started it, that one's holds.
        say: told what takes a while.
        environ: the environment; None: this process's.
        cache: folder of the locks; None: the user's cache folder.
    """

    def __init__(
        self,
        client: DockerClient,
        *,
        owner: Owner,
        limit_bytes: int,
        say: Callable[[str], None],
        environ: Mapping[str, str] | None = None,
        cache: Path | None = None,
    ) -> None:
        self._client = client
        self._owner = owner
        self._limit = limit_bytes
        self._say = say
        self._environ = environ
        self._cache = cache
        self._thread = get_ident()
        self._used: _Used | None = None
        self._problem = ""

    @property
    def notes(self) -> tuple[str, ...]:
        """Why it is not used; nothing while it is."""
        return (self._problem,) if self._problem else ()

    def use(self) -> Packages | None:
        """Return it, started where it was not; None where it cannot be had: then it is not tried again."""
        if self._problem:
            return None
        try:
            if self._used is None:
                self._used = self._prepared()
            self._used.keep_running()
        except (ConfigurationError, InfrastructureError, OSError) as error:
            self._give_up(error)
            return None
        return self._used

    def close(self) -> None:
        """Use it no longer. It is removed with the last who does; the packages stay."""
        if self._used is None:
            return
        try:
            self._used.close()
        except (InfrastructureError, OSError):
            # Whoever reaps next takes it: the mark is of a process that is dead by then.
            _log.warning("the package cache could not be let go of", exc_info=True)

    def _prepared(self) -> _Used:
        upstream = Upstream.of(HostConfiguration.read(self._environ))
        # Not the image that agents start from, which may have no Python.
        image = ensure_base_image(self._client, owner=self._owner, wanted="", say=self._say, cache=self._cache).image
        tool = ensure_proxpi(self._client, owner=self._owner, image=image, say=self._say, cache=self._cache)
        sidecar = Sidecar.of(self._client, self._owner, upstream)

        def start() -> str:
            self._tell("starting the package cache")
            return sidecar.start(image, tool, upstream.document(self._limit))

        used = _Used(
            sidecar,
            start=start,
            lock=lambda: locked(sidecar.index_name, self._cache, self._say),
            uv_own=upstream.uv_own,
            broken=self._give_up,
        )
        sidecar.begin_use()
        return used

    def _give_up(self, error: Exception) -> None:
        self._problem = f"the package cache is not used, but this host's own index settings: {error}"
        self._tell(self._problem)

    def _tell(self, text: str) -> None:
        """Say it; what is done beside an agent's work is logged, since what is said is what the run is at."""
        if get_ident() == self._thread:
            self._say(text)
        else:
            _log.warning("%s", text)


@final
class _Used:
    """`Packages` at work."""

    def __init__(
        self,
        sidecar: Sidecar,
        *,
        start: Callable[[], str],
        lock: Callable[[], AbstractContextManager[None]],
        uv_own: frozenset[str],
        broken: Callable[[Exception], object],
    ) -> None:
        self._sidecar = sidecar
        self._lock = lock
        self._start = start
        self._uv_own = uv_own
        self._broken = broken
        self._container = ""
        self._joined: list[str] = []
        self._looked = 0.0
        # To start it takes a while, for which nobody who is done waits.
        self._starting, self._joining = Lock(), Lock()
        self._closed = False

    @property
    def network(self) -> str:
        """Name of the private network in which gateways reach it."""
        return self._sidecar.name

    @contextmanager
    def joined(self, network: str) -> Iterator[None]:
        """Let it answer in another private network, until the end of the block."""
        with self._joining:
            self._sidecar.join(network)
            self._joined.append(network)
        try:
            yield
        finally:
            # Nobody joins it any more then.
            with self._joining:
                self._joined.remove(network)

    def close(self) -> None:
        """Use it no longer; a look that goes on starts nothing any more.

        Raises:
            InfrastructureError: it cannot be let go of.
        """
        self._closed = True
        with self._lock():
            self._sidecar.end_use()

    def look(self) -> None:
        """Start it again where it has ended. Trouble with it ends no agent's work, and delays no deadline."""
        if self._closed or time.monotonic() - self._looked < _LOOK_S or self._starting.locked():
            return
        self._looked = time.monotonic()
        Thread(target=self._restart, name="package cache", daemon=True).start()

    def _restart(self) -> None:
        try:
            self.keep_running()
        except (InfrastructureError, OSError) as error:
            if not self._closed:
                self._broken(error)

    def keep_running(self) -> None:
        """Start it where it does not run, and have it in every private network that was asked for.

        Raises:
            InfrastructureError: it cannot be started.
        """
        with self._starting:
            if self._closed or (self._container and self._sidecar.running() == self._container):
                return
            # Another process may start it just now.
            with self._lock():
                # Whoever starts it once it was let go of leaves it behind.
                if self._closed:
                    return
                found = self._sidecar.running() or self._start()
            with self._joining:
                for network in self._joined:
                    self._sidecar.join(network)
            self._container = found

    def environment(self, settings: Mapping[str, str], *, proxied: bool) -> dict[str, str]:
        """The host's settings with the cache in the place of its package index."""
        return replaced(settings, uv_own=self._uv_own, proxied=proxied)
