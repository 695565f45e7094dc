"""What is at a path of a container, as the engine sees it from outside."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING


if TYPE_CHECKING:
    from docker.api import APIClient


__all__ = ["Stat", "look"]

#: How long the engine may take to look at one path, in seconds.
_LOOK_S = 60


@dataclass(frozen=True, slots=True)
class Stat:
    """What is at a path; the last component is not followed when it is a link.

    Attributes:
        mode: as Go has it; 0 where there is nothing that the engine can open.
        size: in bytes.
        link: where it leads as a link.
    """

    mode: int = 0
    size: int = 0
    link: str = ""


def look(api: APIClient, container: str, path: str) -> Stat:
    """Look at a path."""
    # Not by get_archive: packing looks up owners in the container's accounts, and hangs on a FIFO there (tried).
    url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"  # docker-py has no call for it.
    answer = api.head(url, params={"path": path}, timeout=_LOOK_S)
    if not answer.ok:
        return Stat()
    status = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
    return Stat(int(status["mode"]), int(status["size"]), str(status["linkTarget"]))
