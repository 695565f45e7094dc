"""An agent at work: its container, what stands between it and the outside, and when it is ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import IO

from pytest_researchenv.agents.protocol import SCRATCH, TOOL_TARGET, Agent, AgentTask, Needs, Telemetry
from pytest_researchenv.agents.trajectory import dump
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError, ProviderError
from pytest_researchenv.gateway.protocol import Gateway, GatewayRequest, Ledger, Reach, Trouble
from pytest_researchenv.gateway.trust import trusting
from pytest_researchenv.model import Repository
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Join, Limits, Mount, Network
from pytest_researchenv.store import Attempt
from pytest_researchenv.usage import cost_notes, final_metrics, refused, usage_numbers
from pytest_researchenv.watch import Watch


__all__ = ["Order", "Worked", "at_work"]

_log = logging.getLogger(__name__)


#: So many failed requests in a row, the tool's own waits between them, are no passing trouble.
_SUSTAINED = 3

#: How long the gateway may take to tell of the last requests, in seconds.
_LAST_CALLS_S = 5.0
_POLL_S = 0.05


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
    """

    agent: Agent
    needs: Needs
    repository: Repository
    timeout_s: float
    limits: Limits
    prompt: str = ""
    gateway: GatewayRequest | None = None


@dataclass(frozen=True, slots=True)
class Worked:
    """How an agent's work went.

    Attributes:
        container: its container, stopped.
        ended: how it ended, in words.
        numbers: what it used.
        refused: what was refused to it.
        notes: what people should know.
    """

    container: Container
    ended: str
    numbers: Mapping[str, float]
    refused: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@contextmanager
def at_work(
    engine: Engine,
    order: Order,
    *,
    attempt: Attempt,
    source: IO[bytes],
    settle: Callable[[Ledger], object],
    say: Callable[[str], object],
) -> Iterator[Worked]:
    """Let an agent work until it is done or has to end, and stop its container; it is removed at the end of the block.

    Args:
        engine: what to work with.
        order: what to do.
        attempt: where to record what is printed and asked.
        source: tar stream of the pinned tree.
        settle: given what the gateway saw, however the work ended.
        say: called with what is being done.

    Raises:
        ProviderError: the agent ended because its model could not be had.
        InfrastructureError: something else outside the agent broke.
    """
    with ExitStack() as stack:
        way = None
        if order.gateway is not None:
            say("starting the gateway")
            way = stack.enter_context(engine.gateway(order.gateway))
            stack.callback(_settled, way.ledger, attempt, settle)
        say("starting the agent's container")
        container = stack.enter_context(engine.sandbox.opened(_spec(engine, order, attempt, way)))
        container.put("/", source)
        container.start()
        say("agent at work")
        watch = Watch(way.ledger if way else None, inactivity_s=order.needs.inactivity_s)
        environment = _environment(engine, container, way)
        began = time.monotonic()
        telemetry = _work(order, container=container, environment=environment, attempt=attempt, way=way, watch=watch)
        # As it is now: once the container has stopped, nobody asks for anything any more.
        trouble = way.ledger.trouble if way else None
        late = bool(watch.reason) or time.monotonic() - began >= order.timeout_s
        container.stop()
        if way is None:
            _keep_trajectory(order.agent, attempt, way)
            yield Worked(container, watch.reason or telemetry.ended, telemetry.numbers)
            return
        ledger = way.ledger
        _await_the_last(ledger)
        _keep_trajectory(order.agent, attempt, way)
        if not telemetry.ok:
            _require_provider(ledger, trouble, telemetry, watch, late=late)
        budget = "" if telemetry.ok else ledger.exhausted
        yield Worked(
            container,
            ended=watch.reason or budget or telemetry.ended,
            numbers={**telemetry.numbers, **usage_numbers(ledger)},
            refused=refused(ledger),
            notes=cost_notes(ledger),
        )


def _spec(engine: Engine, order: Order, attempt: Attempt, way: Gateway | None) -> ContainerSpec:
    needs = order.needs
    tools = (Mount(engine.tool_volume(needs.tool).volume, TOOL_TARGET),) if needs.tool else ()
    return ContainerSpec(
        image=engine.base_image,
        network=Network.NONE if way or needs.reach is Reach.NONE else Network.OPEN,
        joins=(Join(way.network),) if way else (),
        mounts=(*engine.mounts, *tools),
        limits=order.limits,
        devices=engine.hardware.uuids,
        labels={"researchenv.attempt": str(attempt.key)},
        scratch=SCRATCH if needs.prompted else "",
    )


def _environment(engine: Engine, container: Container, way: Gateway | None) -> Mapping[str, str]:
    """What the agent's processes need to find their way out, and to trust what is in it."""
    if way is None:
        return engine.environment
    environment = {**engine.environment, **way.environment}
    return trusting(container, way.authority, environment, folder=SCRATCH) if way.authority else environment


def _work(
    order: Order,
    *,
    container: Container,
    environment: Mapping[str, str],
    attempt: Attempt,
    way: Gateway | None,
    watch: Watch,
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


def _settled(ledger: Ledger, attempt: Attempt, settle: Callable[[Ledger], object]) -> None:
    # Money first: it counts even where the disk is full.
    settle(ledger)
    attempt.save_requests(b"".join(ledger.lines()))


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
    deadline = time.monotonic() + _LAST_CALLS_S
    while ledger.silent_s and time.monotonic() < deadline:
        time.sleep(_POLL_S)


def _require_provider(
    ledger: Ledger, trouble: Trouble | None, telemetry: Telemetry, watch: Watch, *, late: bool
) -> None:
    """Tell trouble that nobody can help who builds environments from an agent that gave up or was ended.

    A tool that was ended from outside may have been about to ride it out, so that one failed request says nothing.
    """
    if ledger.failure:
        raise InfrastructureError(f"the agent's gateway failed: {ledger.failure}")
    if ledger.exhausted:
        return
    if trouble and late and not (trouble.outcome.lasting or trouble.times >= _SUSTAINED):
        trouble = None
    if trouble or watch.unanswered:
        ended = f"was ended: {watch.reason}" if watch.reason else telemetry.ended
        raise ProviderError(f"the model could not be had: {trouble or 'it does not answer'}; the agent's tool {ended}")
