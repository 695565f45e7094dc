"""What an agent asked the outside for, as the proxy wrote it down beyond the agent's reach."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["REQUESTS", "asked_for", "requested"]

#: The record, in an attempt's folder.
REQUESTS = "requests.jsonl"

_OF_A_REQUEST = {"method", "host", "path", "allowed"}
#: The proxy writes down no more than 50,000: of a record that long, nothing can be said of what is not in it.
_MOST = 40_000


def requested(records: Path | None, remarks: list[str]) -> Iterator[Mapping[str, Any]]:
    """The requests to the outside that are on record; a line that was cut in its middle is left out.

    Args:
        records: the attempt's folder.
        remarks: gets why they cannot be read.
    """
    for line in _lines(records, remarks):
        try:
            said = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(said, dict) and said.get("kind") == "egress" and said.keys() >= _OF_A_REQUEST:
            yield said


def _lines(records: Path | None, remarks: list[str]) -> Iterator[bytes]:
    if records is None or not (path := records / REQUESTS).exists():
        return
    try:
        with path.open("rb") as file:
            yield from file
    except OSError as error:
        remarks.append(f"{REQUESTS} cannot be read: {error}")


def asked_for(task: ProbeTask, host: str) -> bool | None:
    """Whether an agent got something from a host; None where nobody wrote down what it asked for.

    Args:
        task: what is audited.
        host: its name; that of a host that answers for it, such as a part of it, counts as well.
    """
    reach = task.environment.inputs.get("network", "").partition(" ")[0]
    if reach == Reach.NONE:
        return False
    if reach != Reach.ALLOWLIST or task.records is None:
        return None
    unread: list[str] = []
    host = host.lower().rstrip(".")
    hosts = [
        str(said["host"]).lower().rstrip(".") if said["allowed"] else "" for said in requested(task.records, unread)
    ]
    if any(other == host or other.endswith(f".{host}") for other in hosts if other):
        return True
    return None if unread or len(hosts) > _MOST else False
