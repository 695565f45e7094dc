"""Plays the outside: a host with TLS on port 8443 and without on 8080, and a proxy with a password on port 3128.

Prints a line for each request that the proxy got, and `everything listens` once it is ready. The certificate lies
beside it as `cert.pem`.
"""

from __future__ import annotations

import base64
import http.server
import select
import socket
import ssl
import subprocess
import threading
from pathlib import Path

import bodies  # type: ignore[import-not-found]  # it lies beside


HERE = Path(__file__).parent
LOGIN = "Basic " + base64.b64encode(b"lab:proxy-password-canary").decode()


class Secure(http.server.BaseHTTPRequestHandler):
    """Answers with the path that it was asked for, or with what `bodies.py` makes for it."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Answer."""
        if self.path.startswith("/git/"):
            self._git(b"")
        elif self.path.startswith(("/whole/", "/chunked/", "/long/", "/clean/", "/asked")):
            self._made()
        elif self.path.startswith("/moved?to="):
            self.send_response(302)
            self.send_header("Location", self.path.partition("=")[2])
            self.send_header("Content-Length", "0")
            self.end_headers()
        else:
            self._send({}, f"secure {self.path}".encode())

    def do_POST(self) -> None:
        """Answer what Git asks."""
        self._git(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def _git(self, body: bytes) -> None:
        path, _, query = self.path.removeprefix("/git").partition("?")
        # Behind the name of the repository.
        path = path[path.index("/", 1) :]
        self._send(*bodies.git(self.command, path, query, dict(self.headers), body))

    def _made(self) -> None:
        headers, pieces, length = bodies.made(self.path, dict(self.headers))
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        told = ("Transfer-Encoding", "chunked") if length is None else ("Content-Length", str(length))
        self.send_header(*told)
        self.end_headers()
        for piece in pieces:
            self.wfile.write(piece if length is not None else b"%x\r\n%s\r\n" % (len(piece), piece))
        if length is None:
            self.wfile.write(b"0\r\n\r\n")

    def _send(self, headers: dict[str, str], content: bytes) -> None:
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Nothing."""


class Proxy(http.server.BaseHTTPRequestHandler):
    """Opens tunnels, and asks for plain http."""

    def do_CONNECT(self) -> None:
        """Open a tunnel."""
        if not self._allowed():
            return
        host, _, port = self.path.rpartition(":")
        with socket.create_connection((host, int(port))) as far:
            self.send_response(200)
            self.end_headers()
            self._pump(far)

    def do_GET(self) -> None:
        """Ask for plain http."""
        if not self._allowed():
            return
        content = f"through the proxy: {self.path}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def _allowed(self) -> bool:
        known = self.headers.get("Proxy-Authorization") == LOGIN
        print(f"proxy {self.command} {self.path} {known}", flush=True)
        if not known:
            self.send_error(407)
        return known

    def _pump(self, far: socket.socket) -> None:
        near = self.connection
        while True:
            for one in select.select([near, far], [], [])[0]:
                data = one.recv(65536)
                if not data:
                    return
                (far if one is near else near).sendall(data)

    def log_message(self, *_: object) -> None:
        """Nothing."""


def main() -> None:
    """Serve until killed."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        # Sends nothing: it asks which address would be used.
        probe.connect(("192.0.2.1", 9))
        address = probe.getsockname()[0]
    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=outside"]
    made += [
        "-addext",
        f"subjectAltName=IP:{address}",
        "-keyout",
        str(HERE / "key.pem"),
        "-out",
        str(HERE / "cert.pem"),
    ]
    subprocess.run(made, check=True, capture_output=True)
    secure = http.server.ThreadingHTTPServer(("0.0.0.0", 8443), Secure)  # noqa: S104 - the container's
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(HERE / "cert.pem", HERE / "key.pem")
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    threading.Thread(target=secure.serve_forever, daemon=True).start()
    plain = http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Secure)  # noqa: S104 - likewise
    threading.Thread(target=plain.serve_forever, daemon=True).start()
    proxy = http.server.ThreadingHTTPServer(("0.0.0.0", 3128), Proxy)  # noqa: S104 - likewise
    print("everything listens", flush=True)
    proxy.serve_forever()


if __name__ == "__main__":
    main()
