"""Docker made ready for a session: cleaned of dead runs, with base image, tools and the host's settings."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_researchenv.engine import Engine
from pytest_researchenv.gateway.opening import Gateways
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Hardware
from pytest_researchenv.leases.choice import AUTO, SharingSettings, allotted
from pytest_researchenv.leases.sharing import ALONE, Sharing, line_folder, shared
from pytest_researchenv.packagecache.cache import SharedCache
from pytest_researchenv.pool import Host
from pytest_researchenv.sandbox._engine import engine_version
from pytest_researchenv.sandbox._stream import engine_call
from pytest_researchenv.sandbox.agenttools import ensure_agent_tool
from pytest_researchenv.sandbox.answering import Answering
from pytest_researchenv.sandbox.assets import ensure_asset
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.data import ensure_data
from pytest_researchenv.sandbox.diskroom import disk_of
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.gpu import detect, occupied
from pytest_researchenv.sandbox.hostsettings import host_settings
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.interpreter import ensure_interpreter
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import orphans, reap
from pytest_researchenv.sandbox.scripts import ensure_scripts
from pytest_researchenv.sandbox.tools import ensure_tools


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["CUDA_IMAGE", "docker_engine", "host_of", "judging_engine"]

#: Where agents start on CUDA, unless the user chose: the published benchmark's target (arXiv 2603.06739).
CUDA_IMAGE = "nvidia/cuda:12.4.1-devel-ubuntu22.04"

#: As docker-py writes the address of an engine that listens on a socket of this host.
_LOCAL = ("http+docker://localhost", "http+docker://localunixsocket")


def docker_engine(
    run: str,
    *,
    image: str,
    accelerator: str,
    say: Callable[[str], None],
    sharing: SharingSettings | None = None,
    context: str = "",
    package_cache_bytes: int = 0,
) -> Engine:
    """Connect to Docker and make ready what is missing.

    Args:
        run: name of the run, for labels.
        image: registry reference of the base image; empty for the default.
        accelerator: `auto` (devices where the driver answers, else the CPU), `cuda` or `cpu`.
        say: called with what takes a while.
        sharing: which devices may be used, and how they are shared with other runs; None: all, as usual.
        context: the Docker context of one engine of several; empty for the only one.
        package_cache_bytes: what a package cache may keep; 0 for no cache.

    Raises:
        ConfigurationError: a device was named that is not there.
        DaemonUnavailableError: no container engine answers.
        ImageError: the base image or the tool volume could not be made.
    """
    client = connect(context)
    owner = Owner.current(run)
    reap(client, everything=False, owner=owner)
    sandbox = DockerSandbox(client, owner)
    base = ensure_base_image(client, owner=owner, wanted=image, say=say)
    told = _told(client)
    chosen = sharing or SharingSettings()
    hardware, shares = _hardware(client, sandbox, base.image, accelerator, settings=chosen, owner=owner)
    if hardware.devices and not image:
        # Extensions that agents compile need the CUDA compiler.
        base = ensure_base_image(client, owner=owner, wanted=CUDA_IMAGE, say=say)
    host = host_settings(client, owner=owner, image=base.image, say=say)
    packages = _packages(client, owner, package_cache_bytes, say)
    return Engine(
        sandbox=sandbox,
        base_image=base.image,
        base_key=base.key,
        mounts=(host.mount,) if host.mount else (),
        environment=host.environment,
        notes=host.notes,
        close=partial(_close, client, packages),
        tools=ensure_tools(client, owner=owner, image=base.image, say=say),
        tool_volume=partial(ensure_agent_tool, client, owner=owner, image=base.image, say=say),
        scripts=partial(ensure_scripts, client, owner=owner, image=base.image, say=say),
        interpreter=partial(ensure_interpreter, client, owner=owner, say=say),
        version=engine_version(client),
        id=_identity(told),
        name=context,
        pooled=bool(context),
        gateway=Gateways(client, sandbox, owner, host, say),
        hardware=hardware,
        sharing=shares,
        packages=packages,
        volume_of=partial(ensure_asset, client, owner=owner, image=base.image, say=say),
        data_of=partial(ensure_data, client, owner=owner, image=base.image, say=say),
        answering=Answering(client),
        disk=disk_of(sandbox, told, image=base.image, local=_is_local(client)),
        builders=_builders(line_folder(chosen, owner=owner, engine=_name(client, told))),
        orphans=partial(orphans, client, owner=owner),
    )


def _packages(client: DockerClient, owner: Owner, limit_bytes: int, say: Callable[[str], None]) -> SharedCache | None:
    return SharedCache(client, owner=owner, limit_bytes=limit_bytes, say=say) if limit_bytes else None


def _close(client: DockerClient, packages: SharedCache | None) -> None:
    if packages:
        packages.close()
    client.close()


def judging_engine(
    client: DockerClient, owner: Owner, *, image: str, accelerator: str, say: Callable[[str], None]
) -> Engine:
    """Make ready what probes need to judge an environment that is there: nothing is built, pulled or fetched for it.

    Args:
        client: the engine; whoever opened it closes it.
        owner: on whose behalf containers are made.
        image: any image that is there.
        accelerator: `cuda` or `cpu`.
        say: called with what takes a while.

    Raises:
        ImageError: the tool volume is not there, and could not be made.
    """
    sandbox = DockerSandbox(client, owner)
    hardware, shares = _hardware(client, sandbox, image, accelerator, settings=SharingSettings(), owner=owner)
    return Engine(
        sandbox=sandbox,
        base_image=image,
        base_key="",
        mounts=(),
        environment={},
        tools=ensure_tools(client, owner=owner, image=image, say=say),
        hardware=hardware,
        sharing=shares,
        volume_of=partial(ensure_asset, client, owner=owner, image=image, say=say),
    )


def _hardware(
    client: DockerClient,
    sandbox: DockerSandbox,
    image: str,
    accelerator: str,
    *,
    settings: SharingSettings,
    owner: Owner,
) -> tuple[Hardware, Sharing]:
    found = CPU_ONLY if accelerator == Accelerator.CPU else detect(sandbox, image)
    if not (found.devices or settings.slots):
        return _as_asked(found, accelerator), ALONE
    told = _told(client)
    # What batch systems say in this variable is about this host, and nothing about an engine elsewhere.
    local = _is_local(client)
    hardware, sharing = shared(
        found,
        settings,
        owner=owner,
        engine=_name(client, told),
        slots=settings.number_of_slots(processors=int(told.get("NCPU", 1)), memory_bytes=int(told.get("MemTotal", 0))),
        variable=allotted(os.environ) if local else None,
        occupied=partial(occupied, sandbox, image),
    )
    return _as_asked(hardware, accelerator), sharing


def _told(client: DockerClient) -> Mapping[str, Any]:
    with engine_call("ask the engine about itself and its host"):
        return client.info()


def _is_local(client: DockerClient) -> bool:
    return client.api.base_url in _LOCAL


def _name(client: DockerClient, told: Mapping[str, Any]) -> str:
    return str(told.get("ID") or client.api.base_url)


def _builders(line: Path) -> Path:
    """Where those who build stand in line for room: beside the line for devices."""
    return line.with_name(f"{line.name}-disk")


def _as_asked(found: Hardware, accelerator: str) -> Hardware:
    # Devices that were asked for and are not there are a reason to skip, not to emulate.
    return replace(found, accelerator=Accelerator.CUDA) if accelerator == Accelerator.CUDA else found


def host_of(context: str, sharing: SharingSettings) -> Host:
    """Ask an engine what it is, and how much work its host can do at once; nothing is made there.

    Args:
        context: its Docker context.
        sharing: how many slots it has, where the user said so.

    Raises:
        DaemonUnavailableError: it does not answer.
    """
    settings = sharing if sharing.slots else replace(sharing, slots=AUTO)
    with closing(connect(context)) as client, engine_call("ask how large its host is"):
        told = client.info()
    slots = settings.number_of_slots(processors=int(told.get("NCPU", 1)), memory_bytes=int(told.get("MemTotal", 0)))
    return Host(_identity(told), slots)


def _identity(told: Mapping[str, Any]) -> str:
    """Return what tells an engine from all others, by what it says of itself.

    Its own id is not enough: up to Docker 20.10 it is made from a key of the host (`/etc/docker/key.json`), which all
    engines of the host share, as do hosts that were made from one disk image.
    """
    apart = "\n".join(str(told.get(name, "")) for name in ("ID", "Name", "DockerRootDir"))
    return hashlib.sha256(apart.encode()).hexdigest()[:16]
