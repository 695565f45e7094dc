"""What environments are built and judged with, whichever container engine stands behind it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from pytest_researchenv.agents.protocol import Tool
from pytest_researchenv.disk.room import UNKNOWN, EngineDisk
from pytest_researchenv.errors import AssetError, ImageError, SandboxError
from pytest_researchenv.gateway.protocol import Gateway, GatewayRequest
from pytest_researchenv.hardware import CPU_ONLY, Hardware
from pytest_researchenv.leases.sharing import ALONE, Sharing
from pytest_researchenv.packagecache.protocol import PackageCache
from pytest_researchenv.sandbox.protocol import ContainerSpec, Mount, Sandbox


__all__ = ["Engine", "in_words", "require_working"]


def _no_volumes(name: str, digest: str, path: Path) -> Mount:
    raise AssetError(f"this engine makes no volumes, so it has none for the asset {name} ({digest}, {path})")


def _no_data(name: str, path: Path) -> Mount:
    raise AssetError(f"this engine makes no volumes, so it has none for the data {name} ({path})")


def _no_tools(tool: Tool) -> Mount:
    raise ImageError(f"this engine makes no volumes, so it has none for the tool {tool.key}")


def _no_scripts(target: str, files: Mapping[str, Path]) -> Mount:
    raise ImageError(f"this engine makes no volumes, so it has none for the {len(files)} files of {target}")


def _no_interpreter(requirements: tuple[str, ...]) -> Mount:
    raise ImageError(f"this engine makes no volumes, so it has no interpreter of ours with {', '.join(requirements)}")


def _no_gateway(request: GatewayRequest) -> AbstractContextManager[Gateway]:
    raise ImageError(f"this engine makes no gateways, so nothing can stand before {request.service}")


@dataclass(frozen=True, slots=True)
class Engine:
    """A container engine with all that a session needs of it.

    Attributes:
        sandbox: where containers are made.
        base_image: id of the image that agents start from.
        base_key: what identifies its content: equal for images that were made alike.
        mounts: read-only volumes that agents see (copies of the host's certificates and wheels).
        environment: variables that agents' processes get (package index, proxy, CA); never frozen.
        tools: read-only volume with node and pyright.
        hardware: what C2 to C4 run on, and what agents are given.
        notes: what people should know of it: host settings that could not be carried into containers.
        sharing: how devices and slots are shared with other runs on the engine's host.
        volume_of: puts a file of this host (name, digest of its content, path) into a read-only volume.
        data_of: puts a data set of this host (name, folder or file) into a read-only volume.
        tool_volume: puts an agent's tool into a read-only volume, once.
        scripts: puts files of this host (path below a folder → file) into a read-only volume that is mounted there, and
            that only the super-user can read.
        interpreter: puts an interpreter of ours, with packages, into a read-only volume (`sandbox/interpreter.py` has
            the paths in it); no agent ever has it.
        gateway: opens a gateway for one attempt.
        packages: a package cache that agents use in the place of the host's package index; None for none.
        answering: returns once the engine answers, and raises where it does not any more; told what says so.
        disk: where it stores.
        builders: folder in which those who build in it tell one another what room they need; None for nobody.
        orphans: names of frozen images that dead processes of this host made, each with its labels.
        version: name and version of the engine.
        id: what tells the engine from all others.
        name: the Docker context by which the user chose it; empty where it is the usual one.
        pooled: whether it is one of several that the session works with.
        close: lets go of the connection.
    """

    sandbox: Sandbox
    base_image: str
    base_key: str
    mounts: tuple[Mount, ...]
    environment: Mapping[str, str]
    tools: Mount
    hardware: Hardware = CPU_ONLY
    sharing: Sharing = ALONE
    notes: tuple[str, ...] = ()
    volume_of: Callable[[str, str, Path], Mount] = _no_volumes
    data_of: Callable[[str, Path], Mount] = _no_data
    tool_volume: Callable[[Tool], Mount] = _no_tools
    scripts: Callable[[str, Mapping[str, Path]], Mount] = _no_scripts
    interpreter: Callable[[tuple[str, ...]], Mount] = _no_interpreter
    gateway: Callable[[GatewayRequest], AbstractContextManager[Gateway]] = _no_gateway
    packages: PackageCache | None = None
    answering: Callable[[Callable[[str], object]], object] = lambda _: None
    disk: EngineDisk = UNKNOWN
    builders: Path | None = None
    orphans: Callable[[], Iterable[tuple[str, Mapping[str, str]]]] = tuple
    version: str = ""
    id: str = ""
    name: str = ""
    pooled: bool = False
    close: Callable[[], object] = lambda: None


def in_words(engine: str, name: str) -> str:
    """Say which container engine is meant, by its id and the user's name for it, if any."""
    return f"{name!r} ({engine})" if name else engine


def require_working(engine: Engine) -> None:
    """Make on the base image the kind of call that has just failed on an agent's container.

    Raises:
        SandboxError: it fails there, too, so that the engine is to blame and not the agent.
    """
    with (
        engine.sandbox.opened(ContainerSpec(image=engine.base_image)) as control,
        control.get("/researchenv") as archive,
    ):
        if archive is None:
            raise SandboxError(f"the base image {engine.base_image} has no /researchenv; remove it to have it rebuilt")
