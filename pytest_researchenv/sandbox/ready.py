"""Docker made ready for a session: cleaned of dead runs, with base image, tools and the host's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from pytest_researchenv.engine import Engine
from pytest_researchenv.gateway.opening import Gateways
from pytest_researchenv.hardware import CPU_ONLY, Accelerator, Hardware
from pytest_researchenv.sandbox._engine import engine_version
from pytest_researchenv.sandbox.agenttools import ensure_agent_tool
from pytest_researchenv.sandbox.assets import ensure_asset
from pytest_researchenv.sandbox.daemon import connect
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.gpu import detect
from pytest_researchenv.sandbox.hostsettings import host_settings
from pytest_researchenv.sandbox.images import ensure_base_image
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.reaper import reap
from pytest_researchenv.sandbox.tools import ensure_tools


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = ["CUDA_IMAGE", "docker_engine", "judging_engine"]

#: Where agents start on CUDA, unless the user chose: the published benchmark's target (arXiv 2603.06739).
CUDA_IMAGE = "nvidia/cuda:12.4.1-devel-ubuntu22.04"


def docker_engine(run: str, *, image: str, accelerator: str, say: Callable[[str], None]) -> Engine:
    """Connect to Docker and make ready what is missing.

    Args:
        run: name of the run, for labels.
        image: registry reference of the base image; empty for the default.
        accelerator: `auto` (devices where the driver answers, else the CPU), `cuda` or `cpu`.
        say: called with what takes a while.

    Raises:
        DaemonUnavailableError: no container engine answers.
        ImageError: the base image or the tool volume could not be made.
    """
    client = connect()
    owner = Owner.current(run)
    reap(client, everything=False, owner=owner)
    sandbox = DockerSandbox(client, owner)
    base = ensure_base_image(client, owner=owner, wanted=image, say=say)
    hardware = _hardware(sandbox, base.image, accelerator)
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
        version=engine_version(client),
        gateway=Gateways(client, sandbox, owner, host, say),
        hardware=hardware,
        volume_of=partial(ensure_asset, client, owner=owner, image=base.image, say=say),
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
    return Engine(
        sandbox=sandbox,
        base_image=image,
        base_key="",
        mounts=(),
        environment={},
        tools=ensure_tools(client, owner=owner, image=image, say=say),
        hardware=_hardware(sandbox, image, accelerator),
        volume_of=partial(ensure_asset, client, owner=owner, image=image, say=say),
    )


def _hardware(sandbox: DockerSandbox, image: str, accelerator: str) -> Hardware:
    if accelerator == Accelerator.CPU:
        return CPU_ONLY
    found = detect(sandbox, image)
    # Devices that were asked for and are not there are a reason to skip, not to emulate.
    return replace(found, accelerator=Accelerator.CUDA) if accelerator == Accelerator.CUDA else found
