"""Arithmetic with printed numbers: what a rounded figure may have been, and what may follow from it."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction


__all__ = ["Span", "counts_of_runs", "deviation", "mean", "others_of_three", "span_of"]

_STEPS = (0, Fraction(1, 2), Fraction(-1, 2), 1, -1)


@dataclass(frozen=True, slots=True)
class Span:
    """All that a number may have been before it was rounded.

    Attributes:
        low: the least.
        high: the most.
    """

    low: Fraction
    high: Fraction

    @property
    def middle(self) -> Fraction:
        """The number in the middle."""
        return (self.low + self.high) / 2

    def over(self, other: Span) -> Span:
        """The quotient; numbers are not negative."""
        return Span(self.low / other.high, self.high / other.low)

    def meets(self, other: Span) -> bool:
        """Whether both may have been the same number."""
        return self.low <= other.high and other.low <= self.high

    def steps(self) -> tuple[Fraction, ...]:
        """The middle, both ends and what is halfway, in that order."""
        half = (self.high - self.low) / 2
        return tuple(self.middle + step * half for step in _STEPS)


def span_of(text: str) -> Span:
    """What a printed number may have been: half a unit of its last digit to either side.

    Nothing at all is 0, as a missing score counts, and so is "0".
    """
    if text in {"", "0"}:
        return Span(Fraction(), Fraction())
    number = Fraction(text)
    half = Fraction(1, 2 * 10 ** len(text.partition(".")[2]))
    return Span(number - half, number + half)


def mean(spans: Iterable[Span]) -> Span:
    """The mean of numbers."""
    every = list(spans)
    return Span(*(sum((getattr(one, end) for one in every), Fraction()) / len(every) for end in ("low", "high")))


def deviation(values: Sequence[Fraction], *, sample: bool) -> float:
    """The standard deviation: of a sample, or of the values themselves."""
    middle = sum(values, Fraction()) / len(values)
    squares = sum(((value - middle) ** 2 for value in values), Fraction())
    return math.sqrt(squares / (len(values) - sample))


def others_of_three(average: Span, spread: Span, best: Span, *, sample: bool) -> tuple[float, float] | None:
    """The two runs that, with the best of three, have a mean and a deviation; None where there are none.

    Neither is negative or better than the best. They are `c - d` and `c + d`, where c follows from mean and best, and
    the deviation only grows with d. Of what mean and best may have been, both ends and what is halfway are tried.
    """
    for m, b in itertools.product(average.steps(), best.steps()):
        c = (3 * m - b) / 2
        if not 0 <= c <= b:
            continue
        least, most = (deviation([b, c - d, c + d], sample=sample) for d in (Fraction(), min(c, b - c)))
        wanted = min(max(float(spread.middle), least), most)
        if spread.low <= Fraction(wanted) <= spread.high:
            between = min(_half_between(wanted, float(m), float(b), float(c), sample=sample), float(min(c, b - c)))
            return float(c) - between, float(c) + between
    return None


def _half_between(spread: float, m: float, b: float, c: float, *, sample: bool) -> float:
    """The d of `(best - m)² + 2 (c - m)² + 2 d² = n s²`, with n of 2 or 3."""
    squares = (2 if sample else 3) * spread**2 - (b - m) ** 2 - 2 * (c - m) ** 2
    return math.sqrt(max(squares, 0) / 2)


def counts_of_runs(average: Span, spread: Span, subtasks: Sequence[int], runs: int) -> list[tuple[str, str]]:
    """How many sub-tasks each run may have completed, for a mean and a deviation of percentages.

    Args:
        average: of the percentages of all runs.
        spread: their standard deviation.
        subtasks: how many sub-tasks there may have been, also in one run other than in another.
        runs: how many.

    Returns:
        The completed sub-tasks of each run, and of what the deviation is.
    """
    shares = sorted({(Fraction(100 * done, of), f"{done}/{of}") for of in subtasks for done in range(of + 1)})
    found: list[tuple[str, str]] = []
    for chosen in itertools.combinations_with_replacement(shares, runs):
        values = [value for value, _ in chosen]
        if not average.low <= sum(values, Fraction()) / runs <= average.high:
            continue
        kinds = {"sample": deviation(values, sample=True), "population": deviation(values, sample=False)}
        names = ", ".join(name for _, name in chosen)
        found += [(names, kind) for kind, value in kinds.items() if spread.low <= Fraction(value) <= spread.high]
    return found
