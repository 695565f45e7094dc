"""What is being done right now, said by whoever does it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, final


__all__ = ["Phase", "Say", "Teller"]


@dataclass(frozen=True, slots=True)
class Phase:
    """What is being done, and for whom.

    Attributes:
        agent: the agent's name.
        repository: the repository's name without its owner.
        name: what is being done, in words.
        limit_s: after so many seconds it is ended from outside; None where nothing limits it.
    """

    agent: str
    repository: str
    name: str
    limit_s: float | None = None


class Say(Protocol):
    """Takes what is being done, as it begins."""

    def __call__(self, name: str, *, limit_s: float | None = None) -> object:
        """Say that a phase begins, and how long it may last."""


@final
class Teller:
    """Says what this process is doing. It is called with the name of each phase as it begins."""

    def __init__(self, tell: Callable[[Phase | None], object] = lambda _: None) -> None:
        self._tell = tell
        self._phase: Phase | None = None

    @contextmanager
    def at(self, agent: str, repository: str) -> Iterator[None]:
        """Say for whom; in the end, go back to what was being done before."""
        before, self._phase = self._phase, Phase(agent, repository, "")
        try:
            yield
        finally:
            self._phase = before
            self._tell(before)

    def __call__(self, name: str, *, limit_s: float | None = None) -> None:
        """Say that a phase begins, and how long it may last; outside `at` nothing is said."""
        if self._phase:
            self._phase = Phase(self._phase.agent, self._phase.repository, name, limit_s)
            self._tell(self._phase)
