"""What of a run is judged again although it is stored, or for lack of being stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import final

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.model import Examination, Tier, Verdict


__all__ = ["NOTHING", "Rerun", "parse_rerun"]

_TIER = "tier:"


class _Kind(StrEnum):
    """Which tests, by what is stored of them."""

    INFRA = "infra"
    MISSING = "missing"
    FAILED = "failed"


_STORED = {Verdict.ERROR: _Kind.INFRA, Verdict.FAILED: _Kind.FAILED, None: _Kind.MISSING}


@final
@dataclass(frozen=True, slots=True)
class Rerun:
    """A choice of tests.

    Attributes:
        kinds: those of which this is stored.
        subjects: those that judge this, whatever is stored.
    """

    kinds: frozenset[str] = frozenset()
    subjects: frozenset[Tier | Examination] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.kinds or self.subjects)

    def wants(self, subject: Tier | Examination | None, stored: Verdict | None) -> bool:
        """Whether a test is run; a verdict that is stored does not stand then.

        Args:
            subject: what it judges; None for a sub-task of a research task.
            stored: the newest verdict of earlier sessions; None where there is none.
        """
        return subject in self.subjects or _STORED.get(stored) in self.kinds


#: No test is chosen.
NOTHING = Rerun()


def parse_rerun(values: Iterable[str]) -> Rerun:
    """Return the choice that some words make together.

    Raises:
        ConfigurationError: a word is unknown.
    """
    subjects = {str(subject).lower(): subject for subject in (*Tier, *Examination)}
    kinds: set[str] = set()
    chosen: set[Tier | Examination] = set()
    for value in values:
        word = value.strip().lower()
        if word in set(_Kind):
            kinds.add(word)
        elif word.startswith(_TIER) and word.removeprefix(_TIER) in subjects:
            chosen.add(subjects[word.removeprefix(_TIER)])
        else:
            names = ", ".join((*_Kind, *(_TIER + str(subject) for subject in (*Tier, *Examination))))
            raise ConfigurationError(f"{value!r} selects nothing: give one of {names}; the option may be repeated")
    return Rerun(frozenset(kinds), frozenset(chosen))
