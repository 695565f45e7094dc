"""Asks for addresses, and says what came of it: `host:port` → the first line of an answer, or the error, as JSON."""

from __future__ import annotations

import errno
import json
import select
import socket
import sys
from concurrent.futures import ThreadPoolExecutor


def main() -> None:
    """Ask for each argument; with `scan HOST`, for every TCP port of one host."""
    if sys.argv[1] == "scan":
        print(json.dumps(scan(sys.argv[2])))
    else:
        places = sys.argv[1:]
        with ThreadPoolExecutor(len(places)) as pool:
            print(json.dumps(dict(zip(places, pool.map(ask, places), strict=True))))


def ask(place: str) -> str:
    """What an address answers."""
    host, _, port = place.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), 2) as connection:
            connection.sendall(b"GET / HTTP/1.0\r\n\r\n")
            return connection.recv(200).decode(errors="replace").splitlines()[0]
    except (OSError, IndexError) as error:
        return f"failed: {error!r}"


def scan(host: str) -> list[int]:
    """Which TCP ports of a host take connections."""
    address = socket.gethostbyname(host)
    found = []
    for first in range(1, 65536, 4000):
        waiting = {}
        for port in range(first, min(first + 4000, 65536)):
            one = socket.socket()
            one.setblocking(False)
            if one.connect_ex((address, port)) in (0, errno.EINPROGRESS):
                waiting[one] = port
            else:
                one.close()
        poll = select.poll()
        by_number = {one.fileno(): one for one in waiting}
        for number in by_number:
            poll.register(number, select.POLLOUT)
        while by_number:
            ready = poll.poll(3000)
            if not ready:
                break
            for number, _ in ready:
                one = by_number.pop(number)
                poll.unregister(number)
                if one.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    found.append(waiting[one])
        for one in waiting:
            one.close()
    return found


if __name__ == "__main__":
    main()
