"""Source distributions: found where pip finds them, checked, and laid out without anything leading outside."""

from __future__ import annotations

import hashlib
import http.server
import io
import os
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from pytest_researchenv import _packageindex
from pytest_researchenv._packageindex import PYPI, _configured, _index
from pytest_researchenv._sdist import unpack
from pytest_researchenv.errors import SourceError
from pytest_researchenv.model import PypiSource, Repository
from pytest_researchenv.source import fetch


def toy(source: PypiSource) -> Repository:
    """Make a repository of an sdist."""
    return Repository(name="owner/toy", source=source)


def sdist(files: Mapping[str, bytes], *, members: tuple[tarfile.TarInfo, ...] = ()) -> bytes:
    """Make an sdist archive."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mtime = 1580601600
            tar.addfile(member, io.BytesIO(content))
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size) if member.size else None)
    return buffer.getvalue()


ARCHIVE = sdist({"toy-1.0/PKG-INFO": b"Name: toy\n", "toy-1.0/setup.py": b"raise SystemExit\n"})


@dataclass
class Index:
    """A package index on this machine."""

    url: str
    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)

    def source(self, archive: bytes = ARCHIVE, *, version: str = "1.0") -> PypiSource:
        """Pin an archive."""
        return PypiSource("toy", version, hashlib.sha256(archive).hexdigest())


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Index]:
    """An index that pip, as it is configured in this test, uses; it knows toy 1.0 and a wheel of 2.0."""

    class Handler(http.server.BaseHTTPRequestHandler):
        content: ClassVar[Index]

        def do_GET(self) -> None:
            self.content.requests.append(self.path)
            body = self.content.files.get(self.path)
            self.send_response(404 if body is None else 200)
            kind = "text/html" if self.path.endswith("/") else "application/octet-stream"
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        content = Index(f"http://127.0.0.1:{server.server_port}/simple/")
        Handler.content = content
        names = ("toy-1.0.tar.gz", "toy-2.0-py3-none-any.whl")
        content.files["/simple/toy/"] = "".join(f'<a href="../../f/{name}">{name}</a>' for name in names).encode()
        content.files["/f/toy-1.0.tar.gz"] = ARCHIVE
        for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
            monkeypatch.delenv(name)
        # As where there is no pip, which takes 0.5 s to answer; one test below asks it.
        monkeypatch.setattr(_packageindex, "_pip_configuration", _packageindex._environment)
        monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
        monkeypatch.setenv("PIP_INDEX_URL", content.url)
        monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "file:///nowhere/simple")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield content
        server.shutdown()
        thread.join()


def test_an_sdist_is_fetched_once_and_laid_out_without_its_top_folder(tmp_path: Path, index: Index) -> None:
    """The second time nothing is asked of the index."""
    tree = fetch(toy(index.source()), cache=tmp_path / "cache")
    asked = len(index.requests)
    again = fetch(toy(index.source()), cache=tmp_path / "cache")

    assert tree == again
    assert tree.files == ("PKG-INFO", "setup.py")
    assert index.requests[asked:] == []
    assert (tree.root / "setup.py").stat().st_mtime == 1580601600


def test_an_sdist_with_another_digest_is_refused(tmp_path: Path, index: Index) -> None:
    """Both digests are named, and nothing is kept."""
    assert index.files["/f/toy-1.0.tar.gz"] == ARCHIVE
    pinned = PypiSource("toy", "1.0", "0" * 64)
    found = hashlib.sha256(ARCHIVE).hexdigest()

    with pytest.raises(SourceError, match=f"came with the sha256 {found}, but {'0' * 64} is pinned"):
        fetch(toy(pinned), cache=tmp_path / "cache")

    assert not [path for path in (tmp_path / "cache" / "trees").iterdir() if path.suffix != ".lock"]


def test_an_index_that_announces_another_digest_is_not_asked_for_the_file(tmp_path: Path, index: Index) -> None:
    """Nothing is downloaded that is known to be wrong."""
    index.files["/simple/toy/"] = b'<a href="../../f/toy-1.0.tar.gz#sha256=' + b"1" * 64 + b'">toy-1.0.tar.gz</a>'

    with pytest.raises(SourceError, match=f"has the sha256 {'1' * 64} there, but"):
        fetch(toy(index.source()), cache=tmp_path / "cache")

    assert index.requests == ["/simple/toy/"]


def test_a_version_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path, index: Index) -> None:
    """A wheel alone is no sdist."""
    with pytest.raises(SourceError, match=r"has no sdist of version 2\.0; it has sdists of: 1\.0"):
        fetch(toy(index.source(version="2.0")), cache=tmp_path / "cache")


def test_every_index_is_tried_and_its_answer_told(
    tmp_path: Path, index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An extra index serves what the first one lacks; when none does, each answer is in the message, no password is."""
    empty = index.url.replace("/simple/", "/empty/").replace("://", "://user:secret@")
    monkeypatch.setenv("PIP_INDEX_URL", empty)
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", f"file:///nowhere {index.url}")
    assert fetch(toy(index.source()), cache=tmp_path / "cache").files

    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "http://user:secret@127.0.0.1:9/simple")
    with pytest.raises(SourceError) as caught:
        fetch(toy(index.source()), cache=tmp_path / "other")

    assert "/empty/: does not know toy" in str(caught.value)
    assert "http://127.0.0.1:9/simple: " in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("pip", ["module", "none"])
def test_pips_configuration_is_read_with_and_without_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pip: str
) -> None:
    """Files count where pip is there to read them; where there is none, its environment variables do."""
    (tmp_path / "pip.conf").write_text("[global]\nindex-url = https://file.example/simple\nproxy = http://p.example\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    monkeypatch.setenv("PIP_INDEX_URL", "https://env.example/simple")
    if pip == "none":
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    configuration = _packageindex._pip_configuration()

    assert configuration["index-url"] == "https://env.example/simple"
    assert configuration.get("proxy") == ("http://p.example" if pip == "module" else None)


def test_the_public_index_is_the_one_that_is_compared_with() -> None:
    """Whoever configures none is not asked for it by `doctor`, which knows it by its library's constant."""
    assert PYPI_SIMPLE_ENDPOINT == PYPI


def test_pips_own_order_of_settings_holds() -> None:
    """The environment goes before a command's section, and that before the global one; local folders are kept apart."""
    listing = (
        ":env:.index-url='https://env.example/simple'\n"
        "global.cert='/etc/ca.pem'\n"
        "global.extra-index-url='file:///srv/simple\\nhttps://extra.example/simple'\n"
        "global.find-links='/srv/wheels file:///srv/more%20wheels https://links.example'\n"
        "global.index-url='https://global.example/simple'\n"
        "install.proxy='http://proxy.example:3128'\n"
        "list.format='json'\n"
    )

    index = _index(_configured(listing))

    assert index.urls == ("https://env.example/simple", "https://extra.example/simple")
    assert index.local == (Path("/srv/simple"),)
    assert index.links == (Path("/srv/wheels"), Path("/srv/more wheels"))
    assert index.pages == ("https://links.example",)
    assert (index.certificate, index.proxy) == ("/etc/ca.pem", "http://proxy.example:3128")
    assert _index({"no-index": "1", "index-url": "https://env.example/simple"}).urls == ()


def test_threads_at_once_fetch_once(tmp_path: Path, index: Index) -> None:
    """One works, the others wait and find the whole tree."""
    with ThreadPoolExecutor(6) as pool:
        trees = list(pool.map(lambda _: fetch(toy(index.source()), cache=tmp_path / "cache"), range(6)))

    assert len(set(map(repr, trees))) == 1
    assert index.requests.count("/f/toy-1.0.tar.gz") == 1


def test_processes_at_once_fetch_once(tmp_path: Path, index: Index) -> None:
    """So do processes."""
    program = (
        "import sys; from pathlib import Path\n"
        "from pytest_researchenv.model import PypiSource, Repository\n"
        "from pytest_researchenv.source import fetch\n"
        "repository = Repository(name='toy', source=PypiSource('toy', '1.0', sys.argv[1]))\n"
        "print(fetch(repository, cache=Path(sys.argv[2])).digest)\n"
    )
    argv = [sys.executable, "-c", program, index.source().sha256, str(tmp_path / "cache")]
    processes = [subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    digests = {process.communicate(timeout=60)[0] for process in processes}

    assert [process.returncode for process in processes] == [0, 0, 0]
    assert len(digests) == 1
    assert index.requests.count("/f/toy-1.0.tar.gz") == 1


# --- hostile archives -------------------------------------------------------------------------------------


def member(name: str, kind: bytes, link: str = "", size: int = 0) -> tarfile.TarInfo:
    """Make a member of an archive."""
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname, entry.size = kind, link, size
    return entry


@pytest.mark.parametrize(
    ("members", "said"),
    [
        ((member("../evil", tarfile.REGTYPE, size=1),), "leads outside"),
        ((member("/evil", tarfile.REGTYPE, size=1),), "leads outside"),
        ((member("toy-1.0/../../evil", tarfile.REGTYPE, size=1),), "leads outside"),
        ((member("toy-1.0/link", tarfile.SYMTYPE, "/etc"),), "leads outside: '/etc'"),
        ((member("toy-1.0/a/link", tarfile.SYMTYPE, "../../x"),), "leads outside"),
        ((member("toy-1.0/link", tarfile.SYMTYPE, "a/../../x"),), "leads outside"),
        (
            (
                member("toy-1.0/a/b/c/up", tarfile.SYMTYPE, "../../.."),
                member("toy-1.0/out", tarfile.SYMTYPE, "a/b/c/up/../../etc"),
            ),
            "'out' leads outside",
        ),
        ((member("toy-1.0/a", tarfile.SYMTYPE, "/etc"), member("toy-1.0/a/b", tarfile.SYMTYPE, "c")), "be unpacked"),
        ((member("toy-1.0/a/b", tarfile.SYMTYPE, "c"), member("toy-1.0/a", tarfile.SYMTYPE, "/etc")), "be unpacked"),
        (
            (
                member("toy-1.0/a", tarfile.SYMTYPE, "b"),
                member("toy-1.0/b", tarfile.SYMTYPE, "a"),
                member("toy-1.0/hard", tarfile.LNKTYPE, "toy-1.0/a"),
            ),
            "cannot be unpacked",
        ),
        ((member("toy-1.0/sparse", tarfile.GNUTYPE_SPARSE),), "is a device or another special file"),
        ((member("toy-1.0/fifo", tarfile.FIFOTYPE),), "is a device or another special file"),
        ((member("toy-1.0/null", tarfile.CHRTYPE),), "is a device or another special file"),
        ((member("toy-1.0/hard", tarfile.LNKTYPE, "/etc/passwd"),), "linkname '/etc/passwd' not found"),
        ((member("toy-1.0/hard", tarfile.LNKTYPE, "../../etc/passwd"),), "not found"),
        ((member("other/file", tarfile.REGTYPE, size=1),), "several top folders"),
        ((member("file", tarfile.REGTYPE, size=1),), "lies beside the top folder"),
        ((member("toy-1.0/PKG-INFO/x", tarfile.REGTYPE, size=1),), "cannot be unpacked"),
        (
            (member("toy-1.0/d", tarfile.SYMTYPE, "."), member("toy-1.0/d/x", tarfile.REGTYPE, size=1)),
            "cannot be unpacked",
        ),
    ],
)
def test_a_hostile_archive_is_refused(tmp_path: Path, members: tuple[tarfile.TarInfo, ...], said: str) -> None:
    """Nothing is written outside the tree, and nothing inside it leads there."""
    archive = tmp_path / "sdist"
    archive.write_bytes(sdist({"toy-1.0/PKG-INFO": b"x"}, members=members))

    with pytest.raises(SourceError, match=said):
        unpack(archive, tmp_path / "tree")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["sdist", "tree"]


@pytest.mark.parametrize(
    "archive",
    [b"", b"not an archive", ARCHIVE[:100], sdist({}), b"PK\x03\x04" + b"\0" * 100, ARCHIVE[:-40] + b"\xff" * 40],
    ids=["empty", "text", "cut", "no-members", "zip", "damaged"],
)
def test_what_is_no_archive_is_refused(tmp_path: Path, archive: bytes) -> None:
    """A file that tarfile cannot read ends as an error of ours."""
    (tmp_path / "sdist").write_bytes(archive)

    with pytest.raises(SourceError, match="the sdist sdist cannot be unpacked"):
        unpack(tmp_path / "sdist", tmp_path / "tree")


def test_links_inside_the_tree_and_repeated_names_are_as_in_tar(tmp_path: Path) -> None:
    """A link may lead anywhere in the tree, or nowhere in it; of two files of one name the last one counts."""
    links = (
        member("toy-1.0/a/link", tarfile.SYMTYPE, "../PKG-INFO"),
        member("toy-1.0/dangling", tarfile.SYMTYPE, "a/missing"),
        member("toy-1.0/loop", tarfile.SYMTYPE, "loop"),
        member("toy-1.0/hard", tarfile.LNKTYPE, "toy-1.0/PKG-INFO"),
        member("toy-1.0/PKG-INFO", tarfile.REGTYPE, size=2),
    )
    (tmp_path / "sdist").write_bytes(sdist({"toy-1.0/PKG-INFO": b"first"}, members=links))

    unpack(tmp_path / "sdist", tmp_path / "tree")

    assert (tmp_path / "tree" / "a" / "link").read_bytes() == b"xx"
    assert (tmp_path / "tree" / "hard").read_bytes() == b"first"
    assert (tmp_path / "tree" / "loop").readlink() == Path("loop")


def test_a_git_folder_in_an_sdist_is_never_obeyed(tmp_path: Path, index: Index) -> None:
    """A planted configuration would make git run its commands: it is left out at every depth and in every case."""
    evil = f'[core]\nfsmonitor = "touch {tmp_path}/ran; false"\n'.encode()
    archive = sdist(
        {
            "toy-1.0/PKG-INFO": b"x",
            "toy-1.0/.git/config": evil,
            "toy-1.0/.git/HEAD": b"ref: refs/heads/main\n",
            "toy-1.0/.GIT/config": evil,
            "toy-1.0/sub/.git/config": evil,
            "toy-1.0/sub/a.py": b"x",
            "toy-1.0/git~1/b.py": b"x",
        }
    )
    index.files["/f/toy-1.0.tar.gz"] = archive

    tree = fetch(toy(index.source(archive)), cache=tmp_path / "cache")

    assert tree.files == ("PKG-INFO", "git~1/b.py", "sub/a.py")
    assert not (tmp_path / "ran").exists()
