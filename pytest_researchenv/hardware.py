"""What accelerators there are, as the driver on the container engine's host reports them."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
        uuid: the driver's name for this very device; what is leased and handed to containers. Of an instance of a
            device that is split by MIG: `MIG-…`.
        name: product name, as frameworks report it, too.
        memory_bytes: total memory; 0 where the driver does not say (devices that share the host's memory).
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
        reason: why there are no devices, in words; empty when there are some or nobody looked.
    """

    accelerator: Accelerator
    devices: tuple[Device, ...] = ()
    driver: str = ""
    cuda: tuple[int, int] = (0, 0)
    reason: str = ""

    @property
    def uuids(self) -> tuple[str, ...]:
        """What `ContainerSpec.devices` takes."""
        return tuple(device.uuid for device in self.devices)

    def first(self, count: int) -> Hardware:
        """The same with so many of its devices."""
        return replace(self, devices=self.devices[:count])

    def shortage(self, needed: int) -> str:
        """What a skip says when there are fewer devices than needed; empty when there are enough."""
        if len(self.devices) >= needed:
            return ""
        found = len(self.devices)
        why = f": {self.reason}" if self.reason else ""
        return f"{found} device{'' if found == 1 else 's'} found, {needed} needed{why}"

    @property
    def emulated(self) -> bool:
        """Whether the CPU stands in for devices."""
        return self.accelerator is Accelerator.CPU


#: No accelerator is used, whatever there is.
CPU_ONLY = Hardware(Accelerator.CPU)
