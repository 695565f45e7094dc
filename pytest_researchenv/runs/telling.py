"""Tell people what of a run cannot be read."""

from __future__ import annotations

from rich.console import Console

from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.runs.values import Run


__all__ = ["tell_damage", "tell_left_out"]

_LONGEST = 1000


def tell_damage(run: Run) -> None:
    """Name each damaged record, apart from what is printed of the rest."""
    for damage in run.damage:
        tell_left_out(damage)


def tell_left_out(damage: object) -> None:
    """Name a record that cannot be read, on stderr, in one line."""
    console = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    console.print(f"researchenv: left out: {printable(str(damage), _LONGEST)}")
