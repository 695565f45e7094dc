"""The way to our own answers: closed by name in every spelling, and by what comes back."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from pytest_researchenv.gateway.inside.passage import OWN_NAME, OWN_TEXT
from pytest_researchenv.gateway.protocol import EgressRequest, Reach
from pytest_researchenv.gateway.sidecar import HostNetwork
from pytest_researchenv.integrity.canaries import OWN_NAMES
from tests.choosing import mostly_slow
from tests.integration.gateway.desk import Desk, Outside
from tests.integration.gateway.inside import bodies
from tests.integration.gateway.inside.bodies import CANARY, RECIPE


Open = Callable[..., AbstractContextManager[Desk]]

#: After it, all of a recipe was seen.
SECRET = "SECRET-STEP"  # noqa: S105 - it is none


@pytest.fixture
def desk(open_desk: Open, outside: Outside) -> Iterator[Desk]:
    """An agent that may reach the stand-in outside, over http and https, and nothing else."""
    with open_desk(
        service=None,
        key=None,
        reach=Reach.ALLOWLIST,
        allow=(f"{outside.host}:8443", f"{outside.host}:8080"),
        deny=OWN_NAMES,
        canaries=("of another suite 0123456789", CANARY),
        host=HostNetwork(ca_bundle=outside.authority),
    ) as desk:
        desk.run(f"cat > /ca.pem <<'END'\n{desk.gateway.authority.decode()}\nEND")
        yield desk


def egress(desk: Desk, count: int) -> tuple[EgressRequest, ...]:
    """The requests, once so many are told."""
    deadline = time.monotonic() + 10
    while len(desk.gateway.ledger.egress) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    return desk.gateway.ledger.egress


SPELLINGS = (
    "/simple/pytest-researchenv/",
    "/simple/pytest_researchenv/",
    "/simple/pytest.researchenv/",
    "/simple/PYTEST-RESEARCHENV/",
    "/simple/pytest--researchenv/",
    "//simple///pytest-researchenv//",
    "/simple/torch/../pytest-researchenv/",
    "/simple/./pytest%2Dresearchenv/",
    "/simple/pytest%252Dresearchenv/",
    "/simple/pytest%25252525252525252525252Dresearchenv/",
    "/simple/pytest-re%C5%BFearchenv/",
    "/simple/pytest-researchenv;x=1/",
    "/pypi/pytest-researchenv/json",
    "/packages/ab/cd/pytest_researchenv-0.1.0-py3-none-any.whl",
    "/packages/ab/cd/pytest_researchenv-0.1.0.tar.gz?sha256=1",
    "/lab/pytest-researchenv.git/info/refs?service=git-upload-pack",
    "/lab/pytest-researchenv/archive/refs/heads/main.zip",
    "/https://github.com/lab/pytest-researchenv/raw/main/x",
    "/proxy?url=https%3A%2F%2Fgithub.com%2Flab%2Fpytest%2Dresearchenv",
    "/datasets/lab/ResearchEnvBench/resolve/main/x",
    "/github.com/!lab/!research!env!bench/@v/list",
)


def test_our_names_are_refused_in_every_spelling(desk: Desk, outside: Outside) -> None:
    """As registries, Git hosts and mirrors of them would understand it, over http and https; nothing goes out."""
    bases = (f"http://{outside.host}:8080", f"https://{outside.host}:8443")
    urls = [f"{base}{path}" for base in bases for path in SPELLINGS]
    said = desk.run("\n".join(f"curl -sS --path-as-is --cacert /ca.pem '{url}'" for url in urls))
    requests = egress(desk, len(urls))

    assert said.count("was refused") == len(urls)
    assert "secure" not in said
    assert [one.path for one in requests] == 2 * [path.partition("?")[0] for path in SPELLINGS]
    assert all(not one.allowed and one.reason.startswith(OWN_NAME) for one in requests)
    # As the audit reads them.
    lines = [json.loads(line) for line in desk.gateway.ledger.lines()]
    assert all(line["kind"] == "egress" and not line["allowed"] and line["reason"] for line in lines)


def test_headers_name_nothing_of_ours(desk: Desk, outside: Outside) -> None:
    """Some servers take an address from there; what a request says of itself beside is nobody's fault."""
    url = f"http://{outside.host}:8080/x"
    refused = desk.run(f"curl -sS -H 'X-Original-URL: /simple/pytest_researchenv/' {url}")
    referred = desk.run(f"curl -sS -e https://pypi.org/project/pytest-researchenv/ {url}")
    passed = desk.run(f"curl -sS -A 'pytest/9 researchenv' -e https://api.github.com/repositories/1 {url}")

    assert "belongs to the benchmark itself (pytest-researchenv)" in refused
    assert "belongs to the benchmark itself (pytest-researchenv)" in referred
    assert passed == "secure /x"


def test_another_name_in_tls_opens_nothing(desk: Desk, outside: Outside) -> None:
    """A tunnel to an allowed host, another name in it: what is asked counts, and who is really reached."""
    script = f"""
import socket, ssl
def ask(path, sni):
    raw = socket.create_connection(("gateway", 4001))
    raw.sendall(b"CONNECT {outside.host}:8443 HTTP/1.1\\r\\nHost: {outside.host}:8443\\r\\n\\r\\n")
    raw.recv(4096)
    context = ssl.create_default_context(cafile="/ca.pem")
    context.check_hostname = False
    tls = context.wrap_socket(raw, server_hostname=sni)
    tls.sendall(f"GET {{path}} HTTP/1.1\\r\\nHost: {outside.host}:8443\\r\\nConnection: close\\r\\n\\r\\n".encode())
    answer = b""
    while piece := tls.recv(4096):
        answer += piece
    print(answer.decode())
ask("/x", "files.example.org")
ask("/simple/pytest-researchenv/", "files.example.org")
"""
    done = desk.agent.exec(("python3", "-c", script), timeout_s=60)

    assert "secure /x" in done.output.text()
    assert "secure /simple" not in done.output.text()
    assert "belongs to the benchmark itself" in done.output.text()


@pytest.mark.parametrize("how", mostly_slow(("whole", "chunked", "long"), but={"chunked"}))
def test_an_answer_with_a_canary_does_not_come_in(desk: Desk, outside: Outside, how: str) -> None:
    """Under whatever name, as hosts send it: small ones are refused as a whole, others break off before it."""
    for what in ("plain", "gzip", "zip", "tar.gz", "base64"):
        url = f"https://{outside.host}:8443/{how}/{what}"
        before = len(desk.gateway.ledger.egress)
        said = desk.run(f"rm -f /got; curl -sS --compressed --cacert /ca.pem {url} -o /got; echo code $?; cat /got")
        again = desk.run(f"curl -sS --cacert /ca.pem -r 100- {url}?other=1")
        first, second = egress(desk, before + 2)[before:]

        assert SECRET not in said
        assert CANARY not in said
        assert (first.allowed, first.reason) == (False, f"{OWN_TEXT} (outside)")
        if how == "whole":
            assert f"was refused: {OWN_TEXT} (outside)" in said
            assert first.bytes_down == 0
        else:
            assert "code 0" not in said
        # No part of it, either.
        assert f"was refused: {OWN_TEXT}" in again
        assert (second.allowed, second.status) == (False, None)


def test_a_clone_of_our_files_does_not_come_in(desk: Desk, outside: Outside) -> None:
    """From a repository that has another name, with everything that today's git does."""
    url = f"https://{outside.host}:8443/git/somebody-elses"
    said = desk.run(f"git -c http.sslCAInfo=/ca.pem clone -q {url} /clone; echo code $?; cat /clone/oracle.sh")
    requests = egress(desk, 3)

    assert "code 128" in said
    assert SECRET not in said
    assert requests[0].allowed
    assert requests[-1].path.endswith("/git-upload-pack")
    assert requests[-1].reason == f"{OWN_TEXT} (outside)"


def test_other_downloads_come_as_they_are(desk: Desk, outside: Outside) -> None:
    """To the last byte, of known and of unknown length, in parts and compressed."""
    base = f"https://{outside.host}:8443"
    sums = desk.run(
        f"for path in clean/64 clean/1 clean/0; do curl -sS --cacert /ca.pem {base}/$path | sha256sum; done",
        timeout_s=120,
    )
    direct = {}
    for megabytes in (64, 1, 0):
        digest = hashlib.sha256()
        for piece in bodies.made(f"/clean/{megabytes}", {})[1]:
            digest.update(piece)
        direct[megabytes] = digest.hexdigest()
    requests = egress(desk, 3)

    assert [line.split()[0] for line in sums.splitlines()] == list(direct.values())
    assert [(one.allowed, one.bytes_down, one.reason) for one in requests] == [
        (True, 64 * 2**20, ""),
        (True, 2**20, ""),
        (True, 0, ""),
    ]


def test_only_what_can_be_looked_into_is_asked_for(desk: Desk, outside: Outside) -> None:
    """Codings that need a library of their own are not asked for, and sources not in parts."""
    url = f"http://{outside.host}:8080/asked"
    asked = json.loads(desk.run(f"curl -sS -H 'Accept-Encoding: gzip, br, zstd' -H 'TE: gzip' -r 5-9 {url}"))
    source = json.loads(desk.run(f"curl -sS -r 5-9 {url}/x.sh"))

    assert asked["accept-encoding"] == "gzip"
    assert asked["range"] == "bytes=5-9"
    assert "te" not in asked
    assert "range" not in source
    assert "accept-encoding" not in source


def test_the_stand_in_would_serve_it(open_desk: Open, outside: Outside) -> None:
    """Without canaries all of it comes in: the refusals above are the gateway's."""
    with open_desk(
        service=None,
        key=None,
        reach=Reach.ALLOWLIST,
        allow=(f"{outside.host}:8080",),
        host=HostNetwork(ca_bundle=outside.authority),
    ) as desk:
        base = f"http://{outside.host}:8080"
        plain = desk.run(f"curl -sS {base}/chunked/plain")
        packed = desk.run(f"curl -sS --compressed {base}/whole/gzip")
        cloned = desk.run(f"git clone -q {base}/git/x /clone; cat /clone/oracle.sh")

    assert plain == packed == RECIPE.decode()
    assert cloned.endswith(RECIPE.decode())
