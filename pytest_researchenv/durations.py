"""Times as people write them: `90m`, `1h30m`, `3600`."""

from __future__ import annotations

import re

from pytest_researchenv.errors import ConfigurationError


__all__ = ["parse_duration"]

_UNITS = {"d": 86_400.0, "h": 3600.0, "m": 60.0, "s": 1.0}

_FORM = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")

#: A year: more is a mistake.
_MOST_S = 366 * 86_400.0


def parse_duration(text: str) -> float:
    """Return a time in seconds: a number of seconds, or numbers with the units `d`, `h`, `m` and `s`.

    Raises:
        ConfigurationError: it is none, negative, or longer than a year.
    """
    small = text.strip().lower()
    if re.fullmatch(r"\d+(?:\.\d+)?", small):
        seconds = float(small)
    elif _FORM.fullmatch(small):
        seconds = sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(small))
    else:
        raise ConfigurationError(f"{text!r} is no time: give seconds, or a time like 90m, 1h30m or 2d")
    if seconds > _MOST_S:
        raise ConfigurationError(f"{text!r} is longer than a year: give less")
    return seconds
