"""The add-on for the port to the outside: who may be asked for what, what was asked, and what may not come in."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import Any

from mitmproxy import http  # type: ignore[import-not-found,unused-ignore]

from .blocking import BLOCKED
from .connections import Connections
from .events import Reporter
from .names import named
from .passage import OWN_NAME, OWN_TEXT, Passage, in_parts, readable
from .policy import VERSIONS, bypassed, public_address, split_host
from .searches import limited
from .settings import EgressSettings
from .told import Told


__all__ = ["EgressProxy"]

_PRIVATE = "its name has an address that is not in the public internet"

_PORTS = {"http": 80, "https": 443}

#: A length of more digits is none.
_DIGITS = 16

#: What a method can be (RFC 9110), of a sensible length.
_METHOD = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,32}")

#: Addresses that are remembered since their answers were cut.
_CUT = 1000


class EgressProxy:
    """Stands between the agent's container and the outside.

    Args:
        settings: what it is to do.
        reporter: where it tells what it saw.
        connections: the proxy's connections.
    """

    def __init__(self, settings: EgressSettings, reporter: Reporter, connections: Connections) -> None:
        self._settings = settings
        self._reporter = reporter
        self._connections = connections
        self._passages: dict[str, Passage] = {}
        self._told = Told()
        self._cut: set[tuple[str, str]] = set()

    # --- Hooks of the proxy ---------------------------------------------------------------------------------

    def http_connect(self, flow: Any) -> None:  # noqa: ANN401 - mitmproxy is not installed where types are checked
        """A tunnel is asked for."""
        request = flow.request
        reason = ""
        flow.response = _unchecked()
        if not self._settings.targets.permits_tunnel(request.host, request.port):
            reason = "the host is not on this attempt's list"
        elif self._settings.targets.denied(request.host, ""):
            reason = OWN_NAME
        elif self._settings.blocking.names(f"{request.host}/"):
            reason = BLOCKED
        elif request.http_version not in VERSIONS:
            reason = f"{request.http_version} is not available here"
        if reason:
            host = _named("https", request.host, request.port)
            self._refuse(flow, Passage("CONNECT", host, ""), reason)
        else:
            flow.response = None

    def requestheaders(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """A request begins, inside a tunnel or outside any."""
        if not _mine(flow):
            return
        flow.response = _unchecked()
        request = flow.request
        host, port = request.host, request.port
        passage = Passage(request.method, _named(request.scheme, host, port), request.path.partition("?")[0])
        if flow.error:
            return
        reason = OWN_TEXT if passage.address in self._cut else self._objection(request, host, port)
        if reason:
            self._refuse(flow, passage, reason)
            return
        self._passages[flow.id] = passage
        self._prepare(flow, host, port)

        def count(chunk: bytes) -> list[bytes]:
            passage.up += len(chunk)
            return [chunk] if chunk else []

        request.stream = count
        flow.response = None

    def responseheaders(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """An answer begins."""
        passage = self._passages.get(flow.id)
        if passage is None:
            return
        # Other ways to the same host (HTTP/3) would not come through here.
        flow.response.headers.pop("alt-svc", None)
        length = flow.response.headers.get("content-length", "")
        known = length.isdecimal() and len(length) < _DIGITS and "transfer-encoding" not in flow.response.headers
        told = int(length) if known else None
        if passage.answer_begins(self._settings.canaries, told):
            return

        def look(chunk: bytes) -> list[bytes]:
            if passage.passes(chunk):
                return [chunk] if chunk else []
            self._cut_off(flow, passage)
            return []

        flow.response.stream = look

    def response(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """An answer is complete."""
        passage = self._passages.get(flow.id)
        if passage is None:
            return
        if not flow.response.stream and not passage.passes(flow.response.raw_content or b""):
            self._refuse(flow, self._forget(flow, passage), passage.cut)
            return
        self._passages.pop(flow.id)
        self._report(passage, allowed=True, status=flow.response.status_code)

    def error(self, flow: Any) -> None:  # noqa: ANN401 - likewise
        """A request or its answer broke off."""
        if passage := self._passages.pop(flow.id, None):
            status = flow.response.status_code if flow.response is not None else None
            reason = _PRIVATE if _PRIVATE in str(flow.error.msg) else ""
            self._report(passage, allowed=not reason, status=status, reason=reason)

    async def server_connect(self, data: Any) -> None:  # noqa: ANN401 - likewise
        """A connection to the outside is about to be opened."""
        if data.client.proxy_mode.type_name != "regular":
            return
        host, port = data.server.address[:2]
        # Undone at the end, as everywhere here: mitmproxy would log an error, and connect.
        data.server.error = "its address was not checked"
        reason = None if self._trusted(host, port) else await _objection_to_address(host, port)
        data.server.error = reason

    def server_connected(self, data: Any) -> None:  # noqa: ANN401 - likewise
        """A connection to the outside is open, and nothing was sent yet: the name may have changed meanwhile."""
        if data.client.proxy_mode.type_name != "regular" or self._trusted(*data.server.address[:2]):
            return
        if not public_address(str(data.server.peername[0])):
            self._connections.abort(data.client, data.server)

    # --- Steps ----------------------------------------------------------------------------------------------

    def _objection(self, request: Any, host: str, port: int) -> str:  # noqa: ANN401 - likewise
        """Why a request may not pass; empty where it may. What counts is the host that it would really reach."""
        if request.http_version not in VERSIONS or not _METHOD.fullmatch(request.method):
            return "its first line is none of HTTP/1.1"
        if not self._settings.targets.permits(request.scheme, host, port):
            return "the host is not on this attempt's list"
        for other in (request.headers.get("host", ""), request.authority):
            name, other_port = split_host(other.lower())
            if other and (name, other_port or _PORTS.get(request.scheme)) != (host.lower().rstrip("."), port):
                return "its Host header names another host"
        if len(request.headers.get_all("host")) > 1:
            return "it has more than one Host header"
        if piece := self._own(request, host):
            return f"{OWN_NAME} ({piece})"
        return BLOCKED if self._blocked(request, host) else ""

    def _blocked(self, request: Any, host: str) -> str:  # noqa: ANN401 - likewise
        """What a request names that is blocked for the task; empty for nothing."""
        blocking = self._settings.blocking
        # Some servers take an address from a header as well. Where one comes from says nothing of where it goes to.
        values = (value.decode("latin-1") for name, value in request.headers.fields if name.lower() != b"referer")
        held = (found for value in values if (found := blocking.held(value)))
        return blocking.names(f"{host}{request.path}") or next(held, "")

    def _own(self, request: Any, host: str) -> str:  # noqa: ANN401 - likewise
        """What of the benchmark's own a request names; empty for nothing."""
        deny = self._settings.targets.deny
        # Some servers take an address from a header as well.
        values = (value.decode("latin-1") for _, value in request.headers.fields)
        held = (piece for value in values if (piece := named(value, deny)) in deny)
        return self._settings.targets.denied(host, request.path) or next(held, "")

    def _prepare(self, flow: Any, host: str, port: int) -> None:  # noqa: ANN401 - likewise
        request = flow.request
        parts = () if in_parts(request.path) else ("range", "if-range")
        for name in ("proxy-authorization", "proxy-connection", "te", *parts):
            request.headers.pop(name, None)
        request.path = limited(host, request.path, self._settings.search_until)
        if codings := request.headers.get("accept-encoding"):
            request.headers["accept-encoding"] = readable(codings)
        request.authority = ""
        if request.http_version == "HTTP/1.0":
            request.headers["connection"] = "close"
        via = self._settings.via
        if via is None or bypassed(host, self._settings.direct):
            return
        if request.scheme == "https":
            flow.server_conn.via = via
            return
        # Plain http goes to the proxy as it came here: many proxies open tunnels to port 443 only.
        # Past the setters of host and port, which would name the proxy in the request, too.
        request.data.host, request.data.port = via[1]
        request.authority = host if port == _PORTS["http"] else f"{host}:{port}"
        request.headers["host"] = request.authority
        if self._settings.credential:
            request.headers["proxy-authorization"] = self._settings.credential

    def _trusted(self, host: str, port: int) -> bool:
        """Whether an address needs no look: of the host's proxy, or of what may be private."""
        via = self._settings.via
        if via is not None and (host, port) == via[1]:
            return True
        private, targets = self._settings.private, self._settings.targets
        if any(private.permits(scheme, host, port) for scheme in _PORTS):
            return True
        # An address on the list was put there as an address.
        return _is_address(host) and any(targets.permits(scheme, host, port) for scheme in _PORTS)

    def _refuse(self, flow: Any, passage: Passage, reason: str) -> None:  # noqa: ANN401 - likewise
        host = self._reporter.text(passage.host, 300)
        text = f"The request to {host} was refused: {reason}.\n"
        flow.response = http.Response.make(403, text, {"Content-Type": "text/plain", "Connection": "close"})
        self._report(passage, allowed=False, status=None, reason=reason)

    def _cut_off(self, flow: Any, passage: Passage) -> None:  # noqa: ANN401 - likewise
        """Pass on nothing more of an answer: its client learns that it broke off, as it does when a line breaks."""
        if self._passages.get(flow.id) is passage:
            self._forget(flow, passage)
            self._report(passage, allowed=False, status=flow.response.status_code, reason=passage.cut)
            self._connections.drop(flow.client_conn)

    def _forget(self, flow: Any, passage: Passage) -> Passage:  # noqa: ANN401 - likewise
        """An answer must not come in, and neither must a part of it later."""
        self._passages.pop(flow.id)
        if len(self._cut) < _CUT:
            self._cut.add(passage.address)
        return passage

    def _report(self, passage: Passage, *, allowed: bool, status: int | None, reason: str = "") -> None:
        if not self._told.admits(passage.host, allowed=allowed, own=reason.startswith((OWN_NAME, OWN_TEXT, BLOCKED))):
            return
        self._reporter.send(
            "egress",
            at=passage.at,
            method=self._reporter.text(passage.method, 20),
            host=self._reporter.text(passage.host, 300),
            path=self._reporter.text(passage.path, 1000),
            allowed=allowed,
            status=status,
            bytes_up=passage.up,
            bytes_down=passage.down,
            reason=self._reporter.text(reason, 300),
        )


async def _objection_to_address(host: str, port: int) -> str | None:
    """Why a name must not be connected to; None where it may."""
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        return f"the name cannot be resolved: {error}"
    return None if all(public_address(str(entry[4][0])) for entry in found) else _PRIVATE


def _unchecked() -> Any:  # noqa: ANN401 - mitmproxy is not installed where types are checked
    """The answer to a request until it was looked at: mitmproxy would log an error in there, and let it pass."""
    return http.Response.make(403, "The request could not be checked.\n", {"Content-Type": "text/plain"})


def _mine(flow: Any) -> bool:  # noqa: ANN401 - mitmproxy is not installed where types are checked
    return str(flow.client_conn.proxy_mode.type_name) == "regular"


def _named(scheme: str, host: str, port: int) -> str:
    return host if port == _PORTS.get(scheme) else f"{host}:{port}"


def _is_address(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None, flags=socket.AI_NUMERICHOST)
    except OSError:
        return False
    return True
