"""A second container engine, which a test may stop, kill and freeze: nobody else works with it.

It has its own data root, and its own namespaces for the network and for mounts, so that it neither touches the bridge
of the first one nor leaves mounts behind. Both outlive the daemon, which comes back into them.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import docker
from docker.errors import DockerException
from requests.exceptions import RequestException

from pytest_researchenv.sandbox.labels import PREFIX
from tests.integration.tlsport import TlsPort


__all__ = ["SecondEngine", "missing_for_a_second_engine", "second_engine"]

_PATIENCE_S = 120.0


def missing_for_a_second_engine() -> str:
    """Say why no second engine can be had here; empty where it can."""
    if os.geteuid() != 0:
        return "a second container engine takes root"
    missing = [name for name in ("dockerd", "unshare", "nsenter") if shutil.which(name) is None]
    return f"a second container engine takes {', '.join(missing)}" if missing else ""


class SecondEngine:
    """The engine, and what a test does to it.

    Args:
        folder: for its files; short, since sockets' paths are.
        port: where it listens, too; None: at its socket alone.
    """

    def __init__(self, folder: Path, port: TlsPort | None = None) -> None:
        self._folder = folder
        self._port = port
        for name in ("root", "exec"):
            (folder / name).mkdir(exist_ok=True)
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "sh", "-c", "ip link set lo up; exec sleep infinity"],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._daemon: subprocess.Popen[bytes] | None = None
        self._namespace = self._entered()

    def _entered(self) -> int:
        """Wait until the process that holds the namespaces is in them; return what tells that of the network."""
        deadline = time.monotonic() + _PATIENCE_S
        here = Path("/proc/self/ns/net").stat().st_ino
        while (there := Path(f"/proc/{self._holder.pid}/ns/net").stat().st_ino) == here:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return there

    @property
    def url(self) -> str:
        """As in DOCKER_HOST."""
        return f"unix://{self._folder}/engine.sock"

    def start(self) -> None:
        """Start it, and wait until it answers; one that gives up is started again, as an init system does.

        On a busy machine its own helper takes longer to start than the 15 s that it waits for that.
        """
        deadline = time.monotonic() + _PATIENCE_S
        while not self.answers():
            assert time.monotonic() < deadline, (self._folder / "engine.log").read_text()[-2000:]
            if self._daemon is None or self._daemon.poll() is not None:
                self._daemon = self._started()
            time.sleep(0.1)

    def _started(self) -> subprocess.Popen[bytes]:
        namespaces = ["nsenter", f"--target={self._holder.pid}", "--net", "--mount"]
        folders = [f"--data-root={self._folder}/root", f"--exec-root={self._folder}/exec"]
        places = [f"--pidfile={self._folder}/engine.pid", f"--host={self.url}"]
        command = ["dockerd", *folders, *places]
        with (self._folder / "engine.log").open("ab") as log:
            return subprocess.Popen(
                [*namespaces, *(self._port.handed_to(command) if self._port else command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=[self._port.descriptor] if self._port else [],
            )

    def answers(self) -> bool:
        """Whether it does."""
        # Not by docker-py, which leaves its socket open when a connection is refused.
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            try:
                connection.connect(self.url.removeprefix("unix://"))
                connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: engine\r\n\r\n")
                return b" 200 " in connection.recv(64)
            except OSError:
                return False

    def signal(self, number: signal.Signals) -> None:
        """Send the daemon a signal; what ends it is waited for."""
        assert self._daemon
        self._daemon.send_signal(number)
        if number in (signal.SIGTERM, signal.SIGKILL):
            self._daemon.wait(_PATIENCE_S)

    def client(self) -> docker.DockerClient:
        """A client of it, to be closed."""
        return docker.DockerClient(base_url=self.url, version="1.41", timeout=60)

    def load(self, image: str) -> None:
        """Bring an image over from the engine that tests usually work with, by its name."""
        with subprocess.Popen(["docker", "save", image], stdout=subprocess.PIPE) as saving:
            subprocess.run(
                ["docker", "--host", self.url, "load"], stdin=saving.stdout, check=True, stdout=subprocess.DEVNULL
            )

    def things(self) -> dict[str, list[str]]:
        """What of ours is there, by kind: containers, networks, volumes (but tools), and frozen images."""
        wanted: dict[str, str | list[str] | bool] = {"label": f"{PREFIX}kind"}
        with closing(self.client()) as client:
            volumes = [one for one in client.volumes.list(filters=wanted) if "scratch" in one.name]
            frozen: dict[str, str | list[str] | bool] = {"label": f"{PREFIX}kind=snapshot"}
            return {
                "containers": [item["Id"] for item in client.api.containers(all=True, filters=wanted)],
                "networks": [str(one.name) for one in client.networks.list(filters=wanted)],
                "volumes": [one.name for one in volumes],
                "images": sorted(item["Id"] for item in client.api.images(filters=frozen)),
            }

    def end(self) -> None:
        """End it with all that it started."""
        if self._daemon and self._daemon.poll() is None:
            self._daemon.send_signal(signal.SIGCONT)
            with suppress(DockerException, RequestException), closing(self.client()) as client:
                for item in client.api.containers(all=True):
                    client.api.remove_container(item["Id"], force=True, v=True)
            self._daemon.terminate()
            try:
                self._daemon.wait(60)
            except subprocess.TimeoutExpired:
                self._daemon.kill()
                self._daemon.wait()
        for pid in self._inside():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._holder.kill()
        self._holder.wait()

    def _inside(self) -> list[int]:
        """Processes in its network namespace but the one that holds it: a killed daemon leaves its helpers there."""
        found = []
        for path in Path("/proc").glob("[0-9]*/ns/net"):
            with suppress(OSError):
                if path.stat().st_ino == self._namespace:
                    found.append(int(path.parts[2]))
        return [pid for pid in found if pid != self._holder.pid]


@contextmanager
def second_engine(folder: Path, image: str, port: TlsPort | None = None) -> Iterator[SecondEngine]:
    """Start an engine with an image in it; in the end nothing is left of it.

    Args:
        folder: for its files; short, since sockets' paths are.
        image: name of the image.
        port: where it listens, too.
    """
    engine = SecondEngine(folder, port)
    try:
        engine.start()
        engine.load(image)
        yield engine
    finally:
        engine.end()
        shutil.rmtree(folder / "root", ignore_errors=True)
