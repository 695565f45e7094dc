"""One session's work: have an environment, judge a tier, lose nothing.

This is where the seams meet. It knows nothing of pytest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import final

from pytest_researchenv.agents.protocol import Agent
from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.assets import fetch_asset
from pytest_researchenv.basis import tier_basis
from pytest_researchenv.engine import Engine
from pytest_researchenv.environments import Environments
from pytest_researchenv.errors import ConfigurationError, InfrastructureError, ResearchEnvError
from pytest_researchenv.lock import dataset_of
from pytest_researchenv.model import Cause, Environment, Repository, Tier, TierResult, Verdict
from pytest_researchenv.probes.protocol import Probe, ProbeTask
from pytest_researchenv.progress import Teller
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.settings import Settings
from pytest_researchenv.store import Attempt


__all__ = ["Harness", "Judged"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judged:
    """A result with where it is kept.

    Attributes:
        result: what the probe found.
        environment: what was judged; None when the tier does not apply.
        folder: the attempt's folder; None likewise.
        fresh: whether it was probed just now.
        notes: what people should know of the container engine that was used.
    """

    result: TierResult
    environment: Environment | None = None
    folder: Path | None = None
    fresh: bool = True
    notes: tuple[str, ...] = ()


@final
class Harness:
    """Builds what is missing, reuses what is there, and records everything at once."""

    def __init__(
        self,
        settings: Settings,
        *,
        engine: Callable[[], Engine],
        probes: Mapping[Tier, Probe],
        agents: Callable[[str], Agent] = find_agent,
        say: Teller | None = None,
    ) -> None:
        self._settings = settings
        self._make_engine = engine
        self._probes = probes
        self._say = say or Teller()
        self.environments = Environments(settings, engine=lambda: self._engine, agents=agents, say=self._say)

    @cached_property
    def _engine(self) -> Engine:
        self._say("making the container engine ready")
        return self._make_engine()

    def close(self) -> None:
        """Let go of the container engine."""
        if "_engine" in vars(self):
            self._engine.close()

    def judge(self, agent_name: str, repository: Repository, tier: Tier, *, retry: bool = False) -> Judged:
        """Return the tier's verdict, probing unless a stored result stands.

        Args:
            agent_name: whose environment.
            repository: what for.
            tier: what is judged.
            retry: whether to build again what could not be built earlier in this session.

        Raises:
            ConfigurationError: there is no probe for the tier.
            InfrastructureError: no verdict is possible; this, too, is recorded.
        """
        spec = repository.spec(tier)
        cause, reason = spec.idle
        if cause is not Cause.NONE:
            return Judged(TierResult(tier, Verdict.SKIPPED, cause, reason))
        if tier not in self._probes:
            raise ConfigurationError(f"{tier} cannot be judged by this version: there is no probe for it")
        with self._say.at(agent_name, repository.slug):
            attempt, environment = self.environments.get(agent_name, repository, retry=retry)
            self._say(f"waiting for the lock of {tier}")
            with attempt.lock(tier):
                standing = self._standing(attempt, repository, tier)
                result = standing or self._probe(attempt, environment, repository, tier)
        notes = (*self._engine.notes, *self.environments.notes(environment))
        return Judged(result, environment, attempt.folder, fresh=standing is None, notes=notes)

    def _standing(self, attempt: Attempt, repository: Repository, tier: Tier) -> TierResult | None:
        results = attempt.results(tier)
        if not results or results[-1].verdict is Verdict.ERROR:
            return None
        last = results[-1]
        kept = last.session == self._settings.session or self._settings.continued
        return last if kept and last.basis == self._basis(repository, tier) else None

    def _probe(self, attempt: Attempt, environment: Environment, repository: Repository, tier: Tier) -> TierResult:
        _log.info("probing %s of %s", tier, attempt.key)
        self._say(f"probing {tier}")
        log = attempt.next_log(tier)
        # As they are now: what is changed while the probe runs is not what was judged.
        basis, dataset = self._basis(repository, tier), dataset_of(repository)
        started = time.monotonic()

        def save(result: TierResult) -> TierResult:
            stamped = replace(
                result,
                duration_s=result.duration_s or time.monotonic() - started,
                log=log.name,
                basis=basis,
                dataset=dataset,
                session=self._settings.session,
                created=datetime.now(UTC).isoformat(timespec="seconds"),
            )
            return attempt.save_result(log, stamped)

        try:
            with attempt.log(log) as append:
                return save(self._probes[tier].judge(self._task(append, environment, repository, tier)))
        except ResearchEnvError as error:
            save(TierResult(tier, Verdict.ERROR, Cause.INFRASTRUCTURE, str(error)))
            raise
        # The boundary: whatever else breaks is a defect of ours, and no verdict.
        except Exception as error:
            message = f"unexpected {type(error).__name__}: {error}; please report it"
            save(TierResult(tier, Verdict.ERROR, Cause.INFRASTRUCTURE, message))
            raise InfrastructureError(message) from error

    def _task(
        self, log: Callable[[bytes], object], environment: Environment, repository: Repository, tier: Tier
    ) -> ProbeTask:
        return ProbeTask(
            environment=environment,
            repository=repository,
            tree=self.environments.tree(repository),
            sandbox=self._engine.sandbox,
            tools=self._engine.tools,
            log=log,
            settings=self._probe_settings(),
            hardware=self._engine.hardware,
            assets=self._assets(repository, tier),
            result_of=lambda other: self.judge(environment.key.agent, repository, other).result,
        )

    def _assets(self, repository: Repository, tier: Tier) -> tuple[Mount, ...]:
        chosen = {name: repository.assets[name] for name in repository.spec(tier).assets}
        return tuple(
            self._engine.volume_of(name, asset.sha256, fetch_asset(name, asset, cache=self._settings.cache))
            for name, asset in chosen.items()
        )

    def _probe_settings(self) -> dict[str, float]:
        return {"c0_max_missing": self._settings.c0_max_missing}

    def _basis(self, repository: Repository, tier: Tier) -> str:
        """Return a digest of what decides the tier, beside the environment."""
        return tier_basis(
            repository, tier, accelerator=self._engine.hardware.accelerator, settings=self._probe_settings()
        )
