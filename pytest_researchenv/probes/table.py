"""Which probe decides which tier."""

from __future__ import annotations

from pytest_researchenv.probes.c0 import C0Probe
from pytest_researchenv.probes.c1 import C1Probe
from pytest_researchenv.probes.c2 import C2Probe
from pytest_researchenv.probes.c3 import C3Probe
from pytest_researchenv.probes.c4 import C4Probe
from pytest_researchenv.probes.c5 import C5Probe
from pytest_researchenv.probes.protocol import Probe


__all__ = ["PROBES"]

_ALL: tuple[Probe, ...] = (C0Probe(), C1Probe(), C2Probe(), C3Probe(), C4Probe(), C5Probe())

PROBES = {probe.tier: probe for probe in _ALL}
