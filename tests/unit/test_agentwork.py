"""An agent at work behind a fake gateway: what it is given, how its end is told, and what is kept whatever happens."""

from __future__ import annotations

import io
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_researchenv.agents.protocol import SCRATCH, TOOL_TARGET, AgentTask, Needs, Telemetry
from pytest_researchenv.agents.trajectory import AgentInfo, Steps, Trajectory
from pytest_researchenv.agentwork import Order, Worked, at_work
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError, ProviderError, SandboxError
from pytest_researchenv.gateway.protocol import (
    Api,
    Auth,
    Call,
    EgressRequest,
    GatewayAddress,
    GatewayRequest,
    Ledger,
    ModelService,
    Outcome,
    Reach,
    Trouble,
    Usage,
)
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Device, Hardware
from pytest_researchenv.leases.desk import Desk
from pytest_researchenv.leases.line import Ticket
from pytest_researchenv.leases.sharing import ALONE, Sharing
from pytest_researchenv.model import PathSource, Repository
from pytest_researchenv.packagecache.protocol import PackageCache
from pytest_researchenv.progress import Teller
from pytest_researchenv.sandbox.fake import FakeContainer, FakeDriver, FakeSandbox, Folder
from pytest_researchenv.sandbox.protocol import Join, Limits, Mount, Network
from pytest_researchenv.secrets import Secret
from pytest_researchenv.store import Attempt, Store


SERVICE = ModelService(Api.MESSAGES, "https://models.example", Auth.API_KEY, "EXAMPLE_KEY", "m")
ANSWERED = Call(1.0, "/v1/messages", "m", Outcome.ANSWERED, 200, 2.0, Usage(10, 0, 0, 5, 0), cost_usd=0.25)


@dataclass
class FakeLedger:
    """What a gateway is said to have seen."""

    calls: tuple[Call, ...] = (ANSWERED,)
    egress: tuple[EgressRequest, ...] = ()
    usage: Usage = field(default_factory=Usage)
    cost_usd: float | None = 0.25
    exhausted: str = ""
    failure: str = ""
    silent_s: float = 0.0
    charged_usd: float = 0.0
    last_activity: float = 0.0
    trouble: Trouble | None = None

    def lines(self) -> Iterator[bytes]:
        """One line a call."""
        return (json.dumps({"path": call.path}).encode() + b"\n" for call in self.calls)


@dataclass
class FakeGateway:
    """A gateway that does nothing but to be there."""

    ledger: FakeLedger
    network: str
    address: GatewayAddress | None = field(default_factory=lambda: GatewayAddress("http://gateway:4000", "token"))
    environment: Mapping[str, str] = field(default_factory=lambda: {"https_proxy": "http://gateway:4001"})
    authority: bytes = b""
    closed: bool = False


@dataclass
class NoCache:
    """A package cache that could not be started."""

    notes: tuple[str, ...] = ("the package cache is not used: out of memory",)

    def use(self) -> None:
        """There is none."""


@dataclass
class FakeTool:
    """A tool that is there already."""

    key: str = "tool-1"


@dataclass
class FakeAgent:
    """An agent that does what a test says."""

    does: Callable[[AgentTask], Telemetry]
    needs: Needs = field(default_factory=lambda: Needs(service=SERVICE))
    name: str = "fake"
    free: bool = False

    def inputs(self, repository: Repository) -> Mapping[str, str]:
        """Nothing shapes it."""
        del repository
        return {}

    def work(self, task: AgentTask) -> Telemetry:
        """Do it."""
        return self.does(task)

    def trajectory(self, transcript: Path) -> Trajectory | None:
        """One step per line."""
        steps = Steps()
        for line in transcript.read_text().splitlines():
            steps.add("agent", line)
        return Trajectory(AgentInfo("fake", "1"), steps.steps)


@dataclass
class Scene:
    """All that an agent's work needs."""

    folder: Path
    ledger: FakeLedger = field(default_factory=FakeLedger)
    sandbox: FakeSandbox = field(default_factory=FakeSandbox)
    settled: list[Ledger] = field(default_factory=list)
    opened: list[FakeGateway] = field(default_factory=list)
    left: tuple[Ticket, ...] = ()

    def __post_init__(self) -> None:
        self.base = self.sandbox.add_image("base", {"/researchenv": Folder(), "/workspace": Folder()})
        self.attempt: Attempt = Store(self.folder, "run").begin("fake", "suite/project", "session")

    @contextmanager
    def gateway(self, request: GatewayRequest) -> Iterator[FakeGateway]:
        """Open one."""
        del request
        with self.sandbox.private_network(outward=False, labels={}) as network:
            gateway = FakeGateway(self.ledger, network)
            self.opened.append(gateway)
            yield gateway
        gateway.closed = True

    def work(
        self,
        agent: FakeAgent,
        *,
        gateway: bool = True,
        timeout_s: float = 60,
        devices: int = 0,
        hardware: Hardware = CPU_ONLY,
        sharing: Sharing = ALONE,
        packages: PackageCache | None = None,
    ) -> Worked:
        """Let an agent work; its container is looked at before it is removed."""
        engine = replace(
            Engine(self.sandbox, self.base, "", (), {"PIP_INDEX_URL": "x"}, Mount("tools", "/tools")),
            gateway=self.gateway,
            hardware=hardware,
            sharing=sharing,
            packages=packages,
            tool_volume=lambda tool: Mount(f"volume-{tool.key}", "/anywhere"),
        )
        request = GatewayRequest(SERVICE, Secret("EXAMPLE_KEY", "secret")) if gateway else None
        order = Order(
            agent,
            agent.needs,
            Repository("project", PathSource(".")),
            timeout_s,
            Limits(),
            "Do it.",
            request,
            devices=devices,
        )
        with at_work(
            engine,
            order,
            attempt=self.attempt,
            sources=(io.BytesIO(_EMPTY_TAR),),
            settle=self.settled.append,
            say=Teller(),
        ) as worked:
            self.left = sharing.desk.line().tickets if sharing.desk else ()
            return worked

    def file(self, name: str) -> str:
        """A file of the attempt."""
        return (self.attempt.folder / name).read_text()


_EMPTY_TAR = bytes(10240)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A gateway that has answered once."""
    return Scene(tmp_path)


def _spec_of(task: AgentTask) -> FakeContainer:
    assert isinstance(task.container, FakeContainer)
    return task.container


def test_the_tool_has_the_gateways_address_and_no_way_around_it(scene: Scene) -> None:
    """With a model, the container is in the gateway's network alone, and the tool in its volume; state is in memory."""
    tasks: list[AgentTask] = []

    def work(task: AgentTask) -> Telemetry:
        tasks.append(task)
        return Telemetry("exited with code 0", {"wall_s": 1.0})

    scene.work(FakeAgent(work, Needs(service=SERVICE, tool=FakeTool())))  # type: ignore[arg-type]

    (task,) = tasks
    spec = _spec_of(task).spec
    assert (spec.network, spec.joins) == (Network.NONE, (Join(scene.opened[0].network),))
    assert Mount("volume-tool-1", TOOL_TARGET) in spec.mounts
    assert spec.scratch == SCRATCH
    assert task.model == GatewayAddress("http://gateway:4000", "token")
    assert task.environment == {"PIP_INDEX_URL": "x", "https_proxy": "http://gateway:4001"}
    assert task.prompt == "Do it."
    assert scene.opened[0].closed


@pytest.mark.parametrize(("reach", "network"), [(Reach.OPEN, Network.OPEN), (Reach.NONE, Network.NONE)])
def test_without_a_gateway_the_network_is_open_or_none(scene: Scene, reach: Reach, network: Network) -> None:
    """Agents without a model need nothing between them and the outside, or have no outside."""
    seen: list[FakeContainer] = []

    def work(task: AgentTask) -> Telemetry:
        seen.append(_spec_of(task))
        return Telemetry("exited with code 0", {})

    scene.work(FakeAgent(work, Needs(reach=reach)), gateway=False)

    assert (seen[0].spec.network, seen[0].spec.joins) == (network, ())


def test_what_was_used_is_told(scene: Scene) -> None:
    """Figures are the tool's own and the gateway's; what was printed is kept as it came, and as steps with totals."""

    def work(task: AgentTask) -> Telemetry:
        task.transcript(b"one\ntwo\n")
        return Telemetry("exited with code 0", {"wall_s": 1.0})

    worked = scene.work(FakeAgent(work))

    assert worked.ended == "exited with code 0"
    assert worked.numbers.items() >= {"wall_s": 1.0, "requests": 1, "cost_usd": 0.25}.items()
    assert scene.file("transcript.log") == "one\ntwo\n"
    trajectory = json.loads(scene.file("trajectory.json"))
    assert [step["message"] for step in trajectory["steps"]] == ["one", "two"]
    assert trajectory["final_metrics"]["total_cost_usd"] == 0.25
    assert json.loads(scene.file("requests.jsonl")) == {"path": "/v1/messages"}
    assert scene.settled == [scene.ledger]


@pytest.mark.parametrize("gateway", [False, True])
def test_whether_a_package_cache_was_used_is_told_with_the_work(scene: Scene, *, gateway: bool) -> None:
    """What is built is recorded with it: a later session, which has one or none, knows nothing of this one's."""
    needs = Needs(service=SERVICE) if gateway else Needs(reach=Reach.OPEN)
    agent = FakeAgent(lambda _: Telemetry("exited with code 0", {}), needs)

    worked = scene.work(agent, gateway=gateway, packages=NoCache())

    assert worked.notes == NoCache().notes


def _fails(_task: AgentTask) -> Telemetry:
    return Telemetry("exited with code 1", {}, ok=False)


def test_the_providers_trouble_is_nobodys_failure(scene: Scene) -> None:
    """A tool that ended badly while its model could not be had is an error, and what was asked is kept."""
    scene.ledger.trouble = Trouble(Outcome.OVERLOADED, 529, "Overloaded", 4)

    with pytest.raises(ProviderError, match=r"overloaded \(HTTP 529\): Overloaded; .* exited with code 1"):
        scene.work(FakeAgent(_fails))

    assert scene.file("requests.jsonl")
    assert scene.settled
    assert not scene.sandbox.containers


def test_an_agent_that_ended_well_is_judged_whatever_the_provider_did(scene: Scene) -> None:
    """Trouble that the tool lived with decides nothing."""
    scene.ledger.trouble = Trouble(Outcome.OVERLOADED, 529, "Overloaded", 1)

    assert scene.work(FakeAgent(lambda _: Telemetry("exited with code 0", {}))).ended == "exited with code 0"


def test_an_agent_that_gives_up_is_judged(scene: Scene) -> None:
    """A tool that ends badly although its model answered is no trouble of anybody's."""
    assert scene.work(FakeAgent(_fails)).ended == "exited with code 1"


def test_a_budget_that_is_used_up_is_the_reason(scene: Scene) -> None:
    """A tool that ends because nothing more was allowed has ended by that limit, and is judged."""
    scene.ledger.exhausted = "token limit: 1,200 of 1,000 tokens used"

    assert scene.work(FakeAgent(_fails)).ended == scene.ledger.exhausted


def test_a_budget_that_trouble_used_up_is_the_providers(scene: Scene) -> None:
    """Answers that were cut off may use up a budget: that is no failure of the agent."""
    scene.ledger.exhausted = "cost limit: $1.2000 of $1.0000"
    scene.ledger.trouble = Trouble(Outcome.CUT, 200, "", 3)

    with pytest.raises(ProviderError, match="answer cut off"):
        scene.work(FakeAgent(_fails))


def test_a_container_that_its_agent_broke_is_judged(scene: Scene) -> None:
    """When no command runs in it any more, and the engine works, the agent's work has ended; what stands is judged."""

    def breaks(task: AgentTask) -> Telemetry:
        del task
        raise SandboxError("cannot run timeout in the container: it is not running")

    assert "no command runs in its container any more" in scene.work(FakeAgent(breaks)).ended


def test_a_container_that_is_gone_is_an_error(scene: Scene) -> None:
    """No agent can remove its own container."""

    def removed(task: AgentTask) -> Telemetry:
        task.container.remove()
        raise SandboxError("no such container")

    with pytest.raises(SandboxError):
        scene.work(FakeAgent(removed))


def test_a_gateway_that_failed_is_an_error(scene: Scene) -> None:
    """Without its gateway an agent could not do its work."""
    scene.ledger.failure = "killed: out of memory"

    with pytest.raises(InfrastructureError, match="gateway failed: killed: out of memory"):
        scene.work(FakeAgent(_fails))


def test_money_is_settled_even_when_the_tool_breaks(scene: Scene) -> None:
    """An exception in the midst of the work loses neither what was spent nor what was asked."""

    def breaks(_task: AgentTask) -> Telemetry:
        raise InfrastructureError("the engine went away")

    with pytest.raises(InfrastructureError, match="went away"):
        scene.work(FakeAgent(breaks))

    assert scene.settled == [scene.ledger]
    assert scene.file("requests.jsonl")


@pytest.mark.parametrize(
    ("trouble", "quiet_s", "error"),
    [
        (Trouble(Outcome.RATE_LIMITED, 429, "", 1), 5.0, False),
        (Trouble(Outcome.RATE_LIMITED, 429, "", 1), 300.0, True),
        (Trouble(Outcome.RATE_LIMITED, 429, "", 3), 5.0, True),
        (Trouble(Outcome.AUTHENTICATION, 401, "", 1), 5.0, True),
    ],
)
def test_one_failed_request_at_the_deadline_decides_nothing(
    scene: Scene,
    trouble: Trouble,
    quiet_s: float,
    error: bool,  # noqa: FBT001 - a case
) -> None:
    """A tool that was ended from outside may have been about to ride it out, unless it has waited ever since."""
    scene.ledger.trouble = trouble
    scene.ledger.last_activity = time.monotonic() - quiet_s
    agent = FakeAgent(lambda _: Telemetry("timed out after 0 s", {}, ok=False))

    if error:
        with pytest.raises(ProviderError):
            scene.work(agent, timeout_s=0.0)
    else:
        assert scene.work(agent, timeout_s=0.0).ended == "timed out after 0 s"


def test_a_transcript_that_cannot_be_read_is_no_error(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an agent printed must not keep its environment from being judged; the transcript itself is there."""

    def breaks(_self: FakeAgent, _transcript: Path) -> Trajectory | None:
        raise RecursionError

    monkeypatch.setattr(FakeAgent, "trajectory", breaks)

    assert scene.work(FakeAgent(lambda _: Telemetry("exited with code 0", {}))).ended == "exited with code 0"
    assert scene.file("transcript.log") == ""


def test_an_agent_has_its_devices_while_it_works_and_no_longer(scene: Scene, tmp_path: Path) -> None:
    """Others see whose they are; they are free again before anything is frozen, and how many it had is told."""
    devices = tuple(Device(i, f"GPU-{i}", "NVIDIA A100-SXM4-40GB", 40 * 1024**3, (8, 0)) for i in range(4))
    scene.sandbox = FakeSandbox(FakeDriver(devices))
    scene.__post_init__()
    desk = Desk(tmp_path / "leases" / "host")
    seen: list[tuple[tuple[str, ...], list[str]]] = []

    def look(task: AgentTask) -> Telemetry:
        seen.append((_spec_of(task).spec.devices, [one.purpose for one in desk.line().tickets]))
        return Telemetry("done", {})

    worked = scene.work(
        FakeAgent(look), devices=2, hardware=Hardware(Accelerator.CUDA, devices), sharing=Sharing(desk, devices)
    )

    assert seen == [(("GPU-0", "GPU-1"), [f"the agent of {scene.attempt.key}"])]
    assert worked.devices == 2
    assert not scene.left
