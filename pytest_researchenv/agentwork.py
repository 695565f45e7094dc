"""An agent at work: its container, what stands between it and the outside, and when it is ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import IO, Protocol

from pytest_researchenv.agents.protocol import SCRATCH, TOOL_TARGET, Agent, AgentTask, Needs, Telemetry
from pytest_researchenv.agents.trajectory import dump
from pytest_researchenv.engine import Engine, require_working
from pytest_researchenv.errors import InfrastructureError, ProviderError, SandboxError
from pytest_researchenv.gateway.protocol import Gateway, GatewayRequest, Ledger, Outcome, Reach, Trouble
from pytest_researchenv.model import Repository
from pytest_researchenv.progress import Say
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Join, Limits, Mount, Network
from pytest_researchenv.store import Attempt
from pytest_researchenv.usage import cost_notes, final_metrics, refused, usage_numbers
from pytest_researchenv.watchdog import Watchdog
from pytest_researchenv.ways import Ways, open_ways


__all__ = ["Beside", "Order", "Worked", "at_work"]

_log = logging.getLogger(__name__)


#: So many failed requests in a row, the tool's own waits between them, are no passing trouble.
_SUSTAINED = 3

#: A tool that has asked nothing for so long since a failed request, in seconds, waits for the provider.
_WAITING_S = 60.0

#: A provider that has never answered is given so long, in seconds.
_UNANSWERED_S = 10.0

#: How long the gateway may take to tell of the last requests, in seconds.
_LAST_CALLS_S = 5.0
_TOLD_S = 0.5
_POLL_S = 0.05


class Beside(Protocol):
    """What goes on beside an agent's work, from its beginning to its end."""

    def __call__(self, container: Container) -> AbstractContextManager[Callable[[], str]]:
        """Begin; yields what says, about once a second, why the work must end: an empty text while it may go on."""


@dataclass(frozen=True, slots=True)
class Order:
    """What an agent is to do, and with what.

    Attributes:
        agent: who.
        needs: what must be there for it, as the user's options have it.
        repository: what for.
        timeout_s: wall time limit in seconds.
        limits: resources of the container.
        prompt: what a model is told.
        gateway: what stands between it and the outside; None for nothing.
        run_limited: whether what it may spend is what the run had left, and not its own limit.
        devices: how many devices it is given.
        mounts: read-only volumes with data for it.
        image: id of the image that its container is made from; empty: the base image.
        beside: what goes on beside its work; None for nothing.
        least_free_bytes: with less room than this on the engine's disk its work is ended, by an error.
    """

    agent: Agent
    needs: Needs
    repository: Repository
    timeout_s: float
    limits: Limits
    prompt: str = ""
    gateway: GatewayRequest | None = None
    run_limited: bool = False
    devices: int = 0
    mounts: tuple[Mount, ...] = ()
    image: str = ""
    beside: Beside | None = None
    least_free_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Worked:
    """How an agent's work went.

    Attributes:
        container: its container, stopped.
        ended: how it ended, in words.
        numbers: what it used.
        seconds: how long it worked, by this host's clock.
        refused: what was refused to it.
        devices: how many devices it had.
        notes: what people should know.
    """

    container: Container
    ended: str
    numbers: Mapping[str, float]
    seconds: float = 0.0
    devices: int = 0
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@contextmanager
def at_work(
    engine: Engine,
    order: Order,
    *,
    attempt: Attempt,
    sources: Sequence[IO[bytes]],
    settle: Callable[[Ledger], object],
    say: Say,
) -> Iterator[Worked]:
    """Let an agent work until it is done or has to end, and stop its container; it is removed at the end of the block.

    Args:
        engine: what to work with.
        order: what to do.
        attempt: where to record what is printed and asked.
        sources: tar streams of what the container begins with, such as the pinned tree.
        settle: given what the gateway saw, however the work ended.
        say: called with what is being done.

    Raises:
        ProviderError: the agent ended because its model could not be had.
        NoRoomError: the engine's disk became full.
        InfrastructureError: something else outside the agent broke.
    """

    def look() -> None:
        record()
        ways.look()
        engine.disk.require(order.least_free_bytes, f"{purpose} was ended")

    with ExitStack() as stack:
        # Made ready first: the gateway's time runs.
        tools = _tools(engine, order)
        purpose = f"the agent of {attempt.key}"
        share = stack.enter_context(engine.sharing.share(engine.hardware, purpose, devices=order.devices, say=say))
        devices = share.hardware.uuids
        ways = stack.enter_context(
            open_ways(engine, order.gateway, order.needs.reach, labels=_labels(attempt), say=say)
        )
        way = ways.gateway
        if way is not None:
            # Money counts even where the disk is full.
            stack.callback(settle, way.ledger)
        record = stack.enter_context(_recording(way.ledger, attempt)) if way else _nothing
        say("starting the agent's container")
        container = stack.enter_context(
            engine.sandbox.opened(_spec(engine, order, attempt, ways, tools=tools, devices=devices))
        )
        for source in sources:
            container.put("/", source)
        container.start()
        if order.prompt:
            attempt.save_prompt(order.prompt)
        environment = ways.environment(container, folder=SCRATCH)
        say("agent at work", limit_s=order.timeout_s)
        with order.beside(container) if order.beside else nullcontext(_on) as wanted:
            watch = Watchdog(
                way.ledger if way else None,
                inactivity_s=order.needs.inactivity_s,
                at_each_look=look,
                wanted=wanted,
            )
            began = time.monotonic()
            try:
                telemetry = _work(
                    order, container=container, environment=environment, attempt=attempt, way=way, watch=watch
                )
            except SandboxError as error:
                telemetry = _broken_by_the_agent(engine, container, error)
            seconds = time.monotonic() - began
        # An agent that met a full disk may have ended by itself.
        engine.disk.require(order.least_free_bytes, f"{purpose} has ended")
        if not container.connected():
            raise SandboxError(
                f"{purpose} lost its network while it worked: somebody disconnected its container or removed the "
                "network. Run it again with --researchenv-rerun=infra"
            )
        # As it is now: once the container has stopped, nobody asks for anything any more.
        trouble = _trouble(way.ledger, watch, late=time.monotonic() - began >= order.timeout_s) if way else None
        container.stop()
        share.release()
        if way is None:
            _keep_trajectory(order.agent, attempt, way)
            ended = watch.reason or telemetry.ended
            yield Worked(container, ended, telemetry.numbers, seconds, devices=len(devices), notes=ways.notes)
            return
        ledger = way.ledger
        _await_the_last(ledger)
        _keep_trajectory(order.agent, attempt, way)
        if not telemetry.ok:
            _require_provider(order, ledger, trouble, telemetry, watch)
        budget = "" if telemetry.ok else ledger.exhausted
        if order.run_limited:
            budget = budget.replace("cost limit", "cost limit, what --researchenv-max-cost had left for it")
        yield Worked(
            container,
            ended=watch.reason or budget or telemetry.ended,
            numbers={**telemetry.numbers, **usage_numbers(ledger)},
            seconds=seconds,
            devices=len(devices),
            refused=refused(ledger),
            notes=(*ways.notes, *cost_notes(ledger)),
        )


def _tools(engine: Engine, order: Order) -> tuple[Mount, ...]:
    tool = order.needs.tool
    return (Mount(engine.tool_volume(tool).volume, TOOL_TARGET),) if tool else ()


def _spec(
    engine: Engine,
    order: Order,
    attempt: Attempt,
    ways: Ways,
    *,
    tools: tuple[Mount, ...],
    devices: tuple[str, ...],
) -> ContainerSpec:
    needs = order.needs
    return ContainerSpec(
        image=order.image or engine.base_image,
        network=Network.NONE if ways.gateway or needs.reach is Reach.NONE else Network.OPEN,
        joins=tuple(map(Join, ways.networks)),
        mounts=(*engine.mounts, *order.mounts, *tools),
        limits=order.limits,
        devices=devices,
        labels=_labels(attempt),
        scratch=SCRATCH if needs.prompted or ways.gateway else "",
    )


def _labels(attempt: Attempt) -> dict[str, str]:
    return {"researchenv.attempt": str(attempt.key)}


def _work(
    order: Order,
    *,
    container: Container,
    environment: Mapping[str, str],
    attempt: Attempt,
    way: Gateway | None,
    watch: Watchdog,
) -> Telemetry:
    with attempt.log(attempt.transcript) as transcript:

        def printed(chunk: bytes) -> None:
            watch.printed()
            transcript(chunk)

        return order.agent.work(
            AgentTask(
                repository=order.repository,
                container=container,
                environment=environment,
                timeout_s=order.timeout_s,
                transcript=printed,
                prompt=order.prompt,
                model=way.address if way else None,
                stop=watch,
            )
        )


@contextmanager
def _recording(ledger: Ledger, attempt: Attempt) -> Iterator[Callable[[], None]]:
    """Record requests while they come: yields what writes those that are new, which is called at the end, too."""
    told = 0
    with attempt.log(attempt.requests) as append:

        def record() -> None:
            nonlocal told
            lines = tuple(ledger.lines())
            for line in lines[told:]:
                append(line)
            told = len(lines)

        try:
            yield record
        finally:
            record()


def _on() -> str:
    """Nothing beside the agent wants its work to end."""
    return ""


def _nothing() -> None:
    """Record nothing: there is no gateway."""


def _keep_trajectory(agent: Agent, attempt: Attempt, way: Gateway | None) -> None:
    # The boundary: an agent may have written anything into it, and must not turn a failure into an error.
    try:
        trajectory = agent.trajectory(attempt.transcript)
    except Exception:  # noqa: BLE001 - see above
        _log.exception("the transcript of %s cannot be read step by step; please report it", attempt.key)
        return
    if trajectory is None:
        return
    if way is not None:
        trajectory = replace(trajectory, final_metrics=final_metrics(way.ledger, len(trajectory.steps)))
    attempt.save_trajectory(dump(trajectory))


def _await_the_last(ledger: Ledger) -> None:
    """Wait until the gateway has told of requests that the end of the agent's container cut off."""
    # One whose answer was not read is not silent; its end is told all the same.
    time.sleep(_TOLD_S)
    deadline = time.monotonic() + _LAST_CALLS_S
    while ledger.silent_s and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _broken_by_the_agent(engine: Engine, container: Container, error: SandboxError) -> Telemetry:
    """Tell a container that its agent broke, so that no command runs in it any more, from trouble with the engine.

    Raises:
        SandboxError: the engine is to blame, or the container is gone, which no agent can bring about.
    """
    container.written()
    require_working(engine)
    return Telemetry(f"no command runs in its container any more: {error}", {}, ok=False)


def _trouble(ledger: Ledger, watch: Watchdog, *, late: bool) -> Trouble | None:
    """Return the trouble that the provider is in, where it may have ended the work; None where it is in none.

    A tool that was ended from outside may have been about to ride it out: one failed request then says nothing, unless
    the tool has waited ever since.
    """
    if watch.unanswered:
        return Trouble(Outcome.NETWORK, None, "it does not answer", 1)
    if late and ledger.silent_s >= _UNANSWERED_S and not any(call.outcome is Outcome.ANSWERED for call in ledger.calls):
        return Trouble(Outcome.NETWORK, None, f"it has answered nothing, for {ledger.silent_s:.0f} s now", 1)
    trouble = ledger.trouble
    if trouble is None:
        return None
    waits = time.monotonic() - ledger.last_activity >= _WAITING_S
    passing = late and not (trouble.lasting or trouble.times >= _SUSTAINED or waits)
    return None if passing else trouble


def _require_provider(
    order: Order, ledger: Ledger, trouble: Trouble | None, telemetry: Telemetry, watch: Watchdog
) -> None:
    """Tell trouble that nobody can help who builds environments from an agent that gave up or was ended."""
    if ledger.failure:
        raise InfrastructureError(f"the agent's gateway failed: {ledger.failure}")
    if trouble:
        ended = f"was ended: {watch.reason}" if watch.reason else telemetry.ended
        service = order.needs.service
        where = f" at {service.endpoint}" if service else ""
        raise ProviderError(
            f"the model could not be had{where}: {trouble}; the agent's tool {ended}",
            kind=str(trouble.outcome),
            reason=str(trouble),
            lasting=trouble.lasting,
        )
