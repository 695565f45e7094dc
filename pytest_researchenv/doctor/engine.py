"""The container engine: does one answer, which, and how does it store?"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from pytest_researchenv.doctor.values import Finding, State
from pytest_researchenv.sandbox._engine import engine_version
from pytest_researchenv.sandbox._stream import engine_call
from pytest_researchenv.sandbox.daemon import Address, find
from pytest_researchenv.sandbox.diskroom import is_here, root_of
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.labels import KIND, Owner


if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["LookedAt", "engine_findings"]

_ENGINE = "container engine"

#: Storage drivers that copy whole layers: each container of a base image of some GB takes as much again, and minutes.
_COPYING = frozenset({"vfs"})


@final
class LookedAt:
    """The engine, as far as it has been reached.

    Attributes:
        client: None while none has answered.
        info: what it says of itself.
    """

    def __init__(self) -> None:
        self.client: DockerClient | None = None
        self.info: Mapping[str, Any] = {}
        self._address: Address | None = None

    def reach(self) -> Address:
        """Connect.

        Raises:
            DaemonUnavailableError: none answers.
            SandboxError: it answers, and then says nothing of itself.
        """
        client, address = find()
        with contextlib.ExitStack() as unless_reached:
            unless_reached.callback(client.close)
            with engine_call("ask the container engine about itself"):
                self.info = client.info()
            unless_reached.pop_all()
        # Only one that has said everything counts as reached.
        self.client, self._address = client, address
        return address

    @property
    def here(self) -> bool:
        """Whether its host is this machine, so that its folders are those of this machine."""
        local = self._address is not None and self._address.url.startswith("unix://")
        return is_here(self.info, local=local)

    @property
    def root(self) -> Path:
        """Where it stores, on its host."""
        return root_of(self.info)

    @property
    def sandbox(self) -> DockerSandbox | None:
        """A sandbox in it."""
        return DockerSandbox(self.client, Owner.current("doctor")) if self.client else None

    def base_image(self) -> str:
        """The id of the newest base image that is there; empty where there is none.

        Raises:
            SandboxError: the engine does not answer.
        """
        if self.client is None:
            return ""
        with engine_call("look for base images"):
            images = self.client.api.images(filters={"label": f"{KIND}=base-image"})
        # Somebody's own image made from one of ours has our labels, but not our name.
        ours = [image for image in images if any(tag.startswith("researchenv/") for tag in image.get("RepoTags") or ())]
        return str(max(ours, key=lambda image: image["Created"])["Id"]) if ours else ""

    def close(self) -> None:
        """Let go of it."""
        if self.client:
            self.client.close()


def engine_findings(engine: LookedAt) -> tuple[Finding, ...]:
    """Connect to it, and say what it is.

    Raises:
        DaemonUnavailableError: none answers.
        SandboxError: it gives no answers.
    """
    address = engine.reach()
    info = engine.info
    where = f"{address.url} ({address.origin})"
    version = engine_version(engine.client) if engine.client else ""
    driver = str(info.get("Driver") or "unknown")
    copying = driver in _COPYING
    return (
        Finding(_ENGINE, State.OK, f"{version} on {info.get('OperatingSystem') or 'an unknown system'}, at {where}"),
        Finding(
            "storage driver",
            State.WARNING if copying else State.OK,
            f"{driver}, in {engine.root}",
            "it copies every layer: set overlay2 in the engine's daemon.json (`storage-driver`)" if copying else "",
        ),
    )
