"""Scripts of ours for one kind of container, in a read-only volume that only its super-user can read."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath

import docker

from pytest_researchenv.errors import ConfigurationError
from pytest_researchenv.sandbox._engine import ensure_volume
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


__all__ = ["digest_of_files", "ensure_scripts"]


def digest_of_files(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 of some files' names and contents, in hexadecimal.

    Raises:
        ConfigurationError: one of them cannot be read.
    """
    try:
        found = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    except OSError as error:
        raise ConfigurationError(f"a file of the evaluation cannot be read: {error}") from error
    return hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()


def ensure_scripts(
    client: docker.DockerClient,
    target: str,
    files: Mapping[str, Path],
    *,
    owner: Owner,
    image: str,
    say: Callable[[str], None],
    cache: Path | None = None,
) -> Mount:
    """The volume with some files, filled when it is not there yet.

    Args:
        client: the engine.
        target: where containers see it.
        files: path below `target` → file on this host.
        owner: whose labels the volume gets.
        image: any image that exists; a container is created from it, none is started.
        say: told what happens.
        cache: folder of the lock; None: the user's cache folder.

    Raises:
        ConfigurationError: a file cannot be read.
        ImageError: the engine refuses.
    """

    def fill(archive: tarfile.TarFile) -> None:
        folders = {parent for name in files for parent in PurePosixPath(name).parents} - {PurePosixPath()}
        for folder in sorted(folders):
            member = tarfile.TarInfo(str(folder))
            member.type, member.mode = tarfile.DIRTYPE, 0o700
            archive.addfile(member)
        for name, path in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mode = path.stat().st_size, 0o600
            with path.open("rb") as file:
                archive.addfile(member, file)

    mount = Mount(f"researchenv-scripts-{digest_of_files(files)[:16]}", target)
    return ensure_volume(client, mount, owner=owner, image=image, fill=fill, cache=cache, say=say)
