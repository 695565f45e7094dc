"""What is wrong with results that were handed in: all of it at once, sorted by what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from pytest_researchenv.errors import ResearchEnvError
from pytest_researchenv.probes.lookup import printable


__all__ = ["OutputError", "Problem", "ProblemKind"]

#: How many problems of a kind a message names; the error holds all of them.
_NAMED = 12


class ProblemKind(StrEnum):
    """Why results do not count."""

    MISSING = "missing"
    DUPLICATE = "duplicate"
    EXTRA = "not asked for"
    INVALID = "invalid"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, order=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        kind: what to do about it.
        what: the run, value or file, in one line that can be printed.
    """

    kind: ProblemKind
    what: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "what", printable(self.what, 400))


class OutputError(ResearchEnvError, ValueError):
    """Results do not count: something is missing, there twice, not asked for, out of range or unreadable.

    Attributes:
        problems: all that is wrong, kind by kind.
    """

    def __init__(self, what: str, problems: Iterable[Problem]) -> None:
        order = list(ProblemKind)
        self.problems = tuple(sorted(set(problems), key=lambda one: (order.index(one.kind), one.what)))
        super().__init__(f"{printable(what)} does not count: {_listed(self.problems)}")

    def of(self, kind: ProblemKind) -> tuple[str, ...]:
        """What is wrong in one way."""
        return tuple(one.what for one in self.problems if one.kind is kind)


def _listed(problems: tuple[Problem, ...]) -> str:
    parts: list[str] = []
    for kind in ProblemKind:
        found = [one.what for one in problems if one.kind is kind]
        if found:
            rest = f"; and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
            parts.append(f"{kind} ({len(found)}): {'; '.join(found[:_NAMED])}{rest}")
    return ". ".join(parts)
