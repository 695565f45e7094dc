"""Find the first rule that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

from pytest_researchenv.diagnosis.excerpt import Raised, excerpt, last_chain
from pytest_researchenv.diagnosis.rules import Rule, shipped_rules
from pytest_researchenv.diagnosis.texts import Text
from pytest_researchenv.diagnosis.words import Category, Confidence, Origin, Where
from pytest_researchenv.model import Cause, Environment, TierResult, Verdict
from pytest_researchenv.probes.lookup import printable


__all__ = ["Diagnosis", "diagnose"]

#: Where the scripts of probes lie in their container.
_PROBES = "/researchenv/probes/"

#: Where no traceback leads to the end: lines at the end that are looked at.
_CLOSING = 30

#: Characters of a line that are kept.
_LONGEST = 500

_UNKNOWN = "Read the log; where it has a message that others may see, too, a rule is missing."


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why a tier did not pass.

    Attributes:
        rule: name of the rule that fits; empty when none does.
        category: what kind of cause it is.
        confidence: how sure that is.
        line: the line that shows it, of the log or else of the record, fit to be printed.
        next: what to do, in one sentence.
    """

    rule: str
    category: Category
    confidence: Confidence
    line: str
    next: str


def diagnose(
    result: TierResult, log: bytes, environment: Environment | None, *, rules: Sequence[Rule] | None = None
) -> Diagnosis | None:
    """Say why a tier did not pass; None where it passed, or was skipped for a reason that is not upstream's.

    Args:
        result: what the probe found.
        log: what it printed; where the agent left no self-report, what the agent printed.
        environment: what was judged; None where it is not known.
        rules: the table; the shipped one by default.
    """
    judged = result.verdict in {Verdict.FAILED, Verdict.ERROR}
    if not judged and result.cause is not Cause.DEFECTIVE_UPSTREAM:
        return None
    case = _Case(result, log, environment)
    for rule in shipped_rules() if rules is None else rules:
        if (line := case.decisive(rule)) is not None:
            return Diagnosis(rule.name, rule.category, rule.confidence, printable(line.strip(), _LONGEST), rule.next)
    return Diagnosis("", Category.UNKNOWN, Confidence.NONE, printable(case.said, _LONGEST), _UNKNOWN)


@final
class _Case:
    """What rules look at."""

    def __init__(self, result: TierResult, log: bytes, environment: Environment | None) -> None:
        self._result = result
        self._log = log
        self._environment = environment

    @property
    def said(self) -> str:
        """The record's own words."""
        return self._result.decisive or self._result.reason

    def decisive(self, rule: Rule) -> str | None:
        """Return the line by which a rule fits; None where it does not."""
        result = self._result
        if (rule.causes and result.cause not in rule.causes) or (rule.tiers and result.tier not in rule.tiers):
            return None
        if rule.ended_texts and not self._ended(rule.ended_texts):
            return None
        if rule.origin is not None and rule.origin is not self._origin:
            return None
        if rule.only_missing and not self._misses_only(rule.only_missing):
            return None
        if not rule.texts:
            return self.said
        return self._found(rule)

    @cached_property
    def _lines(self) -> list[str]:
        return excerpt(self._log)

    @cached_property
    def _whole(self) -> str:
        return "\n".join(self._lines)

    @cached_property
    def _chain(self) -> list[Raised]:
        return last_chain(self._lines, self._result.decisive)

    @cached_property
    def _ending(self) -> list[str]:
        """What the record says, and the exceptions that ended the run, the last first."""
        lines = [self._result.decisive, self._result.reason]
        if self._chain:
            lines += [line for raised in reversed(self._chain) for line in raised.lines]
        else:
            lines += self._lines[: -_CLOSING - 1 : -1]
        return [line for line in lines if line]

    @cached_property
    def _ending_whole(self) -> str:
        return "\n".join(self._ending)

    @cached_property
    def _origin(self) -> Origin | None:
        if not self._chain:
            return None
        file = self._chain[-1].file
        if file.startswith(_PROBES):
            return Origin.PROBE
        workdir = self._environment.workdir if self._environment else ""
        own = bool(workdir) and file.startswith(f"{workdir}/") and "-packages/" not in file
        return Origin.REPOSITORY if own else Origin.ELSEWHERE

    def _ended(self, texts: Sequence[Text]) -> bool:
        ended = self._environment.ended if self._environment else ""
        return any(text.fits(ended) for text in texts)

    def _misses_only(self, modules: frozenset[str]) -> bool:
        missing = self._result.evidence.get("missing")
        return isinstance(missing, list) and bool(missing) and {name.partition(".")[0] for name in missing} <= modules

    def _found(self, rule: Rule) -> str | None:
        if rule.where is Where.EXCEPTIONS:
            return _fitting(rule.texts, self._ending, self._ending_whole)
        lines = self._lines if rule.where is Where.FIRST else self._lines[::-1]
        return _fitting(rule.texts, lines, self._whole)


def _fitting(texts: Sequence[Text], lines: Sequence[str], whole: str) -> str | None:
    # Most texts stand nowhere, which one look at the whole tells.
    likely = [text for text in texts if text.longest in whole]
    return next((line for line in lines if any(text.fits(line) for text in likely)), None) if likely else None
