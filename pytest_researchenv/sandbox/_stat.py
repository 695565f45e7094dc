"""What is at a path of a container, as the engine sees it from outside."""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import dataclass
from datetime import datetime
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
        changed: when it was changed, in nanoseconds since 1970.
    """

    mode: int = 0
    size: int = 0
    link: str = ""
    changed: int = 0


def look(api: APIClient, container: str, path: str) -> Stat:
    """Look at a path."""
    # Not by get_archive: packing looks up owners in the container's accounts, and hangs on a FIFO there (tried).
    url = f"{api.base_url}/v{api.api_version}/containers/{container}/archive"  # docker-py has no call for it.
    # As bytes: what is no UTF-8 cannot be sent as text.
    answer = api.head(url, params={"path": os.fsencode(path)}, timeout=_LOOK_S)
    if not answer.ok:
        return Stat()
    status = json.loads(base64.b64decode(answer.headers["X-Docker-Container-Path-Stat"]))
    changed = _nanoseconds(str(status.get("mtime", "")))
    return Stat(int(status["mode"]), int(status["size"]), str(status["linkTarget"]), changed)


def _nanoseconds(time: str) -> int:
    """Of a time as Go writes it (`2026-01-02T03:04:05.123456789Z`); 0 where it is none."""
    found = re.fullmatch(r"(.*?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", time)
    if found is None:
        return 0
    try:
        seconds = int(datetime.fromisoformat(found[1] + found[3]).timestamp())
    except ValueError:
        return 0
    return seconds * 10**9 + int((found[2] or "0").ljust(9, "0"))
