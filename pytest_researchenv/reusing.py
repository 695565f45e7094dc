"""Whether a stored environment can be judged as it is: it fits what is asked for now, and its image is there."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import final

from pytest_researchenv.agents.protocol import Agent
from pytest_researchenv.engine import Engine, in_words
from pytest_researchenv.errors import ElsewhereError, InfrastructureError, StaleEnvironmentError
from pytest_researchenv.model import Environment, EnvironmentKey, Repository
from pytest_researchenv.ordering import Orders
from pytest_researchenv.settings import Settings
from pytest_researchenv.store import Attempt


__all__ = ["Reuse"]

_log = logging.getLogger(__name__)


@final
class Reuse:
    """Compares what shaped an environment with what would shape it now.

    Args:
        settings: what the user chose.
        orders: says what shapes it now.
    """

    def __init__(self, settings: Settings, orders: Orders) -> None:
        self._settings = settings
        self._orders = orders
        self._differences: dict[EnvironmentKey, list[str]] = {}

    def found(
        self, attempt: Attempt, agent: Agent, repository: Repository, *, engine: Callable[[], Engine], retry: bool
    ) -> Environment | None:
        """Return an attempt's environment; None where one is to be built.

        Args:
            attempt: the newest.
            agent: who built, or would.
            repository: what for.
            engine: gives the container engine, where its image should be.
            retry: whether to build again what could not be built earlier in this session.

        Raises:
            InfrastructureError: it could not be built earlier in this session, or its image is gone for good.
            StaleEnvironmentError: what shaped it has changed.
        """
        ours = attempt.session == self._settings.session
        if ours and not retry and (error := attempt.error()):
            raise InfrastructureError(f"{attempt.key} could not be built: {error}")
        environment = attempt.environment()
        if environment is None or (self._settings.rebuild and not ours):
            return None
        if stale := self.stale(environment, agent, repository):
            raise StaleEnvironmentError(stale)
        here = engine()
        if here.sandbox.image_exists(environment.image):
            return environment
        elsewhere = bool(environment.engine) and environment.engine != here.id
        if elsewhere and (here.pooled or not agent.free):
            there = in_words(environment.engine, environment.engine_name)
            raise ElsewhereError(
                f"{attempt.key} is in the container engine {there}, and {in_words(here.id, here.name)} was asked: "
                "name the other with --researchenv-docker, bring it here by `researchenv export environment`, or build "
                "it again with --researchenv-rebuild",
                engine=environment.engine,
                name=environment.engine_name,
            )
        eviction = attempt.eviction()
        how = f"was removed by --researchenv-keep={eviction.policy} at {eviction.at}" if eviction else "is gone"
        if agent.free:
            _log.warning("the frozen image of %s %s: building it again", attempt.key, how)
            return None
        raise InfrastructureError(
            f"the frozen image of {attempt.key} {how} ({environment.image}); build it again with "
            "--researchenv-rebuild, or import it where it was exported (`researchenv import`)"
        )

    def stale(self, environment: Environment, agent: Agent, repository: Repository) -> str:
        """Say what shaped an environment that has changed, and what to do; empty where it may be judged."""
        if self._settings.rebuild:
            return ""
        then, now = environment.inputs, self._orders.inputs(agent, repository)
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

    def notes(self, environment: Environment) -> tuple[str, ...]:
        """What people should know of an environment that is used although something has changed."""
        changed = self._differences.get(environment.key, [])
        return (f"{environment.key} was judged although {', '.join(changed)} changed",) if changed else ()
