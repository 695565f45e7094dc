"""What environments cost: time, tokens, money, room."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import fsum

from pytest_researchenv.model import Environment, Tier, Verdict
from pytest_researchenv.statistics.tries import AgentRun


__all__ = ["QUANTITIES", "CostPerPass", "Quantity", "Spread", "cost_per_pass", "efficiency"]


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something that an attempt uses.

    Attributes:
        name: short.
        unit: what it is counted in; empty where the name says it.
        of: takes it from an environment; None where it was not recorded.
    """

    name: str
    unit: str
    of: Callable[[Environment], float | None]


def _recorded(*names: str, scale: float = 1.0) -> Callable[[Environment], float | None]:
    def of(environment: Environment) -> float | None:
        found = [environment.telemetry.get(name) for name in names]
        return None if None in found else scale * fsum(value for value in found if value is not None)

    return of


#: What is told of, in this order.
QUANTITIES = (
    Quantity("setup time", "s", _recorded("wall_s")),
    Quantity("waiting for the model", "s", _recorded("model_s")),
    Quantity("requests", "", _recorded("requests")),
    Quantity("tokens", "", _recorded("tokens_in", "tokens_out")),
    Quantity("tokens out", "", _recorded("tokens_out")),
    Quantity("cost", "USD", _recorded("cost_usd")),
    Quantity("added image size", "MB", _recorded("added_image_bytes", scale=1e-6)),
)


@dataclass(frozen=True, slots=True)
class Spread:
    """How much of something an agent's tries used.

    Attributes:
        name: what it is.
        unit: what it is counted in.
        known: for how many tries it was recorded.
        unknown: for how many it was not: they are in no figure here.
        median: half of the known are below.
        lower: first quartile.
        upper: third quartile; `upper - lower` is the interquartile range.
        total: sum of the known.
    """

    name: str
    unit: str
    known: int
    unknown: int
    median: float | None = None
    lower: float | None = None
    upper: float | None = None
    total: float | None = None

    @property
    def iqr(self) -> float | None:
        """The interquartile range."""
        return None if self.upper is None or self.lower is None else self.upper - self.lower

    @classmethod
    def of(cls, name: str, unit: str, values: Iterable[float | None]) -> Spread:
        """Describe some values, of which some may be unknown.

        Quantiles are interpolated linearly between the two nearest values, at `(n - 1) · q` (R. J. Hyndman, Y. Fan,
        Sample quantiles in statistical packages, The American Statistician 50 (1996) 361-365, type 7).
        """
        every = list(values)
        known = [value for value in every if value is not None]
        if not known:
            return cls(name, unit, 0, len(every))
        # Only who asks pays for numpy.
        import numpy as np  # noqa: PLC0415

        lower, median, upper = map(float, np.quantile(known, (0.25, 0.5, 0.75)))
        return cls(name, unit, len(known), len(every) - len(known), median, lower, upper, fsum(known))


def efficiency(part: AgentRun) -> tuple[Spread, ...]:
    """Return what the agent's tries used. All of them count, whatever came of them."""
    environments = [attempt.environment for attempt in part.tries if attempt.environment]
    return tuple(Spread.of(one.name, one.unit, map(one.of, environments)) for one in QUANTITIES)


@dataclass(frozen=True, slots=True)
class CostPerPass:
    """What one passed tier costs.

    Attributes:
        tier: which.
        passed: tries of known cost that passed it.
        tries: tries of known cost.
        unknown: tries of unknown cost: neither their money nor their passes count here.
        spent_usd: what the tries of known cost spent, in US dollars, whatever came of them.
    """

    tier: Tier
    passed: int
    tries: int
    unknown: int
    spent_usd: float

    @property
    def usd(self) -> float | None:
        """US dollars for one pass: all that was spent over all that passed; None where nothing passed."""
        return self.spent_usd / self.passed if self.passed else None


def cost_per_pass(part: AgentRun) -> tuple[CostPerPass, ...]:
    """Return what one pass of each tier costs, failed tries paid for. All tries count.

    Attempts that the infrastructure ended are no tries: what they cost is in `Run.spent_usd` alone.
    """
    every = [(attempt, attempt.environment.telemetry.get("cost_usd")) for attempt in part.tries if attempt.environment]
    known = [(attempt, cost) for attempt, cost in every if cost is not None]
    spent = fsum(cost for _, cost in known)
    return tuple(
        CostPerPass(
            tier,
            sum(attempt.verdict(tier) is Verdict.PASSED for attempt, _ in known),
            len(known),
            len(every) - len(known),
            spent,
        )
        for tier in Tier
    )
