"""Judge stored environments again, as they were judged then, without touching what is stored."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import final

from pytest_researchenv.basis import audit_basis, tier_basis
from pytest_researchenv.engine import Engine
from pytest_researchenv.errors import ResearchEnvError
from pytest_researchenv.hardware import Accelerator
from pytest_researchenv.harness import Harness
from pytest_researchenv.integrity.protocol import Check
from pytest_researchenv.lock import LOCK, dataset_of, lock_problems
from pytest_researchenv.model import Cause, Environment, Examination, Repository, Tier, TierResult, Verdict
from pytest_researchenv.probes.protocol import Probe
from pytest_researchenv.progress import Teller
from pytest_researchenv.provenance import harness_identity
from pytest_researchenv.redaction import Redactor
from pytest_researchenv.runs.folders import RESULT
from pytest_researchenv.sandbox.protocol import Limits
from pytest_researchenv.settings import Settings
from pytest_researchenv.source import fetch, identity
from pytest_researchenv.store import Attempt
from pytest_researchenv.verifying.comparing import difference


__all__ = ["Again", "Rejudged", "Rejudging"]


class Again(StrEnum):
    """What became of a stored verdict when its environment was judged again."""

    SAME = "same"
    FLIPPED = "flipped"
    UNVERIFIABLE = "cannot be verified"


@dataclass(frozen=True, slots=True)
class Rejudged:
    """One stored verdict, and what it came to this time.

    Attributes:
        stored: the newest result of its kind.
        again: what became of it.
        now: what was found now; None where nothing could be.
        why: how the two differ, or why it cannot be verified.
        remarks: what people should know all the same.
    """

    stored: TierResult
    again: Again
    now: TierResult | None = None
    why: str = ""
    remarks: tuple[str, ...] = ()


class _UnverifiableError(Exception):
    """A verdict cannot be verified; the message says why."""


@final
class Rejudging:
    """Judges again.

    Args:
        engine: given an accelerator as it was recorded, and an image that is there, gives an engine.
        repositories: `Repository.key` → the repository; those of suites that are not known are missing.
        probes: what decides the tiers.
        cache: folder for pinned trees and assets.
        redactor: takes secrets of this host out of what is found.
        checks: what the audit looks at; None: everything.
        say: told what is being done.
    """

    def __init__(
        self,
        engine: Callable[[Accelerator, str], Engine],
        repositories: Mapping[str, Repository],
        *,
        probes: Mapping[Tier, Probe],
        cache: Path,
        redactor: Callable[[], Redactor],
        checks: Sequence[Check] | None = None,
        say: Teller | None = None,
    ) -> None:
        self._engine = engine
        self._repositories = repositories
        self._probes = probes
        self._cache = cache
        self._redactor = redactor
        self._checks = checks
        self._say = say or Teller()
        self._session = uuid.uuid4().hex

    def judge(
        self, folder: Path, environment: Environment, stored: Sequence[TierResult], *, image_gone: bool
    ) -> Iterator[Rejudged]:
        """Judge an environment again.

        Args:
            folder: the attempt's; it is read only.
            environment: what is judged.
            stored: the verdicts to verify.
            image_gone: whether its frozen image is not there any more.
        """
        with _copied(folder, environment, self._redactor) as attempt:
            for result in stored:
                try:
                    if image_gone:
                        raise _UnverifiableError(f"the frozen image is gone: {environment.image}")  # noqa: TRY301 - one of several
                    yield self._again(attempt, environment, result)
                except (_UnverifiableError, ResearchEnvError) as error:
                    yield Rejudged(result, Again.UNVERIFIABLE, why=str(error))

    def _again(self, attempt: Attempt, environment: Environment, stored: TierResult) -> Rejudged:
        if stored.verdict is Verdict.ERROR:
            raise _UnverifiableError(f"there was no verdict: {stored.reason}")
        repository = self._repository(environment)
        if stored.accelerator not in set(Accelerator):
            raise _UnverifiableError(f"its record does not say what it ran on: {stored.accelerator!r}")
        accelerator = Accelerator(stored.accelerator)
        self._require_same_basis(repository, stored, accelerator)
        self._require_same_source(repository, environment)
        harness = Harness(
            self._settings(attempt, stored),
            engine=lambda: self._engine(accelerator, environment.image),
            probes=self._probes,
            checks=self._checks,
            say=self._say,
            stored=(attempt, environment),
        )
        now = harness.judge(environment.key.agent, repository, stored.tier).result
        lacking = [result for result in (stored, now) if result.cause is Cause.INSUFFICIENT_HARDWARE]
        if accelerator is Accelerator.CUDA and len(lacking) == 1:
            raise _UnverifiableError(f"the hardware is not the same: {stored.reason} then, {now.reason} now")
        why = difference(stored, now)
        return Rejudged(stored, Again.FLIPPED if why else Again.SAME, now, why, _remarks(repository, stored, now))

    def _repository(self, environment: Environment) -> Repository:
        key = environment.key.repository
        if key not in self._repositories:
            raise _UnverifiableError(f"no suite is known that has {key}: name its folder by --suite")
        return self._repositories[key]

    @staticmethod
    def _require_same_basis(repository: Repository, stored: TierResult, accelerator: Accelerator) -> None:
        if isinstance(stored.tier, Examination):
            # The checks' own code is part of its basis: a newer harness audits all the same, and says so.
            if stored.basis != audit_basis(repository) and stored.harness == harness_identity():
                raise _UnverifiableError(_changed(repository, stored))
            return
        described = stored.tier in repository.tiers
        if not described or stored.basis != tier_basis(
            repository, stored.tier, accelerator=accelerator, settings=stored.settings
        ):
            raise _UnverifiableError(_changed(repository, stored))

    def _require_same_source(self, repository: Repository, environment: Environment) -> None:
        then, now = environment.inputs.get("source"), identity(repository, tree=partial(fetch, cache=self._cache))
        if then is not None and then != now:
            raise _UnverifiableError(f"the pinned tree is another one: {then} then, {now} now")

    def _settings(self, attempt: Attempt, stored: TierResult) -> Settings:
        return Settings(
            # What a harness keeps beside attempts goes beside the copy.
            results=attempt.folder.parent,
            run=attempt.key.run,
            continued=False,
            rebuild=False,
            reuse_anyway=True,
            agent_timeout_s=None,
            agent_limits=Limits(),
            c0_max_missing=stored.settings.get("c0_max_missing", 0.0),
            cache=self._cache,
            session=self._session,
        )


@contextlib.contextmanager
def _copied(folder: Path, environment: Environment, redactor: Callable[[], Redactor]) -> Iterator[Attempt]:
    """Copy what was recorded of an attempt, without its results, to a place that is removed in the end."""
    with tempfile.TemporaryDirectory(prefix="researchenv-verify-") as place:
        copy = Path(place, "attempt")
        copy.mkdir()
        for path in folder.iterdir():
            if path.is_file() and not path.name.startswith(".") and not RESULT.fullmatch(path.name):
                shutil.copyfile(path, copy / path.name)
        yield Attempt(environment.key, copy, redactor)


def _changed(repository: Repository, stored: TierResult) -> str:
    """Say what the suite's files tell of how it has changed."""
    suite = Path(repository.folder).parent
    now = dataset_of(repository)
    what = f"what decides {stored.tier} of {repository.key} has changed"
    if now == stored.dataset:
        return f"{what}, and the suite has not: {_judges(stored)}"
    with contextlib.suppress(ResearchEnvError, OSError, ValueError):
        if stored.dataset and stored.dataset in (suite / LOCK).read_text(encoding="utf-8"):
            return f"{what}: {'; '.join(lock_problems(suite))}"
    return f"{what}: the suite {suite} had the digest {stored.dataset or '(none)'} then, and has {now or '(none)'} now"


def _judges(stored: TierResult) -> str:
    return f"it was judged by {_short(stored.harness)}, and this is {_short(harness_identity())}"


def _short(harness: str) -> str:
    version, _, digest = harness.partition(" ")
    return f"version {version or 'unknown'} ({digest[:12]})"


def _remarks(repository: Repository, stored: TierResult, now: TierResult) -> tuple[str, ...]:
    remarks = []
    if stored.harness != harness_identity():
        remarks.append(_judges(stored))
    if stored.dataset != dataset_of(repository):
        remarks.append("files of the suite that have no part in it have changed since")
    if stored.cause is not now.cause and stored.verdict is now.verdict:
        remarks.append(f"the cause is another: {stored.cause} then ({stored.reason}), {now.cause} now ({now.reason})")
    return tuple(remarks)
