"""Numbers in words, the same on every page."""

from __future__ import annotations


__all__ = ["amount", "duration", "percent", "plural", "size"]

_MINUTE, _HOUR = 60.0, 3600.0


def percent(share: float) -> str:
    """Return a share without decimals."""
    return f"{100 * share:.0f} %"


def plural(number: int, one: str, many: str = "") -> str:
    """Return a number with what it counts."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"


def duration(seconds: float) -> str:
    """Return a time as people say it."""
    if seconds < 10:  # noqa: PLR2004 - where a tenth of a second is still of interest
        return f"{seconds:.1f} s"
    if seconds < 2 * _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.0f} min"
    return f"{seconds / _HOUR:,.1f} h"


def size(number: float) -> str:
    """Return a number of bytes."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            return f"{number / factor:,.1f} {unit}"
    return f"{number:,.0f} bytes"


def amount(number: float) -> str:
    """Return a large number, short."""
    for letter, factor in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if number >= factor:
            return f"{number / factor:,.1f} {letter}"
    return f"{number:,.0f}"
