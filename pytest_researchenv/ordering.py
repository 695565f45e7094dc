"""What an agent is ordered to do: its limits, its prompt, its gateway, and what of all that shapes an environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import final

from pytest_researchenv.access import Access, shown
from pytest_researchenv.agents.prompt import prompt_digest
from pytest_researchenv.agents.protocol import Agent, Needs
from pytest_researchenv.agentwork import Order
from pytest_researchenv.assignment import Earlier, MountedData, Situation, assignment_of
from pytest_researchenv.datafolders import content_key, data_target
from pytest_researchenv.detached.beside import BesideResearch
from pytest_researchenv.detached.stages import Continuation
from pytest_researchenv.disk.room import LEAST_BYTES
from pytest_researchenv.engine import Engine
from pytest_researchenv.hardware import Hardware
from pytest_researchenv.model import Repository
from pytest_researchenv.probes.protocol import Tree
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.settings import DEFAULT_TIMEOUT_S, Settings
from pytest_researchenv.source import identity
from pytest_researchenv.store import Attempt


__all__ = ["Orders"]

#: How long a gateway may be at work beside its agent's wall time, in seconds: what is made ready while it runs can
#: take long, and it must come to an end when this process was killed.
_GRACE_S = 1800.0


@final
class Orders:
    """Makes orders for agents, by what the user chose, what profiles say, and what the work itself limits.

    Args:
        settings: what the user chose.
        access: keys and prices.
        engine: the container engine.
        tree: gives the pinned tree of a repository.
    """

    def __init__(
        self, settings: Settings, access: Access, engine: Callable[[], Engine], tree: Callable[[Repository], Tree]
    ) -> None:
        self._settings = settings
        self._access = access
        self._engine = engine
        self._tree = tree

    def needs(self, agent: Agent, repository: Repository, continuation: Continuation | None = None) -> Needs:
        """What an agent needs, as the user's options have it, within the limits of the work or of what is left of it.

        It has a wall time limit, in seconds: the user's wins.
        """
        needs = assignment_of(repository).needs(self._access.needs(agent.needs))
        if continuation is None:
            limit_s = self._settings.agent_timeout_s or needs.timeout_s or DEFAULT_TIMEOUT_S
            return replace(needs, timeout_s=limit_s)
        budget = replace(needs.budget, max_cost_usd=continuation.max_cost_usd)
        return replace(needs, timeout_s=continuation.timeout_s, budget=budget)

    def order(
        self,
        attempt: Attempt,
        agent: Agent,
        repository: Repository,
        *,
        max_cost_usd: float | None,
        continuation: Continuation | None = None,
    ) -> Order:
        """Order an agent to begin.

        Args:
            attempt: which attempt.
            agent: who.
            repository: what for.
            max_cost_usd: what it may spend, in US dollars.
            continuation: from where the work goes on; None where it begins.

        Raises:
            ConfigurationError: the agent cannot begin, or its prompt cannot be rendered.
        """
        needs = self.needs(agent, repository, continuation)
        timeout_s = needs.timeout_s or DEFAULT_TIMEOUT_S
        assignment = assignment_of(repository)
        earlier = continuation.earlier if continuation else None
        image = continuation.image if continuation else ""
        return Order(
            agent=agent,
            needs=needs,
            repository=repository,
            timeout_s=timeout_s,
            limits=self._settings.agent_limits,
            devices=len(self._offered().devices),
            prompt=self._prompt(needs, repository, earlier=earlier) if needs.prompted else "",
            least_free_bytes=min(LEAST_BYTES, self._settings.disk_floor_bytes),
            run_limited=max_cost_usd is not None and max_cost_usd != needs.budget.max_cost_usd,
            mounts=self._mounts(repository),
            image=image,
            beside=BesideResearch(
                attempt=attempt,
                workdir=repository.workdir,
                limit_s=timeout_s,
                limit_usd=max_cost_usd if needs.service else None,
                image=image,
                archiving=self._settings.archiving,
            )
            if assignment.detached
            else None,
            gateway=self._access.request(
                needs,
                self._engine(),
                max_cost_usd=max_cost_usd,
                lifetime_s=timeout_s + _GRACE_S,
                labels={"researchenv.attempt": str(attempt.key)},
                repository=repository,
                blocking=assignment.blocking,
            ),
        )

    def inputs(self, agent: Agent, repository: Repository) -> Mapping[str, str]:
        """What shapes an environment: name → digest or value."""
        limits = self._settings.agent_limits
        needs = self.needs(agent, repository)
        data = {f"data {name}": key for name, key in sorted(self._data_keys(repository).items())}
        return {
            "source": identity(repository, tree=self._tree),
            "image": self._engine().base_key,
            "agent_timeout_s": f"{needs.timeout_s:g}",
            "agent_memory_bytes": str(limits.memory_bytes),
            "agent_cpus": f"{limits.cpus:g}" if limits.cpus else "all",
            **({} if self._settings.agent_gpus is None else {"agent_gpus": str(self._settings.agent_gpus)}),
            **data,
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

    def _prompt(self, needs: Needs, repository: Repository, *, earlier: Earlier | None = None) -> str:
        hardware = self._offered()
        chosen = self._settings.agents
        templates = {"build": chosen.prompt, "research": chosen.research_prompt}
        names = assignment_of(repository).data(self._settings.data)
        return assignment_of(repository).prompt(
            Situation(
                needs=needs,
                devices=len(hardware.uuids),
                accelerator=", ".join(dict.fromkeys(device.name for device in hardware.devices)),
                timeout_s=needs.timeout_s or DEFAULT_TIMEOUT_S,
                max_cost_usd=needs.budget.max_cost_usd if needs.service else None,
                data=tuple(MountedData(name, data_target(name)) for name in names),
                earlier=earlier,
                templates={kind: path for kind, path in templates.items() if path},
            )
        )

    def _mounts(self, repository: Repository) -> tuple[Mount, ...]:
        folders = assignment_of(repository).data(self._settings.data)
        return tuple(self._engine().data_of(name, path) for name, path in folders.items())

    def _data_keys(self, repository: Repository) -> Mapping[str, str]:
        folders = assignment_of(repository).data(self._settings.data)
        return {name: content_key(path) for name, path in folders.items()}

    def _offered(self) -> Hardware:
        """The hardware with so many devices as an agent is given."""
        hardware, most = self._engine().hardware, self._settings.agent_gpus
        return hardware if most is None else hardware.first(most)
