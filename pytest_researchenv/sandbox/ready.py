"""Docker made ready for a session: cleaned of dead runs, with base image, tools and the host's settings."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_researchenv.engine import Engine
from pytest_researchenv.gateway.opening import Gateways
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Hardware
from pytest_researchenv.leases.choice import SharingSettings
from pytest_researchenv.leases.sharing import ALONE, Sharing, shared
from pytest_researchenv.sandbox._engine import engine_version
from pytest_researchenv.sandbox._stream import engine_call
from pytest_researchenv.sandbox.agenttools import ensure_agent_tool
from pytest_researchenv.sandbox.assets import ensure_asset
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.data import ensure_data
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.gpu import detect, occupied
from pytest_researchenv.sandbox.hostsettings import host_settings
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.interpreter import ensure_interpreter
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import reap
from pytest_researchenv.sandbox.scripts import ensure_scripts
from pytest_researchenv.sandbox.tools import ensure_tools


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["CUDA_IMAGE", "docker_engine", "judging_engine"]

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
) -> Engine:
    """Connect to Docker and make ready what is missing.

    Args:
        run: name of the run, for labels.
        image: registry reference of the base image; empty for the default.
        accelerator: `auto` (devices where the driver answers, else the CPU), `cuda` or `cpu`.
        say: called with what takes a while.
        sharing: which devices may be used, and how they are shared with other runs; None: all, as usual.

    Raises:
        ConfigurationError: a device was named that is not there.
        DaemonUnavailableError: no container engine answers.
        ImageError: the base image or the tool volume could not be made.
    """
    client = connect()
    owner = Owner.current(run)
    reap(client, everything=False, owner=owner)
    sandbox = DockerSandbox(client, owner)
    base = ensure_base_image(client, owner=owner, wanted=image, say=say)
    hardware, shares = _hardware(
        client, sandbox, base.image, accelerator, settings=sharing or SharingSettings(), owner=owner
    )
    if hardware.devices and not image:
        # Extensions that agents compile need the CUDA compiler.
        base = ensure_base_image(client, owner=owner, wanted=CUDA_IMAGE, say=say)
    host = host_settings(client, owner=owner, image=base.image, say=say)
    return Engine(
        sandbox=sandbox,
        base_image=base.image,
        base_key=base.key,
        mounts=(host.mount,) if host.mount else (),
        environment=host.environment,
        notes=host.notes,
        close=client.close,
        tools=ensure_tools(client, owner=owner, image=base.image, say=say),
        tool_volume=partial(ensure_agent_tool, client, owner=owner, image=base.image, say=say),
        scripts=partial(ensure_scripts, client, owner=owner, image=base.image, say=say),
        interpreter=partial(ensure_interpreter, client, owner=owner, say=say),
        version=engine_version(client),
        gateway=Gateways(client, sandbox, owner, host, say),
        hardware=hardware,
        sharing=shares,
        volume_of=partial(ensure_asset, client, owner=owner, image=base.image, say=say),
        data_of=partial(ensure_data, client, owner=owner, image=base.image, say=say),
    )


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
    with engine_call("ask how large its host is"):
        told = client.info()
    # What batch systems say in this variable is about this host, and nothing about an engine elsewhere.
    local = client.api.base_url in _LOCAL
    hardware, sharing = shared(
        found,
        settings,
        owner=owner,
        engine=str(told.get("ID") or client.api.base_url),
        slots=settings.number_of_slots(processors=int(told.get("NCPU", 1)), memory_bytes=int(told.get("MemTotal", 0))),
        variable=os.environ.get("CUDA_VISIBLE_DEVICES") if local else None,
        occupied=partial(occupied, sandbox, image),
    )
    return _as_asked(hardware, accelerator), sharing


def _as_asked(found: Hardware, accelerator: str) -> Hardware:
    # Devices that were asked for and are not there are a reason to skip, not to emulate.
    return replace(found, accelerator=Accelerator.CUDA) if accelerator == Accelerator.CUDA else found
