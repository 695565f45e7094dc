"""Which of the devices that there are may be used: `--researchenv-gpus`, and what CUDA_VISIBLE_DEVICES leaves.

Importing this module imports nothing heavy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.hardware import Device


__all__ = ["AUTO", "FOLDER", "PATIENCE_S", "GpuChoice", "SharingSettings", "allotted", "parse_gpus", "visible"]

_FORMS = "all, a number, or device=0,2 with numbers or uuids as `nvidia-smi -L` lists them (device=0:1 for an instance)"

#: A device's number or an instance's (device:instance), or the beginning of a uuid.
_NAME = re.compile(r"\d{1,6}(:\d{1,6})?|(GPU|MIG)-[A-Za-z0-9/-]+")


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """What the user chose of the devices.

    Attributes:
        most: how many may be in use by the run at once, whichever are free; None for no limit.
        names: numbers or uuids of the only ones that will do; none for any.
    """

    most: int | None = None
    names: tuple[str, ...] = ()

    def among(self, devices: tuple[Device, ...]) -> tuple[Device, ...]:
        """Return the chosen ones of some devices, in the order of the choice.

        Raises:
            ConfigurationError: one is not among them.
        """
        chosen: list[Device] = []
        for name in self.names:
            found = _named(name, devices)
            if not found:
                there = ", ".join(f"{device.index} ({device.uuid})" for device in devices) or "none"
                raise ConfigurationError(
                    f"--researchenv-gpus names the device {name!r}, and there are: {there}. "
                    "What CUDA_VISIBLE_DEVICES leaves out is not there"
                )
            chosen += [device for device in found if device not in chosen]
        return tuple(chosen) if self.names else devices


EVERY = GpuChoice()

#: Where the lines of all users lie: not in a folder that each user may have of his own, as TMPDIR can be.
FOLDER = Path("/tmp/researchenv-leases")  # noqa: S108 - shared on purpose; `leases.record` says how it is guarded

#: How long a lease is waited for unless the user says otherwise, in seconds.
PATIENCE_S = 24 * 3600.0

#: As `SharingSettings.slots`: as many as processors and memory allow.
AUTO = -1


@dataclass(frozen=True, slots=True)
class SharingSettings:
    """What the user chose.

    Attributes:
        gpus: which devices.
        slots: how many containers of agents and probes may be at work at once on the engine's host, all runs together;
            `AUTO`; or 0 for no limit.
        slot_bytes: memory that a slot stands for where their number is derived.
        folder: where the lines of all users lie.
        patience_s: how long a lease is waited for, in seconds.
    """

    gpus: GpuChoice = EVERY
    slots: int = 0
    slot_bytes: int = 16 * 1024**3
    folder: Path = FOLDER
    patience_s: float = PATIENCE_S

    def number_of_slots(self, *, processors: int, memory_bytes: int) -> int:
        """How many slots a host with so many processors and so much memory has; 0 for no limit."""
        if self.slots != AUTO:
            return self.slots
        return max(1, min(processors, memory_bytes // self.slot_bytes))


def parse_gpus(text: str) -> GpuChoice:
    """Read devices as Docker's `--gpus` takes them.

    Raises:
        ConfigurationError: it is none of the forms.
    """
    # Docker wants quotes inside the quotes of the shell around a list, since it takes the value for a line of CSV.
    plain = text.strip().strip('"').strip()
    kind, _, value = plain.partition("=")
    if plain in {"all", "-1", "count=all", "count=-1"}:
        return EVERY
    if plain == "none":
        return GpuChoice(most=0)
    if number := re.fullmatch(r"(?:count=)?(\d{1,6})", plain):
        return GpuChoice(most=int(number[1]))
    names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
    if kind == "device" and all(_NAME.fullmatch(name) for name in names):
        return GpuChoice(names=names)
    raise ConfigurationError(f"devices are given as {text!r}: give {_FORMS}")


def visible(devices: tuple[Device, ...], variable: str | None) -> tuple[Device, ...]:
    """Return what CUDA_VISIBLE_DEVICES leaves of some devices, in its order.

    As CUDA reads it, the list ends at the first entry that names no device (so `-1` hides all that follow), and an
    empty one leaves none. An entry may be a number, or the beginning of a uuid that only one device has. Numbers count
    in the driver's order, as batch systems and containers count them, which is CUDA's with
    CUDA_DEVICE_ORDER=PCI_BUS_ID and wherever all devices are alike.

    Args:
        devices: in the driver's order.
        variable: its value; None where it is not set.
    """
    if variable is None:
        return devices
    seen: list[Device] = []
    for entry in variable.split(","):
        name = entry.strip()
        found = _named(name, devices) if _NAME.fullmatch(name) and ":" not in name else ()
        if not found:
            break
        seen += [device for device in found if device not in seen]
    return tuple(seen)


def allotted(environ: Mapping[str, str]) -> str | None:
    """Return what the environment says of which devices may be used: CUDA_VISIBLE_DEVICES, or what Slurm gave.

    Where Slurm confines jobs to their devices, it numbers them from 0 in each job's CUDA_VISIBLE_DEVICES. The container
    engine is not in that cage, and counts as the host does: as SLURM_STEP_GPUS (of `srun`) and SLURM_JOB_GPUS (of
    `sbatch`) do.

    Args:
        environ: variables of this process.
    """
    variable = environ.get("CUDA_VISIBLE_DEVICES")
    given = environ.get("SLURM_STEP_GPUS") or environ.get("SLURM_JOB_GPUS")
    if not given or variable is None:
        return given or variable
    names = [name.strip() for name in variable.split(",")]
    # Whoever has chosen among them meant that choice.
    chosen = len(names) != len(given.split(",")) or not all(map(_NAME.fullmatch, names))
    return variable if chosen else given


def _named(name: str, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """The devices that a name stands for; all instances of one that is split, where its number is given."""
    index, colon, instance = name.partition(":")
    if index.isdecimal():
        same = tuple(device for device in devices if device.index == int(index))
        return same[int(instance) : int(instance) + 1] if colon else same
    found = tuple(device for device in devices if device.uuid.startswith(name))
    exact = tuple(device for device in found if device.uuid == name)
    return exact or (found if len(found) == 1 else ())
