"""The stand-in of the model providers' services, at work: on this host, or in a container."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tarfile
import time
import tomllib
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from urllib.error import HTTPError

from pytest_researchenv.sandbox.labels import Owner


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["StandIn", "in_container", "on_host", "tape"]

_FOLDER = Path(__file__).parents[2] / "fixtures" / "api"
_PORT = 8000

#: The stubs do not know that None stands for any port.
_LOOPBACK = cast("tuple[str, int]", ("127.0.0.1", None))

#: How long the server may take to answer for the first time, in seconds.
_START_S = 30.0


@dataclass(frozen=True, slots=True)
class StandIn:
    """A stand-in at work.

    Attributes:
        url: where it answers this host: `http://127.0.0.1:PORT`.
        bridge_url: where it answers containers on the default bridge, sidecars among them; empty on the host.
        network_url: where it answers containers of the private network that it was put into; empty without one.
    """

    url: str
    bridge_url: str = ""
    network_url: str = ""

    def log(self) -> list[dict[str, Any]]:
        """Every request so far; the keys are listed in `fixtures/api/server.py`."""
        return cast("list[dict[str, Any]]", self._ask("/_log"))

    def bodies(self) -> list[str]:
        """The last requests' bodies."""
        return cast("list[str]", self._ask("/_bodies"))

    def play(self, values: Mapping[str, Any]) -> None:
        """Play another tape from now on.

        Raises:
            ValueError: it is no tape.
        """
        try:
            self._ask("/_tape", json.dumps(values).encode())
        except HTTPError as error:
            with error:
                raise ValueError(f"no tape: {error.read().decode()}") from error

    def _ask(self, path: str, data: bytes | None = None) -> object:
        # No proxy of this host stands between.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(self.url + path, data, timeout=10) as answer:
            return json.load(answer)


def tape(name: str, **changes: object) -> dict[str, Any]:
    """Read a tape of `fixtures/api/tapes`, with other values at its top: `tape("good", commands=["make"])`."""
    return {**tomllib.loads((_FOLDER / "tapes" / f"{name}.toml").read_text(encoding="utf-8")), **changes}


@contextmanager
def on_host(values: Mapping[str, Any]) -> Iterator[StandIn]:
    """Play a tape on the loopback address of this host, in a process of its own."""
    command = [sys.executable, str(_FOLDER / "server.py"), "--host", "127.0.0.1", "--port", "0", "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = int(process.stdout.readline().split()[-1])
            standin = StandIn(f"http://127.0.0.1:{port}")
            standin.play(values)
            yield standin
        finally:
            process.kill()


@contextmanager
def in_container(
    client: DockerClient, image: str, values: Mapping[str, Any], *, network: str = "", alias: str = "model"
) -> Iterator[StandIn]:
    """Play a tape in a container on the default bridge.

    Args:
        client: a client of the engine.
        image: an image with Python 3.11 or newer: the base image.
        values: the tape.
        network: a private network in which it answers, too.
        alias: its name in there.
    """
    container = client.containers.create(
        image,
        ["python3", "/standin/server.py", "--host", "0.0.0.0", "--port", str(_PORT)],  # noqa: S104 - the container's
        ports={f"{_PORT}/tcp": _LOOPBACK},
        labels=Owner.current("tests").labels("stand-in"),
        detach=True,
    )
    try:
        container.put_archive("/", _archive())
        if network:
            client.networks.get(network).connect(container, aliases=[alias])
        container.start()
        container.reload()
        settings = container.attrs["NetworkSettings"]
        port = settings["Ports"][f"{_PORT}/tcp"][0]["HostPort"]
        standin = StandIn(
            url=f"http://127.0.0.1:{port}",
            bridge_url=f"http://{settings['Networks']['bridge']['IPAddress']}:{_PORT}",
            network_url=f"http://{alias}:{_PORT}" if network else "",
        )
        _first_word(standin, values)
        yield standin
    finally:
        container.remove(force=True, v=True)


def _first_word(standin: StandIn, values: Mapping[str, Any]) -> None:
    end = time.monotonic() + _START_S
    while True:
        try:
            standin.play(values)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
        else:
            return


def _archive() -> bytes:
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(_FOLDER.glob("*.py")):
            archive.add(path, f"standin/{path.name}")
    return stream.getvalue()
