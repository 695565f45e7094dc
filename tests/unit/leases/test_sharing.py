"""Rules of what a run gets of its engine's host: devices by choice, a number of them at once, slots."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_researchenv.errors import LeaseError
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Device, Hardware
from pytest_researchenv.leases.choice import GpuChoice, SharingSettings
from pytest_researchenv.leases.desk import since_start
from pytest_researchenv.leases.sharing import ALONE, Sharing, shared
from pytest_researchenv.sandbox.labels import Owner
from tests.unit.leases.children import running


DEVICES = tuple(Device(i, f"GPU-{i}", "NVIDIA A100-SXM4-40GB", 40 * 1024**3, (8, 0)) for i in range(4))
CUDA = Hardware(Accelerator.CUDA, DEVICES, "535.129.03", (12, 2))
HERE = Owner.current("run")
ANY = GpuChoice()


class Host:
    """A host with four devices, or with none."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.using: dict[str, str] = {}

    def share(
        self,
        found: Hardware = CUDA,
        *,
        gpus: GpuChoice = ANY,
        slots: int = 0,
        variable: str | None = None,
        owner: Owner = HERE,
        engine: str = "ID",
    ) -> tuple[Hardware, Sharing]:
        """What a run gets."""
        settings = SharingSettings(gpus=gpus, folder=self.folder, patience_s=0.3)
        return shared(
            found, settings, owner=owner, engine=engine, slots=slots, variable=variable, occupied=self._occupied
        )

    def _occupied(self, devices: tuple[str, ...]) -> Mapping[str, str]:
        return {uuid: words for uuid, words in self.using.items() if uuid in devices}


@pytest.fixture
def host(tmp_path: Path) -> Host:
    """A host of one's own."""
    return Host(tmp_path / "leases")


def test_without_devices_and_slots_nothing_is_shared(host: Host) -> None:
    """No file is made, and nothing is waited for."""
    hardware, sharing = host.share(CPU_ONLY)

    assert (hardware, sharing) == (CPU_ONLY, ALONE)
    with sharing.share(hardware, "C1", devices=0) as share:
        assert share.hardware == CPU_ONLY
    assert not host.folder.exists()


def test_what_is_not_shared_takes_no_time(host: Host) -> None:
    """Much less than the 10 ms that a test may be slower for it."""
    hardware, sharing = host.share(CPU_ONLY)
    began = since_start()
    for _ in range(100):
        with sharing.share(hardware, "C1", devices=0):
            pass

    assert since_start() - began < 0.1


def test_a_piece_of_work_sees_what_it_got_and_no_more(host: Host) -> None:
    """By uuid, as it is handed to the engine."""
    hardware, sharing = host.share()

    with sharing.share(hardware, "C4", devices=2) as share:
        assert share.hardware.uuids == ("GPU-0", "GPU-1")
        assert (share.hardware.driver, share.hardware.cuda) == ("535.129.03", (12, 2))


def test_work_without_devices_waits_for_none(host: Host) -> None:
    """A C1 runs while all devices are in use."""
    hardware, sharing = host.share()

    def c1() -> None:
        with sharing.share(hardware, "C1", devices=0) as share:
            assert share.hardware.devices == ()

    with sharing.share(hardware, "C4", devices=4), running(c1) as process:
        process.join(30)
        assert process.exitcode == 0


@pytest.mark.parametrize(
    ("gpus", "variable", "expected"),
    [
        (GpuChoice(), "2,0", ("GPU-2", "GPU-0")),
        (GpuChoice(names=("3", "1")), None, ("GPU-3", "GPU-1")),
        (GpuChoice(names=("2",)), "0,2", ("GPU-2",)),
        (GpuChoice(most=2), None, ("GPU-0", "GPU-1")),
        (GpuChoice(), "", ()),
        (GpuChoice(most=0), None, ()),
    ],
)
def test_only_chosen_and_visible_devices_are_there(
    host: Host, gpus: GpuChoice, variable: str | None, expected: tuple[str, ...]
) -> None:
    """Where none is left, the CPU is, with a reason."""
    hardware, _ = host.share(gpus=gpus, variable=variable)

    assert hardware.uuids == expected
    assert hardware.accelerator is (Accelerator.CUDA if expected else Accelerator.CPU)
    assert hardware.shortage(4) == (
        f"{len(expected)} device{'' if len(expected) == 1 else 's'} found, 4 needed: "
        f"4 found, and {len(expected)} left by --researchenv-gpus and CUDA_VISIBLE_DEVICES"
    )


def test_a_number_of_devices_is_whichever_are_free_and_no_more_at_once(host: Host) -> None:
    """A shared host: two at a time, and not those that others use."""
    host.using["GPU-0"] = "process 7"
    hardware, sharing = host.share(gpus=GpuChoice(most=2))

    def another() -> None:
        with (
            pytest.raises(LeaseError, match="devices of uid"),
            sharing.share(hardware, "C3", devices=1),
        ):
            pass

    with sharing.share(hardware, "C4", devices=2) as share, running(another) as process:
        assert share.hardware.uuids == ("GPU-1", "GPU-2")
        process.join(30)
        assert process.exitcode == 0


def test_slots_bound_how_many_work_at_once(host: Host) -> None:
    """On the CPU, too."""
    hardware, sharing = host.share(CPU_ONLY, slots=1)

    def another() -> None:
        with (
            pytest.raises(LeaseError, match="gave up after 0 s of waiting for 1 of 1 slots: first in line, held by"),
            sharing.share(hardware, "C1 of another", devices=0),
        ):
            pass

    with sharing.share(hardware, "C1", devices=0), running(another) as process:
        process.join(30)
        assert process.exitcode == 0


def test_each_host_and_each_engine_has_a_line_of_its_own(host: Host) -> None:
    """Although they share the folder, over NFS for instance: processes of another host cannot be seen."""
    here = HERE
    there = Owner("run", "another host", here.process)
    for owner, engine in ((here, "ID"), (there, "ID"), (here, "another ID")):
        hardware, sharing = host.share(owner=owner, engine=engine)
        with sharing.share(hardware, "C4", devices=4) as share:
            assert len(share.hardware.devices) == 4

    assert len(list(host.folder.iterdir())) == 3
