"""The disk of a container engine, seen from here, or through a container where it is another machine's."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pytest_researchenv.disk.room import EngineDisk, Room, room_of
from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox.protocol import ContainerSpec, Sandbox


__all__ = ["disk_of", "is_here", "room_in_container", "root_of"]

_PATIENCE_S = 30.0


def root_of(info: Mapping[str, Any]) -> Path:
    """Where an engine stores, on its host, as it says of itself."""
    return Path(str(info.get("DockerRootDir") or "/var/lib/docker"))


def is_here(info: Mapping[str, Any], *, local: bool) -> bool:
    """Whether an engine's host is this machine, so that its folders are those of this machine.

    Args:
        info: what it says of itself.
        local: whether it answers on a socket of this machine.
    """
    return local and info.get("Name") == socket.gethostname()


def disk_of(sandbox: Sandbox, info: Mapping[str, Any], *, image: str, local: bool) -> EngineDisk:
    """Return the disk of an engine.

    Args:
        sandbox: a sandbox in it.
        info: what it says of itself.
        image: any image that is there.
        local: whether it answers on a socket of this machine.
    """
    root = root_of(info)
    if is_here(info, local=local) and _seen(root) is not None:
        here = partial(_seen, root)
        return EngineDisk(f"{root} of this machine", here, here)
    return EngineDisk(f"{root} of the engine's host", partial(_through, sandbox, image))


def room_in_container(sandbox: Sandbox, image: str) -> Room | None:
    """Measure the file system that containers are on; None where the image cannot tell.

    Raises:
        SandboxError: the engine does not answer.
    """
    with sandbox.opened(ContainerSpec(image)) as container:
        container.start()
        answer = container.exec(("stat", "--file-system", "--format=%S %a %b", "/"), timeout_s=_PATIENCE_S)
    numbers = answer.output.text().split()
    if not answer.ok or len(numbers) != 3 or not all(map(str.isdecimal, numbers)):  # noqa: PLR2004 - as in the format
        return None
    block, free, total = map(int, numbers)
    return Room(block * free, block * total)


def _seen(root: Path) -> Room | None:
    try:
        return room_of(root)
    except OSError:
        return None


def _through(sandbox: Sandbox, image: str) -> Room | None:
    try:
        return room_in_container(sandbox, image)
    except SandboxError:
        # Whoever builds hears of it.
        return None
