"""Sends requests that never end, for some seconds, over many connections: its arguments are token and seconds."""

from __future__ import annotations

import socket
import sys
import threading
import time


PIECE = b"x" * (1 << 20)
CHUNK = b"%x\r\n%s\r\n" % (len(PIECE), PIECE)


def flood(begin: bytes, port: int, piece: bytes, end: float) -> None:
    """Send until the time is up, and begin anew whenever the connection is closed."""
    while time.monotonic() < end:
        try:
            with socket.create_connection(("gateway", port), timeout=5) as connection:
                connection.sendall(begin)
                while time.monotonic() < end:
                    connection.sendall(piece)
        except OSError:
            time.sleep(0.02)


def main() -> None:
    """Flood both ports, in bodies and in headers."""
    token, end = sys.argv[1].encode(), time.monotonic() + float(sys.argv[2])
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    kinds = (
        (
            b"POST /api/anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nx-api-key: " + token + b"\r\n" + chunked,
            4000,
            CHUNK,
        ),
        (b"POST /api/anthropic/v1/messages HTTP/1.1\r\nX: ", 4000, PIECE),
        (b"POST http://refused.example.org/ HTTP/1.1\r\nHost: refused.example.org\r\n" + chunked, 4001, CHUNK),
    )
    threads = [threading.Thread(target=flood, args=(*kind, end)) for kind in kinds for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("the flood is over")


main()
