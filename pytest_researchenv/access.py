"""What a session's agents reach their models and the outside with: keys, prices, limits, hosts."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import final

from pytest_researchenv.agents.protocol import Needs
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.gateway.hosts import USUAL_HOSTS, hosts_in, own_address_problem
from pytest_researchenv.gateway.prices import load_prices, price_of, unpriced
from pytest_researchenv.gateway.protocol import Blocking, Budget, GatewayRequest, ModelService, Price, Reach
from pytest_researchenv.integrity.canaries import OWN_NAMES, canaries_of
from pytest_researchenv.model import Repository
from pytest_researchenv.secrets import Found, Secret, look_for_secret
from pytest_researchenv.settings import AgentSettings


__all__ = ["Access", "shown"]


@final
class Access:
    """Finds keys and prices, once, and says what stands between an agent and the outside.

    Args:
        settings: what the user chose.
        environ: the environment; None: this process's.
    """

    def __init__(self, settings: AgentSettings, environ: Mapping[str, str] | None = None) -> None:
        self._settings = settings
        self._environ = os.environ if environ is None else environ
        self._found: dict[str, Found] = {}

    @cached_property
    def prices(self) -> Mapping[str, Price]:
        """Model → price, the user's first.

        Raises:
            ConfigurationError: a file of prices is wrong.
        """
        return load_prices(self._settings.prices)

    def key(self, service: ModelService) -> Found:
        """Look for the key of a service, once.

        Raises:
            ConfigurationError: what was found cannot be a key.
        """
        if service.key not in self._found:
            self._found[service.key] = look_for_secret(
                service.key, folders=self._settings.folders, environ=self._environ
            )
        return self._found[service.key]

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Every key that was found so far."""
        # Asked from other threads, too.
        return tuple(found.secret for found in tuple(self._found.values()) if found.secret)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is wrong with where keys are kept, as far as they were looked for."""
        return tuple(dict.fromkeys(warning for found in self._found.values() for warning in found.warnings))

    def needs(self, needs: Needs) -> Needs:
        """What an agent needs, as the user's options have it; scripts are left as they are."""
        if not needs.prompted:
            return needs
        return replace(needs, reach=self._settings.reach or needs.reach, allow=(*needs.allow, *self._settings.allow))

    def problem(self, needs: Needs) -> str:
        """Say why an agent cannot begin; empty when it can.

        Raises:
            ConfigurationError: a key or a file of prices is wrong.
        """
        service = needs.service
        if service is None:
            return ""
        if problem := own_address_problem(service.endpoint):
            return problem
        found = self.key(service)
        if found.secret is None:
            return f"the key of {service.endpoint}, {service.key}, is missing; looked at: {'; '.join(found.looked)}"
        limited = needs.budget.max_cost_usd is not None or self._settings.max_cost_usd is not None
        if limited and (unknown := unpriced(service.models, self.prices)):
            return (
                f"cost is limited, but {', '.join(unknown)} has no known price, so that the limit could not hold: "
                "give one with --researchenv-prices, or limit tokens instead"
            )
        return ""

    def request(
        self,
        needs: Needs,
        engine: Engine,
        *,
        max_cost_usd: float | None,
        lifetime_s: float | None = None,
        labels: Mapping[str, str],
        repository: Repository | None = None,
        blocking: Blocking | None = None,
    ) -> GatewayRequest | None:
        """Return what a gateway is to do for one attempt; None where none is needed.

        Args:
            needs: the agent's.
            engine: hosts that its settings name may be reached, too.
            max_cost_usd: what the attempt may spend.
            lifetime_s: after so many seconds nothing may be asked any more, whatever has become of us.
            labels: labels of all that is made for it.
            repository: what the attempt is at: answers with its suite's canary do not come in, as those with ours.
            blocking: what may not be reached, on whatever host; None for nothing.

        Raises:
            ConfigurationError: see `problem`.
        """
        if not needs.gateway:
            return None
        if problem := self.problem(needs):
            raise ConfigurationError(problem)
        hosts: tuple[str, ...] = ()
        if needs.reach is Reach.ALLOWLIST:
            hosts = tuple(dict.fromkeys((*USUAL_HOSTS, *hosts_in(engine.environment), *needs.allow)))
        return GatewayRequest(
            service=needs.service,
            key=self.key(needs.service).secret if needs.service else None,
            budget=replace(needs.budget, max_cost_usd=max_cost_usd),
            prices=self._prices_for(needs.service),
            reach=needs.reach,
            allow=hosts,
            deny=OWN_NAMES,
            blocking=blocking,
            canaries=tuple(canaries_of(repository)),
            on_host=needs.on_host,
            lifetime_s=lifetime_s,
            labels=labels,
        )

    def _prices_for(self, service: ModelService | None) -> Mapping[str, Price]:
        models = service.models if service else ()
        return {model: price for model in models if (price := price_of(model, self.prices))}


def shown(budget: Budget) -> str:
    """A budget in words, as it is recorded with an environment."""
    parts = {"$": budget.max_cost_usd, "tokens ": budget.max_tokens, "requests ": budget.max_requests}
    return ", ".join(f"{name}{value}" for name, value in parts.items() if value is not None) or "no limit"
