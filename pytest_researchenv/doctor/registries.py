"""The image that agents start from: is it there, or can the engine have it from its registry?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from docker.errors import APIError, ImageNotFound

from pytest_researchenv.doctor.engine import LookedAt
from pytest_researchenv.doctor.values import Finding, State
from pytest_researchenv.sandbox._stream import engine_call


if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["image_findings"]

_IMAGE = "base image"


def image_findings(engine: LookedAt, image: str) -> tuple[Finding, ...]:
    """Look for the base image. Its registry is asked where one was named, and by the engine, which would pull it.

    Args:
        engine: the engine.
        image: registry reference; empty for the default.

    Raises:
        SandboxError: the engine does not answer.
    """
    if engine.client is None:
        return (Finding(_IMAGE, State.SKIPPED, "no container engine to ask"),)
    if not image:
        made = engine.base_image()
        none = "none was made yet, and none is named (--image): the first run pulls or makes Debian's"
        return (Finding(_IMAGE, State.OK, f"made: {made[:19]}") if made else Finding(_IMAGE, State.SKIPPED, none),)
    with engine_call(f"look for the image {image}"):
        return (_named(engine.client, image),)


def _named(client: DockerClient, image: str) -> Finding:
    try:
        client.api.inspect_image(image)  # type: ignore[no-untyped-call] # The stubs lack it.
    except ImageNotFound:
        pass
    else:
        return Finding(_IMAGE, State.OK, f"{image} is there")
    try:
        client.api.inspect_distribution(image)  # type: ignore[no-untyped-call] # Likewise.
    except APIError as error:
        return Finding(
            _IMAGE,
            State.PROBLEM,
            f"{image} is not there, and its registry does not have it for us: {error.explanation}",
            "correct the name, `docker login`, or set a mirror or proxy in the engine's daemon.json",
        )
    return Finding(_IMAGE, State.OK, f"{image} is not there yet; its registry has it")
