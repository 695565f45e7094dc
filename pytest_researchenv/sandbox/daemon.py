"""Finds the container engine."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docker import DockerClient
from docker.constants import MINIMUM_DOCKER_API_VERSION
from docker.context import ContextAPI
from docker.errors import ContextException, DockerException, TLSParameterError
from docker.utils import kwargs_from_env
from requests.exceptions import RequestException
from requests.utils import get_environ_proxies

from pytest_researchenv.errors import DaemonUnavailableError


if TYPE_CHECKING:
    from docker.tls import TLSConfig


__all__ = ["Address", "connect", "context_address", "explicit_address", "find", "usual_addresses"]

#: How long an engine may take to answer at first, in seconds.
_PING_S = 5

#: How long a single answer may take afterwards, in seconds: an engine that hangs must not hold up a run for longer.
#: What takes longer, such as a commit of tens of gigabytes, is given its own time (`_engine.patience`).
_ANSWER_S = 300

_HOW_TO = """\
How to get one:
  - Debian or Ubuntu: `sudo apt-get install docker.io` installs and starts it.
  - Installed, but not running: `sudo systemctl start docker`; without an init system `sudo dockerd &`.
  - Permission denied: `sudo usermod -aG docker "$USER"`, then log in again.
  - Elsewhere: set DOCKER_HOST, or choose one with `docker context use`."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where an engine may answer.

    Attributes:
        url: as in DOCKER_HOST.
        origin: why it is tried, in words.
        tls: how to talk to it, None for a plain connection.
    """

    url: str
    origin: str
    tls: TLSConfig | None = None


def connect(context: str = "") -> DockerClient:
    """Connect to the engine that the user chose, else to the first of the usual ones that answers.

    Args:
        context: name of a Docker context, which wins over what was chosen for all commands.

    Raises:
        DaemonUnavailableError: the chosen engine does not answer, or none does.
    """
    return find(context)[0]


def find(context: str = "") -> tuple[DockerClient, Address]:
    """Connect as `connect` does, and tell where the engine is.

    Args:
        context: likewise.

    Raises:
        DaemonUnavailableError: the chosen engine does not answer, or none does.
    """
    chosen = context_address(context, "--researchenv-docker") if context else explicit_address()
    failures: list[str] = []
    # A choice that does not answer is an error: work must not end up on another engine.
    for address in [chosen] if chosen else list(usual_addresses(os.environ)):
        try:
            return _client(address), address
        except (DockerException, RequestException, OSError, ValueError) as error:
            failures.append(f"  - {address.url} ({address.origin}): {_reason(error)}")
    if context:
        raise DaemonUnavailableError(
            f"the container engine of the Docker context {context!r} does not answer:\n" + "\n".join(failures)
        )
    raise DaemonUnavailableError("No container engine answers. Tried:\n" + "\n".join(failures) + f"\n{_HOW_TO}")


def explicit_address() -> Address | None:
    """The engine that the user chose by DOCKER_HOST, DOCKER_CONTEXT or `docker context use`, if any.

    Raises:
        DaemonUnavailableError: what was chosen does not exist or cannot be read.
    """
    if host := os.environ.get("DOCKER_HOST"):
        try:
            tls = kwargs_from_env().get("tls")
        except TLSParameterError as error:
            raise DaemonUnavailableError(
                f"DOCKER_HOST={host} cannot be used: {error}. Correct DOCKER_TLS_VERIFY and DOCKER_CERT_PATH."
            ) from error
        return Address(host, "DOCKER_HOST", tls or None)
    name = os.environ.get("DOCKER_CONTEXT", "")
    return context_address(name, "DOCKER_CONTEXT" if name else "the current docker context")


def context_address(name: str, origin: str) -> Address | None:
    """The engine of a Docker context; None where that is the usual one.

    Args:
        name: of the context; empty for the current one.
        origin: who chose it, in words.

    Raises:
        DaemonUnavailableError: there is no such context, or it cannot be read.
    """
    folder = Path(os.environ.get("DOCKER_CONFIG") or Path.home() / ".docker")
    if name not in ("", "default") and not (folder / "config.json").exists():
        # docker-py looks for contexts beside this file only, and finds none without it.
        raise DaemonUnavailableError(
            f"the docker context {name!r} ({origin}) cannot be looked up, since there is no {folder}/config.json: "
            f"write {{}} into that file, or run `docker context use {name}`"
        )
    try:
        context = ContextAPI.get_context(name or None)
    except (ContextException, OSError, ValueError, KeyError) as error:
        raise DaemonUnavailableError(
            f"The docker context {name or 'in use'!r} cannot be read: {error}. See `docker context ls`."
        ) from error
    if context is None:
        raise DaemonUnavailableError(
            f"{origin} is {name or '(see `docker context show`)'!r}, which does not exist. See `docker context ls`."
        )
    if context.Name == "default":
        return None
    return Address(context.Host or "", f"{origin}, {context.Name!r}", context.TLSConfig)


def usual_addresses(environ: Mapping[str, str]) -> Iterator[Address]:
    """Where Docker, rootless Docker, Docker Desktop and Podman listen, in the order they are tried."""
    home = Path(environ.get("HOME") or Path.home())
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    yield Address("unix:///var/run/docker.sock", "Docker")
    yield Address(f"unix://{runtime}/docker.sock", "rootless Docker")
    yield Address(f"unix://{home}/.docker/run/docker.sock", "rootless Docker")
    yield Address(f"unix://{home}/.docker/desktop/docker.sock", "Docker Desktop")
    yield Address(f"unix://{runtime}/podman/podman.sock", "rootless Podman")
    yield Address("unix:///run/podman/podman.sock", "Podman")


def _client(address: Address) -> DockerClient:
    options: dict[str, Any] = {
        "base_url": address.url,
        "tls": address.tls or False,
        "use_ssh_client": address.url.startswith("ssh://"),
    }
    if address.url.startswith("unix://"):
        _listens(address.url.removeprefix("unix://"))
    # Asked by a client that can be closed: one made with version="auto" that fails leaves its socket open.
    probe = _trusting(DockerClient(version=MINIMUM_DOCKER_API_VERSION, timeout=_PING_S, **options), address)
    try:
        version = probe.api.version(api_version=False)["ApiVersion"]
    finally:
        probe.close()
    return _trusting(DockerClient(version=version, timeout=_ANSWER_S, **options), address)


def _trusting(client: DockerClient, address: Address) -> DockerClient:
    """Have a client trust the authority of its context, whatever the environment names for all else.

    For requests, REQUESTS_CA_BUNDLE and CURL_CA_BUNDLE win over what docker-py sets (tried with 2.34).
    """
    if address.tls:
        client.api.proxies = get_environ_proxies(client.api.base_url)
        client.api.trust_env = False
    return client


def _listens(path: str) -> None:
    # docker-py leaves its socket open when this fails.
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_PING_S)
        connection.connect(path)


def _reason(error: BaseException) -> str:
    """The cause in words: docker-py, requests and urllib3 each wrap what the system said."""
    seen = error
    while cause := seen.__cause__ or seen.__context__:
        seen = cause
    match seen:
        case FileNotFoundError():
            return "no such socket"
        case PermissionError():
            return "permission denied"
        case ConnectionRefusedError():
            return "nothing listens there"
        case TimeoutError():
            return f"no answer within {_PING_S} s"
    if "paramiko" in str(error):
        return "ssh needs `pip install 'pytest-researchenv[ssh]'`"
    return str(error)
