"""Which of many alike tests run for every change; the others are proofs that are run now and then."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import Any

import pytest


def mostly_slow(
    values: Iterable[object], *, but: Container[Any], by: Callable[[Any], object] | None = None
) -> list[Any]:
    """Mark all values of a parametrized test `slow` but some.

    Args:
        values: what is tested; a tuple is several arguments.
        but: what tells those that stay.
        by: makes that of a value; the value itself when None.
    """
    kept = by or (lambda value: value)
    return [
        pytest.param(
            *value if isinstance(value, tuple) else (value,), marks=() if kept(value) in but else pytest.mark.slow
        )
        for value in values
    ]
