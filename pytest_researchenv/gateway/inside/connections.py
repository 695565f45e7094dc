"""Reaches into the proxy where it has no hook: open connections, memory, and its own error pages."""

from __future__ import annotations

import ctypes
import gc
import json
from pathlib import Path
from typing import Any

from mitmproxy import http  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.net.http import http1  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.proxy import commands  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.proxy.layers.http import _http1  # type: ignore[import-not-found,unused-ignore]
from mitmproxy.proxy.layers.http._base import ReceiveHttp  # type: ignore[import-not-found,unused-ignore]

from .policy import Refusal


__all__ = ["Connections", "refuse_trailers", "resident_bytes", "set_error_pages"]

#: Of clients, over both ports. One that reads slowly holds its answer's pieces, one that sends its request.
_CLIENTS = 128

#: Above it, the clients that are connected are sent away: only they can have filled it.
_MEMORY_BYTES = 1024**3


def resident_bytes() -> int:
    """Memory that this process holds."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def set_error_pages(api: str) -> None:
    """Let the proxy's own errors (a service that cannot be reached) have the shape of the provider's."""

    def page(status: int, message: str = "") -> bytes:
        body = Refusal.of(api, status, message).body if api else json.dumps({"error": message}).encode()
        headers = http.Headers(Connection="close", Content_Type="application/json")
        return bytes(http1.assemble_response(http.Response.make(status, body, headers)))

    # mitmproxy writes HTML otherwise, which the tools take for a broken service.
    _http1.make_error_response = page


def refuse_trailers() -> None:
    """Have the proxy refuse trailers: it would raise an error otherwise, and leave the connection open for ever."""
    original = _http1.Http1Connection.read_body

    def read_body(self: Any, event: Any) -> Any:  # noqa: ANN401 - mitmproxy is not installed where types are checked
        try:
            yield from original(self, event)
        except NotImplementedError:
            yield commands.CloseConnection(self.conn)
            yield ReceiveHttp(self.ReceiveProtocolError(self.stream_id, "trailers are not available here"))

    _http1.Http1Connection.read_body = read_body


class Connections:
    """The proxy's open connections.

    Args:
        server: mitmproxy's `Proxyserver`.
    """

    def __init__(self, server: Any) -> None:  # noqa: ANN401 - mitmproxy is not installed where types are checked
        self._server = server

    def client_connected(self, client: Any) -> None:  # noqa: ANN401 - likewise
        """Hook: refuse clients beyond the limit."""
        if len(self._server.connections) > _CLIENTS:
            client.error = "too many connections"

    def cut_upstream(self, client: Any) -> None:  # noqa: ANN401 - likewise
        """End what is open to the outside on behalf of a client."""
        handler = self._server.connections.get(client.id)
        if handler is None:
            return
        for connection, transport in list(handler.transports.items()):
            if connection is not handler.client and transport.handler is not None:
                transport.handler.cancel("silent for too long")

    def unsent(self, client: Any) -> int:  # noqa: ANN401 - likewise
        """Bytes that wait for a client to take them."""
        handler = self._server.connections.get(client.id)
        transport = handler.transports.get(client) if handler else None
        if transport is None or transport.writer is None:
            return 0
        return int(transport.writer.transport.get_write_buffer_size())

    def drop(self, client: Any) -> None:  # noqa: ANN401 - likewise
        """Hang up on a client, whatever still waits for it."""
        handler = self._server.connections.get(client.id)
        transport = handler.transports.get(client) if handler else None
        if transport is None:
            return
        if transport.writer is not None:
            transport.writer.transport.abort()
        if transport.handler is not None:
            transport.handler.cancel("hung up")

    def abort(self, client: Any, server: Any) -> None:  # noqa: ANN401 - likewise
        """Drop one connection to the outside, before another byte is written to it."""
        handler = self._server.connections.get(client.id)
        transport = handler.transports.get(server) if handler else None
        if transport is not None and transport.writer is not None:
            transport.writer.transport.abort()

    def shed(self) -> bool:
        """Send everyone away when memory runs out, and tell whether that was so."""
        if resident_bytes() < _MEMORY_BYTES:
            return False
        # What is free, but not given back, is no reason.
        gc.collect()
        ctypes.CDLL(None).malloc_trim(0)
        if resident_bytes() < _MEMORY_BYTES:
            return False
        for handler in list(self._server.connections.values()):
            for transport in list(handler.transports.values()):
                if transport.handler is not None:
                    transport.handler.cancel("out of memory")
        return True
