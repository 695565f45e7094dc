"""What accelerators there are, as the driver on the container engine's host reports them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


__all__ = ["CPU_ONLY", "Accelerator", "Device", "Hardware"]

#: Processes that stand in for devices where there are none: enough for ranks to meet.
EMULATED_RANKS = 2


class Accelerator(StrEnum):
    """What C2 to C4 are run on."""

    CPU = "cpu"
    CUDA = "cuda"


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator.

    Attributes:
        index: the driver's number.
        uuid: the driver's name for this very device; what is leased and handed to containers.
        name: product name, as frameworks report it, too.
        memory_bytes: total memory.
        compute_capability: (major, minor).
    """

    index: int
    uuid: str
    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Hardware:
    """What tiers may use.

    Attributes:
        accelerator: what they run on.
        devices: every device that the driver reports; empty on the CPU.
        driver: version of the driver; empty on the CPU.
        cuda: highest CUDA version that the driver supports, (major, minor); (0, 0) on the CPU.
    """

    accelerator: Accelerator
    devices: tuple[Device, ...] = ()
    driver: str = ""
    cuda: tuple[int, int] = (0, 0)

    @property
    def emulated(self) -> bool:
        """Whether the CPU stands in for devices."""
        return self.accelerator is Accelerator.CPU


#: No accelerator is used, whatever there is.
CPU_ONLY = Hardware(Accelerator.CPU)
