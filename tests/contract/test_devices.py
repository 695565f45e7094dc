"""What every sandbox must do about accelerators and the host's processes; run against the fake and against Docker.

No test here needs a device: they state what happens where there is none, and how a container's processes are known.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest

from pytest_researchenv.errors import DevicesUnavailableError, SandboxError
from pytest_researchenv.sandbox.fake import FakeFiles, FakeSandbox
from pytest_researchenv.sandbox.gpu import detect
from pytest_researchenv.sandbox.protocol import ALL_DEVICES, Completed, ContainerSpec, Sandbox


NAP = ("sh", "-c", "sleep 1; exit 3")


@dataclass(frozen=True, slots=True)
class Engine:
    """A sandbox, and an image in it."""

    sandbox: Sandbox
    image: str


def _nap(_files: FakeFiles, _argv: tuple[str, ...], _environment: Mapping[str, str]) -> tuple[int, bytes]:
    time.sleep(0.2)
    return 3, b""


@pytest.fixture(params=["fake", "docker"])
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each sandbox in turn."""
    if request.param == "fake":
        sandbox = FakeSandbox()
        sandbox.program(NAP, _nap)
        return Engine(sandbox, sandbox.add_image("base"))
    return Engine(request.getfixturevalue("docker_sandbox"), request.getfixturevalue("base_image"))


@pytest.fixture
def bare(engine: Engine) -> Engine:
    """An engine that has no devices to give."""
    if detect(engine.sandbox, engine.image).devices:
        pytest.skip("this engine has devices")
    return engine


def _in_background(call: Callable[[], Completed]) -> tuple[threading.Thread, list[Completed]]:
    ended: list[Completed] = []
    thread = threading.Thread(target=lambda: ended.append(call()))
    thread.start()
    return thread, ended


@pytest.mark.parametrize("devices", [ALL_DEVICES, ("GPU-0",)])
def test_devices_that_nobody_can_give_are_refused_at_the_start(bare: Engine, devices: tuple[str, ...]) -> None:
    """The container can be made, does not start, says what to do, and can be removed."""
    container = bare.sandbox.create(ContainerSpec(bare.image, argv=NAP, devices=devices))

    with pytest.raises(DevicesUnavailableError, match="could not select device driver"):
        container.run(timeout_s=30)

    container.remove()
    with pytest.raises(SandboxError, match=r"[Nn]o such container"):
        container.host_pids()


def test_an_idle_container_is_refused_likewise(bare: Engine) -> None:
    """`start` says what `run` says."""
    with (
        bare.sandbox.opened(ContainerSpec(bare.image, devices=ALL_DEVICES)) as container,
        pytest.raises(DevicesUnavailableError),
    ):
        container.start()


def test_detection_finds_nothing_and_says_why_at_once(bare: Engine) -> None:
    """A machine without devices waits for nothing."""
    started = time.monotonic()

    found = detect(bare.sandbox, bare.image)

    assert (found.devices, found.emulated) == ((), True)
    assert "could not select device driver" in found.reason
    assert time.monotonic() - started < 5


def test_processes_are_known_while_a_container_runs(engine: Engine) -> None:
    """Their ids are those of the engine's host; before and after there are none."""
    with engine.sandbox.opened(ContainerSpec(engine.image, argv=NAP)) as container:
        assert container.host_pids() == frozenset()
        thread, ended = _in_background(lambda: container.run(timeout_s=30))
        seen: frozenset[int] = frozenset()
        while thread.is_alive() and not seen:
            seen = container.host_pids()
        thread.join(30)

        assert seen
        assert ended[0].exit_code == 3
        assert container.host_pids() == frozenset()


def test_two_containers_share_no_processes(engine: Engine) -> None:
    """What one holds is never taken for the other's."""
    spec = ContainerSpec(engine.image)
    with engine.sandbox.opened(spec) as first, engine.sandbox.opened(spec) as second:
        first.start()
        second.start()

        assert first.host_pids()
        assert not first.host_pids() & second.host_pids()


def test_a_removed_container_has_no_processes_to_ask_for(engine: Engine) -> None:
    """It is an error, as every other question is."""
    container = engine.sandbox.create(ContainerSpec(engine.image))
    container.remove()

    with pytest.raises(SandboxError):
        container.host_pids()
