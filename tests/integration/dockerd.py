"""A second Docker engine, of the test's own: other data, other sockets, a network of its own, reached by tcp with TLS.

It runs in a network namespace of its own, since a second one beside the first would take its bridge away; the port that
it listens on is opened before, outside, and handed to it.
"""

from __future__ import annotations

import contextlib
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from docker import DockerClient
from docker.errors import DockerException
from docker.tls import TLSConfig
from requests.exceptions import RequestException

from pytest_researchenv.sandbox.daemon import Address, _client


__all__ = ["SecondEngine", "second_engine"]

_UP_S = 120.0
_DOWN_S = 60.0

#: As systemd hands over what it listens on: the first descriptor after the standard ones.
_HANDING_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass
class SecondEngine:
    """An engine that can be stopped and started again.

    Attributes:
        folder: its files: data, logs, certificates.
        port: where it listens on the loopback, with TLS.
    """

    folder: Path
    port: int
    _listener: socket.socket
    _process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """Its address for `docker context create`."""
        folder = self.folder
        keys = f"ca={folder}/ca.pem,cert={folder}/client.pem,key={folder}/client.key"
        return f"host=tcp://127.0.0.1:{self.port},{keys}"

    @property
    def socket(self) -> str:
        """Its socket for processes of this host."""
        return f"unix://{self.folder}/docker.sock"

    def client(self) -> DockerClient:
        """A client of it, by TLS."""
        keys = (str(self.folder / "client.pem"), str(self.folder / "client.key"))
        tls = TLSConfig(client_cert=keys, ca_cert=str(self.folder / "ca.pem"), verify=True)
        return _client(Address(f"tcp://127.0.0.1:{self.port}", "the test", tls))

    def start(self) -> None:
        """Start it, and wait until it answers."""
        folder = self.folder
        arguments = [
            *("--host=fd://", f"--host={self.socket}", "--tlsverify", f"--tlscacert={folder}/ca.pem"),
            *(f"--tlscert={folder}/server.pem", f"--tlskey={folder}/server.key"),
            *(f"--data-root={folder}/data", f"--exec-root={folder}/exec", f"--pidfile={folder}/docker.pid"),
            "--config-file=" + str(folder / "daemon.json"),
        ]

        number = self._listener.fileno()
        with (folder / "dockerd.log").open("ab") as log:
            self._process = subprocess.Popen(
                ["unshare", "--net", sys.executable, "-c", _HANDING_OVER, str(number), "dockerd", *arguments],
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                pass_fds=[number],
            )
        deadline = time.monotonic() + _UP_S
        while not self._answers():
            said = (folder / "dockerd.log").read_text()[-3000:]
            assert time.monotonic() < deadline, f"the second engine does not answer\n{said}"
            time.sleep(0.5)

    def _answers(self) -> bool:
        with (
            contextlib.suppress(DockerException, RequestException, OSError),
            contextlib.closing(self.client()) as client,
        ):
            return bool(client.ping())
        return False

    def stop(self) -> None:
        """End it, as a service manager would."""
        if self._process:
            self._process.terminate()
            try:
                self._process.wait(_DOWN_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


@contextlib.contextmanager
def second_engine(folder: Path) -> Iterator[SecondEngine]:
    """Start one, and leave nothing of it.

    Args:
        folder: for its files; short, since sockets' paths are.
    """
    certificates(folder)
    (folder / "daemon.json").write_text("{}")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        engine = SecondEngine(folder, int(listener.getsockname()[1]), listener)
        try:
            engine.start()
            yield engine
        finally:
            with contextlib.suppress(Exception), contextlib.closing(engine.client()) as client:
                for container in client.containers.list(all=True):
                    container.remove(force=True)
            engine.stop()
            # An engine that has ended leaves its data mounted on themselves.
            for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
                where = line.split()[4]
                if where.startswith(f"{folder}/"):
                    subprocess.run(["umount", "--lazy", where], check=False)
            shutil.rmtree(folder / "data", ignore_errors=True)
            shutil.rmtree(folder / "exec", ignore_errors=True)


def certificates(folder: Path) -> None:
    """Write an authority, and a server's and a client's certificate with their keys."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    new = ["-newkey", "rsa:2048", "-nodes", "-days", "2"]
    openssl("req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority")
    for name, more in (("server", "subjectAltName=IP:127.0.0.1"), ("client", "extendedKeyUsage=clientAuth")):
        openssl("req", *new[:3], "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        (folder / f"{name}.ext").write_text(more)
        signing = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", f"{name}.ext"]
        openssl("x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signing)
