"""Runs the gateway: `python3 -m inside.start`, with its settings as one JSON document on stdin.

It prints events as JSON lines on stdout (see `events.py`), and ends only with an error, or when its time is over.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NoReturn

from mitmproxy import options  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.addons.next_layer import NextLayer  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.addons.proxyserver import Proxyserver  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.addons.tlsconfig import TlsConfig  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.master import Master  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.proxy import server  # type: ignore[import-not-found,unused-ignore]

from .connections import Connections, refuse_trailers, set_error_pages
from .control import Control
from .egress import EgressProxy
from .events import Reporter
from .model import ModelGateway
from .settings import Settings


__all__ = ["main"]

#: Where Debian keeps the authorities that are trusted.
_SYSTEM_BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")

_LOOK_S = 0.25

_START_S = 30


class _Names:
    """Makes every connection to the outside ask for the host that was checked, whatever name a client gave in its TLS.

    It must come before mitmproxy's own TLS add-on.
    """

    def tls_start_server(self, data: Any) -> None:  # noqa: ANN401 - mitmproxy is not installed where types are checked
        """Hook: TLS to a server is about to begin."""
        data.conn.sni = data.conn.address[0]


class _ProxyLogin:
    """Logs in at the host's proxy where a tunnel through it is opened."""

    def __init__(self, credential: str) -> None:
        self._credential = credential

    def http_connect_upstream(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """Hook: a tunnel is about to be asked for."""
        if self._credential:
            flow.request.headers["proxy-authorization"] = self._credential


def _trusted(settings: Settings, folder: Path) -> Path:
    """One file with every authority: mitmproxy's option takes the place of the usual ones."""
    if _SYSTEM_BUNDLE.exists():
        usual = _SYSTEM_BUNDLE.read_text(encoding="utf-8")
    else:
        import certifi  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - mitmproxy brings it

        usual = Path(certifi.where()).read_text(encoding="utf-8")
    path = folder / "trusted.pem"
    path.write_text(f"{usual}\n{settings.ca_bundle}\n", encoding="utf-8")
    return path


def _modes(settings: Settings) -> list[str]:
    own = socket.gethostbyname(settings.alias)
    modes = []
    if settings.model is not None:
        # A published port arrives on an address that nobody tells.
        address = "0.0.0.0" if settings.published else own  # noqa: S104 - on purpose
        modes.append(f"reverse:{settings.model.origin}@{address}:{settings.ports[0]}")
    if settings.egress is not None:
        modes.append(f"regular@{own}:{settings.ports[1]}")
    return modes


def _options(settings: Settings, trusted: Path) -> Any:  # noqa: ANN401 - mitmproxy is not installed where types are checked
    return {
        "mode": _modes(settings),
        # Nothing outside is asked before the request was looked at.
        "connection_strategy": "lazy",
        # What is no HTTP/1 cannot be looked into.
        "http2": False,
        "rawtcp": False,
        "websocket": False,
        "ssl_verify_upstream_trusted_ca": str(trusted),
    }


async def _serve(settings: Settings, reporter: Reporter) -> str:
    """Serve until something breaks; returns what."""
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        trusted = _trusted(settings, folder)
        proxies = Proxyserver()
        connections = Connections(proxies)
        addons: list[Any] = [connections, _Names(), _ProxyLogin(settings.credential), proxies, NextLayer(), TlsConfig()]
        gateway = None
        if settings.model is not None:
            control = Control(settings.model, str(trusted), settings.credential)
            gateway = ModelGateway(settings.model, reporter, connections, control)
            addons.append(gateway)
            # A request may wait for its budget; the service's silence has its own limit.
            server.TCP_TIMEOUT = settings.model.silence_s + 60
        if settings.egress is not None:
            addons.append(EgressProxy(settings.egress, reporter, connections))
        master = Master(options.Options(confdir=str(folder)))
        master.addons.add(*addons)
        master.options.update(**_options(settings, trusted))
        set_error_pages(settings.model.api if settings.model else "")
        refuse_trailers()
        serving = asyncio.create_task(master.run())
        certificate = folder / "mitmproxy-ca-cert.pem"
        async with asyncio.timeout(_START_S):
            while len(proxies.listen_addrs()) < len(master.options.mode):  # noqa: ASYNC110 - the proxy has no event
                await asyncio.sleep(0.01)
            while not _written(certificate):  # noqa: ASYNC110 - likewise
                await asyncio.sleep(0.01)
        authority = certificate.read_text(encoding="ascii") if settings.egress else ""
        reporter.send("ready", authority=authority)
        while not serving.done():
            await asyncio.sleep(_LOOK_S)
            if settings.lifetime_s is not None and time.monotonic() - begin > settings.lifetime_s:
                # At once: until everything is wound up, requests would still pass.
                _end(reporter, f"its time is over: {settings.lifetime_s:g} s")
            if gateway is not None:
                gateway.watch()
            connections.shed()
        return "the proxy ended"


def _written(certificate: Path) -> bool:
    """Whether a certificate is there in full."""
    return certificate.exists() and "END CERTIFICATE" in certificate.read_text(encoding="ascii")


def main() -> NoReturn:
    """Read the settings and serve."""
    # Nothing that this process ever writes is for others' eyes.
    os.umask(0o077)
    settings = Settings.read(sys.stdin.buffer.read())
    model = settings.model
    secrets = [model.key, model.token] if model else []
    if settings.credential:
        plain = base64.b64decode(settings.credential.partition(" ")[2]).decode()
        secrets += [settings.credential, settings.credential.partition(" ")[2], plain.partition(":")[2]]
    reporter = Reporter(tuple(secrets))
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr, format="%(message)s")
    try:
        reason = asyncio.run(_serve(settings, reporter))
    except Exception as error:  # noqa: BLE001 - the boundary: whatever it was, the harness must hear of it
        reason = f"{type(error).__name__}: {error}"
    _end(reporter, reason)


def _end(reporter: Reporter, reason: str) -> NoReturn:
    reporter.send("fatal", reason=reporter.message(reason))
    os._exit(1)


if __name__ == "__main__":
    main()
