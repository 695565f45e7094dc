"""A port of the loopback by which a Docker engine in a network of its own is reached, with TLS.

It is opened outside of that network, and handed to the engine when it starts.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


__all__ = ["TlsPort", "tls_port"]

#: As systemd hands over what it listens on: the first descriptor after the standard ones.
_HANDING_OVER = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1"}
os.execvp(sys.argv[2], sys.argv[2:])
"""


@dataclass(frozen=True)
class TlsPort:
    """The port, and the certificates of both sides.

    Attributes:
        folder: that has the certificates.
        listener: what listens.
    """

    folder: Path
    listener: socket.socket

    @property
    def address(self) -> str:
        """Its address for `docker context create`."""
        folder, port = self.folder, self.listener.getsockname()[1]
        keys = f"ca={folder}/ca.pem,cert={folder}/client.pem,key={folder}/client.key"
        return f"host=tcp://127.0.0.1:{port},{keys}"

    @property
    def descriptor(self) -> int:
        """What the engine's process is to be given."""
        return self.listener.fileno()

    def handed_to(self, command: list[str]) -> list[str]:
        """The command of an engine that is to listen here, too."""
        folder = self.folder
        options = ["--host=fd://", "--tlsverify", f"--tlscacert={folder}/ca.pem"]
        options += [f"--tlscert={folder}/server.pem", f"--tlskey={folder}/server.key"]
        return [sys.executable, "-c", _HANDING_OVER, str(self.descriptor), *command, *options]


@contextmanager
def tls_port(folder: Path) -> Iterator[TlsPort]:
    """Open one, with new certificates in a folder."""
    _write_certificates(folder)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield TlsPort(folder, listener)


def _write_certificates(folder: Path) -> None:
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
