"""What a results folder holds of a run, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from pytest_researchenv.manifest import Manifest
from pytest_researchenv.model import Audit, Environment, EnvironmentKey, Examination, Tier, TierResult, Verdict
from pytest_researchenv.research.result import ResearchResult


__all__ = ["SUBJECTS", "AttemptRecord", "Damage", "Run", "Subject"]

#: What is judged: a tier, or the audit.
Subject: TypeAlias = Tier | Examination

#: Everything that is judged, in the order in which it is shown.
SUBJECTS: tuple[Subject, ...] = (*Tier, *Examination)


@dataclass(frozen=True, slots=True)
class Damage:
    """A record that does not hold what was written there.

    Attributes:
        path: the file or folder.
        problem: what is wrong with it, in one line.
    """

    path: Path
    problem: str

    def __str__(self) -> str:
        return f"{self.path} {self.problem}"


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """What is recorded of one attempt.

    Attributes:
        key: which attempt it is, by where it lies.
        folder: its folder.
        session: id of the pytest session that began it; empty where that is not recorded.
        environment: what it left behind; None where it is not finished, ended in an error, or is damaged.
        error: what broke when the infrastructure did; empty where nothing has.
        results: what was judged → the newest result, that of the audit among them.
        audit: the newest audit, whole.
        times: what was judged → how many times.
        research: id of each sub-task of a research task that was evaluated → the newest result.
        trial: which of the attempts that were asked for.
        damage: records that cannot be read. Where the newest of a tier is among them, the tier has no result here: an
            older one is not what it came to.
    """

    key: EnvironmentKey
    folder: Path
    session: str = ""
    environment: Environment | None = None
    error: str = ""
    results: Mapping[Subject, TierResult] = field(default_factory=dict)
    audit: Audit | None = None
    times: Mapping[Subject, int] = field(default_factory=dict)
    damage: tuple[Damage, ...] = ()
    research: Mapping[str, ResearchResult] = field(default_factory=dict)
    trial: int = 1

    @property
    def suite(self) -> str:
        """Name of the suite."""
        return self.key.repository.partition("/")[0]

    def verdict(self, subject: Subject) -> Verdict | None:
        """What it came to; None where that was not judged, or cannot be read."""
        result = self.results.get(subject)
        return result.verdict if result else None


@dataclass(frozen=True, slots=True)
class Run:
    """What is recorded of one run.

    Attributes:
        name: its name.
        folder: its folder.
        attempts: by agent, repository and number.
        spent_usd: what its attempts spent on models in US dollars, those that ended in errors included; None where no
            money was counted.
        manifests: what each pytest session was, oldest first.
        own_damage: what cannot be read beside the attempts.
    """

    name: str
    folder: Path
    attempts: tuple[AttemptRecord, ...]
    spent_usd: float | None = None
    manifests: tuple[Manifest, ...] = ()
    own_damage: tuple[Damage, ...] = ()

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the agents, sorted."""
        return tuple(dict.fromkeys(attempt.key.agent for attempt in self.attempts))

    @property
    def repositories(self) -> tuple[str, ...]:
        """Keys of the repositories, sorted."""
        return tuple(sorted({attempt.key.repository for attempt in self.attempts}))

    @property
    def suites(self) -> tuple[str, ...]:
        """Names of the suites, sorted."""
        return tuple(sorted({attempt.suite for attempt in self.attempts}))

    @property
    def sessions(self) -> tuple[str, ...]:
        """Ids of the pytest sessions that built or judged something."""
        every = (
            session
            for attempt in self.attempts
            for session in (attempt.session, *(result.session for result in attempt.results.values()))
        )
        return tuple(dict.fromkeys(filter(None, every)))

    @property
    def damage(self) -> tuple[Damage, ...]:
        """Everything that cannot be read."""
        return (*self.own_damage, *(damage for attempt in self.attempts for damage in attempt.damage))

    def of(self, agent: str) -> tuple[AttemptRecord, ...]:
        """The attempts of an agent."""
        return tuple(attempt for attempt in self.attempts if attempt.key.agent == agent)
