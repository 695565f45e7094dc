"""Private networks, memory folders and stdin on a real engine: who reaches whom, and what is left to be seen."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_researchenv.errors import SandboxError
from pytest_researchenv.sandbox.docker import DockerSandbox
from pytest_researchenv.sandbox.labels import PREFIX, Owner
from pytest_researchenv.sandbox.protocol import ContainerSpec, Join, Limits, Network


if TYPE_CHECKING:
    from docker import DockerClient

    from pytest_researchenv.sandbox.docker import DockerContainer


SMALL = Limits(memory_bytes=256 * 1024**2)

#: Answers every connection with its own name.
SERVE = """
import socket, sys
server = socket.create_server(("0.0.0.0", int(sys.argv[1])))
print("up", server.getsockname()[1], flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(sys.argv[2].encode())
    connection.close()
"""

#: Prints what answers at each address, and how long that took.
ASK = """
import json, socket, sys, time
found = {}
for place in sys.argv[1:]:
    host, _, port = place.rpartition(":")
    started = time.monotonic()
    try:
        with socket.create_connection((host, int(port)), 2) as connection:
            answer = connection.recv(99).decode()
    except OSError as error:
        answer = ""
    found[place] = answer, time.monotonic() - started
print(json.dumps(found))
"""


@contextlib.contextmanager
def _serving(sandbox: DockerSandbox, image: str, name: str, **network: Any) -> Iterator[DockerContainer]:  # noqa: ANN401 - fields of a spec.
    """A container that answers on port 4000 with a name."""
    spec = ContainerSpec(image, argv=("python3", "-c", SERVE, "4000", name), limits=SMALL, **network)
    up = threading.Event()
    with sandbox.opened(spec) as container, ThreadPoolExecutor(1) as pool:
        running = pool.submit(container.run, timeout_s=120, on_output=lambda _: up.set())
        try:
            assert up.wait(30)
            yield container
        finally:
            container.stop()
            running.result(30)


@contextlib.contextmanager
def _host_server(client: DockerClient, image: str) -> Iterator[int]:
    """A service on all addresses of the engine's host; yields its port."""
    labels = Owner.current("tests").labels("test")
    command = ["python3", "-u", "-c", SERVE, "0", "host"]
    container = client.containers.run(image, command, labels=labels, network_mode="host", detach=True)
    try:
        deadline = time.monotonic() + 30
        while not (said := container.logs().split()):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield int(said[1])
    finally:
        container.remove(force=True, v=True)


def _ask(container: DockerContainer, *places: str) -> dict[str, tuple[str, float]]:
    done = container.exec(["python3", "-c", ASK, *places], timeout_s=60)
    found: dict[str, tuple[str, float]] = json.loads(done.output.text())
    return found


def _address(client: DockerClient, container: DockerContainer, network: str) -> str:
    return str(client.api.inspect_container(container.id)["NetworkSettings"]["Networks"][network]["IPAddress"])


def _gateway(client: DockerClient, network: str) -> str:
    return str(client.api.inspect_network(network)["IPAM"]["Config"][0]["Gateway"])


def test_an_inward_network_reaches_its_members_and_nothing_else(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str
) -> None:
    """An alias answers; the engine's host, the default bridge and another private network do not."""
    private = docker_sandbox.private_network
    with (
        private(outward=False, labels={}) as ours,
        private(outward=False, labels={}) as theirs,
        _serving(
            docker_sandbox, base_image, "sidecar", network=Network.OPEN, joins=(Join(ours, "gateway"),)
        ) as sidecar,
        _serving(docker_sandbox, base_image, "bridge", network=Network.OPEN) as bridge,
        _serving(docker_sandbox, base_image, "other", joins=(Join(theirs, "other"),)) as other,
        _host_server(docker_client, base_image) as port,
        docker_sandbox.opened(ContainerSpec(base_image, limits=SMALL, joins=(Join(ours, "agent"),))) as agent,
        docker_sandbox.opened(ContainerSpec(base_image, limits=SMALL, network=Network.OPEN)) as outsider,
    ):
        agent.start()
        outsider.start()
        behind = [
            f"{_address(docker_client, bridge, 'bridge')}:4000",
            f"{_gateway(docker_client, 'bridge')}:{port}",
        ]
        hidden = [
            f"{_address(docker_client, other, theirs)}:4000",
            "other:4000",
            f"{_gateway(docker_client, ours)}:{port}",
            f"{_address(docker_client, sidecar, 'bridge')}:4000",
        ]
        reached = _ask(agent, "gateway:4000", *behind, *hidden)
        shown = _ask(outsider, *behind, f"{_address(docker_client, sidecar, ours)}:4000", "gateway:4000")

    assert {place: answer for place, (answer, _) in reached.items() if answer} == {"gateway:4000": "sidecar"}
    assert {place: answer for place, (answer, _) in shown.items() if answer} == dict(
        zip(behind, ("bridge", "host"), strict=True)
    ), "what the agent does not reach is there, and nobody outside reaches the private network"


def test_names_of_an_inward_network_answer_at_once_and_others_are_refused_soon(
    docker_sandbox: DockerSandbox, base_image: str
) -> None:
    """No tool hangs on a name that it cannot have."""
    with (
        docker_sandbox.private_network(outward=False, labels={}) as network,
        _serving(docker_sandbox, base_image, "sidecar", joins=(Join(network, "gateway"),)),
        docker_sandbox.opened(ContainerSpec(base_image, limits=SMALL, joins=(Join(network),))) as agent,
    ):
        agent.start()
        found = _ask(agent, "gateway:4000", "nosuch:1", "nosuch.example:1")

    assert found["gateway:4000"][0] == "sidecar"
    assert found["gateway:4000"][1] < 1
    assert max(found["nosuch:1"][1], found["nosuch.example:1"][1]) < 3


def test_an_outward_network_reaches_what_is_outside_and_its_members(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str
) -> None:
    """A container of it reaches the engine's host, as one on the default bridge does, and others in it by alias."""
    with (
        docker_sandbox.private_network(outward=True, labels={}) as network,
        _serving(docker_sandbox, base_image, "sidecar", network=Network.OPEN, joins=(Join(network, "gateway"),)),
        _host_server(docker_client, base_image) as port,
        docker_sandbox.opened(ContainerSpec(base_image, limits=SMALL, joins=(Join(network),))) as agent,
    ):
        agent.start()
        outside = f"{_gateway(docker_client, 'bridge')}:{port}"
        found = _ask(agent, "gateway:4000", outside)

    assert [found["gateway:4000"][0], found[outside][0]] == ["sidecar", "host"]


def test_a_network_has_its_owners_labels_and_those_given(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, owner: Owner
) -> None:
    """The reaper finds it, and its labels cannot be overridden."""
    given = {"given": "x", f"{PREFIX}kind": "container"}

    with docker_sandbox.private_network(outward=False, labels=given) as network:
        found = docker_client.api.inspect_network(network)

    assert found["Labels"].items() >= {"given": "x", f"{PREFIX}kind": "network", f"{PREFIX}run": owner.run}.items()
    assert (found["Internal"], found["EnableIPv6"]) == (True, False)


def test_a_container_can_be_in_several_private_networks(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str
) -> None:
    """It has an alias in each, and nothing is left of one that could not join all."""
    label = f"researchenv-test-a-{uuid.uuid4().hex[:12]}"
    private = docker_sandbox.private_network
    with private(outward=False, labels={}) as one, private(outward=False, labels={}) as two:
        joins = (Join(one, "first"), Join(two, "second"))
        with docker_sandbox.opened(ContainerSpec(base_image, joins=joins)) as container:
            found = docker_client.api.inspect_container(container.id)["NetworkSettings"]["Networks"]
        with pytest.raises(SandboxError, match="nosuch"):
            docker_sandbox.create(ContainerSpec(base_image, joins=(*joins, Join("nosuch")), labels={label: ""}))

    assert found.keys() == {one, two}
    assert "first" in found[one]["Aliases"]
    assert "second" in found[two]["Aliases"]
    assert not docker_client.api.containers(all=True, filters={"label": label})


def test_a_port_answers_on_loopback_only(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str
) -> None:
    """The engine picks the port, and says that it listens on 127.0.0.1."""
    with (
        docker_sandbox.private_network(outward=False, labels={}) as network,
        _serving(
            docker_sandbox, base_image, "sidecar", network=Network.OPEN, joins=(Join(network),), publish=4000
        ) as sidecar,
    ):
        port = sidecar.published()
        found = docker_client.api.inspect_container(sidecar.id)["NetworkSettings"]["Ports"]
        if _engine_socket():
            with socket.create_connection(("127.0.0.1", port), 5) as connection:
                assert connection.recv(99) == b"sidecar"

    assert found == {"4000/tcp": [{"HostIp": "127.0.0.1", "HostPort": str(port)}]}


def test_a_port_behind_which_nothing_can_answer_is_an_error(docker_sandbox: DockerSandbox, base_image: str) -> None:
    """An inward network publishes nothing."""
    with (
        docker_sandbox.private_network(outward=False, labels={}) as network,
        docker_sandbox.opened(ContainerSpec(base_image, joins=(Join(network),), publish=4000)) as container,
    ):
        container.start()
        with pytest.raises(SandboxError, match="4000"):
            container.published()


@pytest.mark.parametrize(("scratch", "left"), [("/dev/scratch", set()), ("/scratch", {"/scratch"})])
def test_a_memory_folder_leaves_an_empty_mount_point_at_most(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str, scratch: str, left: set[str]
) -> None:
    """Below /dev, which is in memory itself, not even that; programs can be run from it, and everyone may write."""
    program = f"cp /bin/true {scratch}/program && {scratch}/program && stat -c %a {scratch}"
    with docker_sandbox.opened(ContainerSpec(base_image, scratch=scratch, limits=SMALL)) as container:
        container.start()
        done = container.exec(["sh", "-c", program], timeout_s=30)
        size = container.exec(["df", "--output=size", "-B1", scratch], timeout_s=30).output.text().split()[-1]
        changed = {change["Path"] for change in docker_client.api.diff(container.id)}

    assert (done.exit_code, done.output.text()) == (0, "1777\n")
    assert int(size) == SMALL.memory_bytes // 2
    assert {path for path in changed if "scratch" in path} == left


def test_what_a_process_reads_stands_nowhere_in_the_engine(
    docker_client: DockerClient, docker_sandbox: DockerSandbox, base_image: str
) -> None:
    """A secret on stdin is in no label, variable, argument or log of the container."""
    secret = uuid.uuid4().hex
    with docker_sandbox.opened(ContainerSpec(base_image, argv=("sh", "-c", "cat; sleep 1"))) as container:
        done = container.run(timeout_s=30, stdin=secret.encode())
        found = json.dumps(docker_client.api.inspect_container(container.id))

    assert done.output.text() == secret
    assert secret not in found


def _engine_socket() -> str:
    """Path of the engine's socket on this machine; empty where it is elsewhere."""
    path = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    return path if Path(path).is_socket() else ""


def _relay(source: socket.socket, target: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def _over_tcp(engine: str) -> Iterator[int]:
    """The engine's socket on a port of this machine."""
    opened: list[socket.socket] = []

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.socket(socket.AF_UNIX)
                opened.extend((near, far))
                far.connect(engine)
                threading.Thread(target=_relay, args=(near, far), daemon=True).start()
                threading.Thread(target=_relay, args=(far, near), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
    for connection in opened:
        connection.close()


@pytest.mark.parametrize("content", [b"", bytes(3_000_000)])
def test_stdin_arrives_over_tcp(base_image: str, owner: Owner, content: bytes) -> None:
    """An engine elsewhere takes it, too, and its end."""
    from docker import DockerClient as Client  # noqa: PLC0415 - only this test needs a second client.

    engine = _engine_socket()
    if not engine:
        pytest.skip("the engine is not on a local socket")
    with (
        _over_tcp(engine) as port,
        contextlib.closing(Client(base_url=f"tcp://127.0.0.1:{port}")) as client,
        DockerSandbox(client, owner).opened(ContainerSpec(base_image, argv=("wc", "-c"))) as container,
    ):
        done = container.run(timeout_s=30, stdin=content)

    assert done.output.text() == f"{len(content)}\n"
