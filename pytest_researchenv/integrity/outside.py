"""What an agent asked the outside for, as the proxy wrote it down beyond the agent's reach."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pytest_researchenv._packageindex import configured_index
from pytest_researchenv.gateway.protocol import Reach
from pytest_researchenv.packagecache.protocol import NAME as PACKAGES
from pytest_researchenv.packedlogs import log_place, open_log
from pytest_researchenv.probes.protocol import ProbeTask


__all__ = ["REQUESTS", "asked_for", "fetched_code", "requested"]

#: The record, in an attempt's folder.
REQUESTS = "requests.jsonl"

_OF_A_REQUEST = {"method", "host", "path", "allowed"}
#: Indexes of distributions that are known by themselves, and where their files are; and the cache of the host's own
#: indexes, which can be reached by this name where the user wanted it, and else nowhere.
_INDEXES = frozenset({"pypi.org", "files.pythonhosted.org", PACKAGES})
#: What a path of a clone or of an archive has; one that is not known may be any.
_CODE = re.compile(
    r"^/?$|/info/refs|git-upload-pack|\.git(?:/|$)|(?:tar|zip)ball|/archive/|/(?:legacy\.)?(?:tar|zip)(?:\.gz)?/"
    r"|\.(?:zip|tar|tgz|whl|gz|bz2|xz|zst|7z|egg|crate|conda|deb|rpm|run|sh)(?:$|[?#])",
    re.IGNORECASE,
)
#: The proxy writes down 50,000 requests, and then each host once that it had something from, up to 10,000. From some
#: request on only hosts are known, and of a record that is longer nothing can be said of what is not in it.
_FULL, _MOST = 40_000, 55_000


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
    if records is None:
        return
    try:
        with open_log(records / REQUESTS) as file:
            yield from file
    except FileNotFoundError:
        return
    except OSError as error:
        remarks.append(f"{REQUESTS} cannot be read: {error}")


def asked_for(task: ProbeTask, host: str) -> bool | None:
    """Whether an agent got something from a host; None where nobody wrote down what it asked for.

    Args:
        task: what is audited.
        host: its name; that of a host that answers for it, such as a part of it, counts as well.
    """
    host = host.lower().rstrip(".")
    passed, complete = _passed(task)
    found = any(_host(said) == host or _host(said).endswith(f".{host}") for said, _ in passed)
    return True if found else False if complete else None


def fetched_code(task: ProbeTask) -> bool | None:
    """Whether an agent got a clone or an archive from anywhere but a package index; None where nobody wrote it down."""
    passed, complete = _passed(task)
    like = [_host(said) for said, whole in passed if not whole or _CODE.search(str(said["path"]))]
    if like:
        indexes = {*_INDEXES, *(urlsplit(url).hostname for url in configured_index().urls)}
        if any(host not in indexes for host in like):
            return True
    return False if complete else None


def _passed(task: ProbeTask) -> tuple[list[tuple[Mapping[str, Any], bool]], bool]:
    """The requests that an agent got an answer to, and whether they name every host that it got something from.

    Of each, whether all of its time are on record, too, or only those to further hosts.
    """
    reach = task.environment.inputs.get("network", "").partition(" ")[0]
    if reach == Reach.NONE:
        return [], True
    if reach != Reach.ALLOWLIST or task.records is None:
        return [], False
    unread: list[str] = []
    every = list(requested(task.records, unread))
    complete = not unread and len(every) <= _MOST and log_place(task.records / REQUESTS).exists()
    return [(said, number < _FULL) for number, said in enumerate(every) if said["allowed"]], complete


def _host(said: Mapping[str, Any]) -> str:
    return str(said["host"]).lower().rstrip(".").partition(":")[0]
