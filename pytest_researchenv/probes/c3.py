"""C3: the repository's own entry point runs on one accelerator, and the driver saw it there."""

from __future__ import annotations

from pytest_researchenv.model import Tier, TierResult
from pytest_researchenv.probes.devices import device_evidence, device_misses
from pytest_researchenv.probes.execution import Observation, Requirement, execute
from pytest_researchenv.probes.launch import Finished
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.records import read_records


__all__ = ["C3Probe"]


class C3Probe:
    """Decides tier C3: exit code 0, the suite's evidence, and device memory held by the probe's processes."""

    @property
    def tier(self) -> Tier:
        """The tier it decides."""
        return Tier.C3

    def judge(self, task: ProbeTask) -> TierResult:
        """Run the repository's C3 command or probe script on one device; on the CPU where that stands in for it.

        Raises:
            InfrastructureError: the engine or the driver fails, whatever the environment is like.
            SuiteError: the suite describes no C3 that can be run.
        """
        return execute(task, self.tier, Requirement(devices=1, observe=_observe))


def _observe(ended: Finished) -> Observation:
    records = read_records(ended.records, ended.nonce)
    return Observation(
        misses=device_misses(ended.memory, records, needed=1), evidence=device_evidence(ended.memory, records)
    )
