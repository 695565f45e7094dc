"""Which environment is judged: the stored one where it still fits, a new one where there is none."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from typing import final

from pytest_researchenv.access import Access, shown
from pytest_researchenv.agents.prompt import prompt_digest, render_prompt
from pytest_researchenv.agents.protocol import Agent, Needs
from pytest_researchenv.agentwork import Order
from pytest_researchenv.breaker import CircuitBreaker
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import (
    InfrastructureError,
    ProviderError,
    ResearchEnvError,
    StaleEnvironmentError,
    StoreError,
)
from pytest_researchenv.gateway.protocol import Ledger
from pytest_researchenv.hardware import Hardware
from pytest_researchenv.leases.desk import holds_nothing
from pytest_researchenv.model import Environment, EnvironmentKey, Examination, Repository, Tier, TierResult, Verdict
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.progress import Teller
from pytest_researchenv.provision import provision
from pytest_researchenv.redaction import Redactor, secrets_in
from pytest_researchenv.research.result import ResearchResult
from pytest_researchenv.secrets import Secret
from pytest_researchenv.settings import DEFAULT_TIMEOUT_S, Settings
from pytest_researchenv.source import fetch, identity
from pytest_researchenv.spending import Allowance, Spending
from pytest_researchenv.store import Attempt, Store


__all__ = ["Environments"]

_log = logging.getLogger(__name__)

#: How long a gateway may be at work beside its agent's wall time, in seconds: what is made ready while it runs can
#: take long, and it must come to an end when this process was killed.
_GRACE_S = 1800.0

#: How long what is done around an agent's work may take, in seconds: starting, freezing.
_AROUND_S = 3600.0


@final
class Environments:
    """Builds each environment once, and uses it until what shaped it changes."""

    def __init__(
        self, settings: Settings, *, engine: Callable[[], Engine], agents: Callable[[str], Agent], say: Teller
    ) -> None:
        self._settings = settings
        self._open = engine
        self._find_agent = agents
        self._say = say
        self._access = Access(settings.agents)
        self._ready = False
        self._differences: dict[EnvironmentKey, list[str]] = {}
        self._store = Store(settings.results, settings.run, redactor=lambda: self.redactor)
        self._breaker = CircuitBreaker(self._store.folder, settings.session)
        self._spending = Spending(
            self._store.folder,
            settings.session,
            limit_usd=settings.agents.max_cost_usd,
            whole_run=settings.continued,
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
            if attempt is not None and (found := self._reusable(attempt, agent, repository, retry=retry)):
                return attempt, found
            return self._built(agent, repository, trial)

    def problem(self, agent_name: str, repository: Repository, *, trial: int = 1) -> str:
        """Say why the user has to decide something before work starts; empty when there is nothing.

        Raises:
            ConfigurationError: the agent cannot work on this repository.
            InfrastructureError: it cannot be told.
        """
        agent = self._find_agent(agent_name)
        attempt = self._current(agent_name, repository, trial)
        environment = attempt.environment() if attempt else None
        if environment is None or self._settings.rebuild:
            return self._access.problem(agent.needs)
        with self._say.at(agent_name, repository.slug):
            return self._stale(environment, agent, repository)

    def notes(self, environment: Environment) -> tuple[str, ...]:
        """What people should know of where their keys are kept, and of an environment that was used anyway."""
        changed = self._differences.get(environment.key, [])
        anyway = (f"{environment.key} was judged although {', '.join(changed)} changed",) if changed else ()
        return (*self._access.warnings, *anyway)

    def most_usd(self, agent_name: str) -> float | None:
        """What building one environment can cost at most, in US dollars, tries again included; None for no limit."""
        needs = self._find_agent(agent_name).needs
        if needs.service is None:
            return 0.0
        limit = needs.budget.max_cost_usd
        return None if limit is None else limit * (1 + self._settings.agents.retries)

    @property
    def spent_usd(self) -> float:
        """What this session has spent on models, attempts that ended in an error included."""
        return self._spending.spent_usd

    def stopped(self, agent_name: str) -> str:
        """Say why an agent's provider is asked no more in this session; empty while it is."""
        service = self._find_agent(agent_name).needs.service
        return self._breaker.reason(service) if service else ""

    def exists(self, agent_name: str, repository: Repository, *, trial: int = 1) -> bool:
        """Whether an environment would be reused, if it fits; needs no container engine."""
        attempt = self._current(agent_name, repository, trial)
        return attempt is not None and attempt.finished and not self._settings.rebuild

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
        """Return the pinned tree."""
        return fetch(repository, cache=self._settings.cache)

    def _engine(self) -> Engine:
        engine = self._open()
        self._ready = True
        return engine

    def _current(self, agent_name: str, repository: Repository, trial: int) -> Attempt | None:
        """Return this session's attempt, else the newest: another session may be building, too."""
        starts = [(one, one.start) for one in self._store.attempts(agent_name, repository.key)]
        attempts = [one for one, start in starts if start.trial == trial]
        ours = [one for one, start in starts if start.trial == trial and start.session == self._settings.session]
        return next(reversed(ours or attempts), None)

    def _reusable(self, attempt: Attempt, agent: Agent, repository: Repository, *, retry: bool) -> Environment | None:
        ours = attempt.session == self._settings.session
        if ours and not retry and (error := attempt.error()):
            raise InfrastructureError(f"{attempt.key} could not be built: {error}")
        environment = attempt.environment()
        if environment is None or (self._settings.rebuild and not ours):
            return None
        if stale := self._stale(environment, agent, repository):
            raise StaleEnvironmentError(stale)
        if self._engine().sandbox.image_exists(environment.image):
            return environment
        if agent.free:
            _log.warning("the frozen image of %s is gone: building it again", attempt.key)
            return None
        raise InfrastructureError(
            f"the frozen image of {attempt.key} is gone ({environment.image}); "
            "build it again with --researchenv-rebuild"
        )

    def _stale(self, environment: Environment, agent: Agent, repository: Repository) -> str:
        if self._settings.rebuild:
            return ""
        then, now = environment.inputs, self._inputs(agent, repository)
        changed = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)]
        if not changed:
            return ""
        if self._settings.reuse_anyway:
            self._differences[environment.key] = changed
            return ""
        lines = [f"the stored environment of {agent.name} for {repository.name} was shaped by something else:"]
        lines += [f"  {name}: {then.get(name, 'nothing')} then, {now.get(name, 'nothing')} now" for name in changed]
        lines.append("build it again with --researchenv-rebuild, or judge it as it is with --researchenv-reuse-anyway")
        return "\n".join(lines)

    def _built(self, agent: Agent, repository: Repository, trial: int) -> tuple[Attempt, Environment]:
        """Build, and again in a new attempt where the provider's trouble may be over by then."""
        inputs = self._inputs(agent, repository)
        service = agent.needs.service
        retries = self._settings.agents.retries
        for number in range(retries + 1):
            if service:
                self._breaker.check(service)
            attempt = self._store.begin(agent.name, repository.key, self._settings.session, trial=trial)
            try:
                return attempt, self._build(attempt, agent, repository, inputs)
            except ProviderError as error:
                if number == retries or self.stopped(agent.name):
                    raise
                delay = self._settings.agents.retry_delay_s * 2**number
                self._say(f"waiting {delay:.0f} s before another attempt, since {error}")
                time.sleep(delay)
        raise AssertionError("the last attempt returns or raises")

    def _build(self, attempt: Attempt, agent: Agent, repository: Repository, inputs: Mapping[str, str]) -> Environment:
        _log.info("building %s", attempt.key)
        self._say("fetching the source")
        try:
            with self._allowance(agent.needs) as money:

                def settle(ledger: Ledger) -> None:
                    money.spent_usd = ledger.charged_usd

                environment = provision(
                    self._engine(),
                    self._order(attempt, agent, repository, max_cost_usd=money.limit_usd),
                    attempt=attempt,
                    tree=self.tree(repository),
                    inputs=inputs,
                    settle=settle,
                    say=self._say,
                )
        except ResearchEnvError as error:
            self._keep(attempt, str(error))
            if isinstance(error, ProviderError) and agent.needs.service:
                self._breaker.failed(agent.needs.service, error)
            raise
        # The boundary: whatever else breaks is a defect of ours, recorded so that no agent works twice for it.
        except Exception as error:
            message = f"unexpected {type(error).__name__}: {error}; please report it"
            self._keep(attempt, message)
            raise InfrastructureError(message) from error
        if agent.needs.service:
            self._breaker.answered(agent.needs.service)
        return environment

    def _keep(self, attempt: Attempt, message: str) -> None:
        """Record an error; where that cannot be done, the first cause is still what is told."""
        try:
            attempt.save_error(message)
        except StoreError:
            _log.exception("cannot record why %s could not be built", attempt.key)

    def _allowance(self, needs: Needs) -> AbstractContextManager[Allowance]:
        """Set money aside; agents without a model need none, and wait for none."""
        if needs.service is None:
            return nullcontext(Allowance(None))
        most_s = self._timeout_s(needs) + _AROUND_S
        return self._spending.allowance(needs.budget.max_cost_usd, most_s=most_s, say=self._say)

    def _order(self, attempt: Attempt, agent: Agent, repository: Repository, *, max_cost_usd: float | None) -> Order:
        needs = self._access.needs(agent.needs)
        return Order(
            agent=agent,
            needs=needs,
            repository=repository,
            timeout_s=self._timeout_s(needs),
            limits=self._settings.agent_limits,
            devices=len(self._offered().devices),
            prompt=self._prompt(needs, repository) if needs.prompted else "",
            run_limited=max_cost_usd is not None and max_cost_usd != needs.budget.max_cost_usd,
            gateway=self._access.request(
                needs,
                self._engine(),
                max_cost_usd=max_cost_usd,
                lifetime_s=self._timeout_s(needs) + _GRACE_S,
                labels={"researchenv.attempt": str(attempt.key)},
                repository=repository,
            ),
        )

    def _prompt(self, needs: Needs, repository: Repository) -> str:
        hardware = self._offered()
        return render_prompt(
            repository,
            template=self._settings.agents.prompt,
            reach=needs.reach,
            devices=len(hardware.uuids),
            accelerator=", ".join(dict.fromkeys(device.name for device in hardware.devices)),
            timeout_s=self._timeout_s(needs),
        )

    def _offered(self) -> Hardware:
        """The hardware with so many devices as an agent is given."""
        hardware, most = self._engine().hardware, self._settings.agent_gpus
        return hardware if most is None else hardware.first(most)

    def _timeout_s(self, needs: Needs) -> float:
        return self._settings.agent_timeout_s or needs.timeout_s or DEFAULT_TIMEOUT_S

    def _inputs(self, agent: Agent, repository: Repository) -> Mapping[str, str]:
        limits = self._settings.agent_limits
        needs = self._access.needs(agent.needs)
        return {
            "source": identity(repository, cache=self._settings.cache),
            "image": self._engine().base_key,
            "agent_timeout_s": f"{self._timeout_s(needs):g}",
            "agent_memory_bytes": str(limits.memory_bytes),
            "agent_cpus": f"{limits.cpus:g}" if limits.cpus else "all",
            **({} if self._settings.agent_gpus is None else {"agent_gpus": str(self._settings.agent_gpus)}),
            **(self._told(needs, repository) if needs.prompted else {}),
            **agent.inputs(repository),
        }

    def _told(self, needs: Needs, repository: Repository) -> Mapping[str, str]:
        """What else shapes the work of an agent that is told in words what to do."""
        service = needs.service
        asked = {"model": " ".join((service.api, service.endpoint, *service.models))} if service else {}
        return {
            **asked,
            "prompt": prompt_digest(self._prompt(needs, repository))[:16],
            "network": " ".join((needs.reach, *sorted(needs.allow))),
            "budget": shown(needs.budget),
        }


@lru_cache(maxsize=8)
def _redactor(secrets: tuple[Secret, ...]) -> Redactor:
    return Redactor(secrets)
