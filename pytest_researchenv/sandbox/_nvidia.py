"""What nvidia-smi prints, read into values.

The driver's words differ between releases: fields it cannot tell are `[N/A]`, `[Not Supported]` or `[Unknown Error]`,
warnings may come first, and since 610 the header says `CUDA UMD Version`. What cannot be read is an error with the
driver's own words, never a guess.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.hardware import Device


__all__ = [
    "APPS_QUERY",
    "DEVICE_QUERY",
    "HELD_BYTES",
    "MEMORY_QUERY",
    "Holding",
    "absence",
    "parse_cuda",
    "parse_devices",
    "parse_holdings",
    "parse_instances",
    "parse_memory",
    "users_of",
]

_FORMAT = "--format=csv,noheader,nounits"
DEVICE_QUERY = ("nvidia-smi", "--query-gpu=index,uuid,name,memory.total,compute_cap,driver_version", _FORMAT)
MEMORY_QUERY = ("nvidia-smi", "--query-gpu=uuid,memory.used", _FORMAT)
APPS_QUERY = ("nvidia-smi", "--query-compute-apps=pid,gpu_uuid,used_memory", _FORMAT)

_MIB = 1024**2

#: Device memory that counts as held. Drivers list processes that only look at a device with 0 to some MiB, while a CUDA
#: context takes hundreds.
HELD_BYTES = 32 * _MIB

#: Less memory than this may be in use on a device that nobody uses: the driver's own, up to some hundred MiB.
_IDLE_BYTES = 1024 * _MIB

#: A product name may hold commas, so the fields are told by both ends.
_DEVICE = re.compile(
    r"(?P<index>\d+), *(?P<uuid>GPU-[^,\s]+), *(?P<name>.+?), *(?P<memory>\d+|\[[^\]]*\]), *"
    r"(?P<capability>\d+\.\d+|\[[^\]]*\]), *(?P<driver>\d+(?:\.\d+)+)"
)
_PROCESS = re.compile(r"(?P<pid>\d+), *(?P<uuid>(?:GPU|MIG)-[^,\s]+), *(?P<memory>\d+|\[[^\]]*\])")
_MEMORY = re.compile(r"(?P<uuid>GPU-[^,\s]+), *(?P<memory>\d+|\[[^\]]*\])")
_CUDA = re.compile(r"CUDA(?: UMD)? Version: *(\d+)\.(\d+)")

#: `-L`: a device, and below it the instances that MIG splits it into. Drivers before 470 name an instance
#: `MIG-GPU-<device>/<instance>/<instance>`.
_LISTED = re.compile(r"GPU (?P<index>\d+): (?P<name>.+) \(UUID: (?P<uuid>GPU-[^)\s]+)\)")
_INSTANCE = re.compile(r"\s+MIG (?P<profile>\S+) +Device +\d+: \(UUID: (?P<uuid>MIG-[^)\s]+)\)")
_PROFILE_GB = re.compile(r"\.(\d+)gb")

#: Words by which driver and toolkit say that there is no device at all. Anything else is a fault to be seen.
_ABSENT = (
    "No devices were found",
    "could not select device driver",
    "driver not loaded",
    "load library failed: libnvidia-ml.so",
    "libnvidia-ml.so: cannot open shared object file",
    "no adapters were found",
    "unresolvable CDI devices",
    "executable file not found",
)


@dataclass(frozen=True, slots=True)
class Holding:
    """A process that holds memory of a device.

    Attributes:
        pid: its id as the driver prints it.
        uuid: the device.
        memory_bytes: how much; None where the driver does not say.
    """

    pid: int
    uuid: str
    memory_bytes: int | None


def absence(text: str) -> str:
    """The line of an error that says that there are no devices; empty when it says something else."""
    for line in text.splitlines():
        if any(words in line for words in _ABSENT):
            return line.strip()
    return ""


def parse_devices(text: str) -> tuple[tuple[Device, ...], str]:
    """Read the answer to `DEVICE_QUERY`: devices in the driver's order, and the driver's version.

    Raises:
        InfrastructureError: a line about a device cannot be read, or there is none.
    """
    devices: list[Device] = []
    driver = ""
    for line in _lines(text):
        found = _DEVICE.fullmatch(line)
        if not found:
            if re.match(r"\d+,", line):
                raise InfrastructureError(f"cannot read nvidia-smi's line about a device: {line!r}. {_REPORT}")
            continue  # A warning before the answer.
        driver = found["driver"]
        devices.append(
            Device(
                index=int(found["index"]),
                uuid=found["uuid"],
                name=found["name"],
                memory_bytes=(_number(found["memory"]) or 0) * _MIB,
                compute_capability=_capability(found["capability"], line),
            )
        )
    if not devices:
        raise InfrastructureError(f"nvidia-smi names no device: {_shown(text)}. {_REPORT}")
    if len({device.uuid for device in devices}) < len(devices):
        raise InfrastructureError(f"nvidia-smi names a device twice: {_shown(text)}. {_REPORT}")
    return tuple(devices), driver


_REPORT = "Compare with `nvidia-smi` on the container engine's host, or run with --researchenv-accelerator=cpu."


def _capability(field: str, line: str) -> tuple[int, int]:
    if not field[0].isdigit():
        raise InfrastructureError(f"the driver does not tell a device's compute capability: {line!r}. {_REPORT}")
    major, _, minor = field.partition(".")
    return int(major), int(minor)


def parse_cuda(text: str) -> tuple[int, int]:
    """Read the highest CUDA version that the driver supports from nvidia-smi's header.

    Raises:
        InfrastructureError: it is not there (`N/A`, `ERR!`: the CUDA driver library is not in the container).
    """
    found = _CUDA.search(text)
    if not found:
        shown = next((line.strip(" |") for line in text.splitlines() if "CUDA" in line), _shown(text))
        raise InfrastructureError(
            f"nvidia-smi does not tell the driver's CUDA version: {shown}. "
            "The container toolkit may not mount libcuda.so (capability `compute`)."
        )
    return int(found[1]), int(found[2])


def parse_instances(text: str, devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Replace each device that MIG splits by its instances, as `nvidia-smi -L` lists them.

    CUDA names an instance by device and profile (`NVIDIA A100-SXM4-40GB MIG 1g.5gb`); its memory is the profile's.
    """
    by_uuid = {device.uuid: device for device in devices}
    found: list[Device] = []
    split: set[str] = set()
    parent: Device | None = None
    for line in text.splitlines():
        if listed := _LISTED.match(line):
            parent = by_uuid.get(listed["uuid"])
        elif (instance := _INSTANCE.match(line)) and parent:
            profile = instance["profile"]
            size = _PROFILE_GB.search(profile)
            split.add(parent.uuid)
            found.append(
                Device(
                    index=parent.index,
                    uuid=instance["uuid"],
                    name=f"{parent.name} MIG {profile}",
                    memory_bytes=int(size[1]) * 1024**3 if size else 0,
                    compute_capability=parent.compute_capability,
                )
            )
    whole = [device for device in devices if device.uuid not in split]
    return tuple(sorted([*whole, *found], key=lambda device: device.index))


def parse_holdings(text: str) -> tuple[Holding, ...]:
    """Read the answer to `APPS_QUERY`; lines about anything else are left out."""
    return tuple(
        Holding(int(found["pid"]), found["uuid"], _bytes(found["memory"]))
        for line in _lines(text)
        if (found := _PROCESS.fullmatch(line))
    )


def parse_memory(text: str) -> dict[str, int | None]:
    """Read the answer to `MEMORY_QUERY`: uuid → bytes in use, None where the driver does not say."""
    found = (_MEMORY.fullmatch(line) for line in _lines(text))
    return {match["uuid"]: _bytes(match["memory"]) for match in found if match}


def users_of(
    devices: tuple[str, ...], memory: Mapping[str, int | None], holdings: tuple[Holding, ...]
) -> dict[str, str]:
    """Say which of some devices are in use, and what shows it: uuid → words.

    A process that holds memory of a device counts. Where the driver names none, the device's memory counts: it may hide
    processes of other containers, and a desktop draws on devices without computing. An idle driver itself holds some
    hundred MiB.

    Args:
        devices: uuids.
        memory: what `parse_memory` returned.
        holdings: what `parse_holdings` returned.
    """
    found: dict[str, str] = {}
    for uuid in devices:
        pids = sorted({held.pid for held in holdings if held.uuid == uuid and _in_earnest(held)})
        used = memory.get(uuid) or 0
        if pids:
            more = f" and {len(pids) - 1} more" if len(pids) > 1 else ""
            found[uuid] = f"process {pids[0]}{more}, {used // _MIB} MiB in use"
        elif used >= _IDLE_BYTES:
            found[uuid] = f"{used // _MIB} MiB in use, by whom the driver does not say"
    return found


def _in_earnest(held: Holding) -> bool:
    return held.memory_bytes is None or held.memory_bytes >= HELD_BYTES


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        if stripped := line.strip():
            yield stripped


def _number(field: str) -> int | None:
    return int(field) if field.isdigit() else None


def _bytes(field: str) -> int | None:
    number = _number(field)
    return None if number is None else number * _MIB


def _shown(text: str) -> str:
    return " / ".join(_lines(text))[:300] or "(nothing printed)"
