"""The reaper against a real engine: dead owners' things go, and nothing else."""

from __future__ import annotations

import io
import uuid
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest

from pytest_researchenv.sandbox.labels import LIFETIME_S, Owner
from pytest_researchenv.sandbox.reaper import Left, Reaped, left, reap


if TYPE_CHECKING:
    from docker import DockerClient


#: The host of these tests' owners is made up, so that a sweep here cannot take a real run's things.
HOST = f"test-a-{uuid.uuid4().hex[:12]}"
ME = replace(Owner.current("tests"), host=HOST)
#: Process 1 of this boot started at another time than this one says.
DEAD = replace(ME, process="/".join([*ME.process.split("/")[:2], "1", "999999999999"]))
ELSEWHERE = replace(DEAD, host=f"{HOST}-other")


class Things:
    """Makes things with given labels, and removes what the reaper left."""

    def __init__(self, client: DockerClient, image: str) -> None:
        self._client = client
        self._image = image
        self._names: dict[str, list[str]] = {"containers": [], "networks": [], "volumes": [], "images": []}

    def container(self, labels: dict[str, str], image: str = "") -> str:
        """A container that was created and never started."""
        name = self._name("containers")
        self._client.containers.create(image or self._image, ["true"], name=name, labels=labels, network_mode="none")
        return name

    def network(self, labels: dict[str, str]) -> str:
        """An internal network."""
        name = self._name("networks")
        self._client.networks.create(name, labels=labels, internal=True)
        return name

    def member(self, labels: dict[str, str], network: str) -> str:
        """A container that runs in a network."""
        name = self._name("containers")
        command = ["sleep", "300"]
        made = self._client.containers.create(self._image, command, name=name, labels=labels, network=network)
        made.start()
        return name

    def volume(self, labels: dict[str, str]) -> str:
        """An empty volume."""
        return str(self._client.volumes.create(self._name("volumes"), labels=labels).name)

    def image(self, labels: dict[str, str], name: str = "") -> str:
        """An image without layers of its own."""
        tag = f"{name or self._name('images')}:latest"
        # One instruction, so that the builder leaves no untagged image in between.
        pairs = " ".join(f'"{key}"="{value}"' for key, value in {**labels, "unique": tag}.items())
        recipe = f"FROM {self._image}\nLABEL {pairs}"
        self._client.images.build(fileobj=io.BytesIO(recipe.encode()), tag=tag, rm=True, forcerm=True)
        self._names["images"].append(tag)
        return tag

    def left(self) -> set[str]:
        """The names of what is still there."""
        there = {str(container.name) for container in self._client.containers.list(all=True, ignore_removed=True)}
        there |= {str(network.name) for network in self._client.networks.list()}
        there |= {volume.name for volume in self._client.volumes.list()}
        # Not `images.list`, which asks for each once more: other tests remove theirs in between.
        there |= {tag for image in self._client.api.images() for tag in image.get("RepoTags") or []}
        return there & {name for names in self._names.values() for name in names}

    def remove(self) -> None:
        """Clean up, whatever happened."""
        left = self.left()
        for name in left & set(self._names["containers"]):
            self._client.api.remove_container(name, force=True)
        for name in left & set(self._names["networks"]):
            self._client.api.remove_network(name)
        for name in left & set(self._names["volumes"]):
            self._client.api.remove_volume(name)
        for name in left & set(self._names["images"]):
            self._client.api.remove_image(name)

    def _name(self, what: str) -> str:
        name = f"researchenv-test-a-{uuid.uuid4().hex[:12]}"
        self._names[what].append(name)
        return name


@pytest.fixture
def things(docker_client: DockerClient, base_image: str) -> Iterator[Things]:
    """A maker of things that cleans up."""
    things = Things(docker_client, base_image)
    yield things
    things.remove()


def _reap(client: DockerClient, *, everything: bool = False) -> Reaped:
    return reap(client, everything=everything, owner=ME)


def test_a_dead_owners_things_go_and_nobody_elses(docker_client: DockerClient, things: Things) -> None:
    """Unlabelled things, a live owner's and another host's survive beside those that are removed."""
    dead = {things.container(DEAD.labels("container")), things.network(DEAD.labels("network"))}
    dead |= {things.volume(DEAD.labels("scratch-volume")), things.container(ELSEWHERE.labels("x", lifetime_s=-10))}
    kept = {things.container({}), things.container(ME.labels("container")), things.container(ELSEWHERE.labels("x"))}
    kept |= {things.network({}), things.network(ME.labels("network")), things.volume({}), things.volume(ME.labels("x"))}

    reaped = _reap(docker_client)

    assert things.left() == kept
    assert dead <= {*reaped.containers, *reaped.networks, *reaped.volumes}
    assert reaped.total >= len(dead)


def test_a_dead_owners_network_goes_with_what_runs_in_it(docker_client: DockerClient, things: Things) -> None:
    """Containers go before their networks; a network that somebody else's container is in is kept, and said so."""
    ours, shared = (things.network(DEAD.labels("network")) for _ in range(2))
    member = things.member(DEAD.labels("container"), ours)
    stranger = things.member({}, shared)

    reaped = _reap(docker_client)

    assert things.left() == {shared, stranger}
    assert {ours, member} <= {*reaped.networks, *reaped.containers}
    assert any(shared in line for line in reaped.refused)


def test_what_is_for_later_runs_goes_only_on_demand(docker_client: DockerClient, things: Things) -> None:
    """Frozen images, base images and tool volumes outlive their makers until everything is to go."""
    old = DEAD.labels("snapshot", lifetime_s=-2 * LIFETIME_S)
    kept = {things.image(old), things.image(DEAD.labels("base-image")), things.volume(DEAD.labels("tool-volume"))}

    _reap(docker_client)
    after_default = things.left()
    reaped = _reap(docker_client, everything=True)

    assert after_default == kept
    assert things.left() == set()
    assert kept <= {*reaped.images, *reaped.volumes}


def test_what_would_be_removed_is_counted_and_stays(docker_client: DockerClient, things: Things) -> None:
    """Apart: what dead runs left, and what is kept for later ones; not what lives."""
    before = left(docker_client, owner=ME)
    for labels in (DEAD.labels("container"), DEAD.labels("container"), ME.labels("container"), {}):
        things.container(labels)
    things.network(DEAD.labels("network"))
    things.volume(DEAD.labels("scratch-volume"))
    things.volume(DEAD.labels("tool-volume"))
    things.image(DEAD.labels("snapshot"), name=f"researchenv/{uuid.uuid4().hex}")
    there = things.left()

    after = left(docker_client, owner=ME)

    assert Left(
        *(getattr(after, one.name) - getattr(before, one.name) for one in fields(Left)),
    ) == Left(containers=2, networks=1, volumes=1, kept_volumes=1, kept_images=1)
    assert after.dead == after.containers + after.networks + after.volumes
    assert things.left() == there


def test_what_others_made_from_our_images_is_theirs(docker_client: DockerClient, things: Things) -> None:
    """A user's container or image made from a snapshot inherits our labels, and is kept."""
    snapshot = things.image(DEAD.labels("snapshot"))
    container = things.container({}, image=snapshot)
    image = things.image(DEAD.labels("snapshot"), name=f"somebody/test-a-{uuid.uuid4().hex[:12]}")

    reaped = _reap(docker_client, everything=True)

    assert {container, image} <= things.left()
    assert any(snapshot in line for line in reaped.refused) or snapshot in reaped.images


def test_a_volume_in_use_is_kept_and_said_so(docker_client: DockerClient, things: Things) -> None:
    """What the engine refuses to remove is reported, and does not stop the sweep."""
    volume = things.volume(DEAD.labels("tool-volume"))
    name = f"researchenv-test-a-{uuid.uuid4().hex[:12]}"
    user = docker_client.containers.create(things._image, ["true"], name=name, volumes={volume: {"bind": "/x"}})
    other = things.volume(DEAD.labels("tool-volume"))
    try:
        reaped = _reap(docker_client, everything=True)
    finally:
        user.remove()

    assert things.left() == {volume}
    assert other in reaped.volumes
    assert any(volume in line for line in reaped.refused)
