"""Agents' tools, each in a read-only volume of its own, installed once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import docker

from pytest_researchenv.agents.protocol import TOOL_TARGET, Tool
from pytest_researchenv.sandbox._engine import architecture, ensure_volume
from pytest_researchenv.sandbox.labels import Owner
from pytest_researchenv.sandbox.protocol import Mount


__all__ = ["ensure_agent_tool"]


def ensure_agent_tool(
    client: docker.DockerClient,
    tool: Tool,
    *,
    owner: Owner,
    image: str,
    say: Callable[[str], None],
    cache: Path | None = None,
) -> Mount:
    """The volume with an agent's tool, filled when it is not there yet.

    Args:
        client: the engine.
        tool: what to install.
        owner: whose labels the volume gets.
        image: any image that exists; a container is created from it, none is started.
        say: told what happens.
        cache: folder of the lock; None: the user's cache folder.

    Raises:
        ImageError: the tool could not be had, or the engine refuses.
    """
    engine = architecture(client)
    mount = Mount(f"researchenv-agent-{tool.key}-{engine}", TOOL_TARGET)
    return ensure_volume(
        client,
        mount,
        owner=owner,
        image=image,
        fill=lambda archive: tool.fill(archive, architecture=engine),
        cache=cache,
        say=say,
    )
