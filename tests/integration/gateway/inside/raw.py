"""Sends bytes to a port of the gateway as they are, and prints what comes back.

Its arguments: the port; the bytes, in hexadecimal; for how many seconds the answer is awaited; for how many seconds
nothing is read before; the size of the receive buffer, 0 for the usual one.
"""

from __future__ import annotations

import socket
import sys
import time


def main() -> None:
    """Send and read."""
    port, patience, pause, buffer = int(sys.argv[1]), float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5])
    with socket.socket() as connection:
        if buffer:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.connect(("gateway", port))
        connection.sendall(bytes.fromhex(sys.argv[2]))
        time.sleep(pause)
        connection.settimeout(patience)
        size, head = 0, b""
        try:
            while chunk := connection.recv(65536):
                size += len(chunk)
                head += chunk[: 500 - len(head)]
        except OSError as error:
            print("broke off:", type(error).__name__)
        else:
            print("ended")
        print(size, head.decode("latin-1"))


main()
