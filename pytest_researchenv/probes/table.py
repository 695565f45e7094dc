"""Which probe decides which tier."""

from __future__ import annotations

from pytest_researchenv.model import Tier
from pytest_researchenv.probes.c0 import C0Probe
from pytest_researchenv.probes.c1 import C1Probe
from pytest_researchenv.probes.protocol import Probe


__all__ = ["PROBES"]

PROBES: dict[Tier, Probe] = {probe.tier: probe for probe in (C0Probe(), C1Probe())}
