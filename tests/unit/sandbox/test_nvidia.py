"""Rules of reading what nvidia-smi prints, on the formats of several driver releases."""

from __future__ import annotations

from pathlib import Path

import pytest

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.hardware import Device
from pytest_researchenv.sandbox._nvidia import (
    Holding,
    absence,
    parse_cuda,
    parse_devices,
    parse_holdings,
    parse_instances,
    parse_memory,
    users_of,
)


RECORDINGS = Path(__file__).parent / "recordings"
A100 = Device(0, "GPU-5d5ba0d6-d33d-2b2c-524d-9e3d8d2b8a77", "NVIDIA A100-SXM4-40GB", 40960 * 1024**2, (8, 0))


def recorded(name: str) -> str:
    """A recording."""
    return (RECORDINGS / f"{name}.txt").read_text(encoding="utf-8")


def test_eight_devices_are_read_in_the_drivers_order() -> None:
    """Index, uuid, name, memory in bytes, capability; and the driver's version once."""
    devices, driver = parse_devices(recorded("gpu-535-eight"))

    assert driver == "535.129.03"
    assert [device.index for device in devices] == list(range(8))
    assert len({device.uuid for device in devices}) == 8
    assert devices[7] == Device(
        7, "GPU-00000008-1111-2222-3333-444455556668", "NVIDIA H100 80GB HBM3", 81559 * 1024**2, (9, 0)
    )


def test_a_comma_in_a_name_and_a_warning_first_do_no_harm() -> None:
    """Fields are told by both ends of the line, and what is no line about a device is passed over."""
    devices, driver = parse_devices(recorded("gpu-550-awkward"))

    assert [(device.name, device.compute_capability) for device in devices] == [("NVIDIA RTX 6000 Ada, Rev. B", (8, 9))]
    assert driver == "550.54.14"


def test_memory_that_the_driver_does_not_tell_is_zero() -> None:
    """Devices that share the host's memory have none of their own."""
    devices, _ = parse_devices(recorded("gpu-580-shared"))

    assert [(device.memory_bytes, device.compute_capability) for device in devices] == [(0, (12, 1))]


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "names no device"),
        ("Warning: nothing to see\n", "nothing to see"),
        ("0, GPU-1, NVIDIA X, 1024, [N/A], 470.57.02\n", "compute capability"),
        ("0, GPU-1, NVIDIA X, 1024, 8.0\n", "cannot read"),
        ("0, GPU-1, NVIDIA X, 1024, 8.0, 535.1\n1, [Unknown Error], NVIDIA X, 1024, 8.0, 535.1\n", "cannot read"),
        ("0, GPU-1, NVIDIA X, 1024, 8.0, 535.1\n1, GPU-1, NVIDIA X, 1024, 8.0, 535.1\n", "twice"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_the_drivers_words(text: str, match: str) -> None:
    """A device is never made up or dropped in silence."""
    with pytest.raises(InfrastructureError, match=match):
        parse_devices(text)


@pytest.mark.parametrize(("name", "version"), [("header-535", (12, 2)), ("header-610", (13, 3))])
def test_both_spellings_of_the_header_are_read(name: str, version: tuple[int, int]) -> None:
    """`CUDA Version`, and `CUDA UMD Version` since driver 610."""
    assert parse_cuda(recorded(name)) == version


def test_an_unknown_cuda_version_is_an_error() -> None:
    """`N/A` is no version; the message shows the line."""
    with pytest.raises(InfrastructureError, match="CUDA Version: N/A"):
        parse_cuda(recorded("header-510"))


def test_instances_take_the_place_of_a_split_device() -> None:
    """CUDA sees the instances of a device that MIG splits, by a name of their own; other devices stay whole."""
    devices, _ = parse_devices(recorded("gpu-535-mig"))

    found = parse_instances(recorded("list-535-mig"), devices)

    assert [(device.index, device.name, device.memory_bytes // 1024**3) for device in found] == [
        (0, "NVIDIA A100-SXM4-40GB MIG 3g.20gb", 20),
        (0, "NVIDIA A100-SXM4-40GB MIG 1g.5gb", 5),
        (1, "NVIDIA A100-SXM4-40GB", 40),
    ]
    assert found[0].uuid == "MIG-c6d4f1ef-42e4-5de3-91c7-45d71c87eb3f"


def test_old_names_of_instances_are_read() -> None:
    """Before driver 470 an instance was named after its device."""
    found = parse_instances(recorded("list-450-mig"), (A100,))

    assert [device.uuid for device in found] == [f"MIG-{A100.uuid}/7/0"]


def test_devices_that_are_not_split_stay_as_they_are() -> None:
    """A plain list changes nothing."""
    devices, _ = parse_devices(recorded("gpu-535-eight"))

    assert parse_instances(recorded("list-535-eight"), devices) == devices


def test_processes_are_read_with_what_the_driver_tells() -> None:
    """A process may hold memory of several devices; what is not told is None, not 0."""
    found = parse_holdings(recorded("apps-535-eight"))

    assert [(held.pid, held.uuid[:12], held.memory_bytes) for held in found] == [
        (41230, "GPU-00000001", 5230 * 1024**2),
        (41230, "GPU-00000004", 612 * 1024**2),
        (41307, "GPU-00000004", None),
        (977, "GPU-00000008", None),
    ]


def test_an_empty_list_of_processes_is_no_process() -> None:
    """Nothing printed, or only words."""
    assert parse_holdings("") == parse_holdings("No running processes found\n") == ()
    assert parse_holdings("7, GPU-1, 5\n") == (Holding(7, "GPU-1", 5 * 1024**2),)


def test_memory_in_use_is_read() -> None:
    """In bytes; None where the driver does not say."""
    assert parse_memory("GPU-1, 5\nGPU-2, [N/A]\n") == {"GPU-1": 5 * 1024**2, "GPU-2": None}


@pytest.mark.parametrize(
    ("name", "absent"),
    [
        ("error-nodevices", True),
        ("error-engine-driver-not-loaded", True),
        ("error-engine-no-library", True),
        ("error-engine-mismatch", False),
        ("error-mismatch", False),
        ("error-communicate", False),
        ("error-470-field", False),
    ],
)
def test_absence_and_failure_are_told_apart(name: str, *, absent: bool) -> None:
    """A machine without a device is fine; a driver that does not work is a fault."""
    assert bool(absence(recorded(name))) is absent


def test_a_device_that_a_process_computes_on_is_in_use() -> None:
    """By whom and how much; several are counted. What the driver does not say of a process counts as use."""
    holdings = parse_holdings(recorded("apps-535-eight"))
    eight = tuple(f"GPU-{number:08d}-1111-2222-3333-44445555666{number}" for number in range(1, 9))

    assert users_of(eight, {eight[0]: 5231 * 1024**2}, holdings) == {
        eight[0]: "process 41230, 5231 MiB in use",
        eight[3]: "process 41230 and 1 more, 0 MiB in use",
        eight[7]: "process 977, 0 MiB in use",
    }


def test_what_only_looks_at_a_device_does_not_use_it() -> None:
    """Monitors are listed with 0 to some MiB; the driver itself takes some hundred."""
    assert users_of(("GPU-1",), {"GPU-1": 600 * 1024**2}, parse_holdings("977, GPU-1, 4\n")) == {}
    assert users_of(("GPU-1", "GPU-2"), {"GPU-1": None}, ()) == {}


def test_memory_that_nobody_is_named_for_is_in_use() -> None:
    """Processes of another container may be hidden, and desktops do not compute."""
    assert users_of(("GPU-1",), {"GPU-1": 1024**3}, ()) == {"GPU-1": "1024 MiB in use, by whom the driver does not say"}


def test_an_instance_is_told_by_its_own_name() -> None:
    """Where the driver names the whole device, nothing is known of the instance."""
    assert users_of(("MIG-c6d4",), {}, parse_holdings("7, MIG-c6d4, 500\n")) == {"MIG-c6d4": "process 7, 0 MiB in use"}
    assert users_of(("MIG-c6d4",), {}, parse_holdings("7, GPU-5d5b, 500\n")) == {}
