"""How single figures are shown to people."""

from __future__ import annotations


__all__ = ["difference", "figure", "interval", "p_value", "percent", "points", "share_or_count", "usd"]

#: p-values below are shown as less than it.
_LEAST_P = 0.001

#: Larger figures are shown without decimals.
_MANY = 1000.0


def percent(share: float) -> str:
    """A share."""
    return f"{100 * share:.1f}%"


def points(difference: float) -> str:
    """A difference of shares, in percentage points."""
    return f"{100 * difference:+.1f}"


def interval(ends: tuple[float, float], *, sign: str = "") -> str:
    """An interval of shares, in percent."""
    low, high = (format(100 * end, f"{sign}.0f") for end in ends)
    return f"{low} to {high}"


def p_value(value: float) -> str:
    """A p-value."""
    return f"< {_LEAST_P}" if value < _LEAST_P else f"{value:.3f}"


def figure(value: float) -> str:
    """Any number, in four digits."""
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= _MANY else f"{value:.4g}"


def usd(value: float) -> str:
    """US dollars."""
    return f"${value:.4f}"


def share_or_count(value: float) -> str:
    """Of the paper's figures those of C5 are counts."""
    return str(value) if isinstance(value, int) else percent(value)


def difference(value: float) -> str:
    """A difference of what `share_or_count` shows."""
    return f"{value:+d}" if isinstance(value, int) else f"{points(value)} points"
