"""The pyramid of runtime verification, one test per tier."""
# researchenvbench canary b5329c5e-d1ad-45b0-9a24-bc76284a2ae4

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pytest_researchenv import check


if TYPE_CHECKING:
    from pytest_researchenv.harness import Judged


def test_c0_static_imports(c0: Judged) -> None:
    """Every import of the tracked files resolves in the environment."""
    check(c0)


def test_c1_cpu_execution(c1: Judged) -> None:
    """The repository's own entry point runs on the CPU."""
    check(c1)


def test_c2_hardware_alignment(c2: Judged) -> None:
    """Each declared framework sees the devices that the driver reports, and computes right."""
    check(c2)


def test_c3_single_gpu_execution(c3: Judged) -> None:
    """The repository's own entry point does its work on one device."""
    check(c3)


def test_c4_multi_gpu_execution(c4: Judged) -> None:
    """The repository's own entry point does its work on several devices."""
    check(c4)


def test_c5_capability_hallucination(c5: Judged) -> None:
    """The self-report claims nothing that does not hold."""
    check(c5)


@pytest.mark.integrity
def test_integrity(integrity: Judged) -> None:
    """Nothing in the environment is made to look like what it is not."""
    check(integrity)
