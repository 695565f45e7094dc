"""The command `doctor`: the container engine, devices, what dead runs left."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace

import pytest
from docker.errors import DockerException

from pytest_researchenv.doctor.devices import device_findings, hardware_finding
from pytest_researchenv.doctor.disk import engine_disk
from pytest_researchenv.doctor.engine import LookedAt, engine_findings
from pytest_researchenv.doctor.leftovers import left_findings, leftover_findings
from pytest_researchenv.doctor.machine import machine_findings
from pytest_researchenv.doctor.registries import image_findings
from pytest_researchenv.doctor.values import State
from pytest_researchenv.errors import DaemonUnavailableError, SandboxError
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Device, Hardware
from pytest_researchenv.sandbox.reaper import Left


GIB = 1024**3


class StandInClient:
    """Answers as docker-py does, with what a test says of the engine."""

    def __init__(self, images: list[dict[str, object]] | None = None, **info: object) -> None:
        self._info = {"Name": "elsewhere", "Driver": "overlay2", "DockerRootDir": "/var/lib/docker", **info}
        self.closed = False
        self.api = SimpleNamespace(images=lambda **_: images or [])

    def close(self) -> None:
        """Let go."""
        self.closed = True

    def info(self) -> dict[str, object]:
        """What it says of itself."""
        if "fails" in self._info:
            raise DockerException("gone")
        return self._info

    def version(self) -> dict[str, object]:
        """Its version."""
        return {"Version": "99.0", "Components": []}


def reached(client: StandInClient, monkeypatch: pytest.MonkeyPatch, url: str = "unix:///x") -> LookedAt:
    """An engine that has answered."""
    address = SimpleNamespace(url=url, origin="a test")
    monkeypatch.setattr("pytest_researchenv.doctor.engine.find", lambda: (client, address))
    engine = LookedAt()
    engine.reach()
    return engine


@pytest.mark.parametrize(("driver", "state"), [("overlay2", State.OK), ("vfs", State.WARNING)])
def test_a_storage_driver_that_copies_is_warned_of(driver: str, state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what to set."""
    engine = reached(StandInClient(Driver=driver), monkeypatch)
    version, storage = engine_findings(engine)
    assert (version.state, "Docker 99.0" in version.value, "unix:///x (a test)" in version.value) == (
        State.OK,
        True,
        True,
    )
    assert storage.state is state
    assert ("overlay2" in storage.fix) is (state is State.WARNING)


def test_an_engine_that_does_not_answer_is_not_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is asked of it later on."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    engine = LookedAt()
    with pytest.raises(DaemonUnavailableError):
        engine_findings(engine)
    assert engine.client is None
    assert engine.sandbox is None
    assert leftover_findings(engine)[0].state is State.SKIPPED
    engine.close()


def test_an_engine_that_says_nothing_of_itself_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """It answered once, and is not asked again."""
    client = StandInClient(fails=True)
    monkeypatch.setattr(
        "pytest_researchenv.doctor.engine.find", lambda: (client, SimpleNamespace(url="unix:///x", origin="a test"))
    )
    engine = LookedAt()
    with pytest.raises(SandboxError, match="cannot ask the container engine about itself: gone"):
        engine_findings(engine)
    assert (engine.client, client.closed) == (None, True)


def test_only_an_engine_of_this_machine_has_its_folders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One behind a socket may be in a virtual machine; then a container is asked, if there can be one."""
    here = reached(StandInClient(Name=socket.gethostname(), DockerRootDir=str(tmp_path)), monkeypatch)
    (found,) = engine_disk(here)
    assert f"free, in {tmp_path} of this machine" in found.value

    for client, url in (
        (StandInClient(DockerRootDir=str(tmp_path)), "unix:///x"),
        (StandInClient(Name=socket.gethostname(), DockerRootDir=str(tmp_path)), "ssh://user@host.example"),
    ):
        (found,) = engine_disk(reached(client, monkeypatch, url))
        assert (found.state, "not seen from here" in found.value) == (State.SKIPPED, True)


def test_only_our_own_base_image_is_asked_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody's image made from it has its labels; of several ours the newest counts."""
    images = [
        {"Id": "old", "Created": 1, "RepoTags": ["researchenv/base:1"]},
        {"Id": "new", "Created": 2, "RepoTags": ["researchenv/base:2"]},
        {"Id": "theirs", "Created": 3, "RepoTags": ["mine:1"]},
        {"Id": "dangling", "Created": 4, "RepoTags": None},
    ]
    assert reached(StandInClient(images), monkeypatch).base_image() == "new"
    assert reached(StandInClient(images[2:]), monkeypatch).base_image() == ""


def test_devices_are_not_guessed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a base image nobody asked, which is said; who wants devices is warned, who wants none is left alone."""
    engine = reached(StandInClient(Runtimes={"runc": {}, "nvidia": {}}), monkeypatch)
    states = {wanted: device_findings(engine, wanted)[-1].state for wanted in ("auto", "cuda", "cpu")}
    assert states == {"auto": State.SKIPPED, "cuda": State.WARNING, "cpu": State.SKIPPED}
    runtime, _ = device_findings(engine, "auto")
    assert (runtime.state, runtime.value) == (State.OK, "nvidia")


@pytest.mark.parametrize(
    ("hardware", "accelerator", "state", "value"),
    [
        (CPU_ONLY, "auto", State.WARNING, "none"),
        (Hardware(Accelerator.CPU, reason="no driver"), "cuda", State.PROBLEM, "none: no driver"),
        (
            Hardware(
                Accelerator.CUDA,
                tuple(Device(number, f"GPU-{number}", "H200", 80 * GIB, (9, 0)) for number in range(2)),
                "550.1",
                (12, 4),
            ),
            "auto",
            State.OK,
            "2 (H200, 80.0 GiB, compute capability 9.0); driver 550.1, CUDA up to 12.4",
        ),
    ],
)
def test_devices_are_told_as_they_were_detected(hardware: Hardware, accelerator: str, state: State, value: str) -> None:
    """None is a problem for who asked for some."""
    found = hardware_finding(hardware, accelerator)
    assert (found.state, found.value) == (state, value)
    assert bool(found.fix) is (state is not State.OK)


def test_memory_and_processors_are_those_of_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run there; too few are warned of."""
    memory, processors = machine_findings(reached(StandInClient(MemTotal=8 * GIB, NCPU=1), monkeypatch))
    assert (memory.state, memory.value) == (State.WARNING, "8.0 GiB (engine's host)")
    assert "--researchenv-agent-memory" in memory.fix
    assert (processors.state, processors.value) == (State.WARNING, "1 (engine's host)")


def test_what_dead_runs_left_is_counted() -> None:
    """It is warned of; what is kept on purpose is only told."""
    left, kept = left_findings(Left(2, 1, 0, kept_volumes=3, kept_images=4))
    assert (left.state, left.value) == (State.WARNING, "2 containers, 1 networks, 0 volumes")
    assert "researchenv reap" in left.fix
    assert (kept.state, kept.value.partition(";")[0]) == (State.OK, "4 images, 3 volumes of this host")
    clean, _ = left_findings(Left(0, 0, 0, 1, 1))
    assert (clean.state, clean.fix) == (State.OK, "")


def test_what_package_caches_keep_is_told() -> None:
    """With the command that empties them; nothing is said where there is none."""
    cached = left_findings(Left(0, 0, 0, 1, 1, cached_bytes=3 * 1024**3))[-1]
    assert (cached.state, cached.value) == (State.OK, "3.0 GiB kept; `researchenv reap --packages` empties it")


def test_an_image_that_nobody_named_is_asked_for_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in has no way to ask a registry."""
    (found,) = image_findings(reached(StandInClient(), monkeypatch), "")
    assert found.state is State.SKIPPED
