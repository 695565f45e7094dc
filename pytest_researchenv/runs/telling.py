"""Tell people what of a run cannot be read."""

from __future__ import annotations

from rich.console import Console

from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.runs.values import Run


__all__ = ["tell_damage"]

_LONGEST = 1000


def tell_damage(run: Run) -> None:
    """Name each damaged record, apart from what is printed of the rest."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    for damage in run.damage:
        console.print(f"researchenv: left out: {printable(str(damage), _LONGEST)}")
