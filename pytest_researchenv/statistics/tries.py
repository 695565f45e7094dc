"""Which attempts a figure is of.

An agent may have tried a repository several times: because it was asked to, because the infrastructure broke, because
it was rebuilt after a change. *Tries* are the attempts that left an environment shaped by the same inputs as the newest
one. What the infrastructure ended is no try, and what other inputs shaped is *superseded*: neither is a sample of what
this agent does.

The *first* try counts wherever one outcome a repository is wanted. It was not chosen for how it came out, as the newest
would be where people try again until they like what they see.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pytest_researchenv.model import Repository, TierResult, Verdict
from pytest_researchenv.runs.values import AttemptRecord, Run, Subject


__all__ = ["JUDGED", "AgentRun", "Tries", "agent_runs"]

#: Verdicts that enter a rate.
JUDGED = frozenset((Verdict.PASSED, Verdict.FAILED))


@dataclass(frozen=True, slots=True)
class Tries:
    """What one agent's attempts at one repository are.

    Attributes:
        repository: its key.
        tries: attempts that left an environment, all shaped by the same inputs, oldest first.
        broken: attempts without a readable environment: ended by the infrastructure, unfinished, or damaged.
        superseded: attempts whose environments other inputs shaped.
    """

    repository: str
    tries: tuple[AttemptRecord, ...]
    broken: tuple[AttemptRecord, ...] = ()
    superseded: tuple[AttemptRecord, ...] = ()

    @classmethod
    def of(cls, repository: str, attempts: Iterable[AttemptRecord]) -> Tries:
        """Tell an agent's attempts at a repository apart."""
        every = sorted(attempts, key=lambda attempt: attempt.key.attempt)
        finished = [(attempt, attempt.environment.inputs) for attempt in every if attempt.environment]
        inputs = finished[-1][1] if finished else {}
        return cls(
            repository,
            tuple(attempt for attempt, shaped in finished if shaped == inputs),
            tuple(attempt for attempt in every if attempt.environment is None),
            tuple(attempt for attempt, shaped in finished if shaped != inputs),
        )

    @property
    def counted(self) -> AttemptRecord:
        """The one that counts where one outcome is wanted: the first try, else the newest that broke."""
        return self.tries[0] if self.tries else self.broken[-1]

    def outcomes(self, subject: Subject) -> tuple[bool, ...]:
        """Whether it passed, for each try that was judged."""
        return tuple(
            result.verdict is Verdict.PASSED
            for attempt in self.tries
            if (result := attempt.results.get(subject)) and result.verdict in JUDGED
        )


@dataclass(frozen=True, slots=True)
class AgentRun:
    """One agent's part of a run.

    Attributes:
        run: name of the run.
        agent: name of the agent.
        repositories: what it tried, by key.
        descriptions: key → what is known of a repository, which says where a tier does not apply.
    """

    run: str
    agent: str
    repositories: tuple[Tries, ...]
    descriptions: Mapping[str, Repository] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """As it is named on the command line."""
        return f"{self.run}:{self.agent}"

    @property
    def tries(self) -> Iterator[AttemptRecord]:
        """Every try."""
        return (attempt for one in self.repositories for attempt in one.tries)

    @property
    def several(self) -> bool:
        """Whether a repository was tried more than once."""
        return any(len(one.tries) > 1 for one in self.repositories)

    def judged(self, subject: Subject) -> dict[str, TierResult]:
        """Key of each repository whose first try passed or failed → that result."""
        return {
            one.repository: result
            for one in self.repositories
            if one.tries and (result := one.counted.results.get(subject)) and result.verdict in JUDGED
        }


def agent_runs(run: Run, descriptions: Mapping[str, Repository] | None = None) -> tuple[AgentRun, ...]:
    """Return the part of each agent.

    Args:
        run: what was read.
        descriptions: see `AgentRun`; those of repositories that the run does not hold do no harm.
    """
    parts: dict[str, dict[str, list[AttemptRecord]]] = {}
    for attempt in run.attempts:
        parts.setdefault(attempt.key.agent, {}).setdefault(attempt.key.repository, []).append(attempt)
    return tuple(
        AgentRun(run.name, agent, tuple(Tries.of(key, tried) for key, tried in found.items()), descriptions or {})
        for agent, found in parts.items()
    )
