"""Who was judged: what became of every repository in every tier, so that no rate stands without what it leaves out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pytest_researchenv.gateway.protocol import Outcome
from pytest_researchenv.model import Cause, Tier, Verdict
from pytest_researchenv.runs.values import SUBJECTS, AttemptRecord, Subject
from pytest_researchenv.statistics.rates import Rate
from pytest_researchenv.statistics.tries import AgentRun, Tries


__all__ = ["AttemptCounts", "ErrorKind", "TierCounts", "error_kind", "every_attempt", "tier_counts", "who_was_judged"]

_PROVIDER = re.compile(rf"the model could not be had.*?: ({'|'.join(Outcome)})\b|.* is asked no more in this session")


class ErrorKind(StrEnum):
    """What kept a verdict from being known."""

    #: The provider of the agent's model, or the way to it.
    PROVIDER = "model provider"
    #: Something else while the environment was built.
    BUILDING = "while building"
    #: Something while the tier was judged.
    JUDGING = "while judging"
    #: The attempt was begun, and neither its end nor an error was recorded.
    UNFINISHED = "unfinished"
    #: A record is there, and cannot be read.
    DAMAGED = "damaged record"


@dataclass(frozen=True, slots=True)
class TierCounts:
    """What became of the repositories that an agent tried, in one tier or the audit.

    Each repository counts once, by its first try (`statistics.tries`):
    `repositories == passed + failed + all skipped + all errors + unjudged`.

    Attributes:
        subject: what was judged.
        repositories: how many the agent tried.
        passed: how many passed.
        failed: how many failed.
        skipped: why they were not probed, but for what follows → how many.
        not_applicable: those to which the tier does not apply.
        defective_upstream: those that no environment can pass at the pinned commit.
        errors: what kept a verdict from being known → how many.
        unjudged: those for which nobody asked, as with `-k C0`; where a repository's description is not at hand, those
            to which the tier does not apply are among them.
        emulated: of those that passed or failed, how many did so with the CPU in the place of devices.
    """

    subject: Subject
    repositories: int = 0
    passed: int = 0
    failed: int = 0
    skipped: Mapping[Cause, int] = field(default_factory=dict)
    not_applicable: int = 0
    defective_upstream: int = 0
    errors: Mapping[ErrorKind, int] = field(default_factory=dict)
    unjudged: int = 0
    emulated: int = 0

    @property
    def applicable(self) -> int:
        """Repositories to which the tier applies, those that are defective upstream included, as published."""
        return self.repositories - self.not_applicable

    @property
    def run(self) -> int:
        """Those that passed or failed."""
        return self.passed + self.failed

    @property
    def rate(self) -> Rate:
        """The success rate: errors and skips never enter it."""
        return Rate(self.passed, self.run, self.emulated)


@dataclass(frozen=True, slots=True)
class AttemptCounts:
    """What became of every attempt of an agent: `attempts == tries + all broken + superseded`.

    Attributes:
        repositories: how many it tried.
        attempts: how often in all.
        tries: attempts that count (`statistics.tries`).
        broken: why attempts left no environment → how many.
        superseded: attempts that other inputs shaped than the newest.
    """

    repositories: int
    attempts: int
    tries: int
    broken: Mapping[ErrorKind, int]
    superseded: int


def every_attempt(part: AgentRun) -> AttemptCounts:
    """Count every attempt of an agent, whether or not anything else counts it."""
    kinds = Counter(error_kind(attempt) for one in part.repositories for attempt in one.broken)
    tries = sum(len(one.tries) for one in part.repositories)
    superseded = sum(len(one.superseded) for one in part.repositories)
    broken = {kind: kinds[kind] for kind in ErrorKind if kinds[kind]}
    return AttemptCounts(len(part.repositories), tries + kinds.total() + superseded, tries, broken, superseded)


def who_was_judged(part: AgentRun) -> tuple[TierCounts, ...]:
    """Return what became of every repository that an agent tried, for each tier and the audit."""
    return tuple(tier_counts(part, subject) for subject in SUBJECTS)


def error_kind(attempt: AttemptRecord) -> ErrorKind:
    """Tell why an attempt has no environment."""
    if attempt.error:
        return ErrorKind.PROVIDER if _PROVIDER.match(attempt.error) else ErrorKind.BUILDING
    return ErrorKind.DAMAGED if attempt.damage else ErrorKind.UNFINISHED


def tier_counts(part: AgentRun, subject: Subject) -> TierCounts:
    """Return what became of every repository that an agent tried, in one tier or the audit."""
    found = Counter(_outcome(part, tries, subject) for tries in part.repositories)
    judged = part.judged(subject)
    idle = (Cause.NOT_APPLICABLE, Cause.DEFECTIVE_UPSTREAM)
    return TierCounts(
        subject,
        repositories=len(part.repositories),
        passed=found[Verdict.PASSED],
        failed=found[Verdict.FAILED],
        skipped={cause: found[cause] for cause in Cause if found[cause] and cause not in idle},
        not_applicable=found[Cause.NOT_APPLICABLE],
        defective_upstream=found[Cause.DEFECTIVE_UPSTREAM],
        errors={kind: found[kind] for kind in ErrorKind if found[kind]},
        unjudged=found[None],
        emulated=sum(result.emulated for result in judged.values()),
    )


def _outcome(part: AgentRun, tries: Tries, subject: Subject) -> Verdict | Cause | ErrorKind | None:
    """Passed, failed, why it was skipped, what kind of error, or None where nobody asked."""
    attempt = tries.counted
    result = attempt.results.get(subject)
    if result and tries.tries:
        match result.verdict:
            case Verdict.SKIPPED:
                return result.cause
            case Verdict.ERROR:
                return ErrorKind.JUDGING
            case _:
                return result.verdict
    description = part.descriptions.get(tries.repository)
    if description and isinstance(subject, Tier) and (cause := description.spec(subject).idle[0]) is not Cause.NONE:
        return cause
    if not tries.tries:
        return error_kind(attempt)
    return ErrorKind.DAMAGED if subject in attempt.times else None
