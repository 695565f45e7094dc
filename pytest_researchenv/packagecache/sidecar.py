"""The cache's container: one for all sessions of a user that have the same settings, on each engine."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from docker.errors import APIError, NotFound

from pytest_researchenv.errors import InfrastructureError, SandboxError
from pytest_researchenv.packagecache.protocol import NAME, PORT
from pytest_researchenv.packagecache.upstream import Upstream
from pytest_researchenv.packagecache.volume import SCRIPT, TARGET
from pytest_researchenv.sandbox.labels import KIND, PREFIX, Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Join, Limits, Mount, Network
from pytest_researchenv.sandbox.reaper import CACHE_FILES, CACHE_KEY, CACHE_PART, CACHE_USER, users_of_caches
from pytest_researchenv.sandbox.services import Feed, closed_network, create_service, engine_call


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["Sidecar"]

#: The label that says which caches are for the same indexes.
_INDEX = f"{PREFIX}index"

_SCRATCH = "/researchenv/scratch"
_FILES = "/researchenv/files"

_PYTHON = "/usr/bin/python3"

#: Lists of an index's projects are read into memory. Its one process that grows is started again by the other.
_LIMITS = Limits(memory_bytes=2 * 1024**3, pids=256, shm_bytes=64 * 1024**2)

#: How long it may take to start, in seconds: about 2 where nothing else runs.
_START_S = 120.0
_POLL_S = 0.2

#: Exits with 0 once it answers.
_HEALTH = f"import urllib.request as r; r.build_opener(r.ProxyHandler({{}})).open('http://127.0.0.1:{PORT}/health')"


@dataclass(frozen=True, slots=True)
class Sidecar:
    """The container with what belongs to it, on an engine. Whoever changes it holds the lock of its indexes' name.

    Attributes:
        client: the engine.
        owner: on whose behalf it is started.
        key: what tells it from caches with other settings.
        index: what it has in common with those for the same indexes, be it with other credentials.
    """

    client: DockerClient
    owner: Owner
    key: str
    index: str

    @classmethod
    def of(cls, client: DockerClient, owner: Owner, upstream: Upstream) -> Sidecar:
        """The one with these indexes behind it."""
        return cls(client, owner, upstream.key(owner.host), upstream.index_key(owner.host))

    @property
    def name(self) -> str:
        """Of the container and of the network in which gateways reach it."""
        return f"researchenv-packages-{self.key}"

    @property
    def index_name(self) -> str:
        """Of all caches for the same indexes."""
        return f"researchenv-packages-{self.index}"

    @property
    def files(self) -> str:
        """Of the volume with the packages."""
        return f"{self.name}-files"

    def begin_use(self) -> None:
        """Mark in the engine that this process uses it, so that no reaper takes it."""
        with engine_call("mark the package cache as used"):
            self.client.volumes.create(self._mark, labels=self._labels(CACHE_USER))

    def end_use(self) -> None:
        """Take the mark back, and remove the container where no other process uses it."""
        with engine_call("remove the package cache"):
            with contextlib.suppress(NotFound):
                self.client.api.remove_volume(self._mark)
            if self.key not in users_of_caches(self.client, owner=self.owner):
                self._remove()
                with contextlib.suppress(NotFound):
                    self.client.api.remove_network(self.name)

    def running(self) -> str:
        """Its container's id; empty where it does not run."""
        with engine_call("look after the package cache"):
            try:
                found = self.client.api.inspect_container(self.name)
            except NotFound:
                return ""
        return str(found["Id"]) if found["State"]["Running"] else ""

    def start(self, image: str, tool: Mount, document: bytes) -> str:
        """Start it anew; returns its id once it answers.

        Args:
            image: our own base image.
            tool: the volume from `ensure_proxpi`.
            document: its settings.

        Raises:
            InfrastructureError: it does not come to answer, or the engine refuses.
        """
        with engine_call("start the package cache"):
            self._remove()
            self._forget_others()
            closed_network(self.client, self.name, labels=self._labels(CACHE_PART))
            self.client.volumes.create(self.files, labels=self._labels(CACHE_FILES))
            try:
                container = self._create(image, tool)
                with Feed(self.client.api, container, document):
                    self.client.api.start(container)
                    self._await(container)
            except BaseException:
                # What runs, whether it answers or not, others take for the cache. What broke first is what is told.
                with contextlib.suppress(SandboxError), engine_call("remove the package cache"):
                    self._remove()
                raise
        return container

    def join(self, network: str) -> None:
        """Let it answer in a private network, by its `NAME`."""
        with engine_call("let the package cache answer in a private network"):
            try:
                self.client.api.connect_container_to_network(self.name, network, aliases=[NAME])
            except APIError as error:
                if "already exists" not in str(error.explanation):
                    raise

    @property
    def _mark(self) -> str:
        process = self.owner.process.replace("/", "-")
        return f"{self.name}-user-{process}"

    def _labels(self, kind: str) -> dict[str, str]:
        return {**self.owner.labels(kind), CACHE_KEY: self.key, _INDEX: self.index}

    def _remove(self) -> None:
        with contextlib.suppress(NotFound):
            self.client.api.remove_container(self.name, force=True, v=True)

    def _forget_others(self) -> None:
        """Remove what is kept for the same indexes with other credentials, and nobody uses.

        Where a token is another one each day, each leaves packages that none of the next may read.
        """
        found = self.client.api.volumes(filters={"label": [f"{KIND}={CACHE_FILES}", f"{_INDEX}={self.index}"]})
        used = {self.key, *users_of_caches(self.client, owner=self.owner)}
        for item in found["Volumes"] or []:
            if item["Labels"].get(CACHE_KEY) not in used:
                # Where a dead session's container has it still, it goes another time.
                with contextlib.suppress(APIError):
                    self.client.api.remove_volume(item["Name"])

    def _create(self, image: str, tool: Mount) -> str:
        spec = ContainerSpec(
            image,
            argv=(_PYTHON, "-B", SCRIPT),
            environment={"PYTHONPATH": TARGET, "HOME": _SCRATCH, "TMPDIR": _SCRATCH},
            network=Network.OPEN,
            mounts=(tool,),
            limits=_LIMITS,
            joins=(Join(self.name, NAME),),
            scratch=_SCRATCH,
        )
        labels = self._labels(CACHE_PART)
        return create_service(self.client, spec, name=self.name, labels=labels, volume=self.files, target=_FILES)

    def _await(self, container: str) -> None:
        api = self.client.api
        deadline = time.monotonic() + _START_S
        while api.inspect_container(container)["State"]["Running"] and time.monotonic() < deadline:
            asked = api.exec_create(container, [_PYTHON, "-c", _HEALTH])
            api.exec_start(asked["Id"])
            if api.exec_inspect(asked["Id"])["ExitCode"] == 0:
                return
            time.sleep(_POLL_S)
        words = api.logs(container, tail=20).decode(errors="replace").strip()
        raise InfrastructureError(f"it does not answer: {words[-500:] or f'no sign of life in {_START_S:.0f} s'}")
