"""An agent's container reaches its own gateway, and nothing else.

Attempts are made between containers and networks of these tests alone. That nothing leads further (to the engine's
host, to addresses of a cloud's metadata, to other networks) is read from how networks and containers are set up. What
private networks of ours are like is tested in `sandbox/test_networks.py`, what a gateway lets through in
`gateway/test_egress.py` and `gateway/test_attacks.py`, and from within a tool in `agents/test_network.py`.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from ipaddress import IPv4Address
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_researchenv.gateway.sidecar import ALIAS
from tests.integration.isolation.cells import PORT, Cell, serve
from tests.integration.isolation.conftest import Outside


if TYPE_CHECKING:
    from docker import DockerClient

PROXY = 4001


def _reached(cell: Cell, script: str, *places: str) -> dict[str, str]:
    """What each address said, asked from within an attempt; failures are left out."""
    found: dict[str, str] = json.loads(cell.python(script, *places, timeout_s=120))
    return {place: said for place, said in found.items() if not said.startswith("failed")}


# --- between containers of the test -----------------------------------------------------------------------


def test_two_attempts_do_not_reach_one_another(
    cell: Cell, other: Cell, inside: Callable[[str], str], docker_client: DockerClient
) -> None:
    """Neither container nor gateway of another attempt answers, by address or by name; its own gateway does."""
    theirs = other.neighbours
    name = str(other.facts["Name"]).removeprefix("/")
    sidecar = docker_client.api.inspect_container(other.sidecar)
    places = [
        f"{theirs[other.task.container.id]}:{PORT}",
        f"{name}:{PORT}",
        f"{other.task.container.id[:12]}:{PORT}",
        *(f"{theirs[other.sidecar]}:{port}" for port in (4000, PROXY)),
        f"{str(sidecar['Name']).removeprefix('/')}:{PROXY}",
    ]
    count = serve(other.task.container, inside("serve.py"))
    assert _reached(other, inside("reach.py"), f"127.0.0.1:{PORT}") == {f"127.0.0.1:{PORT}": "HTTP/1.0 200 OK"}
    assert count() == 1

    reached = _reached(cell, inside("reach.py"), *places, f"{ALIAS}:{PROXY}")

    assert reached.keys() == {f"{ALIAS}:{PROXY}"}
    assert count() == 1


def test_a_service_outside_the_policy_is_not_reached(
    other: Cell, outside: Outside, inside: Callable[[str], str]
) -> None:
    """Not directly, not through the gateway, not by any other method; the service that is allowed answers there."""
    allowed, forbidden = outside.allowed.address, outside.forbidden.address

    def curl(*arguments: str) -> str:
        return other.run("curl", "-sS", "-m", "10", *arguments).output.text()

    direct = _reached(other, inside("reach.py"), allowed, forbidden)
    through = curl(f"http://{allowed}/")
    refused = curl(f"http://{forbidden}/")
    tunnel = curl("--proxytunnel", f"http://{forbidden}/")
    named = curl("-H", f"Host: {allowed}", f"http://{forbidden}/")

    assert direct == {}
    assert through == "outside"
    assert "not on this attempt's list" in refused
    assert "403" in tunnel
    assert "outside" not in named
    assert (outside.allowed.count(), outside.forbidden.count()) == (1, 0)


def test_the_gateway_has_no_other_port(other: Cell, inside: Callable[[str], str]) -> None:
    """Of all its ports one takes connections, which is the way out: there is nothing to administrate it by."""
    assert json.loads(other.python(inside("reach.py"), "scan", ALIAS, timeout_s=120)) == [PROXY]


#: Pages that its program has for people, where it is told to.
PAGES = ("/", "/shutdown", "/options", "/flows", "/events", "/commands", "/static/app.js")


def test_the_gateway_itself_answers_nothing(other: Cell) -> None:
    """Asked as a server, by its own name, or by the name of its program's own pages, it refuses."""
    direct = [f"http://{ALIAS}:{PROXY}{path}" for path in PAGES]
    through = [f"http://{host}{path}" for host in (ALIAS, f"{ALIAS}:{PROXY}", "mitm.it") for path in PAGES]
    code = "curl -s -m 10 -o /dev/null -w '%{http_code}\n'"
    script = f"for url in {' '.join(direct)}; do {code} --noproxy '*' $url; done; "
    script += f"for url in {' '.join(through)}; do {code} --noproxy '' $url; done; true"

    said = other.run("sh", "-c", script, timeout_s=300).output.text().split()

    assert len(said) == len(direct) + len(through)
    assert set(said) <= {"000", "400", "403"}, dict(zip(direct + through, said, strict=True))


# --- how it is set up -------------------------------------------------------------------------------------


def test_its_network_leads_nowhere(other: Cell) -> None:
    """Internal, without IPv6, without the host; in it are the attempt's container and its gateway alone."""
    network = _network(other)
    facts = other.facts["NetworkSettings"]

    assert network["Internal"] is True
    assert network["EnableIPv6"] is False
    assert network["Driver"] == "bridge"
    assert network["Options"]["com.docker.network.bridge.inhibit_ipv4"] == "true"
    assert set(network["Containers"]) == {other.task.container.id, other.sidecar}
    assert set(facts["Networks"]) == {other.network}
    assert facts["Networks"][other.network]["GlobalIPv6Address"] == ""
    assert not facts["Ports"]


def test_it_has_no_way_and_no_resolver(other: Cell) -> None:
    """Beside its own network's there is no route, or one by an address that nobody has; and it asks itself for names.

    So nothing leads to a metadata address, to a bridge, or to the world. An engine may give a way to where its host
    would be: the host is not there.
    """
    routes = [line.split() for line in other.run("cat", "/proc/net/route").output.text().splitlines()[1:]]
    hops = {int.from_bytes(bytes.fromhex(fields[2])[::-1]) for fields in routes} - {0}
    ways = {str(IPv4Address(hop)) for hop in hops}
    six = other.run("sh", "-c", "cat /proc/net/if_inet6 2>/dev/null | grep -v ' lo$'").output.text()
    links = other.run("ls", "/sys/class/net").output.text().split()
    servers = other.run("grep", "nameserver", "/etc/resolv.conf").output.text().split()[1::2]

    assert len(routes) <= 2
    assert not ways & set(other.neighbours.values())
    assert not ways & _addresses_of(f"br-{_network(other)['Id'][:12]}")
    assert six == ""
    assert sorted(links) == ["eth0", "lo"]
    assert set(servers) <= {"127.0.0.11", "127.0.0.1"}
    assert other.facts["HostConfig"]["Dns"] == ["127.0.0.1"]


def _network(cell: Cell) -> dict[str, Any]:
    return dict(cell.client.api.inspect_network(cell.network))


def _addresses_of(link: str) -> set[str]:
    """IPv4 addresses of a link of this machine; none where it is not the engine's host."""
    program = shutil.which("ip")
    if program is None or not Path("/sys/class/net", link).exists():
        return set()
    done = subprocess.run(
        [program, "-j", "-4", "addr", "show", "dev", link], check=True, capture_output=True, text=True
    )
    return {str(address["local"]) for found in json.loads(done.stdout or "[]") for address in found["addr_info"]}


def test_the_gateway_is_no_way_to_the_engine(other: Cell, docker_client: DockerClient) -> None:
    """It has no privileges, no socket, no folder of the host, nothing published; it is a proxy, and no router."""
    facts = docker_client.api.inspect_container(other.sidecar)
    host = facts["HostConfig"]

    assert not host["Privileged"]
    assert host["CapDrop"] == ["ALL"]
    assert "NET_ADMIN" not in host["CapAdd"]
    assert not host["Binds"]
    assert [(mount["Type"], mount["RW"]) for mount in facts["Mounts"]] == [("volume", False)]
    assert host["NetworkMode"] != "host"
    assert not any(facts["NetworkSettings"]["Ports"].values())


def _rules() -> str:
    """The packet filter's rules where this process may read them, and the engine's host is this machine."""
    program = shutil.which("iptables-save")
    if program is None:
        return ""
    done = subprocess.run([program], check=False, capture_output=True, text=True)
    return done.stdout if done.returncode == 0 else ""


def test_the_packet_filter_drops_what_leaves_its_network(other: Cell) -> None:
    """Whatever enters or leaves its bridge from or to another address than the network's own is dropped."""
    network = _network(other)
    bridge, subnet = f"br-{network['Id'][:12]}", network["IPAM"]["Config"][0]["Subnet"]
    rules = _rules()
    if bridge not in rules:
        pytest.skip("the rules of the engine's host cannot be read here, or are kept in another table")

    assert f"! -s {subnet} -o {bridge} -j DROP" in rules
    assert f"! -d {subnet} -i {bridge} -j DROP" in rules
    assert f"-A FORWARD -i {bridge} ! -o {bridge} -j ACCEPT" not in rules
    assert "MASQUERADE" not in "\n".join(line for line in rules.splitlines() if subnet in line)
