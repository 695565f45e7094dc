"""Memory and processors, of the engine's host where one answers."""

from __future__ import annotations

import os

from pytest_researchenv.doctor.engine import LookedAt
from pytest_researchenv.doctor.values import Finding, State, gib
from pytest_researchenv.sandbox.protocol import Limits


__all__ = ["machine_findings"]


def machine_findings(engine: LookedAt) -> tuple[Finding, ...]:
    """Say what containers have to share."""
    if engine.client:
        memory, cpus, where = int(engine.info.get("MemTotal") or 0), int(engine.info.get("NCPU") or 0), "engine's host"
    else:
        memory, where = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"), "this machine"
        cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0
    usual = Limits().memory_bytes
    scarce = memory < usual
    return (
        Finding(
            "memory",
            State.WARNING if scarce else State.OK,
            f"{gib(memory)} ({where})",
            f"an agent's container may use {gib(usual)}: lower that with --researchenv-agent-memory" if scarce else "",
        ),
        Finding(
            "processors",
            State.WARNING if cpus < 2 else State.OK,  # noqa: PLR2004 - C4 has two ranks at least
            f"{cpus} ({where})",
            "ranks of C4 take turns on one processor, and may run into their time limits" if cpus < 2 else "",  # noqa: PLR2004
        ),
    )
