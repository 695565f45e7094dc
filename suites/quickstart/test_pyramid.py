"""The pyramid of runtime verification, one test per tier."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_researchenv.fixtures import check


if TYPE_CHECKING:
    from pytest_researchenv.harness import Judged


def test_c0_static_imports(c0: Judged) -> None:
    """Every import of the tracked files resolves in the environment."""
    check(c0)


def test_c1_cpu_execution(c1: Judged) -> None:
    """The repository's own entry point runs on the CPU."""
    check(c1)
