"""Rules of finding devices and of observing their use, on a fake driver behind a fake engine."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from pytest_researchenv.errors import InfrastructureError
from pytest_researchenv.hardware import Accelerator, Device, Hardware
from pytest_researchenv.sandbox import gpu
from pytest_researchenv.sandbox._ledger import Ledger
from pytest_researchenv.sandbox._nvidia import APPS_QUERY, DEVICE_QUERY, Holding
from pytest_researchenv.sandbox.fake import FakeDriver, FakeFiles, FakeSandbox
from pytest_researchenv.sandbox.gpu import DeviceUse, detect, monitored, occupied
from pytest_researchenv.sandbox.protocol import ContainerSpec


RECORDINGS = Path(__file__).parent / "recordings"
MIB = 1024**2
DEVICES = tuple(Device(i, f"GPU-{i}", "NVIDIA A100-SXM4-40GB", 40960 * MIB, (8, 0)) for i in range(2))
UUIDS = ("GPU-0", "GPU-1")
HEADER = ("nvidia-smi",)
LIST = ("nvidia-smi", "-L")


def recorded(name: str) -> str:
    """A recording."""
    return (RECORDINGS / f"{name}.txt").read_text(encoding="utf-8")


def engine(driver: FakeDriver | None = None) -> FakeSandbox:
    """An engine with a base image."""
    sandbox = FakeSandbox(driver)
    sandbox.add_image("base")
    return sandbox


# --- finding devices --------------------------------------------------------------------------------------


def test_devices_are_found_with_driver_and_cuda_version() -> None:
    """All that later tiers compare with; the container is gone afterwards."""
    answers = {
        DEVICE_QUERY: (0, recorded("gpu-535-mig")),
        HEADER: (0, recorded("header-535")),
        LIST: (0, recorded("list-535-mig")),
    }
    sandbox = engine(FakeDriver(DEVICES, recorded=answers))

    found = detect(sandbox, "base")

    assert (found.accelerator, found.driver, found.cuda) == (Accelerator.CUDA, "535.129.03", (12, 2))
    assert [device.uuid[:4] for device in found.devices] == ["MIG-", "MIG-", "GPU-"]
    assert not found.reason
    assert not sandbox.containers


def test_an_engine_without_devices_says_why() -> None:
    """No devices is an answer; a skip can quote the reason."""
    sandbox = engine()

    found = detect(sandbox, "base")

    assert (found.accelerator, found.devices) == (Accelerator.CPU, ())
    assert "could not select device driver" in found.reason
    assert not sandbox.containers


@pytest.mark.parametrize("name", ["error-engine-driver-not-loaded", "error-engine-no-library"])
def test_a_toolkit_without_a_driver_is_no_device(name: str) -> None:
    """So it is on a node without devices in a cluster that has them elsewhere."""
    driver = FakeDriver(())
    driver.refusal = recorded(name)

    found = detect(engine(driver), "base")

    assert found.accelerator is Accelerator.CPU
    assert found.reason.startswith("nvidia-container-cli: initialization error")


@pytest.mark.parametrize(
    ("code", "text", "reason"),
    [
        (6, "No devices were found\n", "nvidia-smi: No devices were found"),
        (127, "nvidia-smi: executable file not found in $PATH\n", "nvidia-smi is not in a container with devices"),
    ],
)
def test_a_driver_without_devices_is_no_device(code: int, text: str, reason: str) -> None:
    """The driver's own words are kept."""
    found = detect(engine(FakeDriver((), recorded={DEVICE_QUERY: (code, text)})), "base")

    assert (found.devices, found.reason.startswith(reason)) == ((), True)


@pytest.mark.parametrize(
    ("name", "code", "match"),
    [
        ("error-mismatch", 18, "Driver/library version mismatch.*reload its module or reboot"),
        ("error-communicate", 9, "couldn't communicate with the NVIDIA driver"),
        ("error-470-field", 2, "too old.*510"),
    ],
)
def test_a_driver_that_does_not_work_is_an_error(name: str, code: int, match: str) -> None:
    """Falling back to the CPU would hide it."""
    sandbox = engine(FakeDriver(DEVICES, recorded={DEVICE_QUERY: (code, recorded(name))}))

    with pytest.raises(InfrastructureError, match=match):
        detect(sandbox, "base")

    assert not sandbox.containers


def test_an_engine_that_fails_on_its_driver_is_an_error() -> None:
    """The engine's words are kept, too."""
    driver = FakeDriver(DEVICES)
    driver.refusal = recorded("error-engine-mismatch")

    with pytest.raises(InfrastructureError, match="version mismatch"):
        detect(engine(driver), "base")


def test_a_header_without_cuda_is_an_error() -> None:
    """Without the driver's CUDA version no framework can be judged."""
    sandbox = engine(FakeDriver(DEVICES, recorded={HEADER: (0, recorded("header-510"))}))

    with pytest.raises(InfrastructureError, match="libcuda"):
        detect(sandbox, "base")


@pytest.mark.parametrize(
    ("devices", "needed", "text"),
    [
        (DEVICES, 2, ""),
        (DEVICES, 4, "2 devices found, 4 needed"),
        (DEVICES[:1], 2, "1 device found, 2 needed"),
        ((), 1, "0 devices found, 1 needed: none here"),
    ],
)
def test_a_shortage_is_said_in_numbers(devices: tuple[Device, ...], needed: int, text: str) -> None:
    """How many there are, how many are needed, and why there are none."""
    hardware = Hardware(Accelerator.CUDA, devices, reason="" if devices else "none here")

    assert hardware.shortage(needed) == text


# --- observing their use ----------------------------------------------------------------------------------


def run_holding(
    driver: FakeDriver, *, sizes: Mapping[str, int], stranger: Mapping[str, int] | None = None
) -> tuple[dict[str, int], str, int]:
    """Run a process that holds memory until it was sampled: peaks, source for the first device, samples."""
    sandbox = engine(driver)
    uses: list[DeviceUse] = []

    def train(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
        (pid,) = probe.host_pids()
        for uuid, size in sizes.items():
            driver.hold(pid, uuid, size)
        for uuid, size in (stranger or {}).items():
            driver.hold(4711, uuid, size)
        sampled = uses[0].await_sample(10)
        for uuid in sizes:
            driver.hold(pid, uuid, 0)
        return (0 if sampled else 1), b""

    sandbox.program("train", train)
    with monitored(sandbox, image="base", devices=UUIDS) as use:
        uses.append(use)
        with sandbox.opened(ContainerSpec("base", argv=("train",), devices=UUIDS)) as probe:
            use.watch(probe)
            assert probe.run(timeout_s=60).ok
        seen = use.peaks(), use.source("GPU-0"), use.samples
    assert not sandbox.containers
    return seen


def test_what_a_container_holds_is_seen_per_device() -> None:
    """Peaks stay after the process let go, and other devices are not touched."""
    peaks, source, samples = run_holding(FakeDriver(DEVICES), sizes={"GPU-0": 700 * MIB})

    assert peaks == {"GPU-0": 700 * MIB, "GPU-1": 0}
    assert source == "held by the container's processes"
    assert samples >= 2


def test_strangers_do_not_count() -> None:
    """Another process's memory is not the container's, whenever it came."""
    driver = FakeDriver(DEVICES)
    driver.hold(17, "GPU-1", 9000 * MIB)

    peaks, _, _ = run_holding(driver, sizes={}, stranger={"GPU-0": 5000 * MIB})

    assert peaks == {"GPU-0": 0, "GPU-1": 0}


def test_hidden_memory_falls_back_to_the_whole_device() -> None:
    """Where the driver does not tell a process's memory, the device's own level above its start counts."""
    driver = FakeDriver(DEVICES)
    driver.hold(17, "GPU-0", 100 * MIB)
    driver.hides_memory = True

    peaks, source, _ = run_holding(driver, sizes={"GPU-0": 700 * MIB})

    assert peaks == {"GPU-0": 700 * MIB, "GPU-1": 0}
    assert "above its level before the start" in source


def test_without_a_run_nothing_was_observed() -> None:
    """Samples before and after a process are no observation of it."""
    sandbox = engine(FakeDriver(DEVICES))

    with monitored(sandbox, image="base", devices=UUIDS) as use:
        assert not use.await_sample(0.3)
        assert use.samples == 0


def test_a_driver_that_stops_answering_is_an_error() -> None:
    """A low figure would mean nothing then: neither it nor the block's end passes in silence."""
    driver = FakeDriver(DEVICES)
    sandbox = engine(driver)

    def look_until_it_fails(use: DeviceUse) -> None:
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            use.peaks()
            time.sleep(0.01)

    def observe() -> None:
        with monitored(sandbox, image="base", devices=UUIDS) as use:
            driver.broken = (15, "GPU is lost")
            with pytest.raises(InfrastructureError, match="GPU is lost"):
                look_until_it_fails(use)

    with pytest.raises(InfrastructureError, match="exited with code 15: GPU is lost"):
        observe()

    assert not sandbox.containers


def test_a_monitor_that_cannot_start_is_an_error() -> None:
    """Before the probe runs."""
    sandbox = engine(FakeDriver(DEVICES))

    with pytest.raises(InfrastructureError, match="unknown device"), monitored(sandbox, image="base", devices=("X",)):
        pytest.fail("the block must not begin")

    assert not sandbox.containers


def test_an_error_in_the_block_is_not_hidden() -> None:
    """And the monitor is removed."""
    sandbox = engine(FakeDriver(DEVICES))

    with pytest.raises(ZeroDivisionError), monitored(sandbox, image="base", devices=UUIDS):
        raise ZeroDivisionError

    assert not sandbox.containers


def test_several_instances_of_a_split_device_are_refused() -> None:
    """The driver does not say which instance a process holds."""
    with (
        pytest.raises(InfrastructureError, match="cannot be told apart"),
        monitored(engine(), image="base", devices=("MIG-1", "MIG-2")),
    ):
        pytest.fail("the block must not begin")


# --- the accounts -----------------------------------------------------------------------------------------


def test_processes_count_together_only_at_the_same_time() -> None:
    """Two that follow each other did not hold the sum."""
    ledger = Ledger(("GPU-0",))
    ledger.holdings((), ours=set(), running=False)
    ledger.holdings((Holding(1, "GPU-0", 300), Holding(2, "GPU-0", 200)), ours={1, 2}, running=True)
    ledger.holdings((Holding(3, "GPU-0", 400),), ours={1, 2, 3}, running=True)

    assert ledger.peak("GPU-0", {1, 2, 3}) == 500


def test_a_process_that_is_known_too_late_still_counts() -> None:
    """The engine tells of a process after the driver did: then it counts alone."""
    ledger = Ledger(("GPU-0",))
    ledger.holdings((), ours=set(), running=False)
    ledger.holdings((Holding(1, "GPU-0", 300),), ours=set(), running=False)

    assert ledger.peak("GPU-0", set()) == 0
    assert ledger.peak("GPU-0", {1}) == 300


def test_a_driver_without_any_processes_is_not_believed() -> None:
    """A device fills and nobody is said to hold it: the driver knows processes by other numbers."""
    ledger = Ledger(("GPU-0",))
    ledger.levels({"GPU-0": 100})
    ledger.holdings((), ours=set(), running=False)
    ledger.levels({"GPU-0": 900})
    ledger.holdings((), ours={1}, running=True)
    ledger.levels({"GPU-0": None})
    ledger.holdings((), ours={1}, running=True)

    assert ledger.peak("GPU-0", {1}) == 800
    assert "above its level" in ledger.source("GPU-0", {1})


def test_the_only_instance_gets_what_its_device_is_said_to_hold() -> None:
    """The driver may name the whole device instead of the instance that was given."""
    ledger = Ledger(("MIG-7",))
    ledger.holdings((), ours=set(), running=False)
    ledger.holdings((Holding(1, "GPU-0", 300),), ours={1}, running=True)

    assert ledger.peak("MIG-7", {1}) == 300


# --- who uses devices without a lease ---------------------------------------------------------------------


def test_a_device_in_use_is_told_with_its_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only those that were asked about; the container is gone afterwards."""
    monkeypatch.setattr(gpu, "_LETTING_GO_S", 0.0)
    driver = FakeDriver(DEVICES)
    driver.hold(41230, "GPU-1", 5000 * MIB)
    sandbox = engine(driver)

    assert occupied(sandbox, "base", UUIDS) == {"GPU-1": "process 41230, 5000 MiB in use"}
    assert occupied(sandbox, "base", ("GPU-0",)) == {}
    assert not sandbox.containers


def test_who_is_about_to_end_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The container that had the device before may need a moment to let go of it."""
    monkeypatch.setattr(gpu, "_PERIOD_S", 0.01)
    driver = FakeDriver(DEVICES)
    driver.hold(7, "GPU-0", 5000 * MIB)
    threading.Timer(0.2, driver.hold, (7, "GPU-0", 0)).start()

    assert occupied(engine(driver), "base", ("GPU-0",)) == {}


def test_a_driver_that_does_not_answer_is_an_error() -> None:
    """Nobody can say then that a device is free."""
    broken: dict[tuple[str, ...], tuple[int, str]] = {APPS_QUERY: (9, recorded("error-communicate"))}

    with pytest.raises(InfrastructureError, match="exited with code 9"):
        occupied(engine(FakeDriver(DEVICES, recorded=broken)), "base", UUIDS)
