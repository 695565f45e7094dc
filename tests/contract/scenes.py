"""A place where agents of every kind work against tapes, with real containers and real tools, and are looked at."""

from __future__ import annotations

import io
import json
import re
import tarfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_researchenv.agents.protocol import REPORT_PATH, SCRATCH, Agent, AgentTask, Needs, Telemetry
from pytest_researchenv.gateway.protocol import Api, Auth, GatewayAddress, ModelService
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Join, Mount
from tests.contract.standin import StandIn, in_container


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerSandbox
    from pytest_researchenv.sandbox.labels import Owner


__all__ = ["COMMANDS", "PRINTED", "PROMPT", "REPOSITORY", "Kind", "Scene", "Workplace", "alive", "read"]

REPOSITORY = Repository("project", PathSource("."))

#: What the tapes of this suite let agents do: they leave a file, a report, and something to read in the transcript.
COMMANDS = (
    "mkdir -p /opt/made && echo left-by-the-tape > /opt/made/file && echo seen-$((40+2))",
    f"""echo '{{"python_path": "/usr/bin/python3"}}' > {REPORT_PATH} && echo report-$((40+3))""",
)

#: What those commands print.
PRINTED = ("seen-42", "report-43")

#: Words that a shell, a template or JSON would spoil.
PROMPT = """Build the environment of this repository: "all" of it; {braces}, {{ more }}, $HOME, `date`, 100 % and a \\.

It has a second paragraph, too."""

_MODEL = "stand-in-model"

#: What an idle container runs.
_IDLING = re.compile(r"sleep \d+")


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of agent, as this suite makes it.

    Attributes:
        make: makes an agent: `make(name=…, needs=…)`, and with any of `options`.
        api: the protocol in which it asks its model; None for kinds that ask none and run `COMMANDS` of themselves.
        auth: the header in which its model takes the key.
        options: other values of what else shapes its environments: each must change its inputs.
        trajectory: whether what it prints can be told apart.
        recorded: for a tool that cannot be had here, why its protocol is a recording; empty for the real tool.
    """

    make: Callable[..., Agent]
    api: Api | None
    auth: Auth = Auth.BEARER
    options: Mapping[str, Any] = field(default_factory=dict)
    trajectory: bool = True
    recorded: str = ""

    def agent(self, model: str = _MODEL, **options: Any) -> Agent:  # noqa: ANN401 - what each kind takes
        """Make one that asks this model."""
        # The stand-in takes its place.
        endpoint = "https://models.example.org"
        service = ModelService(self.api, endpoint, self.auth, "EXAMPLE_KEY", model) if self.api else None
        return self.make(name="tried", needs=Needs(service=service), **options)


@dataclass
class Scene:
    """An agent in its container, before, during and after its work.

    Attributes:
        agent: who works.
        container: where.
        standin: what it asks.
        token: what it shows there.
        transcript: file of what it printed.
        task: what it was asked to do.
        idle: command lines of what runs in the container while it does not work.
        telemetry: how it ended, once it has.
        wall_s: how long it took, in seconds.
    """

    agent: Agent
    container: Container
    standin: StandIn
    token: str
    transcript: Path
    task: AgentTask
    idle: list[str]
    telemetry: Telemetry | None = None
    wall_s: float = 0

    def work(self) -> Telemetry:
        """Let it work to its end."""
        started = time.monotonic()
        self.telemetry = self.agent.work(self.task)
        self.wall_s = time.monotonic() - started
        return self.telemetry


@dataclass
class Workplace:
    """Where scenes are set."""

    client: DockerClient
    sandbox: DockerSandbox
    image: str
    owner: Owner
    folder: Path

    @contextmanager
    def scene(
        self,
        kind: Kind,
        values: Mapping[str, Any],
        *,
        timeout_s: float = 120,
        stop: Callable[[], bool] = lambda: False,
        **options: Any,  # noqa: ANN401 - what each kind takes
    ) -> Iterator[Scene]:
        """Set an agent of a kind before a tape; everything is removed at the end of the block."""
        agent = kind.agent(**options)
        mounts = self.mounts(agent)
        token = f"token-{uuid.uuid4().hex}"
        transcript = self.folder / f"{uuid.uuid4().hex}.log"
        with (
            self.sandbox.private_network(outward=False, labels={}) as network,
            in_container(self.client, self.image, values, network=network) as standin,
            self.bench(mounts, (Join(network),)) as container,
            transcript.open("ab", buffering=0) as file,
        ):
            base = standin.url if agent.needs.on_host else standin.network_url
            task = AgentTask(
                repository=REPOSITORY,
                container=container,
                environment={},
                timeout_s=timeout_s,
                transcript=file.write,
                prompt=PROMPT,
                model=GatewayAddress(base if kind.api is Api.MESSAGES else f"{base}/v1", token) if kind.api else None,
                stop=stop,
            )
            yield Scene(agent, container, standin, token, transcript, task, self.processes(container))

    @contextmanager
    def bench(self, mounts: Sequence[Mount] = (), joins: tuple[Join, ...] = ()) -> Iterator[Container]:
        """A started container as agents get it, with a repository in it."""
        spec = ContainerSpec(self.image, mounts=tuple(mounts), joins=joins, scratch=SCRATCH)
        with self.sandbox.opened(spec) as container:
            container.put("/", _repository())
            container.start()
            yield container

    def changes(self, container: Container) -> dict[str, int]:
        """What a stopped container has beyond its image: path → 0 changed, 1 added, 2 gone.

        A folder in which something came and went again is no change.
        """
        found = {each["Path"]: each["Kind"] for each in self.client.api.diff(container.id) or ()}
        return {path: kind for path, kind in found.items() if kind or not _is_folder(container, path)}

    def shown(self, container: Container) -> str:
        """All that the engine shows of a container and of the commands that run in it."""
        shown = self.client.api.inspect_container(container.id)
        return json.dumps([shown, *map(self.client.api.exec_inspect, shown["ExecIDs"] or ())])

    def processes(self, container: Container) -> list[str]:
        """Command lines of what runs in a container, once its idle process has begun to idle.

        At its start the engine's own process, a shell and names in brackets stand in their places for a moment.
        """
        end = time.monotonic() + 10
        while True:
            rows = self.client.api.top(container.id, ps_args="-eo pid,args")["Processes"] or ()
            lines = [row[1] for row in rows]
            begun = any(_IDLING.fullmatch(line) for line in lines)
            passing = any(line.startswith(("sh -c trap", "[", "runc")) for line in lines)
            if (begun and not passing) or time.monotonic() > end:
                return lines
            time.sleep(0.1)

    def frozen(self, container: Container) -> dict[str, Any]:
        """What the engine shows of the image that a stopped container is frozen to."""
        reference = f"researchenv-test-c:{uuid.uuid4().hex[:12]}"
        try:
            return self.inspected(container.freeze(reference, labels={}))
        finally:
            self.sandbox.remove_image(reference)

    def inspected(self, image: str) -> dict[str, Any]:
        """What the engine shows of an image."""
        shown: dict[str, Any] = self.client.api.inspect_image(image)  # type: ignore[no-untyped-call]
        return shown

    def mounts(self, agent: Agent) -> tuple[Mount, ...]:
        """The volume with its tool, if it has one."""
        from pytest_researchenv.sandbox.agenttools import ensure_agent_tool  # noqa: PLC0415 - docker is not for all.

        tool = agent.needs.tool
        if tool is None:
            return ()
        return (ensure_agent_tool(self.client, tool, owner=self.owner, image=self.image, say=lambda _: None),)


def read(container: Container, path: str) -> bytes:
    """A file's content, or the contents of all files below a folder; empty where there is nothing."""
    if path == SCRATCH:
        return b""
    with container.get(path) as stream:
        if stream is None:
            return b""
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            return b"".join(file.read() for member in archive if (file := archive.extractfile(member)))


def alive(token: str) -> list[int]:
    """Processes of this machine, containers' among them, that were started with a token."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if token.encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def _is_folder(container: Container, path: str) -> bool:
    with container.get(path) as stream:
        if stream is None:
            return False
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            member = archive.next()
            return member is not None and member.isdir()


def _repository() -> io.BytesIO:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        names = REPOSITORY.workdir.strip("/").split("/")
        for depth in range(1, len(names) + 1):
            folder = tarfile.TarInfo("/".join(names[:depth]))
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        content = b"A project.\n"
        readme = tarfile.TarInfo(f"{'/'.join(names)}/README.md")
        readme.size = len(content)
        archive.addfile(readme, io.BytesIO(content))
    stream.seek(0)
    return stream
