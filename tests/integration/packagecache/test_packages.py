"""The package cache against a real engine: what agents get of it, what they cannot do to it, and when it goes."""

from __future__ import annotations

import io
import json
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from pytest_researchenv.gateway.protocol import GatewayRequest, Reach
from pytest_researchenv.packagecache.protocol import HOST
from pytest_researchenv.sandbox.protocol import Completed, Container, ContainerSpec, Join, Network
from pytest_researchenv.sandbox.reaper import reap
from pytest_researchenv.ways import Ways, open_ways


if TYPE_CHECKING:
    from docker import DockerClient

    from tests.integration.packagecache.conftest import Desk


_SCRATCH = "/dev/shm/scratch"  # noqa: S108 - of a container

#: What an agent could try: other methods, ways out of the folder, other names, long ones, the list of everything.
_ATTACKS = """
import http.client, itertools, os
name, port = os.environ["PIP_INDEX_URL"].split("/")[2].split(":")
paths = ["/index/demo/demo-1.0-py3-none-any.whl", "/index/demo/", "/cache/demo", "/cache/list", "/", "/index/",
         "/index/../../researchenv/files/x", "/index/demo/..%2f..%2fetc%2fpasswd", "/index/%2e%2e/x", "/index/..%2f../",
         "/index/demo%3fx=/", "/index/" + "a" * 900 + "/", "/index/demo/" + "b" * 900, "/index/DEMO/evil-1.0.whl",
         "/index/de%0d%0amo/", "/index/forged/forged-1.0-py3-none-any.whl"]
for method, path in itertools.product(["GET", "PUT", "POST", "DELETE", "PATCH", "OPTIONS"], paths):
    connection = http.client.HTTPConnection(name, int(port), timeout=20)
    body = b"evil" if method in ("PUT", "POST", "PATCH") else None
    headers = {"Accept": "*/*", "Host": "evil.example", "X-HTTP-Method-Override": "DELETE"}
    connection.request(method, path, body=body, headers=headers)
    answer = connection.getresponse()
    print(method, path[:60], answer.status, answer.getheader("Location"), flush=True)
    answer.read()
"""


@contextmanager
def _agent(desk: Desk, request: GatewayRequest | None, reach: Reach) -> Iterator[tuple[Ways, Container]]:
    """A container as an agent has it."""
    with (
        open_ways(desk.engine, request, reach, labels={}, say=print) as ways,
        desk.engine.sandbox.opened(
            ContainerSpec(
                desk.engine.base_image,
                network=Network.NONE if request or reach is Reach.NONE else Network.OPEN,
                joins=tuple(map(Join, ways.networks)),
                scratch=_SCRATCH,
            )
        ) as container,
    ):
        container.start()
        yield ways, container


def _run(ways: Ways, container: Container, *argv: str) -> Completed:
    return container.exec(argv, timeout_s=120, environment=ways.environment(container, folder=_SCRATCH))


def _pip(ways: Ways, container: Container, folder: str) -> str:
    """Have pip download the wheel; returns the SHA-256 of what came."""
    script = f"pip download --no-cache-dir --retries 0 -d {folder} demo && sha256sum {folder}/*.whl"
    done = _run(ways, container, "sh", "-c", script)
    assert done.ok, done.output.text()
    return done.output.text().split()[-2]


def test_what_one_agent_got_the_next_gets_without_the_index(desk: Desk, docker_client: DockerClient) -> None:
    """An agent's wheel is the index's, byte for byte, and after the index is gone another one still gets it."""
    with _agent(desk, None, Reach.OPEN) as (ways, container):
        assert _pip(ways, container, "/tmp/first") == desk.index.digest  # noqa: S108 - of a container

    docker_client.containers.get(desk.index.container).kill()

    with _agent(desk, GatewayRequest(reach=Reach.OPEN), Reach.OPEN) as (ways, container):
        assert _pip(ways, container, "/tmp/second") == desk.index.digest  # noqa: S108 - likewise


def test_an_allowlists_gateway_writes_down_what_came_from_the_cache(desk: Desk) -> None:
    """With an allowlist the cache is reached through the gateway alone, and each file is on record."""
    with _agent(desk, GatewayRequest(reach=Reach.ALLOWLIST), Reach.ALLOWLIST) as (ways, container):
        assert _pip(ways, container, "/tmp/first") == desk.index.digest  # noqa: S108 - of a container
        past = _run(ways, container, "curl", "--noproxy", "*", "-m", "5", f"http://{HOST}/health")
        assert not past.ok
        assert ways.gateway is not None
        time.sleep(1)
        lines = [json.loads(line) for line in ways.gateway.ledger.lines()]
    got = {(line["host"], line["path"]) for line in lines if line.get("kind") == "egress" and line["allowed"]}
    assert (HOST, "/index/demo/demo-1.0-py3-none-any.whl") in got


def test_an_agent_without_network_has_no_cache(desk: Desk) -> None:
    """With `none` nothing is started, joined or changed."""
    with _agent(desk, None, Reach.NONE) as (ways, _):
        assert (ways.packages, ways.networks) == (None, ())
    assert not desk.sidecar.running()


def test_an_agent_cannot_change_what_others_get(desk: Desk) -> None:
    """Whatever it asks for, the kept files stay the same, nobody is sent elsewhere, and the wheel is the index's."""
    with _agent(desk, None, Reach.OPEN) as (ways, container):
        _pip(ways, container, "/tmp/first")  # noqa: S108 - of a container
        before = _files(desk)
        done = _run(ways, container, "python3", "-c", _ATTACKS)
        assert done.ok, done.output.text()
        answers = [line.rsplit(" ", 2) for line in done.output.text().splitlines()]
        assert _files(desk) == before
        assert before
        assert {place for _, _, place in answers} == {"None"}
        good = {"GET /index/demo/", "GET /index/demo/demo-1.0-py3-none-any.whl"}
        assert {what for what, status, _ in answers if status == "200"} == good
        assert _pip(ways, container, "/tmp/second") == desk.index.digest  # noqa: S108 - likewise


def test_a_cache_that_was_killed_is_there_again(desk: Desk, docker_client: DockerClient) -> None:
    """Killed while an agent is at work, it is started again under the same name, with the packages that it had."""
    with _agent(desk, None, Reach.OPEN) as (ways, container):
        _pip(ways, container, "/tmp/first")  # noqa: S108 - of a container
        dead, networks = desk.sidecar.running(), _networks(docker_client, desk.sidecar.running())
        assert len(networks) > 1
        docker_client.api.kill(desk.sidecar.name)

        end = time.monotonic() + 120
        while (now := desk.sidecar.running()) in ("", dead) or _networks(docker_client, now) != networks:
            assert time.monotonic() < end
            ways.look()
            time.sleep(0.5)

        assert _pip(ways, container, "/tmp/second") == desk.index.digest  # noqa: S108 - likewise
    assert desk.cache.notes == ()


def test_it_stays_while_somebody_uses_it(desk: Desk) -> None:
    """The reaper leaves it to a live process, whoever started it, and takes it with the last dead one's mark."""
    dead = replace(desk.sidecar.owner, process="/".join([*desk.sidecar.owner.process.split("/")[:2], "1", "999999"]))
    desk.cache.use()
    replace(desk.sidecar, owner=dead).begin_use()
    client, owner = desk.sidecar.client, desk.sidecar.owner

    first = reap(client, everything=True, owner=owner)
    assert desk.sidecar.running()
    assert len(first.volumes) == 1

    replace(desk.sidecar, owner=dead).begin_use()
    client.api.remove_volume(desk.sidecar._mark)
    reaped = reap(client, everything=False, owner=owner)
    assert not desk.sidecar.running()
    assert desk.sidecar.name in reaped.containers
    assert desk.sidecar.name in reaped.networks
    assert desk.sidecar.files not in reaped.volumes

    assert desk.sidecar.files in reap(client, everything=False, owner=owner, packages=True).volumes


def _networks(client: DockerClient, container: str) -> set[str]:
    return set(client.api.inspect_container(container)["NetworkSettings"]["Networks"])


def _files(desk: Desk) -> dict[str, bytes]:
    """Path → content of all that the cache keeps."""
    stream, _ = desk.sidecar.client.api.get_archive(desk.sidecar.name, "/researchenv/files")
    with tarfile.open(fileobj=io.BytesIO(b"".join(stream))) as archive:
        return {m.name: f.read() for m in archive if (f := archive.extractfile(m))}
