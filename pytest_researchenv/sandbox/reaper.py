"""Removes what dead runs left in the container engine, and nothing else."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from docker.errors import APIError, NotFound

from pytest_researchenv.sandbox._stream import engine_call
from pytest_researchenv.sandbox.labels import KIND, PREFIX, Owner, alive, expired


if TYPE_CHECKING:
    from docker import DockerClient


__all__ = [
    "CACHE_FILES",
    "CACHE_KEY",
    "CACHE_PART",
    "CACHE_USER",
    "IMAGE_KINDS",
    "KEPT_KINDS",
    "Left",
    "Reaped",
    "abandoned",
    "cached_bytes",
    "left",
    "orphans",
    "reap",
    "users_of_caches",
]

#: Kinds of images. A container or image that someone else made from ours inherits its labels, kind and all.
IMAGE_KINDS = frozenset({"base-image", "snapshot"})

#: Kinds of what belongs to a package cache: its container and network, which all who use it share; an empty volume of
#: each process that does, since labels cannot be changed; and the volume with its packages.
CACHE_PART, CACHE_USER, CACHE_FILES = "package-cache", "package-cache-user", "package-cache-files"

#: The label that says which cache a part of one belongs to.
CACHE_KEY = f"{PREFIX}cache"

#: What is made to be used again by later runs.
KEPT_KINDS = IMAGE_KINDS | {"tool-volume", CACHE_FILES}


@dataclass(frozen=True, slots=True)
class Reaped:
    """What was removed, by name.

    Attributes:
        containers: names of containers.
        networks: names of networks.
        volumes: names of volumes.
        images: tags of images, ids where they had none.
        refused: what should have gone, and why the engine kept it.
    """

    containers: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    volumes: list[str] = field(default_factory=list)
    images: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many things were removed."""
        return len(self.containers) + len(self.networks) + len(self.volumes) + len(self.images)


@dataclass(frozen=True, slots=True)
class Left:
    """How much there is that `reap` would remove.

    Attributes:
        containers: of dead runs.
        networks: likewise.
        volumes: likewise.
        kept_volumes: what later runs may use again, and `reap(everything=True)` removes.
        kept_images: likewise.
        kept_bytes: what frozen images among them add to the images that they grew from.
        cached_bytes: what package caches hold; 0 where there is none, or the engine does not tell.
    """

    containers: int
    networks: int
    volumes: int
    kept_volumes: int
    kept_images: int
    kept_bytes: int = 0
    cached_bytes: int = 0

    @property
    def dead(self) -> int:
        """How many things dead runs left."""
        return self.containers + self.networks + self.volumes


def reap(client: DockerClient, *, everything: bool, owner: Owner, packages: bool = False) -> Reaped:
    """Remove containers, networks, volumes and images that nothing can be using any more.

    Args:
        client: the engine.
        everything: also frozen images, base images, tool volumes and what package caches hold of this host, but nothing
            that another live process made or uses.
        owner: who asks.
        packages: also what package caches of this host hold that no live process uses.

    Raises:
        SandboxError: the engine does not answer.
    """
    reaped = Reaped()
    with engine_call("remove what dead runs left"):
        _reap_containers(client, reaped, owner)
        _reap_networks(client, reaped, owner)
        _reap_volumes(client, reaped, owner, everything=everything, packages=packages)
        _reap_images(client, reaped, owner, everything=everything)
    return reaped


def abandoned(
    labels: Mapping[str, str], *, owner: Owner, everything: bool, now: float, used: frozenset[str] = frozenset()
) -> bool:
    """Whether a thing with these labels may be removed.

    Args:
        labels: all its labels.
        owner: who asks.
        everything: whether to remove what is kept for later runs, too.
        now: seconds since the epoch.
        used: keys of the package caches that somebody uses.
    """
    kind, host, process = (labels.get(f"{PREFIX}{name}", "") for name in ("kind", "host", "process"))
    if not (kind and host and process):
        return False
    ours = host == owner.host
    if kind in (CACHE_PART, CACHE_FILES):
        # Whoever started the cache may be dead while others use it, and alive and use it no more.
        wanted = everything and ours if kind == CACHE_FILES else ours or expired(labels, now=now)
        return wanted and labels.get(CACHE_KEY) not in used
    if kind in KEPT_KINDS:
        return everything and ours and (process == owner.process or not alive(process))
    if not ours:
        return expired(labels, now=now)
    living = alive(process)
    # None: a process in another container of this host; it is taken to live until its things expire.
    return expired(labels, now=now) if living is None else not living


def left(client: DockerClient, *, owner: Owner) -> Left:
    """Count what dead runs left, and what is kept for later ones; nothing is removed.

    Raises:
        SandboxError: the engine does not answer.
    """
    with engine_call("count what dead runs left"):
        dead = len(list(_volumes(client, owner, everything=False)))
        images = {item["Id"]: item for item, _ in _images(client, owner, everything=True)}
        sizes = {item["Id"]: item["Size"] for item in client.api.images()}
        return Left(
            containers=len(list(_containers(client, owner))),
            networks=len(list(_networks(client, owner))),
            volumes=dead,
            kept_volumes=len(list(_volumes(client, owner, everything=True))) - dead,
            kept_images=len(images),
            kept_bytes=sum(_added(item, sizes) for item in images.values()),
            cached_bytes=cached_bytes(client, owner=owner),
        )


def users_of_caches(client: DockerClient, *, owner: Owner) -> frozenset[str]:
    """Keys of the package caches that a process uses which may be alive; `owner` asks."""
    found = client.api.volumes(filters={"label": f"{KIND}={CACHE_USER}"})["Volumes"] or []
    return frozenset(item["Labels"].get(CACHE_KEY, "") for item in found if not _gone(item, owner))


def orphans(client: DockerClient, *, owner: Owner) -> list[tuple[str, Mapping[str, str]]]:
    """Name and labels of each frozen image that a process of this host made which is dead.

    Whether one is recorded anywhere is not known here: a process may have died between the two.

    Raises:
        SandboxError: the engine does not answer.
    """
    with engine_call("look for images that dead processes froze"):
        return [
            (tag, item["Labels"])
            for item, tags in _images(client, owner, everything=True)
            if item["Labels"][KIND] == "snapshot" and alive(item["Labels"][f"{PREFIX}process"]) is False
            for tag in tags
        ]


def _added(item: Mapping[str, Any], sizes: Mapping[str, int]) -> int:
    """Bytes that a frozen image adds to the one that it grew from, as far as that is there."""
    if item["Labels"][KIND] != "snapshot":
        return 0
    return max(0, int(item["Size"]) - int(sizes.get(item.get("ParentId") or "", 0)))


def _reap_containers(client: DockerClient, reaped: Reaped, owner: Owner) -> None:
    for item in _containers(client, owner):
        name = item["Names"][0].lstrip("/") if item.get("Names") else item["Id"][:12]
        with _noted(reaped.containers, reaped, f"container {name}", name):
            client.api.remove_container(item["Id"], v=True, force=True)


def _containers(client: DockerClient, owner: Owner) -> Iterator[Mapping[str, Any]]:
    found = client.api.containers(all=True, filters={"label": KIND})
    used = users_of_caches(client, owner=owner)
    for item in found:
        if item["Labels"][KIND] not in IMAGE_KINDS and _gone(item, owner, used=used):
            yield item


def _reap_networks(client: DockerClient, reaped: Reaped, owner: Owner) -> None:
    for item in _networks(client, owner):
        with _noted(reaped.networks, reaped, f"network {item['Name']}", item["Name"]):
            _let_go(client, item["Id"])
            client.api.remove_network(item["Id"])


def _let_go(client: DockerClient, network: str) -> None:
    """Take a package cache, which others use, out of the network of a dead process."""
    inside = client.api.inspect_network(network).get("Containers") or {}
    for container in client.api.containers(filters={"label": f"{KIND}={CACHE_PART}"}):
        if container["Id"] in inside:
            client.api.disconnect_container_from_network(container["Id"], network, force=True)


def _networks(client: DockerClient, owner: Owner) -> Iterator[Mapping[str, Any]]:
    # What is in use is looked up last: who begins to use a cache marks it first.
    found = client.api.networks(filters={"label": KIND})
    used = users_of_caches(client, owner=owner)
    return (item for item in found if _gone(item, owner, used=used))


def _reap_volumes(client: DockerClient, reaped: Reaped, owner: Owner, *, everything: bool, packages: bool) -> None:
    for item in _volumes(client, owner, everything=everything, packages=packages):
        with _noted(reaped.volumes, reaped, f"volume {item['Name']}", item["Name"]):
            client.api.remove_volume(item["Name"])


def _volumes(
    client: DockerClient, owner: Owner, *, everything: bool, packages: bool = False
) -> Iterator[Mapping[str, Any]]:
    found = client.api.volumes(filters={"label": KIND})["Volumes"] or []
    used = users_of_caches(client, owner=owner)
    for item in found:
        files = item["Labels"][KIND] == CACHE_FILES
        if _gone(item, owner, everything=everything or (packages and files), used=used):
            yield item


def cached_bytes(client: DockerClient, *, owner: Owner) -> int:
    """What the package caches of the host of `owner` hold; 0 where there is none, or the engine does not tell."""
    found = client.api.volumes(filters={"label": f"{KIND}={CACHE_FILES}"})["Volumes"] or []
    names = {item["Name"] for item in found if item["Labels"].get(f"{PREFIX}host") == owner.host}
    if not names:
        return 0
    # The engine measures everything that it stores for this, so it is not asked where there is no cache.
    # Null where it did not measure one, negative where it cannot.
    used = (one.get("UsageData") or {} for one in client.df()["Volumes"] or [] if one["Name"] in names)
    return sum(max(0, one.get("Size", 0)) for one in used)


def _reap_images(client: DockerClient, reaped: Reaped, owner: Owner, *, everything: bool) -> None:
    for item, tags in _images(client, owner, everything=everything):
        for name in tags or [item["Id"]]:
            with _noted(reaped.images, reaped, f"image {name}", name):
                # noprune: parents have labels of their own.
                client.api.remove_image(name, noprune=True)


def _images(
    client: DockerClient, owner: Owner, *, everything: bool
) -> Iterator[tuple[Mapping[str, Any], Sequence[str]]]:
    """Images, each with its tags."""
    # Newest first: an image cannot go before those made from it.
    for item in sorted(client.api.images(filters={"label": KIND}), key=lambda item: -item["Created"]):
        tags = [tag for tag in item.get("RepoTags") or [] if tag != "<none>:<none>"]
        # Somebody's own image made from one of ours has our labels, but not our name.
        ours = all(tag.startswith("researchenv") for tag in tags)
        if item["Labels"][KIND] in IMAGE_KINDS and ours and _gone(item, owner, everything=everything):
            yield item, tags


def _gone(
    item: Mapping[str, Any], owner: Owner, *, everything: bool = False, used: frozenset[str] = frozenset()
) -> bool:
    return abandoned(item.get("Labels") or {}, owner=owner, everything=everything, now=time.time(), used=used)


@contextlib.contextmanager
def _noted(removed: list[str], reaped: Reaped, what: str, name: str) -> Iterator[None]:
    try:
        yield
    except NotFound:
        return
    except APIError as error:
        reaped.refused.append(f"{what}: {error.explanation}")
        return
    removed.append(name)
