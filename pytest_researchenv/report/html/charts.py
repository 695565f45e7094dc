"""The figures of a report, as small panels that stand side by side on paper and below one another on a phone.

Each takes plain numbers and returns drawings: which agent, which tier and what they mean is the caller's to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pytest_researchenv.report.html.drawing import Drawing


__all__ = ["Bar", "Interval", "Spread", "bars", "falls", "interval_bar", "intervals", "spreads", "stacks"]

#: Width of a panel, and of the names at its left.
_WIDTH, _NAMES = 340.0, 116.0
_ROW, _TOP = 26.0, 8.0

#: How many amounts a scale names at most.
_TICKS = 5


@dataclass(frozen=True, slots=True)
class Interval:
    """A share with what it may be by chance; None where nothing was judged."""

    name: str
    share: float | None
    low: float = 0.0
    high: float = 1.0
    text: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """A named amount, and what is written beside it."""

    name: str
    amount: float
    text: str
    kind: str = "accent"


@dataclass(frozen=True, slots=True)
class Spread:
    """Many amounts of one kind."""

    name: str
    amounts: Sequence[float] = ()
    lower: float = 0.0
    median: float = 0.0
    upper: float = 0.0
    text: str = ""


def interval_bar(share: float | None, low: float, high: float) -> Drawing:
    """Draw one share with its interval, small, to stand in a table's cell."""
    drawing = Drawing(100, 10)

    def at(value: float) -> float:
        return 5 + 90 * value

    drawing.line(at(0), 5, at(1), 5, "rule")
    if share is not None:
        drawing.line(at(low), 5, at(high), 5, "whisker")
        drawing.dot(at(share), 5, 4, "accent")
    return drawing


def intervals(rows: Sequence[Interval], words: str) -> Drawing:
    """Draw shares as dots with their intervals, one below the other, from 0 to 100 %."""
    drawing = Drawing(_WIDTH, _TOP + _ROW * len(rows) + 22, words)
    left, right = _NAMES + 8, _WIDTH - 50
    _percent_axis(drawing, left, right, _TOP + _ROW * len(rows))
    for number, row in enumerate(rows):
        y = _TOP + _ROW * (number + 0.5)
        drawing.text(_NAMES, y + 4, row.name, "t end", room=_NAMES)
        if row.share is None:
            drawing.text(left + 4, y + 4, "not judged", "t faint")
            continue
        span = right - left
        drawing.line(left + span * row.low, y, left + span * row.high, y, "whisker")
        drawing.dot(left + span * row.share, y, 5, "accent", title=row.text)
        drawing.text(_WIDTH, y + 4, f"{100 * row.share:.0f} %", "t end num")
    return drawing


def falls(steps: Sequence[Interval], links: Sequence[str], words: str) -> Drawing:
    """Draw success rates from tier to tier as columns; between them, how many of those that passed pass the next."""
    height, base, top = 168.0, 132.0, 22.0
    drawing = Drawing(_WIDTH, height, words)
    room = _WIDTH / max(1, len(steps))
    width = room * 0.52
    drawing.line(0, base, _WIDTH, base, "rule")
    for number, step in enumerate(steps):
        middle = room * (number + 0.5)
        drawing.text(middle, base + 17, step.name, "t mid")
        if step.share is None:
            drawing.text(middle, base - 6, "–", "t mid faint")  # noqa: RUF001 - a dash
            continue
        y, low, high = (base - (base - top) * share for share in (step.share, step.low, step.high))
        drawing.rect(middle - width / 2, y, width, base - y, "accent", title=step.text)
        drawing.line(middle, low, middle, high, "whisker thin")
        drawing.text(middle, high - 6, f"{100 * step.share:.0f} %", "t mid num")
    for number, link in enumerate(links):
        drawing.text(room * (number + 1), base + 33, link, "s mid faint num", size=11)
    return drawing


def bars(rows: Sequence[Bar], words: str) -> Drawing:
    """Draw amounts as bars with their names above, one below the other."""
    high = 36.0
    drawing = Drawing(_WIDTH, _TOP + high * max(1, len(rows)), words)
    most = max((row.amount for row in rows), default=0) or 1
    if not rows:
        drawing.text(0, _TOP + 15, "none", "t faint")
    for number, row in enumerate(rows):
        y, wide = _TOP + high * number, (_WIDTH - 40) * row.amount / most
        drawing.text(0, y + 11, row.name, "t", room=_WIDTH)
        drawing.rect(0, y + 17, max(1, wide), 10, row.kind, title=row.name)
        drawing.text(wide + 7, y + 27, row.text, "t num")
    return drawing


def stacks(rows: Sequence[tuple[str, Mapping[str, float]]], words: str) -> Drawing:
    """Draw amounts that make a whole as one bar a row: class of the mark → amount."""
    width = 400.0
    drawing = Drawing(width, _TOP + 30 * len(rows) + 22, words)
    left, right = _NAMES + 8, width - 20
    _percent_axis(drawing, left, right, _TOP + 30 * len(rows))
    for number, (name, amounts) in enumerate(rows):
        y = _TOP + 30 * number
        drawing.text(_NAMES, y + 19, name, "t end", room=_NAMES)
        x, total = left, sum(amounts.values())
        for kind, amount in amounts.items():
            wide = (right - left) * amount / total if total else 0
            drawing.rect(x, y + 4, max(0, wide - 1), 22, kind, title=f"{kind}: {amount:g}")
            if wide > 9 + 8 * len(f"{amount:g}"):
                drawing.text(x + wide / 2, y + 20, f"{amount:g}", f"t mid num on-{kind}")
            x += wide
        if not total:
            drawing.text(left + 4, y + 19, "no claims", "t faint")
    return drawing


def spreads(rows: Sequence[Spread], words: str) -> Drawing:
    """Draw every amount as a dot, with the median and the quartiles; the scale is logarithmic where it must be."""
    drawing = Drawing(_WIDTH, _TOP + 30 * len(rows) + 22, words)
    every = [amount for row in rows for amount in row.amounts if amount > 0]
    if not every:
        drawing.text(0, _TOP + 15, "not recorded", "t faint")
        return drawing
    left, right = _NAMES + 8, _WIDTH - 8
    scale = _Scale(min(every), max(every), left, right)
    base = _TOP + 30 * len(rows)
    for value in scale.ticks:
        drawing.line(scale.at(value), _TOP, scale.at(value), base, "rule")
        drawing.text(scale.at(value), base + 15, _short(value), "s mid faint", size=11)
    for number, row in enumerate(rows):
        y = _TOP + 30 * (number + 0.5)
        drawing.text(_NAMES, y + 4, row.name, "t end", room=_NAMES)
        if not row.amounts:
            drawing.text(left + 4, y + 4, "not recorded", "t faint")
            continue
        # Spread over the row by their order, which is the same each time.
        places = [
            (scale.at(one), y + 9 * math.sin(12.9898 * place)) for place, one in enumerate(row.amounts) if one > 0
        ]
        drawing.dots(places, "points")
        drawing.rect(
            scale.at(row.lower), y - 6, max(2, scale.at(row.upper) - scale.at(row.lower)), 12, "box", title=row.text
        )
        drawing.line(scale.at(row.median), y - 9, scale.at(row.median), y + 9, "median")
    return drawing


class _Scale:
    """Where an amount stands on a line."""

    def __init__(self, low: float, high: float, left: float, right: float) -> None:
        self._logarithmic = high > 20 * low
        self._low, self._high = (math.log10(low), math.log10(high)) if self._logarithmic else (0.0, high)
        if self._high <= self._low:
            self._high = self._low + 1
        self._left, self._right = left, right

    def at(self, value: float) -> float:
        """The place of an amount."""
        scaled = math.log10(max(value, 1e-12)) if self._logarithmic else value
        share = (scaled - self._low) / (self._high - self._low)
        return self._left + (self._right - self._left) * min(1.0, max(0.0, share))

    @property
    def ticks(self) -> list[float]:
        """Round amounts along the line."""
        if self._logarithmic:
            powers = range(math.floor(self._low), math.ceil(self._high) + 1)
            found = [step * 10.0**power for power in powers for step in (1, 3)]
            inside = [value for value in found if self._low - 1e-9 <= math.log10(value) <= self._high + 1e-9]
            return inside if len(inside) <= _TICKS else [value for value in inside if f"{value:e}".startswith("1")]
        raw = self._high / 4
        step = 10 ** math.floor(math.log10(raw))
        step *= next(factor for factor in (1, 2, 5, 10) if factor * step >= raw)
        return [number * step for number in range(5) if number * step <= self._high]


def _percent_axis(drawing: Drawing, left: float, right: float, base: float) -> None:
    for share in (0, 0.5, 1):
        x = left + (right - left) * share
        drawing.line(x, _TOP, x, base, "rule")
        drawing.text(x, base + 15, f"{100 * share:.0f} %", "s mid faint", size=11)


def _short(value: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
