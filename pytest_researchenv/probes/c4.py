"""C4: the repository's own entry point works on several accelerators, in the way that its suite declares.

Ranks that work together prove it by a value that each of them drew at random and all of them received over the
script's own process group. Where there are no devices, as many processes on the CPU do the same over gloo.
"""

from __future__ import annotations

from pytest_researchenv.hardware import EMULATED_RANKS
from pytest_researchenv.model import Parallel, Tier, TierResult
from pytest_researchenv.probes.devices import device_evidence, device_misses
from pytest_researchenv.probes.execution import Observation, Requirement, Value, execute
from pytest_researchenv.probes.launch import Finished
from pytest_researchenv.probes.protocol import ProbeTask
from pytest_researchenv.probes.records import Records, collective_misses, independent_misses, read_records


__all__ = ["C4Probe"]

#: Devices it takes, however many there are: enough to be more than one.
_DEVICES = 2


class C4Probe:
    """Decides tier C4: exit code 0, the suite's evidence, and parallel work of the declared kind."""

    @property
    def tier(self) -> Tier:
        """The tier it decides."""
        return Tier.C4

    def judge(self, task: ProbeTask) -> TierResult:
        """Run the repository's C4 command or probe script on two devices, or as two processes on the CPU.

        Raises:
            InfrastructureError: the engine or the driver fails, whatever the environment is like.
            SuiteError: the suite describes no C4 that can be run.
        """
        spec = task.repository.tiers.get(self.tier)
        kind = spec.evidence.parallel if spec else None
        ranks = EMULATED_RANKS if task.hardware.emulated else _DEVICES
        # One process sees all the devices.
        nproc = 1 if kind is Parallel.PLACEMENT else ranks

        def observe(ended: Finished) -> Observation:
            return _observe(ended, kind, nproc)

        return execute(task, self.tier, Requirement(devices=_DEVICES, nproc=nproc, observe=observe))


def _observe(ended: Finished, kind: Parallel | None, nproc: int) -> Observation:
    records = read_records(ended.records, ended.nonce)
    missing: list[str] = []
    if kind is Parallel.COLLECTIVE:
        missing += collective_misses(records, nproc)
    elif kind is Parallel.INDEPENDENT:
        missing += independent_misses(records, nproc)
    missing += device_misses(ended.memory, records, needed=_DEVICES)
    evidence: dict[str, Value] = {"parallel": kind.value if kind else None, **_described(records)}
    return Observation(missing, {**evidence, **device_evidence(ended.memory, records)})


def _described(records: Records) -> dict[str, Value]:
    return {
        "ranks": [
            f"{record.name} of {record.world_size} over {record.backend or 'no group'}, calls: "
            + (", ".join(f"{name} {count}" for name, count in sorted(record.calls.items())) or "none")
            for record in records.ranks
        ],
        "exchanged": any(len(record.gathered) > 1 for record in records.ranks),
    }
