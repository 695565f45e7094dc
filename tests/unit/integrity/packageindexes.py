"""A package index on this machine, and what it offers."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import re
import tarfile
import threading
import time
import zipfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import ClassVar

from pytest_researchenv._packageindex import PackageIndex


__all__ = ["HOME", "NATIVE", "PURE", "Server", "recorded", "sdist", "serving", "sha256", "wheel"]

PURE = ("py3-none-any",)
NATIVE = ("cp311-cp311-manylinux2014_x86_64", "cp311-cp311-manylinux_2_17_x86_64")
HOME = "toy-1.0.dist-info"
FILES = {"toy/__init__.py": b"ANSWER = 42\n", "toy-1.0.data/purelib/more.py": b"", "toy-1.0.data/scripts/toy": b"#!"}


def sha256(content: bytes) -> str:
    """The digest of some content, in hexadecimal."""
    return hashlib.sha256(content).hexdigest()


def recorded(content: bytes) -> str:
    """The digest of some content, as RECORD has it."""
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


def wheel(
    files: Mapping[str, bytes] = FILES,
    *,
    tags: Collection[str] = PURE,
    record: str | None = None,
    padding: int = 0,
    home: str = HOME,
) -> bytes:
    """Make a wheel."""
    about = b"Wheel-Version: 1.0\nGenerator: toy\n" + "".join(f"Tag: {tag}\n" for tag in tags).encode()
    every = {"padding.bin": bytes(padding), **files, f"{home}/WHEEL": about}
    lines = "".join(f"{path},{recorded(content)},{len(content)}\n" for path, content in every.items())
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in every.items():
            archive.writestr(path, content)
        archive.writestr(f"{home}/RECORD", f"{lines}{home}/RECORD,,\n" if record is None else record)
    return buffer.getvalue()


def sdist(files: Mapping[str, bytes]) -> bytes:
    """Make a source distribution."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
    return buffer.getvalue()


@dataclass
class Server:
    """A package index on this machine.

    Attributes:
        url: the index.
        files: what it offers, by file name.
        ranges: whether it sends parts of files.
        sizes: whether its pages say how large files are.
        delay_s: how long each answer takes.
        wrong_part: whether it sends other parts than were asked.
        everything: whether it has pip, as indexes do that have everything.
        projects: further pages that are of what it offers.
        asked: the path and the wanted range of each request.
        sent: how many bytes it sent.
    """

    url: str = ""
    files: dict[str, bytes] = field(default_factory=dict)
    ranges: bool = True
    sizes: bool = True
    delay_s: float = 0.0
    wrong_part: bool = False
    everything: bool = False
    projects: set[str] = field(default_factory=set)
    asked: list[tuple[str, str]] = field(default_factory=list)
    sent: int = 0

    @property
    def index(self) -> PackageIndex:
        """Itself, as pip would be configured for it."""
        return PackageIndex(urls=(f"{self.url}/simple/",))

    def page(self) -> bytes:
        """What the index says of toy, as PEP 691 has it."""
        every = [
            {
                "filename": name,
                "url": f"{self.url}/f/{name}",
                "hashes": {},
                **({"size": len(content)} if self.sizes else {}),
            }
            for name, content in self.files.items()
        ]
        return json.dumps({"meta": {"api-version": "1.1"}, "name": "toy", "versions": [], "files": every}).encode()

    def links(self) -> bytes:
        """What a page for pip's `find-links` has."""
        return "".join(f'<a href="f/{name}">{name}</a>' for name in ("other-1.0.tar.gz", *self.files)).encode()


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers as the test wants it."""

    server_of_the_test: ClassVar[Server]

    def do_GET(self) -> None:
        """Send a page, a file, or a part of one."""
        told = self.server_of_the_test
        wanted = self.headers.get("Range", "")
        told.asked.append((self.path, wanted))
        time.sleep(told.delay_s)
        pages = {"/simple/toy/": told.page, "/links.html": told.links}
        if told.everything:
            pages["/simple/pip/"] = told.page
        pages |= dict.fromkeys(told.projects, told.page)
        content = pages[self.path]() if self.path in pages else told.files.get(self.path.removeprefix("/f/"))
        part = re.fullmatch(r"bytes=(\d+)-(\d+)", wanted)
        if content is None:
            self.send_response(404)
            content = b""
        elif part and told.ranges:
            size, start, stop = len(content), int(part[1]), int(part[2]) + 1
            content = content[start:stop]
            self.send_response(206)
            start += told.wrong_part
            self.send_header("Content-Range", f"bytes {start}-{start + len(content) - 1}/{size}")
        else:
            self.send_response(200)
        kind = "application/vnd.pypi.simple.v1+json" if self.path.endswith("/") else "application/octet-stream"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        told.sent += len(content)
        with suppress(OSError):  # It was not waited for.
            self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def serving() -> Iterator[Server]:
    """An index with a wheel of toy 1.0, as long as it is needed."""
    told = Server(files={"toy-1.0-py3-none-any.whl": wheel()})

    class Handling(Handler):
        server_of_the_test = told

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handling) as listening:
        told.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield told
        listening.shutdown()
        thread.join()
