"""Room on disks, and whether folders can be read and written: tried, not guessed from modes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from pytest_researchenv.disk.room import Room, room_of
from pytest_researchenv.doctor.engine import LookedAt
from pytest_researchenv.doctor.values import Finding, State, gib
from pytest_researchenv.sandbox.diskroom import room_in_container
from pytest_researchenv.sandbox.protocol import Limits


__all__ = ["Room", "engine_disk", "folder_finding", "room_finding", "room_of"]

_ENGINE_DISK = "disk of the engine"

_GIB = 1024**3
#: Fewer files than one attempt leaves in the engine's store.
_FEW_FILES = 10_000


def room_finding(name: str, where: str, room: Room, *, needed: int, wanted: int, fix: str) -> Finding:
    """Say whether there is enough room.

    Args:
        name: of what.
        where: which folder, in words.
        room: what there is.
        needed: less than this many bytes is a problem.
        wanted: less than this many bytes deserves a warning.
        fix: what to do.
    """
    value = f"{gib(room.free)} of {gib(room.total)} free, {where}"
    if room.files is not None and room.files < _FEW_FILES:
        return Finding(name, State.PROBLEM, f"{value}; room for only {room.files} more files", fix)
    state = State.PROBLEM if room.free < needed else State.WARNING if room.free < wanted else State.OK
    return Finding(name, state, value, "" if state is State.OK else fix)


def engine_disk(engine: LookedAt) -> tuple[Finding, ...]:
    """Look at where the engine stores, on its own host; through a container where that is another machine.

    Raises:
        SandboxError: the engine does not answer.
    """
    if engine.sandbox is None:
        return (Finding(_ENGINE_DISK, State.SKIPPED, "no container engine to ask"),)
    host = "this machine" if engine.here else "the engine's host"
    where = f"in {engine.root} of {host}"
    try:
        room = room_of(engine.root) if engine.here else None
    except OSError:
        room = None
    image = engine.base_image()
    if room is None and image:
        room = room_in_container(engine.sandbox, image)
    if room is None:
        return (
            Finding(
                _ENGINE_DISK,
                State.SKIPPED,
                f"not seen from here, {where}: that takes a base image, and none was made yet",
                "look at it on the engine's host: `docker system df`, `df -h`",
            ),
        )
    most = Limits().disk_bytes
    fix = (
        f"an agent's container may write {gib(most)}; make room (`researchenv reap --all`, `docker system df`), or "
        "move the engine's store to a larger disk (`data-root` in its daemon.json)"
    )
    return (room_finding(_ENGINE_DISK, where, room, needed=5 * _GIB, wanted=most, fix=fix),)


def folder_finding(name: str, folder: Path, *, needed: int, wanted: int, option: str) -> tuple[Finding, ...]:
    """Say whether a folder, or the one that it would be made in, can be read and written, and has room.

    Args:
        name: what it is for.
        folder: the folder.
        needed: less than this many bytes is a problem.
        wanted: less than this many bytes deserves a warning.
        option: what names another.
    """
    elsewhere = f"name another folder with {option}"
    present = folder.absolute()
    try:
        # `exists` says no where it may not look.
        while not present.is_dir():
            if present.exists() or present.is_symlink():
                return (Finding(name, State.PROBLEM, f"{present} is no folder", f"remove it, or {elsewhere}"),)
            present = present.parent
        with os.scandir(present) as entries:
            next(entries, None)
        # Nothing of it is ever seen in the folder.
        with tempfile.TemporaryFile(dir=present) as file:
            file.write(b"doctor")
        room = room_of(present)
    except OSError as error:
        why = f"{present} cannot be used: {error.strerror or error}"
        return (Finding(name, State.PROBLEM, why, f"make it readable and writable, make room, or {elsewhere}"),)
    where = f"in {folder}" if present == folder.absolute() else f"in {folder}, which will be made"
    return (room_finding(name, where, room, needed=needed, wanted=wanted, fix=f"make room, or {elsewhere}"),)
