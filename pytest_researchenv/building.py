"""How an environment is made: as often as it takes, with money and room set aside, and every error recorded."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import final

from pytest_researchenv.agents.protocol import Agent, Needs
from pytest_researchenv.archiving.index import newest_index
from pytest_researchenv.assignment import assignment_of
from pytest_researchenv.breaker import CircuitBreaker
from pytest_researchenv.detached.going import Going, Starting
from pytest_researchenv.disk.need import predicted
from pytest_researchenv.disk.space import Space
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError, ProviderError, ResearchEnvError, StoreError
from pytest_researchenv.gateway.protocol import Ledger
from pytest_researchenv.model import Environment, Repository
from pytest_researchenv.ordering import Orders
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.progress import Teller
from pytest_researchenv.provision import provision
from pytest_researchenv.settings import Settings
from pytest_researchenv.spending import Allowance, Spending
from pytest_researchenv.store import Attempt, Store


__all__ = ["Builder"]

_log = logging.getLogger(__name__)

#: How long what is done around an agent's work may take, in seconds: starting, freezing.
_AROUND_S = 3600.0


@final
class Builder:
    """Makes environments.

    Args:
        settings: what the user chose.
        engine: gives the container engine.
        orders: says what an agent is asked to do, and what shapes it.
        store: where attempts are.
        going: attempts that a process of its own looks after.
        tree: gives a pinned tree.
        say: told what is being done.
        start: starts a process of its own for what outlives the session; None: this process does all itself.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        engine: Callable[[], Engine],
        orders: Orders,
        store: Store,
        going: Going,
        tree: Callable[[Repository], Tree],
        say: Teller,
        start: Starting | None,
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._orders = orders
        self._store = store
        self._going = going
        self._tree = tree
        self._say = say
        self._start = start
        self._space: Space | None = None
        self._breaker = CircuitBreaker(store.folder, settings.session)
        self._spending = Spending(
            store.folder, settings.session, limit_usd=settings.agents.max_cost_usd, whole_run=settings.continued
        )

    def begin(
        self, agent: Agent, repository: Repository, trial: int, *, goes_on: int = 0
    ) -> tuple[Attempt, Environment]:
        """Build in a new attempt, and again in another where the provider's trouble may be over by then.

        Args:
            agent: who builds.
            repository: what for.
            trial: which of the attempts that were asked for.
            goes_on: number of the attempt whose work is continued; 0 where it begins.

        Raises:
            ResearchEnvError: it could not be done; this is recorded.
        """
        inputs = self._orders.inputs(agent, repository)
        service = agent.needs.service
        retries = self._settings.agents.retries
        for number in range(retries + 1):
            if service:
                self._breaker.check(service)
            session = self._settings.session
            attempt = self._store.begin(agent.name, repository.key, session, trial=trial, goes_on=goes_on)
            try:
                if self._start is not None and assignment_of(repository).detached:
                    return attempt, self._going.follow(attempt, self._start(agent.name, repository, attempt))
                return attempt, self._provide(attempt, agent, repository, inputs)
            except ProviderError as error:
                # What was archived of hours of work is not done again.
                goes_on = attempt.key.attempt if newest_index(attempt.folder) else goes_on
                if number == retries or self.stopped(agent):
                    raise
                delay = self._settings.agents.retry_delay_s * 2**number
                self._say(f"waiting {delay:.0f} s before another attempt, since {error}")
                time.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    def build(self, attempt: Attempt, agent: Agent, repository: Repository) -> Environment:
        """Let an agent work in an attempt that has begun, in this process, and record what comes of it.

        Raises:
            ResearchEnvError: it could not be done; this is recorded.
        """
        try:
            inputs = self._orders.inputs(agent, repository)
        except ResearchEnvError as error:
            _keep(attempt, str(error))
            raise
        return self._provide(attempt, agent, repository, inputs)

    def allowance(self, needs: Needs) -> AbstractContextManager[Allowance]:
        """Set money aside; agents without a model need none, and wait for none."""
        if needs.service is None:
            return nullcontext(Allowance(None))
        most_s = (needs.timeout_s or 0.0) + _AROUND_S
        return self._spending.allowance(needs.budget.max_cost_usd, most_s=most_s, say=self._say)

    @property
    def spent_usd(self) -> float:
        """What this session has spent on models, attempts that ended in an error included."""
        return self._spending.spent_usd

    def stopped(self, agent: Agent) -> str:
        """Say why an agent's provider is asked no more in this session; empty while it is."""
        service = agent.needs.service
        return self._breaker.reason(service) if service else ""

    def _provide(
        self, attempt: Attempt, agent: Agent, repository: Repository, inputs: Mapping[str, str]
    ) -> Environment:
        _log.info("building %s", attempt.key)
        self._say("fetching the source")
        try:
            continuation = self._going.continuation(attempt)
            needs = self._orders.needs(agent, repository, continuation)
            with self._room(attempt, agent, repository), self.allowance(needs) as money:

                def settle(ledger: Ledger) -> None:
                    money.spent_usd = ledger.charged_usd

                environment = provision(
                    self._engine(),
                    self._orders.order(
                        attempt, agent, repository, max_cost_usd=money.limit_usd, continuation=continuation
                    ),
                    attempt=attempt,
                    tree=self._tree(repository),
                    inputs=inputs,
                    settle=settle,
                    say=self._say,
                    continuation=continuation,
                )
        except ResearchEnvError as error:
            _keep(attempt, str(error))
            if isinstance(error, ProviderError) and agent.needs.service:
                self._breaker.failed(agent.needs.service, error)
            raise
        # The boundary: whatever else breaks is a defect of ours, recorded so that no agent works twice for it.
        except Exception as error:
            message = f"unexpected {type(error).__name__}: {error}; please report it"
            _keep(attempt, message)
            raise InfrastructureError(message) from error
        if agent.needs.service:
            self._breaker.answered(agent.needs.service)
        return environment

    def _room(self, attempt: Attempt, agent: Agent, repository: Repository) -> AbstractContextManager[None]:
        """Set room aside on the engine's disk, as much as earlier attempts took."""
        engine = self._engine()
        if self._space is None:
            floor = self._settings.disk_floor_bytes
            self._space = Space(engine.disk, engine.builders, floor, evicting=self._settings.keep.evicts)
        need = predicted(self._settings.results, agent.name, repository.key)
        return self._space.set_aside(need, f"building {attempt.key}", say=self._say)


def _keep(attempt: Attempt, message: str) -> None:
    """Record an error; where that cannot be done, the first cause is still what is told."""
    try:
        attempt.save_error(message)
    except StoreError:
        _log.exception("cannot record why %s could not be built", attempt.key)
