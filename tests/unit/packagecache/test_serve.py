"""Rules of what the cache's container answers, with an application in the place of proxpi."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from requests.adapters import HTTPAdapter

from pytest_researchenv.packagecache import sidecar
from pytest_researchenv.packagecache.inside import serve
from pytest_researchenv.packagecache.inside.serve import Reader, believing
from pytest_researchenv.packagecache.protocol import INDEX_URL, PORT


class Proxpi:
    """Answers everything, or sends clients elsewhere."""

    def __init__(self, place: str = "") -> None:
        self.asked: list[str] = []
        self.fetched: list[tuple[str, str]] = []
        self._place = place

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """As WSGI has it."""
        self.asked.append(environ["PATH_INFO"] + environ["QUERY_STRING"])
        start_response("302 Found" if self._place else "200 OK", [("Location", self._place)] if self._place else [])
        return [b"proxpi"]

    def fetch(self, method: str, url: str, **_: object) -> SimpleNamespace:
        """As `requests` does."""
        self.fetched.append((method, url))
        if "gone" in url:
            raise ConnectionError
        raw = SimpleNamespace(stream=lambda *_, **__: iter([b"upstream"]))
        return SimpleNamespace(status_code=200, headers={"Content-Length": "8", "Set-Cookie": "x"}, raw=raw)


def ask(proxpi: Proxpi, path: str, method: str = "GET") -> tuple[str, list[tuple[str, str]], bytes]:
    """Status, headers and body of an answer."""
    said: list[Any] = []
    environ = {"REQUEST_METHOD": method, "PATH_INFO": path, "QUERY_STRING": "format=evil"}
    body = b"".join(Reader(proxpi, proxpi.fetch)(environ, lambda *given: said.extend(given)))
    return said[0], said[1], body


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH", "OPTIONS", "TRACE", "get", ""])
def test_it_is_read_and_nothing_else(method: str) -> None:
    """Proxpi itself takes DELETE, with which one agent would have the others wait."""
    proxpi = Proxpi()
    assert ask(proxpi, "/index/demo/", method)[0].startswith("405")
    assert not proxpi.asked


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/index/",
        "/index",
        "/cache/list",
        "/index/../",
        "/index/../x",
        "/index/demo/../x",
        "/index/demo/..",
        "/index/demo/a..b",
        "/index/demo?x=/",
        "/index/demo/a/b",
        "/index/de mo/",
        "/index/demo\n/",
        "/index/demo/\n",
        "/index/-demo/",
        "/index//",
        "//index/demo/",
        "/index/" + "a" * 129 + "/",
        "/index/demo/" + "b" * 256,
        "/index/d\u00e9mo/",
        "/index/demo/x#y",
        "/index/demo/%2e",
    ],
)
def test_names_that_no_package_has_reach_nothing(path: str) -> None:
    """Proxpi makes URLs and paths of them."""
    proxpi = Proxpi()
    assert ask(proxpi, path)[0].startswith("404")
    assert not proxpi.asked


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/index/demo/", "/index/demo/"),
        ("/index/De.Mo_x/", "/index/de-mo-x/"),
        ("/index/demo/Demo-1.0+cpu-py3-none-any.whl", "/index/demo/Demo-1.0+cpu-py3-none-any.whl"),
        ("/index/demo/demo-1!2.0.tar.gz", "/index/demo/demo-1!2.0.tar.gz"),
        ("/index/demo/demo-1.0-py3-none-any.whl.metadata", "/index/demo/demo-1.0-py3-none-any.whl.metadata"),
    ],
)
def test_packages_are_asked_for_by_their_normalised_names(path: str, asked: str) -> None:
    """The others proxpi does not know. What else a request says is not heard."""
    proxpi = Proxpi()
    assert ask(proxpi, path) == ("200 OK", [], b"proxpi")
    assert proxpi.asked == [asked]


def test_nobody_is_sent_to_the_index_itself() -> None:
    """Where proxpi would send a client elsewhere, what is there is passed on: its address may hold a password."""
    proxpi = Proxpi("https://user:word@index.example/demo.whl")
    status, headers, body = ask(proxpi, "/index/demo/demo.whl")
    assert (status[:3], headers, body) == ("200", [("Content-Length", "8")], b"upstream")
    assert proxpi.fetched == [("GET", "https://user:word@index.example/demo.whl")]


def test_an_index_that_does_not_answer_is_said_to_be_that() -> None:
    """An agent learns no more of it."""
    status, _, body = ask(Proxpi("https://user:word@gone.example/demo.whl"), "/index/demo/demo.whl")
    assert status.startswith("502")
    assert b"word" not in body


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("https://user:word@index.example/simple/", False),
        ("https://INDEX.example:8443/simple/", False),
        ("https://two.example:8443/simple/", False),
        ("https://two.example/simple/", True),
        ("https://files.example/demo.whl", True),
        ("https://evil.example/index.example/", True),
        ("https://evil-index.example/", True),
    ],
)
def test_certificates_are_checked_but_those_of_trusted_hosts(
    url: str, *, checked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As pip's `trusted-host` has it: for these hosts and ports alone, though the environment names authorities."""
    seen: list[object] = []

    def send(_: object, request: object, **options: object) -> object:
        del request
        seen.append(options["verify"])
        response = requests.Response()
        response.status_code = 200
        return response

    monkeypatch.setattr(HTTPAdapter, "send", send)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "/authorities.pem")
    with requests.Session() as session:
        session.mount("https://", believing([("index.example", None), ("two.example", 8443)]))
        session.get(url)

    assert seen == ["/authorities.pem" if checked else False]


def test_what_runs_in_the_container_is_where_it_is_looked_for() -> None:
    """It cannot import what this host knows: port, folders and the path of the index are written down twice."""
    assert (serve.PORT, serve.CACHE, str(serve.SCRATCH)) == (PORT, sidecar._FILES, sidecar._SCRATCH)
    assert ask(Proxpi(), f"{urlsplit(INDEX_URL).path}demo/")[0].startswith("200")
