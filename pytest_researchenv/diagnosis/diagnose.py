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


__all__ = ["Diagnosis", "diagnose", "is_diagnosed"]

#: Where the scripts of probes lie in their container.
_PROBES = "/researchenv/probes/"

#: Where no traceback leads to the end: lines at the end that are looked at.
_CLOSING = 30

_LACKING = "No module named '"

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


def is_diagnosed(result: TierResult) -> bool:
    """Whether there is something to say: it failed, ended in an error, or upstream is defective."""
    defective = result.verdict is Verdict.SKIPPED and result.cause is Cause.DEFECTIVE_UPSTREAM
    return defective or result.verdict in {Verdict.FAILED, Verdict.ERROR}


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
    if not is_diagnosed(result):
        return None
    table = shipped_rules() if rules is None else rules
    case = _Case(result, log, environment)
    # What only stands near the end may be a warning: it counts when nothing else says anything.
    for rule, closing in [(rule, False) for rule in table if not rule.last_resort] + [(rule, True) for rule in table]:
        if (line := case.decisive(rule, closing=closing)) is not None:
            return Diagnosis(rule.name, rule.category, rule.confidence, printable(line.strip(), _LONGEST), rule.next)
    return Diagnosis("", Category.UNKNOWN, Confidence.NONE, printable(case.said, _LONGEST), _UNKNOWN)


@final
class _Lines:
    """Lines that are looked through, and what they are together: most texts stand nowhere, which one look tells."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self._whole = "\n".join(lines)

    def first(self, texts: Sequence[Text], *, last: bool = False) -> str | None:
        """The first line, or the last, that fits one of some texts."""
        likely = [text for text in texts if text.longest in self._whole]
        lines = reversed(self.lines) if last else self.lines
        return next((line for line in lines if any(text.fits(line) for text in likely)), None) if likely else None


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

    def decisive(self, rule: Rule, *, closing: bool) -> str | None:
        """Return the line by which a rule fits, be it one of the last of the log; None where it does not."""
        if not self._holds(rule):
            return None
        return self._found(rule, closing=closing) if rule.texts else self.said

    def _holds(self, rule: Rule) -> bool:
        """Whether all conditions of a rule hold but the words that it looks for."""
        result = self._result
        return (
            (not rule.causes or result.cause in rule.causes)
            and (not rule.tiers or result.tier in rule.tiers)
            and (not rule.ended_texts or self._ended(rule.ended_texts))
            and (rule.origin is None or rule.origin is self._origin)
            and (not rule.own_module or self._lacks_itself)
            and (not rule.only_missing or self._misses_only(rule.only_missing))
        )

    @cached_property
    def _lines(self) -> list[str]:
        return excerpt(self._log)

    @cached_property
    def _whole(self) -> _Lines:
        return _Lines(self._lines)

    @cached_property
    def _chain(self) -> list[Raised]:
        return last_chain(self._lines, self._result.decisive)

    @cached_property
    def _ending(self) -> _Lines:
        """What the record says, and the exceptions that ended the run, the last first."""
        raised = [line for raised in reversed(self._chain) for line in raised.lines]
        return _Lines([self._result.decisive, self._result.reason, *raised])

    @cached_property
    def _closing(self) -> _Lines:
        """The same, and the last lines of the log where no exception ended the run."""
        return self._ending if self._chain else _Lines([*self._ending.lines, *self._lines[: -_CLOSING - 1 : -1]])

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

    @cached_property
    def _lacks_itself(self) -> bool:
        """Whether the module that is missing is the repository's own, by its name."""
        repository = self._environment.key.repository.rpartition("/")[2] if self._environment else ""
        lacking = (line.partition(_LACKING)[2].partition("'")[0].partition(".")[0] for line in self._ending.lines)
        return _plain(repository) in {_plain(module) for module in lacking if module}

    def _ended(self, texts: Sequence[Text]) -> bool:
        ended = self._environment.ended if self._environment else ""
        return any(text.fits(ended) for text in texts)

    def _misses_only(self, modules: frozenset[str]) -> bool:
        missing = self._result.evidence.get("missing")
        return isinstance(missing, list) and bool(missing) and {name.partition(".")[0] for name in missing} <= modules

    def _found(self, rule: Rule, *, closing: bool) -> str | None:
        if rule.where is Where.EXCEPTIONS:
            return (self._closing if closing else self._ending).first(rule.texts)
        return self._whole.first(rule.texts, last=rule.where is Where.LAST)


def _plain(name: str) -> str:
    return name.casefold().replace("-", "_")
