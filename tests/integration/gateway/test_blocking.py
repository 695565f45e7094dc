"""What is blocked for a task, asked for through the real gateway, of a host that has it."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from pytest_researchenv.gateway.inside.blocking import BLOCKED
from pytest_researchenv.gateway.protocol import Blocking, Reach
from pytest_researchenv.gateway.sidecar import HostNetwork
from tests.integration.gateway.desk import Desk, Outside


if TYPE_CHECKING:
    from docker import DockerClient


Open = Callable[..., AbstractContextManager[Desk]]

_NAMES = ("papers.test", "export.papers.test", "archive.test", "api.openalex.org")

_BLOCKING = Blocking(("papers.test/abs/2501.13198",), ("*secret*method*",), "2024-12-31")

#: How the same page may be asked for, and what curl needs for it.
_ATTACKS = (
    "http://papers.test:8080/abs/2501.13198",
    "HTTP://PAPERS.TEST:8080/Abs/2501.13198v2",
    "-k https://papers.test:8443/abs/2501.13198",
    "http://papers.test.:8080/abs/2501.13198",
    "http://export.papers.test:8080/abs/2501.13198",
    "http://papers.test:8080/%61bs/%32501%2e13198",
    "http://papers.test:8080/%2561bs/2501.13198",
    "--path-as-is http://papers.test:8080/x/..//abs/./2501.13198",
    "-L http://archive.test:8080/moved?to=http://papers.test:8080/abs/2501.13198",
    "-L http://archive.test:8080/moved?to=//papers.test.:8080//abs/2501.13198",
    "http://archive.test:8080/web/2025/http://papers.test/abs/2501.13198",
    "http://archive.test:8080/?q=a+Secret%20Method",
    "-H 'X-Original-URL: http://papers.test/abs/2501.13198' http://archive.test:8080/",
)


@contextlib.contextmanager
def _desk(open_desk: Open, client: DockerClient, outside: Outside) -> Iterator[Desk]:
    """A gateway that may reach the stand-in by several names, with something blocked there."""
    allow = tuple(f"{name}:{port}" for name in _NAMES for port in (8080, 8443))
    with open_desk(
        reach=Reach.ALLOWLIST, allow=allow, blocking=_BLOCKING, host=HostNetwork(private_hosts=allow)
    ) as desk:
        network = client.networks.get(desk.gateway.network)
        network.connect(outside.container, aliases=list(_NAMES))
        try:
            yield desk
        finally:
            network.disconnect(outside.container, force=True)


def test_what_is_blocked_is_refused_in_every_spelling_and_recorded(
    open_desk: Open, docker_client: DockerClient, outside: Outside
) -> None:
    """Case, scheme, port, encoding, dot, sub-domain, redirect, archive; what is beside it answers."""
    with _desk(open_desk, docker_client, outside) as desk:
        beside = desk.run("curl -sS http://papers.test:8080/abs/2501.99999; curl -sS http://archive.test:8080/moved")
        answers = [desk.run(f"curl -sS -m 20 {attack}") for attack in _ATTACKS]
        deadline = time.monotonic() + 10
        while sum(not one.allowed for one in desk.gateway.ledger.egress) < len(_ATTACKS):
            assert time.monotonic() < deadline, desk.gateway.ledger.egress
            time.sleep(0.1)
        egress = desk.gateway.ledger.egress

    assert beside == "secure /abs/2501.99999secure /moved"
    for attack, answer in zip(_ATTACKS, answers, strict=True):
        assert BLOCKED in answer, attack
        assert "secure" not in answer, attack
        # Whoever asks in vain learns nothing of what is kept from it.
        assert "secret" not in answer
    refused = [one for one in egress if not one.allowed]
    assert [one.reason for one in refused] == [BLOCKED] * len(_ATTACKS)
    assert {one.host.rstrip(".").partition(":")[0].rstrip(".").lower() for one in refused} >= set(_NAMES[:3])


def test_a_search_that_takes_a_date_is_limited(open_desk: Open, docker_client: DockerClient, outside: Outside) -> None:
    """The service is asked for what was public by the day, whatever the agent asked for."""
    with _desk(open_desk, docker_client, outside) as desk:
        answer = desk.run(
            "curl -sS 'http://api.openalex.org:8080/works?search=x&filter=to_publication_date:2026-01-01'"
        )
        other = desk.run("curl -sS 'http://api.openalex.org:8080/authors?search=x'")

    assert answer.endswith("filter=to_publication_date%3A2026-01-01%2Cto_publication_date%3A2024-12-31")
    assert other == "secure /authors?search=x"


def test_other_attempts_reach_all(open_desk: Open, docker_client: DockerClient, outside: Outside) -> None:
    """Where nothing is blocked, the page that is elsewhere is had: the attacks above do attack something."""
    allow = ("papers.test:8080",)
    with open_desk(reach=Reach.ALLOWLIST, allow=allow, host=HostNetwork(private_hosts=allow)) as desk:
        network = docker_client.networks.get(desk.gateway.network)
        network.connect(outside.container, aliases=["papers.test"])
        try:
            assert desk.run("curl -sS http://papers.test:8080/abs/2501.13198") == "secure /abs/2501.13198"
        finally:
            network.disconnect(outside.container, force=True)
