"""Which environment is judged: the stored one where it still fits, a new one where there is none."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import final

from pytest_researchenv.agents.protocol import Agent
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError, ResearchEnvError, StaleEnvironmentError
from pytest_researchenv.model import Environment, PathSource, Repository
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.progress import Teller
from pytest_researchenv.provision import provision
from pytest_researchenv.settings import Settings
from pytest_researchenv.source import fetch
from pytest_researchenv.store import Attempt, Store


__all__ = ["Environments"]

_log = logging.getLogger(__name__)


@final
class Environments:
    """Builds each environment once, and uses it until what shaped it changes."""

    def __init__(
        self, settings: Settings, *, engine: Callable[[], Engine], agents: Callable[[str], Agent], say: Teller
    ) -> None:
        self._settings = settings
        self._engine = engine
        self._find_agent = agents
        self._say = say
        self._store = Store(settings.results, settings.run)

    def get(self, agent_name: str, repository: Repository, *, retry: bool = False) -> tuple[Attempt, Environment]:
        """Return the environment of the newest attempt, building it when there is none.

        Args:
            agent_name: who builds.
            repository: what for.
            retry: whether to build again what could not be built earlier in this session.

        Raises:
            InfrastructureError: it could not be built, now or earlier in this session.
            StaleEnvironmentError: there is one, but what shaped it has changed.
        """
        agent = self._find_agent(agent_name)
        self._say("waiting for the environment's lock")
        with self._store.lock(agent_name, repository.key):
            attempt = self._current(agent_name, repository)
            if attempt is not None and (found := self._reusable(attempt, agent, repository, retry=retry)):
                return attempt, found
            inputs = self._inputs(agent, repository)
            attempt = self._store.begin(agent_name, repository.key, self._settings.session)
            return attempt, self._build(attempt, agent, repository, inputs)

    def problem(self, agent_name: str, repository: Repository) -> str:
        """Say why the user has to decide something before work starts; empty when there is nothing.

        Raises:
            ConfigurationError: the agent cannot work on this repository.
            InfrastructureError: it cannot be told.
        """
        attempt = self._current(agent_name, repository)
        environment = attempt.environment() if attempt else None
        if environment is None:
            return ""
        with self._say.at(agent_name, repository.slug):
            return self._stale(environment, self._find_agent(agent_name), repository)

    def exists(self, agent_name: str, repository: Repository) -> bool:
        """Whether an environment would be reused, if it fits; needs no container engine."""
        attempt = self._current(agent_name, repository)
        return attempt is not None and attempt.finished and not self._settings.rebuild

    def tree(self, repository: Repository) -> Tree:
        """Return the pinned tree."""
        return fetch(repository, cache=self._settings.cache)

    def _current(self, agent_name: str, repository: Repository) -> Attempt | None:
        """Return this session's attempt, else the newest: another session may be building, too."""
        attempts = self._store.attempts(agent_name, repository.key)
        ours = [attempt for attempt in attempts if attempt.session == self._settings.session]
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
        if self._settings.rebuild or self._settings.reuse_anyway:
            return ""
        then, now = environment.inputs, self._inputs(agent, repository)
        changed = [name for name in sorted(then.keys() | now.keys()) if then.get(name) != now.get(name)]
        if not changed:
            return ""
        lines = [f"the stored environment of {agent.name} for {repository.name} was shaped by something else:"]
        lines += [f"  {name}: {then.get(name, 'nothing')} then, {now.get(name, 'nothing')} now" for name in changed]
        lines.append("build it again with --researchenv-rebuild, or judge it as it is with --researchenv-reuse-anyway")
        return "\n".join(lines)

    def _build(self, attempt: Attempt, agent: Agent, repository: Repository, inputs: Mapping[str, str]) -> Environment:
        _log.info("building %s", attempt.key)
        self._say("fetching the source")
        try:
            return provision(
                self._engine(),
                timeout_s=self._settings.agent_timeout_s,
                limits=self._settings.agent_limits,
                attempt=attempt,
                agent=agent,
                repository=repository,
                tree=self.tree(repository),
                inputs=inputs,
                say=self._say,
            )
        except ResearchEnvError as error:
            attempt.save_error(str(error))
            raise
        # The boundary: whatever else breaks is a defect of ours, recorded so that no agent works twice for it.
        except Exception as error:
            message = f"unexpected {type(error).__name__}: {error}; please report it"
            attempt.save_error(message)
            raise InfrastructureError(message) from error

    def _inputs(self, agent: Agent, repository: Repository) -> Mapping[str, str]:
        source = repository.source
        pinned = self.tree(repository).digest if isinstance(source, PathSource) else str(source)
        limits = self._settings.agent_limits
        return {
            "source": pinned,
            "image": self._engine().base_key,
            "agent_timeout_s": f"{self._settings.agent_timeout_s:g}",
            "agent_memory_bytes": str(limits.memory_bytes),
            "agent_cpus": f"{limits.cpus:g}" if limits.cpus else "all",
            **agent.inputs(repository),
        }
