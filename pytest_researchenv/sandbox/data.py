"""Data sets of the user's, each in a read-only volume of its own."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import docker

from pytest_researchenv.datafolders import data_target, file_name, files_below, listing_key
from pytest_researchenv.sandbox._engine import ensure_volume
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


__all__ = ["ensure_data"]

#: Of a data set's name, in that of its volume.
_LONGEST = 40


def ensure_data(
    client: docker.DockerClient,
    name: str,
    place: Path,
    *,
    owner: Owner,
    image: str,
    say: Callable[[str], None],
    cache: Path | None = None,
) -> Mount:
    """The volume with a data set, filled when it is not there yet, and made anew when a file of it has changed.

    Args:
        client: the engine.
        name: the data set's name.
        place: its folder or file on this host.
        owner: whose labels the volume gets.
        image: any image that exists; a container is created from it, none is started.
        say: told what happens.
        cache: folder of the lock; None: the user's cache folder.

    Raises:
        ConfigurationError: something in the folder is no data.
        ImageError: the engine refuses.
    """

    def fill(archive: tarfile.TarFile) -> None:
        for file in files_below(place):
            member = tarfile.TarInfo(file.name)
            member.size, member.mode, member.mtime = file.size, 0o644, file.changed // 10**9
            with file.path.open("rb") as content:
                archive.addfile(member, content)

    mount = Mount(f"researchenv-data-{listing_key(place)}-{file_name(name)[:_LONGEST]}", data_target(name))
    return ensure_volume(client, mount, owner=owner, image=image, fill=fill, cache=cache, say=say)
