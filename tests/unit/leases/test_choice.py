"""Rules for the choice of devices: Docker's `--gpus`, CUDA_VISIBLE_DEVICES, devices that MIG splits."""

from __future__ import annotations

import pytest

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.hardware import Device
from pytest_researchenv.leases.choice import GpuChoice, SharingSettings, allotted, parse_gpus, visible


def device(index: int, uuid: str) -> Device:
    """A device of no matter what kind."""
    return Device(index, uuid, "NVIDIA A100-SXM4-40GB", 40 * 1024**3, (8, 0))


FOUR = tuple(device(index, f"GPU-{index}aaa-{index}") for index in range(4))
SPLIT = (
    device(0, "GPU-5d5ba0d6-d33d"),
    device(1, "MIG-c6d4f1ef-42e4"),
    device(1, "MIG-0c757cd7-e942"),
    device(2, "MIG-GPU-61d5ba0d-0000/7/0"),
)


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        ("all", GpuChoice()),
        ("-1", GpuChoice()),
        ("count=all", GpuChoice()),
        ("2", GpuChoice(most=2)),
        ("count=2", GpuChoice(most=2)),
        ("0", GpuChoice(most=0)),
        ("none", GpuChoice(most=0)),
        ("device=0", GpuChoice(names=("0",))),
        ("device=0,2", GpuChoice(names=("0", "2"))),
        ('"device=0,2"', GpuChoice(names=("0", "2"))),
        ("device=2, 0,2", GpuChoice(names=("2", "0"))),
        ("device=GPU-3a23c669,1", GpuChoice(names=("GPU-3a23c669", "1"))),
        ("device=0:1", GpuChoice(names=("0:1",))),
        ("device=MIG-GPU-61d5ba0d-0000/7/0", GpuChoice(names=("MIG-GPU-61d5ba0d-0000/7/0",))),
    ],
)
def test_devices_are_given_as_docker_takes_them(text: str, choice: GpuChoice) -> None:
    """With the quotes inside the quotes that a list needs there, and without."""
    assert parse_gpus(text) == choice


@pytest.mark.parametrize(
    "text", ["", "many", "-2", "1.5", "device=", "device=0,,1", "device=a", "driver=nvidia", "0,1"]
)
def test_anything_else_is_refused(text: str) -> None:
    """The message names the value and the forms."""
    with pytest.raises(ConfigurationError, match="give all, a number, or device=0,2"):
        parse_gpus(text)


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        (None, "0123"),
        ("", ""),
        ("0,1", "01"),
        ("3,1", "31"),
        ("-1", ""),
        ("0,-1,1", "0"),
        ("0,7,1", "0"),
        ("0,x", "0"),
        ("0, 2", "02"),
        ("NoDevFiles", ""),
        ("1,1", "1"),
        ("GPU-2aaa-2", "2"),
        ("GPU-2a,0", "20"),
        ("GPU-", ""),
        ("MIG-0", ""),
        ("0:0", ""),
    ],
)
def test_a_list_of_visible_devices_ends_at_the_first_that_is_none(variable: str | None, expected: str) -> None:
    """As CUDA reads it: numbers, beginnings of uuids that only one device has; empty is none."""
    assert "".join(str(one.index) for one in visible(FOUR, variable)) == expected


@pytest.mark.parametrize(
    ("variable", "expected"),
    [
        ("MIG-c6d4f1ef-42e4", (1,)),
        ("MIG-0c757cd7-e942,0", (2, 0)),
        ("1", (1, 2)),
        ("MIG-GPU-61d5ba0d-0000/7/0", (3,)),
        ("MIG-c", (1,)),
        ("MIG-", ()),
    ],
)
def test_instances_of_a_split_device_have_names_of_their_own(variable: str, expected: tuple[int, ...]) -> None:
    """By uuid, of old drivers and new ones; the number of a device stands for all its instances."""
    assert visible(SPLIT, variable) == tuple(SPLIT[number] for number in expected)


def test_chosen_devices_come_in_the_order_of_the_choice() -> None:
    """By number, by instance, and by uuid."""
    chosen = parse_gpus("device=1:1,0,MIG-GPU-61d5ba0d-0000/7/0").among(SPLIT)

    assert chosen == (SPLIT[2], SPLIT[0], SPLIT[3])


@pytest.mark.parametrize("name", ["4", "0:1", "GPU-nothing", "MIG-0"])
def test_a_device_that_is_not_there_is_named(name: str) -> None:
    """With those that are."""
    with pytest.raises(ConfigurationError, match=rf"device '{name}', and there are: 0 \(GPU-0aaa-0\), 1"):
        parse_gpus(f"device={name}").among(FOUR)


@pytest.mark.parametrize(
    ("slots", "processors", "gib", "expected"),
    [(-1, 64, 128, 8), (-1, 2, 128, 2), (-1, 2, 4, 1), (0, 2, 4, 0), (7, 2, 4, 7)],
)
def test_slots_follow_from_processors_and_memory(slots: int, processors: int, gib: int, expected: int) -> None:
    """As many as have a processor and their memory, and one at least; a number that was given is kept."""
    assert SharingSettings(slots=slots).number_of_slots(processors=processors, memory_bytes=gib * 1024**3) == expected


@pytest.mark.parametrize(
    ("cuda", "step", "job", "expected"),
    [
        (None, None, None, None),
        ("1", None, None, "1"),
        ("0", "3", "2,3", "3"),
        (None, None, "2,3", "2,3"),
        ("", "3", None, ""),
        ("-1", "3", None, "-1"),
        ("1", None, "4,5", "1"),
    ],
    ids=["nothing", "cuda", "caged", "job", "hidden", "switched off", "chosen"],
)
def test_slurm_tells_the_hosts_numbers(
    cuda: str | None, step: str | None, job: str | None, expected: str | None
) -> None:
    """In a job's cage every first device is 0, and the engine is in no cage; what the user chose in the job counts."""
    given = {"CUDA_VISIBLE_DEVICES": cuda, "SLURM_STEP_GPUS": step, "SLURM_JOB_GPUS": job}

    assert allotted({name: value for name, value in given.items() if value is not None}) == expected
