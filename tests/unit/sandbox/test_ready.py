"""Rules of what a session may use of an engine's devices, on a fake driver behind a fake engine."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from pytest_researchenv.hardware import Accelerator, Device, Hardware
from pytest_researchenv.leases.choice import GpuChoice, SharingSettings
from pytest_researchenv.leases.sharing import ALONE, Sharing
from pytest_researchenv.sandbox import gpu
from pytest_researchenv.sandbox.fake import FakeDriver, FakeSandbox
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.ready import _hardware


DEVICES = tuple(Device(i, f"GPU-{i}", "NVIDIA A100-SXM4-40GB", 40 * 1024**3, (8, 0)) for i in range(3))
LOCAL, REMOTE = "http+docker://localhost", "http+docker://ssh"


@dataclass
class FakeClient:
    """What an engine tells of its host."""

    address: str = LOCAL
    api: SimpleNamespace = field(init=False)

    def __post_init__(self) -> None:
        self.api = SimpleNamespace(base_url=self.address)

    def info(self) -> dict[str, Any]:
        """As docker-py returns it."""
        return {"ID": "f1:ab", "NCPU": 4, "MemTotal": 64 * 1024**3}


def ready(
    folder: Path,
    *,
    accelerator: str = "auto",
    address: str = LOCAL,
    gpus: GpuChoice | None = None,
    driver: FakeDriver | None = None,
) -> tuple[Hardware, Sharing]:
    """What a session gets of three devices."""
    sandbox = FakeSandbox(driver or FakeDriver(DEVICES))
    sandbox.add_image("base")
    settings = SharingSettings(gpus=gpus or GpuChoice(), folder=folder / "leases", patience_s=5)
    return _hardware(
        cast("Any", FakeClient(address)),
        cast("Any", sandbox),
        "base",
        accelerator,
        settings=settings,
        owner=Owner.current("run"),
    )


@pytest.mark.parametrize(
    ("variable", "address", "expected"),
    [
        (None, LOCAL, ("GPU-0", "GPU-1", "GPU-2")),
        ("2,1", LOCAL, ("GPU-2", "GPU-1")),
        ("2,1", REMOTE, ("GPU-0", "GPU-1", "GPU-2")),
        ("", LOCAL, ()),
    ],
)
def test_what_a_batch_system_left_counts_on_its_own_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, address: str, expected: tuple[str, ...]
) -> None:
    """An engine elsewhere has other devices."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if variable is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)

    assert ready(tmp_path, address=address)[0].uuids == expected


@pytest.mark.parametrize(
    ("accelerator", "expected"), [("auto", Accelerator.CPU), ("cuda", Accelerator.CUDA), ("cpu", Accelerator.CPU)]
)
def test_without_a_device_that_may_be_used_the_cpu_stands_in_unless_cuda_was_asked_for(
    tmp_path: Path, accelerator: str, expected: Accelerator
) -> None:
    """Then tiers are skipped, and say why. Nothing is shared."""
    hardware, sharing = ready(tmp_path, accelerator=accelerator, gpus=GpuChoice(most=0))

    assert (hardware.accelerator, hardware.devices, sharing) == (expected, (), ALONE)


def test_a_device_that_others_use_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's driver is asked at the moment of the taking, and not only when the session began."""
    monkeypatch.setattr(gpu, "_LETTING_GO_S", 0.0)
    driver = FakeDriver(DEVICES)
    hardware, sharing = ready(tmp_path, driver=driver)
    driver.hold(4711, "GPU-0", 5 * 1024**3)

    with sharing.share(hardware, "C4", devices=2) as share:
        assert share.hardware.uuids == ("GPU-1", "GPU-2")
