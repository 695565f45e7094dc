"""Success rates, and how far they may be from the truth by chance."""

from __future__ import annotations

from dataclasses import dataclass

from pytest_researchenv.report.calibration import wilson


__all__ = ["Rate", "difference_interval"]


@dataclass(frozen=True, slots=True)
class Rate:
    """How many of how many passed.

    Attributes:
        passed: how many passed.
        judged: how many passed or failed: errors and skips are not among them.
        emulated: of these, how many did so with the CPU in the place of devices.
    """

    passed: int
    judged: int
    emulated: int = 0

    @property
    def share(self) -> float | None:
        """The success rate; None where nothing was judged."""
        return self.passed / self.judged if self.judged else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson's 95 % interval (`report.calibration.wilson`); None where nothing was judged."""
        return wilson(self.passed, self.judged)


def difference_interval(first: Rate, second: Rate) -> tuple[float, float] | None:
    """The 95 % interval of the difference of two rates that are not of the same attempts; None without both.

    With p the shares and (l, u) their Wilson intervals, its ends are `p₁-p₂ - √((p₁-l₁)² + (u₂-p₂)²)` and
    `p₁-p₂ + √((u₁-p₁)² + (p₂-l₂)²)`: R. G. Newcombe, Interval estimation for the difference between independent
    proportions: comparison of eleven methods, Statistics in Medicine 17 (1998) 873-890, method 10.

    Args:
        first: the rate that is taken from.
        second: the rate that is taken away.
    """
    one, other = first.interval, second.interval
    if one is None or other is None or first.share is None or second.share is None:
        return None
    p, q = first.share, second.share
    below = ((p - one[0]) ** 2 + (other[1] - q) ** 2) ** 0.5
    above = ((one[1] - p) ** 2 + (q - other[0]) ** 2) ** 0.5
    return p - q - below, p - q + above
