"""Files that probes cannot do without, each in a read-only volume of its own."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

import docker

from pytest_researchenv.assets import HOME
from pytest_researchenv.sandbox._engine import ensure_volume
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


__all__ = ["ensure_asset"]


def ensure_asset(
    client: docker.DockerClient,
    name: str,
    digest: str,
    path: Path,
    *,
    owner: Owner,
    image: str,
    say: Callable[[str], None],
    cache: Path | None = None,
) -> Mount:
    """The volume with one file, filled when it is not there yet; containers see it as `HOME/name/name`.

    Args:
        client: the engine.
        name: the asset's name.
        digest: SHA-256 of the file.
        path: the file on this host.
        owner: whose labels the volume gets.
        image: any image that exists; a container is created from it, none is started.
        say: told what happens.
        cache: folder of the lock; None: the user's cache folder.

    Raises:
        ImageError: the engine refuses.
    """

    def fill(archive: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(name)
        member.size, member.mode = path.stat().st_size, 0o644
        with path.open("rb") as file:
            archive.addfile(member, file)

    mount = Mount(f"researchenv-asset-{digest[:16]}-{name}", f"{HOME}/{name}")
    return ensure_volume(client, mount, owner=owner, image=image, fill=fill, cache=cache, say=say)
