"""C1: the repository's own entry point runs on the CPU, with every accelerator hidden."""

from __future__ import annotations

from pytest_researchenv.model import Tier, TierResult
from pytest_researchenv.probes.execution import Requirement, execute
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["C1Probe"]


class C1Probe:
    """Decides tier C1: exit code 0 and all the evidence that the suite demands."""

    @property
    def tier(self) -> Tier:
        """The tier it decides."""
        return Tier.C1

    def judge(self, task: ProbeTask) -> TierResult:
        """Run the repository's C1 command or probe script, and compare what it left with the evidence.

        Raises:
            SandboxError: the engine fails on the base image, too.
            SuiteError: the suite describes no C1 that can be run.
        """
        return execute(task, self.tier, Requirement())
