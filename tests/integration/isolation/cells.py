"""Attempts that are at work: containers made exactly as an agent's, for tests to break out of."""

from __future__ import annotations

import tarfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from pytest_researchenv.agents.protocol import AgentTask, Needs, Telemetry
from pytest_researchenv.agents.trajectory import Trajectory
from pytest_researchenv.agentwork import Order, at_work
from pytest_researchenv.engine import Engine
from pytest_researchenv.gateway.protocol import GatewayRequest, Reach
from pytest_researchenv.model import Repository
from pytest_researchenv.probes.launch import files_tar
from pytest_researchenv.progress import Teller
from pytest_researchenv.sandbox.protocol import Completed, Container, Limits
from pytest_researchenv.source import fetch, tree_tar
from pytest_researchenv.store import Store


if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["INSIDE", "PORT", "Cell", "at_large", "opened_cell", "serve"]

INSIDE = Path(__file__).parent / "inside"

#: The same modules as tests import, and where they are in a container.
_PACKAGE = "tests.integration.isolation.inside"
_LAID = "/laid"

#: Where services of these tests answer.
PORT = 4321

#: How long tests may keep an attempt at work, in seconds.
_LIMIT_S = 6 * 3600.0

_LIMITS = Limits(memory_bytes=512 * 1024**2, pids=256)


@dataclass(frozen=True, slots=True)
class _Tool:
    """A tool whose volume the test has filled itself."""

    key: str

    def fill(self, archive: tarfile.TarFile, *, architecture: str) -> None:
        """Nobody asks for it."""
        del archive, architecture
        raise AssertionError("the volume is there")


@final
class _Prisoner:
    """An agent that does whatever the test says, for as long as the test likes."""

    name = "prisoner"
    free = True

    def __init__(self, needs: Needs) -> None:
        self.needs = needs
        self.task: AgentTask | None = None
        self.begun = threading.Event()
        self.over = threading.Event()

    def inputs(self, repository: Repository) -> Mapping[str, str]:
        """Nothing shapes what it does."""
        del repository
        return {}

    def work(self, task: AgentTask) -> Telemetry:
        """Wait for the test."""
        self.task = task
        self.begun.set()
        assert self.over.wait(_LIMIT_S)
        return Telemetry("exited with code 0", {})

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """It prints nothing."""
        del transcript
        return None


@dataclass(frozen=True, slots=True)
class Cell:
    """An attempt at work.

    Attributes:
        client: the engine, from outside.
        task: what its agent got.
        network: name of its private network.
    """

    client: DockerClient
    task: AgentTask
    network: str = ""

    def run(self, *argv: str, timeout_s: float = 60) -> Completed:
        """Run a command as its agent does, as root and with its environment."""
        environment = dict(self.task.environment)
        return self.task.container.exec(argv, timeout_s=timeout_s, environment=environment)

    def python(self, code: str, *arguments: str, timeout_s: float = 60) -> str:
        """What a Python program prints."""
        return self._said("python3", "-c", code, *arguments, timeout_s=timeout_s)

    def module(self, name: str, *arguments: str, timeout_s: float = 60) -> str:
        """What a module of `inside` prints that imports others from there."""
        files = {f"{_LAID}/{_PACKAGE.replace('.', '/')}/{path.name}": path.read_bytes() for path in INSIDE.glob("*.py")}
        with files_tar(files) as archive:
            self.task.container.put("/", archive)
        python = ["env", f"PYTHONPATH={_LAID}", "python3", "-m", f"{_PACKAGE}.{name}"]
        return self._said(*python, *arguments, timeout_s=timeout_s)

    def _said(self, *argv: str, timeout_s: float) -> str:
        done = self.run(*argv, timeout_s=timeout_s)
        assert done.ok, (done.how, done.output.text())
        return done.output.text()

    @property
    def facts(self) -> dict[str, Any]:
        """What the engine tells of its container."""
        return dict(self.client.api.inspect_container(self.task.container.id))

    @property
    def neighbours(self) -> dict[str, str]:
        """Containers in its private network: id → address."""
        found = self.client.api.inspect_network(self.network)["Containers"]
        return {name: str(facts["IPv4Address"]).partition("/")[0] for name, facts in found.items()}

    @property
    def sidecar(self) -> str:
        """Id of the container that stands between it and the outside."""
        (other,) = set(self.neighbours) - {self.task.container.id}
        return other


@contextmanager
def opened_cell(
    client: DockerClient,
    engine: Engine,
    repository: Repository,
    folder: Path,
    *,
    allow: tuple[str, ...] = (),
) -> Iterator[Cell]:
    """Have an attempt at work, with a tool, a folder in memory, and a gateway with such an allowlist."""
    needs = Needs(reach=Reach.ALLOWLIST, allow=allow, tool=_Tool("test"))
    request = GatewayRequest(service=None, key=None, reach=Reach.ALLOWLIST, allow=allow)
    order = Order(_Prisoner(needs), needs, repository, _LIMIT_S, _LIMITS, gateway=request)
    with _at_work(client, engine, order, folder) as cell:
        (network,) = cell.facts["NetworkSettings"]["Networks"]
        yield Cell(client, cell.task, network)


@contextmanager
def at_large(
    client: DockerClient, engine: Engine, repository: Repository, folder: Path, *, limits: Limits
) -> Iterator[Cell]:
    """Have an attempt at work as scripts are: without a gateway."""
    needs = Needs(prompted=False, reach=Reach.NONE)
    with _at_work(client, engine, Order(_Prisoner(needs), needs, repository, _LIMIT_S, limits), folder) as cell:
        yield cell


def serve(container: Container, script: str) -> Callable[[], int]:
    """Have something answer in a started container until that is removed; returns what tells how often it was asked."""
    counter = f"/counted-{uuid.uuid4().hex}"
    line = f'setsid python3 -c "$SERVE" {PORT} {counter} > /dev/null 2>&1 &'
    assert container.exec(["sh", "-c", line], timeout_s=30, environment={"SERVE": script}).ok

    def count() -> int:
        said = container.exec(["cat", counter], timeout_s=30)
        return int(said.output.text()) if said.ok else -1

    deadline = time.monotonic() + 20
    while count() < 0:
        assert time.monotonic() < deadline
    return count


def _ignore(_: object) -> None:
    """Nobody is told."""


@contextmanager
def _at_work(client: DockerClient, engine: Engine, order: Order, folder: Path) -> Iterator[Cell]:
    agent = order.agent
    assert isinstance(agent, _Prisoner)
    attempt = Store(folder / "results", "tests").begin(agent.name, order.repository.slug, "session")
    failed: list[BaseException] = []

    def serve() -> None:
        tree = fetch(order.repository, cache=folder / "cache")
        try:
            with (
                tree_tar(tree, prefix=order.repository.workdir) as source,
                at_work(engine, order, attempt=attempt, sources=(source,), settle=_ignore, say=Teller()),
            ):
                pass
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            failed.append(error)
            agent.begun.set()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        assert agent.begun.wait(_LIMIT_S)
        if failed:
            raise failed[0]
        assert agent.task is not None
        yield Cell(client, agent.task)
    finally:
        agent.over.set()
        thread.join()
    if failed:
        raise failed[0]
