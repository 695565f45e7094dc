"""What only a real engine can show: hardening, kills, memory, what is frozen, and what a dying daemon does."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import resource
import socket
import tarfile
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_researchenv.errors import ImageError, SandboxError
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.labels import PREFIX, Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Limits, Mount, Network, Termination


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerContainer


SMALL = Limits(memory_bytes=256 * 1024**2)
HOG = "import ctypes; b = ctypes.create_string_buffer(10**9); ctypes.memset(b, 1, 10**9)"


@pytest.fixture
def container(docker_sandbox: DockerSandbox, base_image: str) -> Iterator[DockerContainer]:
    """A started idle container with little memory."""
    with docker_sandbox.opened(ContainerSpec(base_image, limits=SMALL)) as container:
        container.start()
        yield container


def _inspect(client: DockerClient, container: DockerContainer) -> dict[str, Any]:
    found: dict[str, Any] = client.api.inspect_container(container.id)
    return found


def test_a_container_is_hardened(docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str) -> None:
    """No privileges, five capabilities, bounded memory, no host folder, no log on disk, a name that resolves."""
    limits = Limits(memory_bytes=300 * 1024**2, cpus=0.5, pids=77, shm_bytes=5 * 1024**2)

    with docker_sandbox.opened(ContainerSpec(base_image, limits=limits)) as container:
        found = _inspect(docker_client, container)

    host = found["HostConfig"]
    assert host["CapDrop"] == ["ALL"]
    assert sorted(host["CapAdd"]) == ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]
    assert host["SecurityOpt"][0] == "no-new-privileges"
    assert not [option for option in host["SecurityOpt"] if "unconfined" in option]
    assert not host["Privileged"]
    assert (host["Memory"], host["MemorySwap"]) == (300 * 1024**2, 300 * 1024**2)
    assert (host["NanoCpus"], host["PidsLimit"], host["ShmSize"]) == (500_000_000, 77, 5 * 1024**2)
    assert (host["NetworkMode"], host["LogConfig"]["Type"]) == ("none", "none")
    assert not host["Binds"]
    assert not found["Mounts"]
    assert found["Config"]["Hostname"] == "localhost"
    assert found["Config"]["Labels"][f"{PREFIX}kind"] == "container"


def test_hardening_holds_inside(container: DockerContainer) -> None:
    """What the engine promised is what a process has: the five capabilities' bits, and no way to more."""
    status = container.exec(["cat", "/proc/self/status"], timeout_s=30).output.text()

    # Bits 0 CHOWN, 1 DAC_OVERRIDE, 3 FOWNER, 6 SETGID, 7 SETUID.
    assert "CapBnd:\t00000000000000cb" in status
    assert "NoNewPrivs:\t1" in status


def test_the_network_is_off_unless_asked_for(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """Without a network there is only loopback."""
    interfaces = {}
    for network in Network:
        spec = ContainerSpec(base_image, argv=("ls", "/sys/class/net"), network=network)
        with docker_sandbox.opened(spec) as container:
            interfaces[network] = container.run(timeout_s=30).output.text().split()

    assert "eth0" not in interfaces[Network.NONE]
    assert "eth0" in interfaces[Network.OPEN]


def test_a_volume_is_read_only(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str, owner: Owner
) -> None:
    """Nothing in a container can change a tool."""
    volume = docker_client.volumes.create(f"researchenv-test-a-{uuid.uuid4().hex[:12]}", labels=owner.labels("test"))
    try:
        spec = ContainerSpec(base_image, argv=("touch", "/tools/x"), mounts=(Mount(volume.name, "/tools"),))
        with docker_sandbox.opened(spec) as container:
            done = container.run(timeout_s=30)
    finally:
        volume.remove()

    assert not done.ok
    assert "Read-only file system" in done.output.text()


def test_a_missing_volume_is_an_error(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str
) -> None:
    """A misspelt volume is not made on the spot, empty and without an owner."""
    name = f"researchenv-test-a-{uuid.uuid4().hex[:12]}"

    with pytest.raises(SandboxError, match=name):
        docker_sandbox.create(ContainerSpec(base_image, mounts=(Mount(name, "/tools"),)))

    assert name not in [volume.name for volume in docker_client.volumes.list()]


def test_exec_kills_what_left_its_process_group(docker_client: DockerClient, container: DockerContainer) -> None:
    """At the deadline every process is gone, a daemon's too, and with it `timeout` and `kill` deleted."""
    script = "rm -f /usr/bin/timeout /usr/bin/kill; setsid sleep 301 & sh -c 'sleep 302 & sleep 303' & sleep 304"

    done = container.exec(["sh", "-c", script], timeout_s=2)

    processes = [row[-1] for row in docker_client.api.top(container.id)["Processes"] or ()]
    assert done.termination is Termination.TIMED_OUT
    assert not [line for line in processes if "sleep 30" in line]


def test_exec_survives_an_agent_that_kills_everything(container: DockerContainer) -> None:
    """An agent that ends the idle process ends its own command, not our use of the container."""
    gentle = container.exec(["sh", "-c", "trap '' TERM; kill -TERM -1; echo still here"], timeout_s=30)
    brutal = container.exec(["sh", "-c", "echo x > /kept; kill -9 -1; sleep 60"], timeout_s=30)
    after = container.exec(["cat", "/kept"], timeout_s=30)

    assert gentle.output.text() == "still here\n"
    assert (brutal.termination, brutal.exit_code) == (Termination.SIGNALLED, 137)
    assert after.output.text() == "x\n"


def test_exec_is_not_misled_by_an_engine_that_has_not_noticed(
    docker_client: DockerClient, container: DockerContainer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The engine may call a container running for a moment after its end; the command is run all the same."""
    inspect = docker_client.api.inspect_container
    late = inspect(container.id)
    container.exec(["sh", "-c", "echo x > /kept; kill -9 -1; sleep 60"], timeout_s=30)
    while inspect(container.id)["State"]["Running"]:
        time.sleep(0.05)
    answers = iter([late])
    monkeypatch.setattr(docker_client.api, "inspect_container", lambda identifier: next(answers, inspect(identifier)))

    after = container.exec(["cat", "/kept"], timeout_s=30)

    assert next(answers, None) is None
    assert after.output.text() == "x\n"


def test_a_deadline_holds_when_the_idle_command_was_deleted(container: DockerContainer) -> None:
    """An agent that deletes the shell gets its time-out all the same; its files can still be read."""
    done = container.exec(["sh", "-c", "echo x > /kept; rm -f /usr/bin/sh /usr/bin/dash; sleep 60"], timeout_s=2)

    assert done.termination is Termination.TIMED_OUT
    with container.get("/kept") as stream:
        assert stream is not None


def test_exec_does_not_wait_for_a_child_that_holds_its_output(container: DockerContainer) -> None:
    """A background child keeps stdout open; the command has ended all the same."""
    done = container.exec(["sh", "-c", "sleep 300 & echo started"], timeout_s=60)

    assert (done.termination, done.output.text()) == (Termination.EXITED, "started\n")
    assert done.duration_s < 15


def test_a_closed_output_does_not_end_a_process(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """The exit code is waited for, though nothing more can be printed."""
    spec = ContainerSpec(base_image, argv=("sh", "-c", "echo x; exec >&- 2>&-; sleep 2; exit 7"))

    with docker_sandbox.opened(spec) as container:
        done = container.run(timeout_s=30)

    assert (done.exit_code, done.output.text()) == (7, "x\n")
    assert done.duration_s >= 2


def test_out_of_memory_is_told_for_exec(container: DockerContainer) -> None:
    """The kill for memory is told from other kills, and from what comes later in the same container."""
    hog = container.exec(["python3", "-c", HOG], timeout_s=60)
    killed = container.exec(["sh", "-c", "kill -9 $$"], timeout_s=60)
    failed = container.exec(["false"], timeout_s=60)

    assert (hog.termination, hog.exit_code) == (Termination.OUT_OF_MEMORY, 137)
    assert (killed.termination, killed.exit_code) == (Termination.SIGNALLED, 137)
    assert (failed.termination, failed.exit_code) == (Termination.EXITED, 1)


@pytest.mark.parametrize(
    ("script", "termination", "code"),
    [
        pytest.param(f'python3 -c "{HOG}"', Termination.OUT_OF_MEMORY, 137, id="out of memory"),
        pytest.param(f'python3 -c "{HOG}" || exit 5', Termination.OUT_OF_MEMORY, 5, id="a child was out of memory"),
        pytest.param(f'python3 -c "{HOG}" || exit 0', Termination.EXITED, 0, id="and it did not matter"),
        pytest.param("kill -9 $$", Termination.SIGNALLED, 137, id="killed"),
        pytest.param("kill -SEGV $$", Termination.SIGNALLED, 139, id="crashed"),
        pytest.param("exit 255", Termination.EXITED, 255, id="failed"),
    ],
)
def test_ends_of_a_main_process_are_told_apart(
    docker_sandbox: DockerSandbox, base_image: str, script: str, termination: Termination, code: int
) -> None:
    """Memory, signal and exit code of a main process come from the engine."""
    with docker_sandbox.opened(ContainerSpec(base_image, argv=("sh", "-c", script), limits=SMALL)) as container:
        done = container.run(timeout_s=60)

    assert (done.termination, done.exit_code) == (termination, code)


def test_a_missing_main_program_is_the_commands_failure(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """An interpreter that an agent reported and that is not there fails as in a shell."""
    with docker_sandbox.opened(ContainerSpec(base_image, argv=("/no/such/python",))) as container:
        done = container.run(timeout_s=30)

    assert (done.termination, done.exit_code) == (Termination.EXITED, 127)
    assert "/no/such/python" in done.output.text()


def test_a_container_that_cannot_start_is_an_error(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """Whether image or engine is to blame, here a file as working directory, is the caller's to find out."""
    spec = ContainerSpec(base_image, argv=("true",), workdir="/etc/passwd")

    with pytest.raises(SandboxError, match="/etc/passwd"), docker_sandbox.opened(spec) as container:
        container.run(timeout_s=30)


def test_stdout_and_stderr_are_also_kept_apart(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """What one of them prints in the middle of the other's line tears no line of that one alone."""
    script = "echo -n Starting; sleep 0.2; echo -n noise >&2; sleep 0.2; echo ' training'"

    with docker_sandbox.opened(ContainerSpec(base_image, argv=("sh", "-c", script))) as container:
        completed = container.run(timeout_s=30)

    assert completed.output.text() == "Startingnoise training\n"
    assert [stream.text() for stream in completed.streams] == ["Starting training\n", "noise"]
    assert completed.stdout.text() == "Starting training\n"


@pytest.mark.parametrize("way", ["exec", "run"])
def test_a_deadline_holds_for_a_process_that_never_stops_printing(
    docker_sandbox: DockerSandbox, base_image: str, way: str
) -> None:
    """The engine answers no kill while nobody reads, so reading goes on until the process is gone."""
    spec = ContainerSpec(base_image, argv=("yes",) if way == "run" else None, limits=SMALL)
    with docker_sandbox.opened(spec) as container:
        started = time.monotonic()
        if way == "run":
            completed = container.run(timeout_s=2, capture_bytes=1024)
        else:
            container.start()
            completed = container.exec(["yes"], timeout_s=2, capture_bytes=1024)
        took = time.monotonic() - started

    assert completed.termination is Termination.TIMED_OUT
    assert completed.output.head == b"y\n" * 512
    assert took < 30, "without reading on, the kill waits for ever"


@pytest.mark.parametrize("how", ["exec", "run"])
def test_a_flood_of_output_is_counted_in_bounded_memory(
    docker_sandbox: DockerSandbox, base_image: str, how: str
) -> None:
    """Of 300 MB of output every byte is counted, and few are held."""
    flood = ("head", "-c", "300000000", "/dev/zero")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with docker_sandbox.opened(ContainerSpec(base_image, argv=flood if how == "run" else None)) as container:
        if how == "run":
            done = container.run(timeout_s=120, capture_bytes=1024)
        else:
            container.start()
            done = container.exec(flood, timeout_s=120, capture_bytes=1024)

    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert done.ok
    assert done.output.total == 300_000_000
    assert len(done.output.head) == len(done.output.tail) == 1024
    assert grown < 64 * 1024  # KiB


def test_a_sink_that_raises_ends_the_call(container: DockerContainer) -> None:
    """What the caller's own function raises reaches the caller."""

    def full(_chunk: bytes) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        container.exec(["echo", "x"], timeout_s=30, on_output=full)


def test_an_archive_need_not_be_read_to_its_end(container: DockerContainer) -> None:
    """Leaving the block frees the container, which the engine holds locked while it sends."""
    with container.get("/usr") as stream:
        assert stream is not None
        assert len(stream.read(1000)) == 1000

    started = time.monotonic()
    container.remove()
    assert time.monotonic() - started < 10


def test_a_planted_root_link_changes_nothing_outside(container: DockerContainer, tmp_path: Path) -> None:
    """Not even links to the host's own paths lead out of the container."""
    outside = tmp_path / "outside"
    outside.mkdir()
    container.exec(["sh", "-c", f"mkdir -p {tmp_path} && ln -s / {tmp_path}/outside"], timeout_s=30)
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        info = tarfile.TarInfo(f"{tmp_path}/outside/file".lstrip("/"))
        info.size = 1
        tar.addfile(info, io.BytesIO(b"x"))
    archive.seek(0)

    container.put("/", archive)

    assert list(outside.iterdir()) == []


class _Cut:
    """A relay in front of the engine's socket that can be cut, as a daemon that dies looks to its client."""

    def __init__(self, path: Path, engine: str) -> None:
        self._engine = engine
        self._open: list[socket.socket] = []
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        for connection in [self._server, *self._open]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._engine)
                self._open += [near, far]
                threading.Thread(target=self._relay, args=(near, far), daemon=True).start()
                threading.Thread(target=self._relay, args=(far, near), daemon=True).start()

    @staticmethod
    def _relay(source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


# docker-py leaves a socket open whose connection is refused.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("how", ["exec", "run"])
def test_a_daemon_that_dies_is_never_a_verdict(
    docker_client: DockerClient, base_image: str, owner: Owner, tmp_path: Path, how: str
) -> None:
    """When the engine goes away in the middle there is an error, not an exit code and not a time-out."""
    from docker import DockerClient as Client  # noqa: PLC0415 - only this test needs a second client.

    engine = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    if not Path(engine).is_socket():
        pytest.skip(f"the engine is not on a local socket: {engine}")
    relay = _Cut(tmp_path / "relay.sock", engine)
    with contextlib.closing(Client(base_url=f"unix://{tmp_path}/relay.sock", version="auto")) as client:
        command = ("sh", "-c", "echo x; sleep 60")
        sandbox = DockerSandbox(client, owner)
        container = sandbox.create(ContainerSpec(base_image, argv=command if how == "run" else None))
        timer = threading.Timer(1.5, relay.cut)
        try:
            if how == "exec":
                container.start()
            timer.start()
            with pytest.raises(SandboxError):
                container.run(timeout_s=30) if how == "run" else container.exec(command, timeout_s=30)
        finally:
            timer.join()
            gc.collect()
            docker_client.api.remove_container(container.id, force=True, v=True)


def test_an_image_that_declares_volumes_is_refused(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str
) -> None:
    """What is written to an anonymous volume would be missing from the frozen image."""
    name = f"researchenv-test-a:{uuid.uuid4().hex[:12]}"
    recipe = f"FROM {base_image}\nVOLUME /data\n".encode()
    docker_client.images.build(fileobj=io.BytesIO(recipe), tag=name, rm=True, forcerm=True)
    try:
        with pytest.raises(ImageError, match="/data"):
            docker_sandbox.create(ContainerSpec(name))
    finally:
        docker_client.images.remove(name)
