"""The command `doctor`: package indexes and proxies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pytest_researchenv._packageindex import PackageIndex
from pytest_researchenv.doctor import indexes
from pytest_researchenv.doctor.indexes import carried_finding, index_findings, proxy_findings, registry_findings
from pytest_researchenv.doctor.values import Finding, State
from tests.unit.commands.place import asked


@contextmanager
def index_server(status: int = 200, *, location: str = "") -> Iterator[tuple[str, list[str]]]:
    """An index on the loopback; its address, and what it was asked for."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(status)
            self.send_header("Location", location)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@pytest.fixture
def configured(monkeypatch: pytest.MonkeyPatch) -> Callable[[PackageIndex], tuple[Finding, ...]]:
    """What is found where pip is configured so."""

    def look_at(index: PackageIndex) -> tuple[Finding, ...]:
        monkeypatch.setattr(indexes, "configured_index", lambda: index)
        return index_findings()

    return look_at


Configured = Callable[[PackageIndex], tuple[Finding, ...]]


@pytest.mark.parametrize(
    ("status", "state", "said"),
    [
        (200, State.OK, "answers in"),
        (404, State.OK, "has no pip/"),
        (401, State.PROBLEM, "HTTP 401"),
        (500, State.PROBLEM, "HTTP 500"),
    ],
)
def test_an_index_is_asked_for_one_page(configured: Configured, status: int, state: State, said: str) -> None:
    """Never for the list of all that it has; credentials are sent, and shown nowhere."""
    with index_server(status) as (url, requests):
        secret = url.replace("http://", "http://me:hidden@")
        (found,) = configured(PackageIndex((f"{secret}/simple/",)))
    assert requests == ["/simple/pip/"]
    assert (found.state, said in found.value) == (state, True), found
    assert "hidden" not in found.value + found.fix


def test_an_index_leads_to_no_other_host(configured: Configured) -> None:
    """Where it redirects to was configured by nobody."""
    with index_server() as (other, elsewhere), index_server(302, location=f"{other}/simple/pip/") as (url, requests):
        (found,) = configured(PackageIndex((f"{url}/simple/",)))
    assert (requests, elsewhere) == (["/simple/pip/"], [])
    assert (found.state, "not followed" in found.value) == (State.OK, True)


def test_an_index_that_does_not_answer_is_a_problem(configured: Configured) -> None:
    """With where to correct it; its password is not in the message."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        (found,) = configured(PackageIndex((f"http://me:hidden@127.0.0.1:{taken.getsockname()[1]}/simple",)))
    assert (found.state, "does not answer" in found.value) == (State.PROBLEM, True)
    assert "pip config list" in found.fix
    assert "hidden" not in found.value


def test_pips_own_default_is_not_asked(configured: Configured, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent anywhere where nothing is configured."""
    monkeypatch.setattr(indexes, "_asked", lambda *_, **__: pytest.fail("a host was asked"))
    (found,) = configured(PackageIndex(("https://pypi.org/simple/",)))
    assert (found.state, "none is configured" in found.value) == (State.SKIPPED, True)
    (found,) = configured(PackageIndex(()))
    assert (found.state, found.value) == (State.SKIPPED, "pip is told to use none")


def test_indexes_of_uv_and_the_registry_of_npm_are_asked_where_they_are_configured(tmp_path: Path) -> None:
    """Each for one page, once; folders are nobody's host."""
    assert registry_findings(asked(tmp_path))[0].state is State.SKIPPED
    with index_server() as (url, requests), index_server(404) as (registry, pinged):
        found = registry_findings(
            asked(
                tmp_path,
                UV_DEFAULT_INDEX=f"{url}/main",
                UV_INDEX=f"torch={url}/torch {url}/main file:///srv/simple",
                npm_config_registry=f"{registry.replace('http://', 'http://me:hidden@')}/npm/",
            )
        )
    assert (requests, pinged) == (["/main/pip/", "/torch/pip/"], ["/npm/-/ping"])
    assert [(one.name, one.state) for one in found] == [
        ("uv's index", State.OK),
        ("uv's index", State.OK),
        ("npm registry", State.OK),
    ]
    assert "hidden" not in str(found)


def test_folders_of_packages_are_looked_for(configured: Configured, tmp_path: Path) -> None:
    """Indexes and links in folders."""
    there, gone = configured(PackageIndex((), local=(tmp_path,), links=(tmp_path / "none",)))
    assert (there.state, gone.state) == (State.OK, State.WARNING)


def test_proxies_are_knocked_at(tmp_path: Path) -> None:
    """Whether something listens; passwords are shown nowhere, and what is no address is said."""
    assert proxy_findings(asked(tmp_path))[0].state is State.SKIPPED
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{server.getsockname()[1]}"
        (refused,) = proxy_findings(asked(tmp_path, https_proxy=f"http://me:hidden@{place}"))
        server.listen()
        (fine,) = proxy_findings(asked(tmp_path, http_proxy=f"http://{place}", HTTPS_PROXY=f"http://{place}"))
    (wrong,) = proxy_findings(asked(tmp_path, http_proxy="http://127.0.0.1:port"))

    assert (fine.state, refused.state, wrong.state) == (State.OK, State.PROBLEM, State.PROBLEM)
    assert "hidden" not in refused.value


def test_settings_that_containers_cannot_have_are_told(tmp_path: Path) -> None:
    """As a session would."""
    found = carried_finding(asked(tmp_path, http_proxy="http://127.0.0.1:1"))
    assert [one.state for one in found] == [State.WARNING]
    assert "this host's own address" in found[0].value
    assert carried_finding(asked(tmp_path))[0].state is State.OK
