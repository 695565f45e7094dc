"""The gateway as a container beside the agent's: made for one attempt, and gone with it."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import io
import json
import secrets
import tarfile
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Any
from urllib.parse import unquote, urlsplit

from pytest_researchenv.errors import ConfigurationError, InfrastructureError, SandboxError
from pytest_researchenv.gateway.hosts import own_address, own_address_problem
from pytest_researchenv.gateway.inside.policy import bypassed
from pytest_researchenv.gateway.ledger import EventLedger
from pytest_researchenv.gateway.prices import price_of
from pytest_researchenv.gateway.protocol import (
    Auth,
    Blocking,
    Gateway,
    GatewayAddress,
    GatewayRequest,
    ModelService,
    Reach,
)
from pytest_researchenv.gateway.volume import TARGET
from pytest_researchenv.packagecache.protocol import NAME as PACKAGES
from pytest_researchenv.sandbox.labels import LIFETIME_S
from pytest_researchenv.sandbox.protocol import Container, ContainerSpec, Join, Limits, Mount, Network, Sandbox


__all__ = ["ALIAS", "HostNetwork", "open_gateway"]

#: Its name in the private network.
ALIAS = "gateway"

_MODEL_PORT, _EGRESS_PORT = 4000, 4001

#: Where its scripts lie, and where it may write: in memory only, since its authority's key is there.
_HOME = "/researchenv/gateway"
_SCRATCH = "/researchenv/scratch"

#: 60 MB without traffic; at 1 GiB it sends its clients away itself, so that an agent cannot have it killed.
_LIMITS = Limits(memory_bytes=2 * 1024**3, pids=256, shm_bytes=64 * 1024**2, disk_bytes=1024**3)

#: Large bodies are given back to the system as soon as they are let go.
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(1024**2), "MALLOC_ARENA_MAX": "2"}

#: How long it may take to start, in seconds: about 2 where nothing else runs.
_START_S = 120.0
_STOP_S = 30.0

#: How long a service may be silent before its answer counts as lost, in seconds, unless the caller says otherwise:
#: what the providers' own clients wait.
_SILENCE_S = 600.0

_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class HostNetwork:
    """How this host reaches the outside, as far as a gateway has to do likewise.

    Attributes:
        ca_bundle: certificates of authorities (PEM) that are trusted beside the usual ones.
        proxies: `http_proxy`, `https_proxy` and `no_proxy`, as in the environment.
        private_hosts: hosts of the allowlist that may have private addresses, such as a lab's own mirror.
    """

    ca_bundle: bytes = b""
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    private_hosts: tuple[str, ...] = ()

    @property
    def direct(self) -> tuple[str, ...]:
        """Hosts that are reached without a proxy."""
        return tuple(filter(None, (entry.strip() for entry in self.proxies.get("no_proxy", "").split(","))))

    def proxy(self, scheme: str) -> str:
        """The proxy for a scheme; empty where there is none that a container could reach."""
        url = self.proxies.get(f"{scheme}_proxy", "")
        url = url if "://" in url or not url else f"http://{url}"
        return "" if own_address(urlsplit(url).hostname or "") else url


@dataclass(frozen=True, slots=True)
class _Running:
    """A `Gateway` at work."""

    network: str
    address: GatewayAddress | None
    environment: Mapping[str, str]
    authority: bytes
    ledger: EventLedger


@contextlib.contextmanager
def open_gateway(
    sandbox: Sandbox,
    image: str,
    mount: Mount,
    request: GatewayRequest,
    *,
    host: HostNetwork | None = None,
    silence_s: float = _SILENCE_S,
) -> Iterator[Gateway]:
    """Open a gateway for one attempt; at the end of the block it is gone with its network.

    Args:
        sandbox: the engine.
        image: our own base image, whatever image the agent's container is made from.
        mount: the volume from `ensure_proxy`.
        request: what the gateway is to do.
        host: how this host reaches the outside; None: without proxy, with the usual authorities.
        silence_s: how long the service may send nothing before its answer counts as lost, in seconds.

    Raises:
        ConfigurationError: the service's address means this host, which a container cannot reach.
        InfrastructureError: it does not start; the message has its last words.
    """
    host = host or HostNetwork()
    service = request.service
    if service is not None:
        _check(service)
    token = f"attempt-{secrets.token_urlsafe(32)}"
    document = _document(request, host, token, silence_s)
    ledger = EventLedger(service.model if service else "")
    with (
        sandbox.private_network(outward=request.reach is Reach.OPEN, labels=request.labels) as network,
        sandbox.opened(_spec(image, mount, request, network)) as sidecar,
    ):
        sidecar.put("/", _scripts())
        ending = threading.Event()
        thread = threading.Thread(
            target=_run, args=(sidecar, document, ledger, ending), name="researchenv-gateway", daemon=True
        )
        thread.start()
        try:
            authority = ledger.await_ready(_START_S)
            if authority is None:
                # What Python printed last may still be on its way.
                thread.join(1)
                reason = ledger.failure or f"no sign of life within {_START_S:.0f} s"
                raise InfrastructureError(
                    f"the gateway did not start: {reason}. {ledger.words[-1000:]}\nLook at the container engine's log, "
                    "and whether its host is out of memory."
                )
            url = f"http://127.0.0.1:{sidecar.published()}" if request.on_host else f"http://{ALIAS}:{_MODEL_PORT}"
            address = GatewayAddress(f"{url}{_path(service)}", token) if service else None
            yield _Running(network, address, _environment(request, host), authority, ledger)
        finally:
            ending.set()
            _end(sidecar, thread)


def _check(service: ModelService) -> None:
    try:
        parts = urlsplit(service.endpoint)
        port = parts.port
    except ValueError as error:
        raise ConfigurationError(f"the endpoint {service.endpoint!r} is no address: {error}") from error
    del port
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ConfigurationError(
            f"the endpoint {service.endpoint!r} is no address: write one like https://api.example.org/v1"
        )
    if problem := own_address_problem(service.endpoint):
        raise ConfigurationError(problem)


def _path(service: ModelService) -> str:
    return urlsplit(service.endpoint).path.rstrip("/")


def _spec(image: str, mount: Mount, request: GatewayRequest, network: str) -> ContainerSpec:
    return ContainerSpec(
        image,
        argv=("/usr/bin/python3", "-B", "-m", "inside.start"),
        environment={"PYTHONPATH": f"{_HOME}:{TARGET}", "TMPDIR": _SCRATCH, "HOME": _SCRATCH, **_MALLOC},
        network=Network.OPEN,
        mounts=(mount,),
        limits=_LIMITS,
        labels=request.labels,
        joins=(Join(network, ALIAS), *((Join(request.package_network),) if request.package_network else ())),
        scratch=_SCRATCH,
        publish=_MODEL_PORT if request.on_host else 0,
    )


def _scripts() -> io.BytesIO:
    """The sidecar's own files, as an archive to be unpacked at `/`."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        package = f"{_HOME.lstrip('/')}/inside"
        parts = package.split("/")
        for depth in range(1, len(parts) + 1):
            folder = tarfile.TarInfo("/".join(parts[:depth]))
            folder.type, folder.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(folder)
        for file in resources.files("pytest_researchenv.gateway").joinpath("inside").iterdir():
            if file.name.endswith(".py"):
                content = file.read_bytes()
                member = tarfile.TarInfo(f"{package}/{file.name}")
                member.size, member.mode = len(content), 0o644
                archive.addfile(member, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def _run(sidecar: Container, document: bytes, ledger: EventLedger, ending: threading.Event) -> None:
    """Carry the sidecar's events into the ledger until it is stopped."""
    try:
        ended = sidecar.run(timeout_s=LIFETIME_S, on_output=ledger.feed, capture_bytes=4096, stdin=document)
    except SandboxError as error:
        problem = str(error)
    else:
        problem = f"it {ended.how}: {ledger.words[-300:]}".rstrip(": ")
    if not ending.is_set():
        ledger.fail(problem)


def _end(sidecar: Container, thread: threading.Thread) -> None:
    deadline = time.monotonic() + _STOP_S
    while thread.is_alive() and time.monotonic() < deadline:
        # Again and again: interrupted early, it may be about to start. Removing it ends it in any case.
        with contextlib.suppress(SandboxError):
            sidecar.stop()
        thread.join(1)


def _environment(request: GatewayRequest, host: HostNetwork) -> dict[str, str]:
    own = [ALIAS, "localhost", "127.0.0.1"]
    variables: dict[str, str] = {}
    if request.reach is Reach.ALLOWLIST:
        way_out = f"http://{ALIAS}:{_EGRESS_PORT}"
        variables = dict.fromkeys(("http_proxy", "https_proxy", "all_proxy"), way_out)
        variables["no_proxy"] = ",".join(own)
    elif host.proxies:
        # The host's own proxies would be asked for the gateway.
        variables["no_proxy"] = ",".join([*host.direct, *own])
    # Tools disagree about the case that they read.
    return variables | {name.upper(): value for name, value in variables.items()}


# --- Its settings ---------------------------------------------------------------------------------------------


def _document(request: GatewayRequest, host: HostNetwork, token: str, silence_s: float) -> bytes:
    """What `inside/settings.py` reads."""
    service = request.service
    proxy = host.proxy("https") or host.proxy("http")
    document = {
        "model": _model(request, service, host, token, silence_s) if service else None,
        "egress": _egress(request, host, proxy) if request.reach is Reach.ALLOWLIST else None,
        "alias": ALIAS,
        "published": request.on_host,
        "lifetime_s": request.lifetime_s,
        "ports": [_MODEL_PORT, _EGRESS_PORT],
        "ca_bundle": host.ca_bundle.decode(errors="replace"),
        "credential": _credential(proxy),
    }
    return json.dumps(document).encode()


def _model(
    request: GatewayRequest, service: ModelService, host: HostNetwork, token: str, silence_s: float
) -> dict[str, Any]:
    parts = urlsplit(service.endpoint)
    priced = {model: price_of(model, request.prices) for model in service.models}
    return {
        "api": service.api.value,
        "endpoint": service.endpoint,
        "bearer": service.auth is Auth.BEARER,
        "key": request.key.value if request.key else "",
        "token": token,
        "models": list(service.models),
        "prices": {model: dataclasses.asdict(price) for model, price in priced.items() if price},
        "budget": dataclasses.asdict(request.budget),
        "silence_s": silence_s,
        # They reach past the container's own reach, and have prices that no tokens tell.
        "hosted_tools": request.reach is Reach.OPEN,
        "via": None if bypassed(parts.hostname or "", host.direct) else _via(host.proxy(parts.scheme)),
    }


def _egress(request: GatewayRequest, host: HostNetwork, proxy: str) -> dict[str, Any]:
    return {
        "allow": list(request.allow),
        "deny": list(request.deny),
        "canaries": list(request.canaries),
        "blocked": dataclasses.asdict(request.blocking or Blocking()),
        "private": list(host.private_hosts),
        "via": _via(proxy),
        "direct": [*host.direct, *([PACKAGES] if request.package_network else [])],
    }


def _via(proxy: str) -> list[str | int] | None:
    """Scheme, host and port of a proxy."""
    if not proxy:
        return None
    parts = urlsplit(proxy)
    if parts.scheme not in _SCHEMES or not parts.hostname:
        raise ConfigurationError(
            f"the gateway cannot use a proxy of the kind {parts.scheme!r}: set https_proxy to one that speaks http"
        )
    return [parts.scheme, parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)]


def _credential(proxy: str) -> str:
    parts = urlsplit(proxy)
    if not parts.username:
        return ""
    login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return f"Basic {base64.b64encode(login.encode()).decode()}"
