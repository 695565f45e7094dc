"""One session's work: have an environment, judge a tier, lose nothing.

This is where the seams meet. It knows nothing of pytest.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import final

from pytest_researchenv.agents.protocol import Agent
from pytest_researchenv.agents.registry import find_agent
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import InfrastructureError, StaleEnvironmentError, StoreError
from pytest_researchenv.model import (
    Cause,
    Environment,
    PathSource,
    Repository,
    Tier,
    TierResult,
    TierSpec,
    Verdict,
)
from pytest_researchenv.probes.protocol import Probe, ProbeTask, Tree
from pytest_researchenv.provision import provision
from pytest_researchenv.source import fetch
from pytest_researchenv.store import Attempt, Store


__all__ = ["Harness", "Judged", "Settings"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What the user chose.

    Attributes:
        results: folder that holds the runs.
        run: name of the run.
        continued: whether stored results of the run stand, and only what is missing is done.
        rebuild: whether a new attempt is made where an environment exists.
        reuse_anyway: whether an environment is used although what shaped it has changed.
        agent_timeout_s: the agent's wall time limit in seconds.
        c0_max_missing: share of imports that may be missing, 0 to 1.
        cache: folder for pinned trees.
        session: id of this pytest session, the same on every worker.
    """

    results: Path
    run: str
    continued: bool
    rebuild: bool
    reuse_anyway: bool
    agent_timeout_s: float
    c0_max_missing: float
    cache: Path
    session: str


@dataclass(frozen=True, slots=True)
class Judged:
    """A result with where it is kept.

    Attributes:
        result: what the probe found.
        environment: what was judged; None when the tier does not apply.
        folder: the attempt's folder; None likewise.
    """

    result: TierResult
    environment: Environment | None = None
    folder: Path | None = None


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
    ) -> None:
        self._settings = settings
        self._find_agent = agents
        self._make_engine = engine
        self._probes = probes
        self._store = Store(settings.results, settings.run)

    @cached_property
    def _engine(self) -> Engine:
        return self._make_engine()

    # --- environments ---------------------------------------------------------------------------------------

    def environment(self, agent_name: str, repository: Repository) -> tuple[Attempt, Environment]:
        """Return the environment of the newest attempt, building it when there is none.

        Raises:
            InfrastructureError: it could not be built, now or earlier in this session.
            StaleEnvironmentError: there is one, but what shaped it has changed.
        """
        agent = self._find_agent(agent_name)
        with self._store.lock(agent_name, repository.slug):
            latest = self._store.latest(agent_name, repository.slug)
            if latest is not None and (found := self._reusable(latest, agent, repository)):
                return latest, found
            attempt = self._store.begin(agent_name, repository.slug, self._settings.session)
            return attempt, self._build(attempt, agent, repository)

    def stale_message(self, agent_name: str, repository: Repository) -> str:
        """Say what changed since the environment was built; empty when nothing has."""
        changed = self._stale(self._find_agent(agent_name), repository)
        return _describe(agent_name, repository, changed) if changed else ""

    def _stale(self, agent: Agent, repository: Repository) -> dict[str, tuple[str, str]]:
        latest = self._store.latest(agent.name, repository.slug)
        environment = latest.environment() if latest else None
        if environment is None or self._settings.rebuild or self._settings.reuse_anyway:
            return {}
        now = self._inputs(agent, repository)
        then = environment.inputs
        return {
            name: (then.get(name, "nothing"), now.get(name, "nothing"))
            for name in sorted(then.keys() | now.keys())
            if then.get(name) != now.get(name)
        }

    def exists(self, agent_name: str, repository: Repository) -> bool:
        """Whether an environment would be reused; needs no container engine."""
        latest = self._store.latest(agent_name, repository.slug)
        return latest is not None and latest.environment() is not None and not self._settings.rebuild

    def _reusable(self, latest: Attempt, agent: Agent, repository: Repository) -> Environment | None:
        ours = latest.session == self._settings.session
        if ours and (error := latest.error()):
            raise InfrastructureError(f"{latest.key} could not be built: {error}")
        environment = latest.environment()
        if environment is None or (self._settings.rebuild and not ours):
            return None
        if changed := self._stale(agent, repository):
            raise StaleEnvironmentError(_describe(agent.name, repository, changed))
        if self._engine.sandbox.image_exists(environment.image):
            return environment
        if agent.free:
            _log.warning("the frozen image of %s is gone: building it again", latest.key)
            return None
        raise InfrastructureError(
            f"the frozen image of {latest.key} is gone ({environment.image}); build it again with --researchenv-rebuild"
        )

    def _build(self, attempt: Attempt, agent: Agent, repository: Repository) -> Environment:
        _log.info("building %s", attempt.key)
        try:
            return provision(
                self._engine,
                timeout_s=self._settings.agent_timeout_s,
                attempt=attempt,
                agent=agent,
                repository=repository,
                tree=self._tree(repository),
                inputs=self._inputs(agent, repository),
            )
        except InfrastructureError as error:
            attempt.save_error(str(error))
            raise

    def _tree(self, repository: Repository) -> Tree:
        return fetch(repository, cache=self._settings.cache)

    def _inputs(self, agent: Agent, repository: Repository) -> Mapping[str, str]:
        source = repository.source
        pinned = self._tree(repository).digest if isinstance(source, PathSource) else str(source)
        return {
            "source": pinned,
            "image": self._engine.base_key,
            "agent_timeout_s": f"{self._settings.agent_timeout_s:g}",
            **agent.inputs(repository),
        }

    # --- tiers ----------------------------------------------------------------------------------------------

    def judge(self, agent_name: str, repository: Repository, tier: Tier) -> Judged:
        """Return the tier's verdict, probing unless a stored result stands.

        Raises:
            InfrastructureError: no verdict is possible; this, too, is recorded.
        """
        spec = repository.tiers.get(tier, _ABSENT)
        if not spec.supported:
            return Judged(TierResult(tier, Verdict.SKIPPED, Cause.NOT_APPLICABLE, spec.skip_reason))
        attempt, environment = self.environment(agent_name, repository)
        with attempt.lock(tier):
            if standing := self._standing(attempt, tier):
                return Judged(standing, environment, attempt.folder)
            return Judged(self._probe(attempt, environment, repository, tier), environment, attempt.folder)

    def _standing(self, attempt: Attempt, tier: Tier) -> TierResult | None:
        results = attempt.results(tier)
        if not results or results[-1].verdict is Verdict.ERROR:
            return None
        ours = results[-1].session == self._settings.session
        return results[-1] if ours or self._settings.continued else None

    def _probe(self, attempt: Attempt, environment: Environment, repository: Repository, tier: Tier) -> TierResult:
        _log.info("probing %s of %s", tier, attempt.key)
        path = attempt.next_log(tier)
        started = time.monotonic()
        with _appending(path) as log:
            task = ProbeTask(
                environment=environment,
                repository=repository,
                tree=self._tree(repository),
                sandbox=self._engine.sandbox,
                tools=self._engine.tools,
                log=log,
                settings={"c0_max_missing": self._settings.c0_max_missing},
            )
            try:
                result = self._probes[tier].judge(task)
            except InfrastructureError as error:
                broken = TierResult(tier, Verdict.ERROR, reason=str(error), duration_s=time.monotonic() - started)
                attempt.save_result(path, self._stamped(broken, path))
                raise
        result = replace(result, duration_s=result.duration_s or time.monotonic() - started)
        result = self._stamped(result, path)
        attempt.save_result(path, result)
        return result

    def _stamped(self, result: TierResult, log: Path) -> TierResult:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        return replace(result, log=log.name, session=self._settings.session, created=now)


def _describe(agent: str, repository: Repository, changed: Mapping[str, tuple[str, str]]) -> str:
    """Say what changed since an environment was built, and what can be done."""
    lines = [f"the stored environment of {agent} for {repository.name} was shaped by something else:"]
    lines += [f"  {name}: {then} then, {now} now" for name, (then, now) in changed.items()]
    lines.append("build it again with --researchenv-rebuild, or judge it as it is with --researchenv-reuse-anyway")
    return "\n".join(lines)


_ABSENT = TierSpec(supported=False, skip_reason="repo.toml does not describe this tier")


@contextmanager
def _appending(path: Path) -> Iterator[Callable[[bytes], object]]:
    # Only opening it may be reported as the store's trouble, not what is done while it is open.
    try:
        file = path.open("xb", buffering=0)
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error}") from error
    with file:
        yield file.write
