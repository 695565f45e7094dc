"""Whether a run worked on its devices: what the driver saw from outside, and what the framework says inside."""

from __future__ import annotations

from pytest_researchenv.probes.execution import Value
from pytest_researchenv.probes.launch import DeviceMemory
from pytest_researchenv.probes.records import Records


__all__ = ["device_evidence", "device_misses"]

_MIB = 1024**2


def device_misses(memory: DeviceMemory | None, records: Records, needed: int) -> list[str]:
    """Say why a run cannot be said to have worked on devices; empty when it can.

    The driver's word, read from outside, is decisive: without a context on a device nothing is computed there, and a
    context takes hundreds of MiB. It cannot tell a context from work in it. Where the observer saw the process, torch's
    own account is asked, too: a context without one allocation did nothing.

    Args:
        memory: what the driver told; None when no device was given.
        records: what the observer wrote.
        needed: on how many devices.
    """
    if memory is None:
        return []
    if len(memory.held) < needed:
        if not memory.samples:
            return ["it ended before the use of its device could be seen: start it through {observer}"]
        if not memory.held:
            return [f"its processes held no memory on the device{'s' if needed > 1 else ''} it was given"]
        return [f"its processes held memory on {len(memory.held)} device, and {needed} are needed"]
    if records.used_torch and not records.allocated:
        return ["its processes opened the device, but allocated nothing on it"]
    return []


def device_evidence(memory: DeviceMemory | None, records: Records) -> dict[str, Value]:
    """What is recorded of devices; nothing when none was given."""
    if memory is None:
        return {}
    held = [
        f"{uuid}: {peak / _MIB:.0f} MiB ({memory.sources.get(uuid, 'source unknown')})"
        for uuid, peak in memory.peaks.items()
    ]
    allocated = None if records.allocated is None else round(records.allocated / _MIB, 3)
    return {"device_memory": held, "device_samples": memory.samples, "torch_allocated_mib": allocated}
