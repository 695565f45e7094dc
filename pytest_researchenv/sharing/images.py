"""Images that leave one container engine and come to another: streamed, never whole in memory, never under a name.

An archive of images may come from anybody, and an engine gives what it loads every name that the archive wants. So
images travel without names, only ids are taken that an environment's record has, and the names are ours.
"""

from __future__ import annotations

import gzip
import json
import re
import tarfile
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Self, cast

from docker.errors import ImageNotFound

from pytest_researchenv.errors import ConfigurationError, SandboxError
from pytest_researchenv.probes.lookup import printable
from pytest_researchenv.sandbox._stream import engine_call


if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["check_images", "held_images", "load_images", "save_images", "tag_image"]

_BLOCK = 1024 * 1024

#: How an archive's table names the configuration of an image, in its older and its newer form.
_CONFIGURATION = re.compile(r"(?:blobs/sha256/)?([0-9a-f]{64})(?:\.json)?")

#: Tables of such an archive; none of them is large.
_TABLES = ("manifest.json", "repositories", "index.json")
_TABLE_BYTES = 16 * 1024**2

#: Kinds of headers that tarfile reads into memory whole, and how large they may be.
_EXTENDED = {tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK}
_EXTENDED_BYTES = 64 * 1024


def held_images(client: DockerClient, images: Sequence[str]) -> list[str]:
    """Return those of some images that are there.

    Raises:
        SandboxError: the engine does not answer.
    """
    return [image for image in images if _is_held(client, image)]


def save_images(client: DockerClient, images: Sequence[str], target: IO[bytes], *, pack: bool = False) -> None:
    """Write images by their ids, each layer that they share once.

    Args:
        client: the engine.
        images: their ids.
        target: where the archive goes.
        pack: whether it is packed by gzip.

    Raises:
        SandboxError: the engine fails.
        OSError: the archive cannot be written.
    """
    with (
        gzip.GzipFile(fileobj=target, mode="wb", compresslevel=6, filename="", mtime=0)
        if pack
        else _kept(target) as file
    ):
        for chunk in _saved(client, images):
            file.write(chunk)


def _saved(client: DockerClient, images: Sequence[str]) -> Iterator[bytes]:
    # docker-py saves one image at a time, and the base image's layers are in each.
    with engine_call(f"save the images {', '.join(images)}"):
        address = f"{client.api.base_url}/v{client.api.api_version}/images/get"
        with client.api.get(address, params={"names": list(images)}, stream=True, timeout=client.api.timeout) as answer:
            answer.raise_for_status()
            yield from answer.iter_content(_BLOCK)


def check_images(archive: Path, images: Collection[str]) -> None:
    """Make sure that an archive holds these images, no others, and no names.

    Raises:
        ConfigurationError: it does not.
    """
    try:
        tables = {name: json.loads(raw) for name, raw in _tables(archive)}
        entries = tables["manifest.json"]
        found = {f"sha256:{_id(entry['Config'])}" for entry in entries}
        index = tables.get("index.json") or {}
        # Engines with the image store of containerd go by the digest of an image's manifest.
        found |= {str(one["digest"]) for one in index.get("manifests") or ()}
        names = [name for entry in entries for name in entry.get("RepoTags") or ()]
        names += tables.get("repositories") or {}
        names += [value for one in index.get("manifests") or () for value in _named(one)]
    except KeyError as error:
        raise ConfigurationError(f"{archive.name} holds no images: it has no {error}") from error
    except (tarfile.TarError, OSError, EOFError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigurationError(f"{archive.name} holds no images: {printable(str(error), 300)}") from error
    if names:
        raise ConfigurationError(
            f"{archive.name} would give an image the name {printable(str(names[0]))}, and images of an export have "
            "none: nothing was loaded"
        )
    if missing := sorted(set(images) - found):
        raise ConfigurationError(f"{archive.name} does not hold the image {missing[0]}: nothing was loaded")
    if len(entries) != len(images):
        raise ConfigurationError(
            f"{archive.name} holds {len(entries)} images, and {len(images)} belong to its environments: nothing was "
            "loaded"
        )


def load_images(client: DockerClient, archive: Path, images: Collection[str]) -> None:
    """Load images that were checked.

    Raises:
        SandboxError: the engine fails, or has them under other ids.
    """
    with engine_call(f"load {archive.name}"), archive.open("rb") as file:
        client.images.load(cast("bytes", file))
    missing = [image for image in images if not _is_held(client, image)]
    if missing:
        raise SandboxError(
            f"the engine has loaded {archive.name}, and knows no {missing[0]}: it calls images by another digest than "
            "the one that they were made in (Docker's containerd image store), so that nothing can be judged again"
        )


def tag_image(client: DockerClient, image: str, reference: str) -> None:
    """Give an image a name, so that it is not taken for a leftover.

    Raises:
        SandboxError: the engine refuses.
    """
    with engine_call(f"name the image {image} {reference}"):
        client.images.get(image).tag(reference)


def _is_held(client: DockerClient, image: str) -> bool:
    with engine_call(f"look for image {image}"):
        try:
            client.images.get(image)
        except ImageNotFound:
            return False
    return True


def _tables(archive: Path) -> Iterator[tuple[str, bytes]]:
    with archive.open("rb") as raw:
        packed = raw.read(2) == b"\x1f\x8b"
        raw.seek(0)
        with (
            gzip.GzipFile(fileobj=raw, mode="rb") if packed else _kept(raw) as file,
            tarfile.open(fileobj=file, mode="r|" if packed else "r:", tarinfo=_Bounded) as members,
        ):
            while member := members.next():
                # tarfile keeps every entry for random access.
                members.members = []  # type: ignore[attr-defined] # Left out of the stubs.
                if member.name in _TABLES and member.isreg() and member.size <= _TABLE_BYTES:
                    content = members.extractfile(member)
                    yield member.name, content.read() if content else b""


class _Bounded(tarfile.TarInfo):
    """A member whose headers are small enough to be read."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        """Read a header."""
        member = super().frombuf(buf, encoding, errors)
        if member.type == tarfile.GNUTYPE_SPARSE or (member.type in _EXTENDED and member.size > _EXTENDED_BYTES):
            raise ValueError(f"{member.name!r} is nothing that an engine writes")
        return member


def _id(configuration: str) -> str:
    found = _CONFIGURATION.fullmatch(configuration)
    if found is None:
        raise ValueError(f"{configuration!r} is no configuration of an image")
    return found[1]


def _named(manifest: dict[str, Any]) -> list[str]:
    notes = manifest.get("annotations") or {}
    return [
        str(notes[name]) for name in ("io.containerd.image.name", "org.opencontainers.image.ref.name") if name in notes
    ]


@contextmanager
def _kept(file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Use a file that somebody else closes."""
    yield file
