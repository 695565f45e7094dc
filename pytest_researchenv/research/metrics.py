"""What is measured, in which direction it is better, and which values it can have."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction

from pytest_researchenv.probes.lookup import printable


__all__ = ["Direction", "Metric", "exact_mean", "percent"]


class Direction(StrEnum):
    """Which values of a metric are better."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of a sub-task.

    Attributes:
        name: as in the task's tables.
        direction: which values are better.
        least: smallest value that it can have.
        most: largest.
    """

    name: str
    direction: Direction = Direction.HIGHER
    least: float = -math.inf
    most: float = math.inf

    def wrong(self, value: object) -> str:
        """Say why something is no value of the metric; nothing where it is one.

        Numbers in quotes are none, and neither are true and false, which Python takes for 1 and 0.
        """
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"{printable(repr(value), 40)} is no number"
        try:
            number = float(value)
        except OverflowError:
            return "the number is too large"
        if not math.isfinite(number):
            return f"{number} is no finite number"
        if not self.least <= number <= self.most:
            return f"{number:g} is not within {self.least:g} and {self.most:g}"
        return ""

    def better(self, value: float | Fraction, other: float | Fraction) -> bool:
        """Whether a value is strictly better than another."""
        first, second = _fraction(value), _fraction(other)
        return first > second if self.direction is Direction.HIGHER else first < second


def exact_mean(values: tuple[float, ...]) -> Fraction:
    """The mean of numbers as they are written in decimals.

    As binary fractions, 0.1, 0.2 and 0.3 have a mean above 0.2, which would be better than a baseline of 0.2.
    """
    return sum((_fraction(value) for value in values), Fraction()) / len(values)


def percent(value: float) -> float:
    """A share as a percentage: 0.844 is 84.4, and not 84.39999999999999."""
    return float(Decimal(repr(value)) * 100)


def _fraction(value: float | Fraction) -> Fraction:
    return value if isinstance(value, Fraction) else Fraction(repr(float(value)))
