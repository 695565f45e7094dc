"""The accounts of who held how much of a device's memory, from samples of what the driver says."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from pytest_researchenv.sandbox._nvidia import Holding


__all__ = ["Ledger"]

_BY_PROCESS = "held by the container's processes"
_BY_DEVICE = "the device's memory above its level before the start; the driver tells nothing of the processes"


class Ledger:
    """Accounts of some devices.

    The driver may tell a process's memory as `[N/A]`, or know processes only by the ids of a namespace. Then the whole
    device's memory above its level at the start is taken instead, unless a stranger has come to the device meanwhile.

    Args:
        devices: their uuids.
    """

    def __init__(self, devices: tuple[str, ...]) -> None:
        self._devices = devices
        self._before: dict[str, int] = {}
        self._level: dict[str, int] = {}
        self._rise: dict[str, int] = defaultdict(int)
        self._together: dict[str, int] = defaultdict(int)
        self._each: dict[tuple[str, int], int | None] = {}
        self._earlier: set[int] = set()
        #: How many samples were taken.
        self.samples = 0

    def levels(self, used: Mapping[str, int | None]) -> None:
        """Take what the devices' memory in use is now; None where the driver does not say."""
        self._level = {self._own(uuid): size for uuid, size in used.items() if size is not None}

    def holdings(self, holdings: tuple[Holding, ...], *, ours: AbstractSet[int], running: bool) -> None:
        """Take who holds memory now, which completes a sample.

        Args:
            holdings: processes and memory.
            ours: process ids that count.
            running: whether any of ours runs now.
        """
        if not self.samples:
            self._before = self._level
            self._earlier = {held.pid for held in holdings}
        self.samples += 1
        together: dict[str, int] = defaultdict(int)
        for held in holdings:
            key = self._own(held.uuid), held.pid
            known = self._each.get(key)
            self._each[key] = known if held.memory_bytes is None else max(known or 0, held.memory_bytes)
            if held.pid in ours:
                together[key[0]] += held.memory_bytes or 0
        for device in self._devices:
            self._together[device] = max(self._together[device], together[device])
            if running:
                rise = self._level.get(device, 0) - self._before.get(device, 0)
                self._rise[device] = max(self._rise[device], rise)

    def peak(self, device: str, ours: AbstractSet[int]) -> int:
        """Most bytes that our processes were seen to hold of a device at once; a lower bound."""
        if not self._by_process(device, ours):
            return self._rise[device]
        # A process that the engine told of after the sample counts with what it held alone.
        alone = [held or 0 for (uuid, pid), held in self._each.items() if uuid == device and pid in ours]
        return max([self._together[device], *alone])

    def source(self, device: str, ours: AbstractSet[int]) -> str:
        """What the peak of a device is, in words."""
        return _BY_PROCESS if self._by_process(device, ours) else _BY_DEVICE

    def _by_process(self, device: str, ours: AbstractSet[int]) -> bool:
        """Whether the driver's list of processes can be believed."""
        told = [held for (uuid, pid), held in self._each.items() if uuid == device and pid in ours]
        if told:
            return None not in told
        strangers = {pid for uuid, pid in self._each if uuid == device} - self._earlier
        return bool(strangers) or not self._rise[device]

    def _own(self, uuid: str) -> str:
        """The device as the caller names it: of an instance made by MIG the driver may name the whole device."""
        return self._devices[0] if len(self._devices) == 1 and self._devices[0].startswith("MIG-") else uuid
