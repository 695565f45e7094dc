"""Tools from npm: which programs get into a volume, from where, and what is refused."""

from __future__ import annotations

import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pytest_researchenv.agents.tools import NpmPackage, NpmTool
from pytest_researchenv.errors import ImageError


PROGRAM = b"\x7fELF program"


def packed(**members: bytes) -> bytes:
    """A package of npm with these files, and a link."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for name, content in members.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode, entry.uid = len(content), 0o640, 1000
            archive.addfile(entry, io.BytesIO(content))
        link = tarfile.TarInfo("package/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return stream.getvalue()


def integrity(content: bytes) -> str:
    """As npm writes it."""
    return "sha512-" + base64.b64encode(hashlib.sha512(content).digest()).decode()


@dataclass
class StandInRegistry:
    """A registry of npm on loopback with one package.

    Attributes:
        content: the package's file.
        dist: what it says of it, beside where it is.
        status: with what it answers.
        tarball: where it says that the package is; empty: at itself.
        page: what it answers to everything, if anything.
        asked: paths that were asked for, with the user that was named.
    """

    content: bytes = packed(tool=PROGRAM, other=b"another")
    dist: dict[str, str] | None = None
    status: int = 200
    tarball: str = ""
    page: bytes = b""
    asked: list[tuple[str, str]] = field(default_factory=list)
    url: str = ""

    def answer(self, path: str) -> bytes:
        """The package, or what is known of it."""
        if self.page or path.endswith(".tgz"):
            return self.page or self.content
        dist = {"integrity": integrity(self.content)} if self.dist is None else self.dist
        return json.dumps({"dist": {"tarball": self.tarball or f"{self.url}a/-/a-1.0.0.tgz", **dist}}).encode()


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[StandInRegistry]:
    """The registry that this host's npm uses."""
    standin = StandInRegistry()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            user = base64.b64decode((self.headers["authorization"] or " ").partition(" ")[2]).decode()
            standin.asked.append((self.path, user))
            content = standin.answer(self.path)
            self.send_response(standin.status)
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        standin.url = f"http://127.0.0.1:{server.server_port}/"
        monkeypatch.setenv("npm_config_registry", standin.url)
        for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            monkeypatch.delenv(name, raising=False)
        yield standin
        server.shutdown()


def tool(folder: Path, programs: dict[str, str] | None = None, *, digest: str = "") -> NpmTool:
    """A tool for one architecture."""
    package = NpmPackage("@scope/a", "1.0.0", programs or {"package/tool": "bin/tool"}, digest)
    return NpmTool("a-tool", "1.0.0", {"amd64": package}, folder)


def filled(made: NpmTool) -> dict[str, tuple[int, int, bytes]]:
    """What gets into its volume: name → mode, owner and content."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        made.fill(archive, architecture="amd64")
    stream.seek(0)
    with tarfile.open(fileobj=stream) as archive:
        files = {member: archive.extractfile(member) for member in archive}
        return {member.name: (member.mode, member.uid, file.read()) for member, file in files.items() if file}


def test_only_its_programs_get_into_the_volume(registry: StandInRegistry, tmp_path: Path) -> None:
    """Under the names that they have there, executable and root's, whatever the package says."""
    made = tool(tmp_path, {"package/tool": "bin/tool", "package/other": "bin/b"})

    assert filled(made) == {"bin/tool": (0o755, 0, PROGRAM), "bin/b": (0o755, 0, b"another")}
    assert [path for path, _ in registry.asked] == ["/@scope%2Fa/1.0.0", "/a/-/a-1.0.0.tgz"]


def test_a_package_is_fetched_once(registry: StandInRegistry, tmp_path: Path) -> None:
    """A volume that was removed is filled again without the network, where the digest is known."""
    made = tool(tmp_path, digest=integrity(registry.content))

    first, asked = filled(made), len(registry.asked)

    assert filled(made) == first
    assert len(registry.asked) == asked
    assert not list(tmp_path.rglob("*.part"))


def test_a_damaged_copy_is_fetched_anew(registry: StandInRegistry, tmp_path: Path) -> None:
    """What lies in the folder is checked each time."""
    made = tool(tmp_path)
    filled(made)
    (path,) = tmp_path.rglob("*.tgz")
    path.write_bytes(b"damaged")

    assert filled(made) == {"bin/tool": (0o755, 0, PROGRAM)}
    assert len(registry.asked) == 4


@pytest.mark.parametrize("pinned", [True, False])
def test_another_content_than_promised_is_refused(registry: StandInRegistry, tmp_path: Path, *, pinned: bool) -> None:
    """Whether our table promised it or the registry did; nothing of it is kept."""
    other = integrity(b"another package")
    registry.dist = {} if pinned else {"integrity": other}
    if pinned:
        registry.dist = {"integrity": integrity(registry.content)}

    with pytest.raises(ImageError, match=r"a-1\.0\.0\.tgz is not the expected package"):
        filled(tool(tmp_path, digest=other if pinned else ""))

    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_weak_digest_is_none(registry: StandInRegistry, tmp_path: Path) -> None:
    """Of what the registry knows by sha1 only, nothing is run."""
    registry.dist = {"integrity": "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}

    with pytest.raises(ImageError, match="no sha512 of @scope/a"):
        filled(tool(tmp_path))


def test_a_refusal_names_the_address_and_no_password(
    registry: StandInRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry's user and password go to the registry, and into no message."""
    registry.status = 404
    monkeypatch.setenv("npm_config_registry", registry.url.replace("//", "//someone:hunter2@"))

    with pytest.raises(ImageError, match=r"/@scope%2Fa/1\.0\.0: HTTP 404") as caught:
        filled(tool(tmp_path))

    assert registry.asked == [("/@scope%2Fa/1.0.0", "someone:hunter2")]
    assert "hunter2" not in str(caught.value)


def test_a_password_goes_to_its_registry_only(
    registry: StandInRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A package that lies elsewhere is asked for without it."""
    monkeypatch.setenv("npm_config_registry", registry.url.replace("//", "//someone:hunter2@"))
    registry.tarball = f"{registry.url}a/-/a-1.0.0.tgz".replace("127.0.0.1", "localhost")

    filled(tool(tmp_path))

    assert [user for _, user in registry.asked] == ["someone:hunter2", ""]


def test_a_mirror_stands_in_for_the_public_registry(registry: StandInRegistry, tmp_path: Path) -> None:
    """Mirrors hand on the public address of a package, which may not be reachable."""
    registry.tarball = "https://registry.npmjs.org/a/-/a-1.0.0.tgz"

    assert filled(tool(tmp_path))
    assert registry.asked[-1][0] == "/a/-/a-1.0.0.tgz"


def test_a_registry_that_is_none_is_named(registry: StandInRegistry, tmp_path: Path) -> None:
    """As when a proxy answers with a page of its own."""
    registry.page = b"<html>"

    with pytest.raises(ImageError, match="does not answer as a registry of npm"):
        filled(tool(tmp_path))


def test_nobody_answering_is_an_error_with_the_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says what to look at."""
    monkeypatch.setenv("npm_config_registry", "http://127.0.0.1:9/")
    monkeypatch.setenv("no_proxy", "127.0.0.1")

    with pytest.raises(ImageError, match=r"cannot fetch http://127\.0\.0\.1:9/@scope%2Fa/1\.0\.0.*check the network"):
        filled(tool(tmp_path))


def test_a_package_without_bounds_is_given_up(
    registry: StandInRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It fills no disk, whatever length is announced."""
    del registry
    monkeypatch.setattr("pytest_researchenv.agents.tools._LARGEST", 10)

    with pytest.raises(ImageError, match="more than 10 bytes"):
        filled(tool(tmp_path))

    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("source", ["package/none", "package/link"])
def test_a_package_without_its_program_is_named(registry: StandInRegistry, tmp_path: Path, source: str) -> None:
    """A link in its place is none."""
    del registry

    with pytest.raises(ImageError, match=f"@scope/a 1.0.0 .*{source}"):
        filled(tool(tmp_path, {source: "bin/tool"}))


def test_an_engine_without_a_package_is_told(tmp_path: Path) -> None:
    """With the architectures that there are."""
    with (
        tarfile.open(fileobj=io.BytesIO(), mode="w") as archive,
        pytest.raises(ImageError, match=r"riscv64.*amd64"),
    ):
        tool(tmp_path).fill(archive, architecture="riscv64")


def test_a_key_names_the_volume_of_this_content(tmp_path: Path) -> None:
    """It can be a volume's name; another digest, version or set of programs is another volume."""
    key = tool(tmp_path).key
    others = [tool(tmp_path, digest="sha512-x").key, tool(tmp_path, {"package/tool": "bin/x"}).key]
    version = replace(tool(tmp_path), version="1.0.0-rc.1+x y")

    assert key.startswith("a-tool-1.0.0-")
    assert len({key, *others}) == 3
    assert tool(tmp_path / "elsewhere").key == key
    assert version.key.startswith("a-tool-1.0.0-rc.1-x-y-")
