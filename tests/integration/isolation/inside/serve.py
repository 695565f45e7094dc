"""Answers every connection on a port, on all addresses, and counts them: on port and path given as arguments."""

from __future__ import annotations

import socket
import sys
from pathlib import Path


def main() -> None:
    """Serve for ever."""
    count = 0
    with socket.create_server(("0.0.0.0", int(sys.argv[1]))) as server:  # noqa: S104 - on purpose
        Path(sys.argv[2]).write_text("0")
        while True:
            connection, _ = server.accept()
            count += 1
            Path(sys.argv[2]).write_text(str(count))
            with connection:
                connection.settimeout(2)
                connection.recv(4096)
                connection.sendall(b"HTTP/1.0 200 OK\r\ncontent-length: 7\r\n\r\noutside")


if __name__ == "__main__":
    main()
