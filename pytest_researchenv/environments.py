"""Which environment is judged: the stored one where it still fits, a new one where there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import final

from pytest_researchenv.access import Access
from pytest_researchenv.agents.protocol import Agent, Needs
from pytest_researchenv.building import Builder
from pytest_researchenv.detached.going import Going, Starting
from pytest_researchenv.disk.room import LEAST_BYTES
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import (
    ConfigurationError,
    StaleEnvironmentError,
)
from pytest_researchenv.frozen import evict, sweep
from pytest_researchenv.gateway.protocol import Gateway, Ledger, ModelService
from pytest_researchenv.leases.desk import holds_nothing
from pytest_researchenv.model import (
    Environment,
    Eviction,
    Examination,
    Repository,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.ordering import Orders
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.progress import Teller
from pytest_researchenv.redaction import Redactor, secrets_in
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.reusing import Reuse
from pytest_researchenv.secrets import Secret
from pytest_researchenv.settings import Settings
from pytest_researchenv.source import fetch
from pytest_researchenv.store import Attempt, Store


__all__ = ["Environments"]

_log = logging.getLogger(__name__)

#: How long what is done around an agent's work may take, in seconds: starting, freezing.
_AROUND_S = 3600.0


@final
class Environments:
    """Builds each environment once, and uses it until what shaped it changes."""

    def __init__(
        self,
        settings: Settings,
        *,
        engine: Callable[[], Engine],
        agents: Callable[[str], Agent],
        say: Teller,
        start: Starting | None = None,
    ) -> None:
        self._settings = settings
        self._open = engine
        self._find_agent = agents
        self._say = say
        self._access = Access(settings.agents)
        self._orders = Orders(settings, self._access, self._engine, self.tree)
        self._trees: dict[tuple[str, str], Tree] = {}
        self._ready = False
        self._store = Store(settings.results, settings.run, redactor=lambda: self.redactor)
        self._going = Going(settings, self._store, say)
        self._reuse = Reuse(settings, self._orders)
        self._builder = Builder(
            settings,
            engine=self._engine,
            orders=self._orders,
            store=self._store,
            going=self._going,
            tree=self.tree,
            say=say,
            start=start,
        )

    @property
    def redactor(self) -> Redactor:
        """What takes every secret that is known so far out of what is stored or shown."""
        hosts = secrets_in(self._engine().environment) if self._ready else ()
        return _redactor(tuple(dict.fromkeys((*self._access.secrets, *hosts))))

    def keys_of(self, agents: Iterable[str]) -> tuple[Secret, ...]:
        """The keys of some agents' models, as far as there are any.

        Raises:
            ConfigurationError: what was found cannot be a key.
        """
        services = [service for name in agents if (service := self._find_agent(name).needs.service)]
        return tuple(found for service in services if (found := self._access.key(service).secret))

    def get(
        self, agent_name: str, repository: Repository, *, retry: bool = False, trial: int = 1
    ) -> tuple[Attempt, Environment]:
        """Return the environment of the newest attempt, building it when there is none.

        Args:
            agent_name: who builds.
            repository: what for.
            retry: whether to build again what could not be built earlier in this session.
            trial: which of the attempts that were asked for.

        Raises:
            InfrastructureError: it could not be built, now or earlier in this session.
            StaleEnvironmentError: there is one, but what shaped it has changed.
        """
        agent = self._find_agent(agent_name)
        holds_nothing("the environment's lock")
        self._say("waiting for the environment's lock")
        with self._store.lock(agent_name, repository.key, trial=trial):
            attempt = self._current(agent_name, repository, trial)
            if attempt is None:
                return self._builder.begin(agent, repository, trial)
            self._going.wait(attempt)
            attempt = self._going.standing(attempt)
            if self._going.wanted(attempt):
                frozen = attempt.environment()
                if frozen is not None and (stale := self._reuse.stale(frozen, agent, repository)):
                    raise StaleEnvironmentError(stale)
                return self._builder.begin(agent, repository, trial, goes_on=attempt.key.attempt)
            if found := self._reuse.found(attempt, agent, repository, engine=self._engine, retry=retry):
                return attempt, found
            if undecided := self._going.undecided(attempt):
                raise StaleEnvironmentError(undecided)
            return self._builder.begin(agent, repository, trial)

    def build(self, attempt: Attempt, agent_name: str, repository: Repository) -> Environment:
        """Let an agent work in an attempt that has begun, in this process, and record what comes of it.

        Args:
            attempt: the attempt.
            agent_name: who works.
            repository: what for.

        Raises:
            ResearchEnvError: it could not be done; this is recorded.
        """
        return self._builder.build(attempt, self._find_agent(agent_name), repository)

    def evicted(self, agent_name: str, repository: Repository, *, trial: int = 1) -> tuple[Attempt, Environment] | None:
        """Return the environment of the newest attempt where it fits and its image was removed on purpose.

        What was judged of it stands, although it cannot be judged again.

        Raises:
            StaleEnvironmentError: what shaped it has changed.
        """
        attempt = self._current(agent_name, repository, trial)
        if attempt is None or self._settings.rebuild or not attempt.evicted:
            return None
        environment = attempt.environment()
        if environment is None or self._engine().sandbox.image_exists(environment.image):
            return None
        if stale := self._reuse.stale(environment, self._find_agent(agent_name), repository):
            raise StaleEnvironmentError(stale)
        return attempt, environment

    def recorded(self, agent_name: str, repository: str, number: int) -> Environment | None:
        """Return what an attempt left behind; None where there is no record.

        Args:
            agent_name: whose it is.
            repository: `Repository.key`.
            number: the attempt's.

        Raises:
            StoreError: its record cannot be read.
        """
        return self._store.attempt(agent_name, repository, number).environment()

    def evict(self, agent_name: str, repository: str, number: int) -> Eviction | None:
        """Remove the frozen image of an attempt that was judged; None where there is none any more.

        Args:
            agent_name: whose it is.
            repository: `Repository.key`.
            number: the attempt's.

        Raises:
            InfrastructureError: it could not be removed, and stays.
        """
        attempt = self._store.attempt(agent_name, repository, number)
        return evict(self._engine(), attempt, policy=self._settings.keep.words, session=self._settings.session)

    def require_room(self, what: str) -> None:
        """Make sure that the engine's disk is not full.

        Raises:
            NoRoomError: it is.
        """
        self._engine().disk.require(min(LEAST_BYTES, self._settings.disk_floor_bytes), what)

    def disk_in_words(self) -> str:
        """How much room the engine has; empty where it was not asked yet, or does not say."""
        return self._engine().disk.in_words() if self._ready and self._engine().disk.glance() else ""

    def problem(self, agent_name: str, repository: Repository, *, trial: int = 1) -> str:
        """Say why the user has to decide something before work starts; empty when there is nothing.

        Raises:
            ConfigurationError: the agent cannot work on this repository.
            InfrastructureError: it cannot be told.
        """
        agent = self._find_agent(agent_name)
        attempt = self._current(agent_name, repository, trial)
        attempt = self._going.standing(attempt) if attempt else None
        environment = attempt.environment() if attempt else None
        if environment is None or self._settings.rebuild:
            undecided = self._going.undecided(attempt) if attempt else ""
            return undecided or self._access.problem(self._orders.needs(agent, repository))
        with self._say.at(agent_name, repository.slug):
            return self._reuse.stale(environment, agent, repository)

    def notes(self, environment: Environment) -> tuple[str, ...]:
        """What people should know of where their keys are kept, and of an environment that was used anyway."""
        return (*self._access.warnings, *self._reuse.notes(environment))

    def most_usd(self, agent_name: str, repository: Repository | None = None) -> float | None:
        """What building one environment can cost at most, in US dollars, tries again included; None for no limit."""
        agent = self._find_agent(agent_name)
        needs = self._orders.needs(agent, repository) if repository else agent.needs
        if needs.service is None:
            return 0.0
        limit = needs.budget.max_cost_usd
        return None if limit is None else limit * (1 + self._settings.agents.retries)

    @contextmanager
    def asking(self, needs: Needs, *, lifetime_s: float, labels: Mapping[str, str]) -> Iterator[Gateway]:
        """Open a gateway for a question of our own; what it costs counts for the run as what agents spend does.

        Args:
            needs: the model, and what may be spent.
            lifetime_s: after so many seconds nothing may be asked any more.
            labels: labels of all that is made for it.

        Raises:
            ConfigurationError: the model's key is missing, or it has no price.
            InfrastructureError: nothing may be spent any more, or the gateway does not start.
        """
        with self._builder.allowance(needs) as money:
            request = self._access.request(
                needs, self._engine(), max_cost_usd=money.limit_usd, lifetime_s=lifetime_s, labels=labels
            )
            if request is None:
                raise ConfigurationError("no model is named that could be asked")
            ledger: Ledger | None = None
            try:
                with self._engine().gateway(request) as gateway:
                    ledger = gateway.ledger
                    yield gateway
            finally:
                # The last of what was used is told when the gateway closes.
                money.spent_usd = ledger.charged_usd if ledger else 0.0

    def service_of(self, agent_name: str) -> ModelService:
        """Return the model of an agent's profile.

        Raises:
            ConfigurationError: it has none.
        """
        service = self._find_agent(agent_name).needs.service
        if service is None:
            raise ConfigurationError(f"{agent_name} has no model: name an agent that has one (`researchenv agents`)")
        return service

    @property
    def spent_usd(self) -> float:
        """What this session has spent on models, attempts that ended in an error included."""
        return self._builder.spent_usd

    def stopped(self, agent_name: str) -> str:
        """Say why an agent's provider is asked no more in this session; empty while it is."""
        return self._builder.stopped(self._find_agent(agent_name))

    def exists(self, agent_name: str, repository: Repository, *, trial: int = 1) -> bool:
        """Whether an environment would be reused, if it fits; needs no container engine."""
        attempt = self._current(agent_name, repository, trial)
        if attempt is None or not attempt.finished or self._settings.rebuild:
            return False
        # What was judged of it stands in a run that is continued; otherwise it is built anew.
        return self._settings.continued or not attempt.evicted

    def pinned(self, agent_name: str, repository: Repository, *, trial: int = 1) -> Environment | None:
        """Return the environment that would be reused, if it fits; needs no container engine.

        Raises:
            StoreError: its record cannot be read.
        """
        attempt = self._current(agent_name, repository, trial)
        ours = attempt is not None and attempt.session == self._settings.session
        return attempt.environment() if attempt and (ours or not self._settings.rebuild) else None

    def stored(
        self, agent_name: str, repository: Repository, subject: Tier | Examination | str, *, trial: int = 1
    ) -> Verdict | None:
        """Return the newest verdict of earlier sessions: an error where nothing could be built, None where none is.

        Args:
            agent_name: who builds.
            repository: what for.
            subject: what was judged: a tier, the audit, or the id of a research task's sub-task.
            trial: which of the attempts that were asked for.

        Raises:
            StoreError: a record cannot be read.
        """
        starts = [(one, one.start) for one in self._store.attempts(agent_name, repository.key)]
        earlier = [one for one, start in starts if start.trial == trial and start.session != self._settings.session]
        if not earlier:
            return None
        newest = earlier[-1]
        if not newest.finished:
            return Verdict.ERROR if newest.error() else None
        found: Sequence[TierResult | ResearchResult]
        found = newest.judged(subject) if isinstance(subject, Tier | Examination) else newest.research(subject)
        verdicts = [one.verdict for one in found if one.session != self._settings.session]
        return verdicts[-1] if verdicts else None

    def tree(self, repository: Repository) -> Tree:
        """Return the pinned tree, as it was when this session first asked for it.

        To look whether it is intact takes a dozen calls of Git, which every tier would wait for.

        Raises:
            SourceError: it cannot be had.
        """
        key = repository.folder, str(repository.source)
        if key not in self._trees:
            self._trees[key] = fetch(repository, cache=self._settings.cache)
        return self._trees[key]

    def _engine(self) -> Engine:
        engine = self._open()
        if not self._ready:
            self._ready = True
            sweep(engine, self._settings.results)
        return engine

    def _current(self, agent_name: str, repository: Repository, trial: int) -> Attempt | None:
        """Return this session's attempt, else the newest: another session may be building, too."""
        starts = [(one, one.start) for one in self._store.attempts(agent_name, repository.key)]
        attempts = [one for one, start in starts if start.trial == trial]
        ours = [one for one, start in starts if start.trial == trial and start.session == self._settings.session]
        return next(reversed(ours or attempts), None)


@lru_cache(maxsize=8)
def _redactor(secrets: tuple[Secret, ...]) -> Redactor:
    return Redactor(secrets)
