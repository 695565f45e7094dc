"""Serves packages through proxpi, for reading only.

Runs in the cache's container, under Python 3.11. Reads its settings from stdin, where nobody else can see them.
"""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


PORT, CACHE = 8765, "/researchenv/files"
#: In memory.
SCRATCH = Path("/researchenv/scratch")

#: An index page, or a file of a project. proxpi makes URLs and paths of both names, so nothing else may stand there.
_PATH = re.compile(
    r"/index/(?P<project>[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?)/"
    r"(?P<file>(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._+!-]{0,254})?"
)

#: Of an answer that is passed on from upstream.
_HEADERS = ("Content-Type", "Content-Length", "Content-Encoding")
_PATIENCE_S = 60
_CHUNK_BYTES = 64 * 1024


class Reader:
    """Lets through what reads packages, and nothing else.

    Args:
        app: proxpi, as a WSGI application.
        fetch: makes a request for a method and a URL (`requests.request`).
    """

    def __init__(self, app: Callable[..., Iterable[bytes]], fetch: Callable[..., Any]) -> None:
        self._app = app
        self._fetch = fetch

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Answer one request."""
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        if method not in ("GET", "HEAD"):
            return _answer(start_response, "405 Method Not Allowed", "packages can be read, and nothing else")
        found = _PATH.fullmatch(path)
        if found is None and path != "/health":
            return _answer(
                start_response, "404 Not Found", "there are packages below /index/PROJECT/, and nothing else"
            )
        if found:
            # proxpi knows projects by their normalised names only.
            project = re.sub(r"[-_.]+", "-", found["project"]).lower()
            environ["PATH_INFO"] = f"/index/{project}/{found['file'] or ''}"
        environ["QUERY_STRING"] = ""
        said: list[tuple[str, list[tuple[str, str]]]] = []

        def begin(status: str, headers: list[tuple[str, str]], _: object = None) -> None:
            said.append((status, headers))

        body = self._app(environ, begin)
        status, headers = said[-1]
        place = dict(headers).get("Location", "")
        if not place:
            start_response(status, headers)
            return body
        if hasattr(body, "close"):
            body.close()
        return self._pass_on(method, place, start_response)

    def _pass_on(self, method: str, place: str, start_response: Callable[..., Any]) -> Iterable[bytes]:
        """Send what proxpi would have clients fetch for themselves: they need not reach it, nor see its credentials."""
        try:
            answer = self._fetch(
                method, place, stream=True, timeout=_PATIENCE_S, headers={"Accept-Encoding": "identity"}
            )
        except OSError:
            return _answer(start_response, "502 Bad Gateway", "the package index does not answer")
        headers = [(name, answer.headers[name]) for name in _HEADERS if name in answer.headers]
        start_response(f"{answer.status_code} Upstream", headers)
        chunks: Iterable[bytes] = answer.raw.stream(_CHUNK_BYTES, decode_content=False)
        return chunks


def believing(trusted: list[tuple[str, int | None]]) -> Any:  # noqa: ANN401 - a class that is there only there
    """Return what makes a session (of `requests`) take every certificate of some hosts, as pip does.

    The session's own switch would be for all hosts, and `REQUESTS_CA_BUNDLE` has the last word over it.
    """
    from requests.adapters import HTTPAdapter  # noqa: PLC0415 - installed there only

    class Believing(HTTPAdapter):
        def send(self, request: Any, **options: Any) -> Any:  # type: ignore[override] # noqa: ANN401 - as it is called
            parts = urlsplit(request.url)
            if any(host == parts.hostname and port in (None, parts.port or 443) for host, port in trusted):
                options["verify"] = False
            return super().send(request, **options)

    return Believing()


def _answer(start_response: Callable[..., Any], status: str, text: str) -> Iterable[bytes]:
    body = f"{text}\n".encode()
    start_response(status, [("Content-Type", "text/plain"), ("Content-Length", str(len(body)))])
    return [body]


def _prepare(settings: dict[str, Any]) -> None:
    import certifi  # noqa: PLC0415 - installed there only

    bundle = SCRATCH / "authorities.pem"
    bundle.write_text(Path(certifi.where()).read_text() + "\n" + settings["authorities"])
    os.environ.update(
        {
            **settings["environment"],
            "REQUESTS_CA_BUNDLE": str(bundle),
            "PROXPI_CACHE_DIR": CACHE,
            # Clients give up after 15. Who waits longer than this has the file passed on, while proxpi goes on.
            "PROXPI_DOWNLOAD_TIMEOUT": "10",
            "PROXPI_CONNECT_TIMEOUT": "20",
            "PROXPI_READ_TIMEOUT": str(_PATIENCE_S),
        }
    )
    # Errors name URLs with their credentials.
    logging.disable(logging.CRITICAL)


def main() -> None:
    """Serve until the container is stopped."""
    settings = json.load(sys.stdin)
    _prepare(settings)
    from gunicorn.app.base import BaseApplication  # type: ignore # noqa: PGH003, PLC0415 - installed there only

    class Server(BaseApplication):  # type: ignore[misc,unused-ignore]
        def load_config(self) -> None:
            options = {
                "bind": f"0.0.0.0:{PORT}",
                # One process: proxpi's index is in memory.
                "workers": 1,
                "worker_class": "gthread",
                "threads": 64,
                "timeout": 120,
                "limit_request_line": 1024,
                "worker_tmp_dir": str(SCRATCH),
            }
            for name, value in options.items():
                self.cfg.set(name, value)

        def load(self) -> Reader:
            # proxpi reads its settings when it is imported.
            import requests  # noqa: PLC0415 - see above
            from proxpi.server import app, cache  # type: ignore # noqa: PGH003, PLC0415 - see above

            session = requests.Session()
            # proxpi has one session for all its indexes and files.
            for each in (session, cache.root_cache.session):
                each.mount("https://", believing(settings["trusted"]))
            return Reader(app, session.request)

    Server().run()


if __name__ == "__main__":
    main()
