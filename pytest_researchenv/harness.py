"""One session's work: have an environment, judge a tier, lose nothing.

This is where the seams meet. It knows nothing of pytest.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import final

from pytest_researchenv.agents.protocol import Agent
from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.assets import fetch_asset
from pytest_researchenv.basis import audit_basis, tier_basis
from pytest_researchenv.detached.going import Starting
from pytest_researchenv.diagnosis import Diagnosis, diagnosis_of
from pytest_researchenv.engine import Engine
from pytest_researchenv.environments import Environments
from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.hardware import Hardware
from pytest_researchenv.integrity.audit import audit
from pytest_researchenv.integrity.believing import believed
from pytest_researchenv.integrity.checks import all_checks
from pytest_researchenv.integrity.protocol import Check
from pytest_researchenv.leases.desk import holds_nothing
from pytest_researchenv.lock import dataset_of
from pytest_researchenv.looking import recorded, stamp_of
from pytest_researchenv.model import (
    Audit,
    Cause,
    Environment,
    Eviction,
    Examination,
    Repository,
    Tier,
    TierResult,
    Verdict,
)
from pytest_researchenv.probes.interpreter import Broken
from pytest_researchenv.probes.protocol import Probe, ProbeTask
from pytest_researchenv.probes.world import Interpreter
from pytest_researchenv.progress import Teller
from pytest_researchenv.provenance import digest_of
from pytest_researchenv.research.data import folders_of
from pytest_researchenv.research.task import Task
from pytest_researchenv.research.workplace import workplace_of
from pytest_researchenv.researching import Researching
from pytest_researchenv.sandbox.protocol import Mount
from pytest_researchenv.settings import Settings
from pytest_researchenv.store import Attempt


__all__ = ["Harness", "Judged"]

_log = logging.getLogger(__name__)

#: Tiers whose probe is one process that is ended when its time is up.
_LIMITED = frozenset((Tier.C1, Tier.C2, Tier.C3, Tier.C4))


@dataclass(frozen=True)
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

    @cached_property
    def diagnosis(self) -> Diagnosis | None:
        """Why it did not pass; None where it passed, was skipped for a reason that is not upstream's, or is not kept.

        Raises:
            StoreError: the log cannot be read.
        """
        return diagnosis_of(self.result, self.environment, self.folder) if self.folder else None


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
        checks: Sequence[Check] | None = None,
        say: Teller | None = None,
        stored: tuple[Attempt, Environment] | None = None,
        start: Starting | None = None,
    ) -> None:
        self._settings = settings
        self._make_engine = engine
        self._probes = probes
        #: Judged whoever's environment is asked for, as it is: nothing is compared, and nothing built.
        self._stored = stored
        self._checks = all_checks(settings.cache) if checks is None else checks
        self._say = say or Teller()
        self._interpreters: dict[tuple[str, str], Interpreter | Broken] = {}
        self.environments = Environments(
            settings, engine=lambda: self._engine, agents=agents, say=self._say, start=start
        )

    @cached_property
    def _engine(self) -> Engine:
        self._say("making the container engine ready")
        return self._make_engine()

    def close(self) -> None:
        """Let go of the container engine."""
        if "_engine" in vars(self):
            self._engine.close()

    def evict(self, agent_name: str, repository: str, number: int) -> Eviction | None:
        """Remove the frozen image of an attempt, as `Environments.evict` does.

        Raises:
            InfrastructureError: it could not be removed, and stays.
        """
        return self.environments.evict(agent_name, repository, number)

    @cached_property
    def research(self) -> Researching:
        """What judges sub-tasks of research tasks."""
        return Researching(
            self._settings,
            environments=self.environments,
            engine=lambda: self._engine,
            probe_task=self._research_task,
            say=self._say,
        )

    def _research_task(
        self, log: Callable[[bytes], object], attempt: Attempt, environment: Environment, task: Task, subtask: str
    ) -> ProbeTask:
        place = workplace_of(task)
        found, _ = self._audited(attempt, environment, place)
        self._say(f"making ready what evaluates {subtask}")
        data = folders_of(task, self._settings.data)
        mounts = tuple(self._engine.data_of(name, path) for name, path in data.items())
        made = replace(self._task(log, attempt, environment, place), audit=found, assets=mounts)
        return replace(made, lease=self._lease(made, subtask, f"evaluating {subtask}"))

    def judge(
        self,
        agent_name: str,
        repository: Repository,
        tier: Tier | Examination,
        *,
        retry: bool = False,
        trial: int = 1,
    ) -> Judged:
        """Return the verdict on a tier or of the audit, looking unless a stored result stands.

        Args:
            agent_name: whose environment.
            repository: what for.
            tier: what is judged.
            retry: whether to build again what could not be built earlier in this session.
            trial: which of the attempts that were asked for.

        Raises:
            ConfigurationError: there is no probe for the tier.
            InfrastructureError: no verdict is possible; this, too, is recorded.
        """
        if isinstance(tier, Examination):
            return self._audit(agent_name, repository, retry=retry, trial=trial)
        spec = repository.spec(tier)
        cause, reason = spec.idle
        if cause is not Cause.NONE:
            return Judged(TierResult(tier, Verdict.SKIPPED, cause, reason))
        if tier not in self._probes:
            raise ConfigurationError(f"{tier} cannot be judged by this version: there is no probe for it")
        with self._say.at(agent_name, repository.slug):
            self._engine.answering(self._say)
            if evicted := self._evicted(agent_name, repository, trial):
                attempt, environment = evicted
                if known := self._standing(attempt, repository, tier):
                    return self._judged(known, attempt, environment, fresh=False)
            attempt, environment = self._stored or self.environments.get(
                agent_name, repository, retry=retry, trial=trial
            )
            holds_nothing(f"the lock of {tier}")
            self._say(f"waiting for the lock of {tier}")
            with attempt.lock(tier):
                standing = self._standing(attempt, repository, tier)
                result = standing or self._probe(attempt, environment, repository, tier)
        return self._judged(result, attempt, environment, fresh=standing is None)

    def _audit(self, agent_name: str, repository: Repository, *, retry: bool, trial: int) -> Judged:
        with self._say.at(agent_name, repository.slug):
            self._engine.answering(self._say)
            if evicted := self._evicted(agent_name, repository, trial):
                attempt, environment = evicted
                last = next(reversed(attempt.audits()), None)
                if last and self._still_stands(last.result, environment, repository, self._settings.session):
                    return self._judged(last.result, attempt, environment, fresh=False)
            attempt, environment = self._stored or self.environments.get(
                agent_name, repository, retry=retry, trial=trial
            )
            found, fresh = self._audited(attempt, environment, repository, session=self._settings.session)
        return self._judged(found.result, attempt, environment, fresh=fresh)

    def _evicted(self, agent_name: str, repository: Repository, trial: int) -> tuple[Attempt, Environment] | None:
        """The environment whose image was removed once it was judged: what stands of it needs none."""
        return None if self._stored else self.environments.evicted(agent_name, repository, trial=trial)

    def _judged(self, result: TierResult, attempt: Attempt, environment: Environment, *, fresh: bool) -> Judged:
        packages = self._engine.packages.notes if self._engine.packages else ()
        notes = (*self._engine.notes, *packages, *self.environments.notes(environment))
        return Judged(result, environment, attempt.folder, fresh=fresh, notes=notes)

    def _standing(self, attempt: Attempt, repository: Repository, tier: Tier) -> TierResult | None:
        results = attempt.results(tier)
        if not results or results[-1].verdict is Verdict.ERROR:
            return None
        last = results[-1]
        kept = self._kept(last)
        same = last.basis == self._basis(repository, tier) and last.audit == audit_basis(repository)
        return last if kept and same else None

    def _kept(self, stored: TierResult) -> bool:
        """Whether a stored verdict is one to keep: of this session, or of a run that is continued."""
        if stored.session == self._settings.session:
            return True
        return self._settings.continued and not self._settings.rerun.wants(stored.tier, stored.verdict)

    def _probe(self, attempt: Attempt, environment: Environment, repository: Repository, tier: Tier) -> TierResult:
        found, _ = self._audited(attempt, environment, repository)
        self._say(f"probing {tier}", limit_s=repository.spec(tier).timeout_s if tier in _LIMITED else None)

        def look(log: Callable[[bytes], object]) -> Audit:
            self.environments.require_room(f"{tier} cannot be probed")
            task = self._task(log, attempt, environment, repository)
            task = replace(
                task,
                assets=self._assets(repository, tier),
                audit=found,
                lease=self._lease(task, tier, f"probing {tier}"),
            )
            judged = self._probes[tier].judge(task)
            return Audit(replace(believed(judged, found), audit=found.result.basis))

        return self._recorded(attempt, environment, repository, tier, look).result

    def _audited(
        self, attempt: Attempt, environment: Environment, repository: Repository, *, session: str = ""
    ) -> tuple[Audit, bool]:
        """Return the audit of an environment, and whether it was made just now.

        Args:
            attempt: where the environment is from.
            environment: what is audited.
            repository: what it is for.
            session: the session in which it must have been made, unless the run is continued; any, when empty.
        """
        with attempt.lock(Examination.INTEGRITY):
            stored = attempt.audits()
            last = stored[-1] if stored else None
            if last is not None and self._still_stands(last.result, environment, repository, session):
                return last, False
            self._say("auditing")

            def look(log: Callable[[bytes], object]) -> Audit:
                task = self._task(log, attempt, environment, repository)
                with replace(task, lease=self._lease(task, Examination.INTEGRITY, "auditing")).leased(0):
                    return audit(task, attempt.changes, checks=self._checks, cache=self._settings.cache)

            return self._recorded(attempt, environment, repository, Examination.INTEGRITY, look), True

    def _still_stands(self, result: TierResult, environment: Environment, repository: Repository, session: str) -> bool:
        kept = not session or self._kept(result)
        same = result.snapshot == environment.image and result.basis == audit_basis(repository)
        return kept and same and result.verdict is not Verdict.ERROR

    def _recorded(
        self,
        attempt: Attempt,
        environment: Environment,
        repository: Repository,
        subject: Tier | Examination,
        look: Callable[[Callable[[bytes], object]], Audit],
    ) -> Audit:
        """Look, and record what came of it, be it an error."""
        _log.info("judging %s of %s", subject, attempt.key)
        # As they are now: what is changed meanwhile is not what was judged.
        basis, dataset = self._basis(repository, subject), dataset_of(repository)

        def stamp(found: Audit, log: str, took_s: float) -> Audit:
            stamped = replace(
                found.result,
                duration_s=found.result.duration_s or took_s,
                log=log,
                accelerator=self._engine.hardware.accelerator,
                settings=self._probe_settings(),
                **stamp_of(environment, basis=basis, dataset=dataset, session=self._settings.session),
            )
            return replace(found, result=stamped)

        def save(log: Path, found: Audit) -> Audit:
            kept = replace(found.result, log_digest=digest_of(log))
            if isinstance(subject, Tier):
                return Audit(attempt.save_result(log, kept))
            return attempt.save_audit(log, replace(found, result=kept))

        def broken(message: str) -> Audit:
            return Audit(TierResult(subject, Verdict.ERROR, Cause.INFRASTRUCTURE, message))

        return recorded(attempt, subject, look, broken=broken, stamp=stamp, save=save)

    def _task(
        self, log: Callable[[bytes], object], attempt: Attempt, environment: Environment, repository: Repository
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
            records=attempt.folder,
            interpreters=self._interpreters,
            result_of=lambda other: (
                self.judge(environment.key.agent, repository, other, trial=attempt.start.trial).result
            ),
        )

    def _lease(self, task: ProbeTask, subject: str, doing: str) -> Callable[[int], AbstractContextManager[Hardware]]:
        """What gives a probe its share of devices and slots. While it waits, it says so, and when it goes on."""
        purpose = f"{subject} of {task.environment.key}"

        @contextmanager
        def lease(devices: int) -> Iterator[Hardware]:
            waits: list[str] = []

            def say(words: str) -> None:
                waits.append(words)
                self._say(words)

            with self._engine.sharing.share(task.hardware, purpose, devices=devices, say=say) as share:
                if waits:
                    self._say(doing)
                yield share.hardware

        return lease

    def _assets(self, repository: Repository, tier: Tier) -> tuple[Mount, ...]:
        chosen = {name: repository.assets[name] for name in repository.spec(tier).assets}
        return tuple(
            self._engine.volume_of(name, asset.sha256, fetch_asset(name, asset, cache=self._settings.cache))
            for name, asset in chosen.items()
        )

    def _probe_settings(self) -> dict[str, float]:
        # As records hold it: 0 is 0.0 there, and the digest of what a verdict rests on tells the two apart.
        return {"c0_max_missing": float(self._settings.c0_max_missing)}

    def _basis(self, repository: Repository, tier: Tier | Examination) -> str:
        """Return a digest of what decides the tier or the audit, beside the environment."""
        if isinstance(tier, Examination):
            return audit_basis(repository)
        return tier_basis(
            repository, tier, accelerator=self._engine.hardware.accelerator, settings=self._probe_settings()
        )
