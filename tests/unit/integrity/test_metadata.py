"""What installers write down is read for what it says, and raises nothing whatever it says. No Docker."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import time
import zipfile
from pathlib import Path

import pytest

from pytest_researchenv.integrity import _reading
from pytest_researchenv.integrity._metadata import (
    Direct,
    conda_files,
    direct_url,
    editable_mapping,
    egg_contents,
    entry_points,
    header_fields,
    installed_files,
    module_names,
    record_rows,
)
from pytest_researchenv.model import Sign
from pytest_researchenv.sandbox.fake import Link
from tests.unit.integrity.images import SITE, Nodes, distribution
from tests.unit.integrity.sites import audited, kinds


DIGEST = hashlib.sha256(b"").digest()
B64 = base64.urlsafe_b64encode(DIGEST).decode().rstrip("=")


@pytest.mark.parametrize(
    ("row", "found"),
    [
        (f"a.py,sha256={B64},0", {"/s/a.py": DIGEST.hex()}),
        (f"a.py,SHA256={B64}=,0", {"/s/a.py": DIGEST.hex()}),
        (f'"a,b.py",sha256={B64},0', {"/s/a,b.py": DIGEST.hex()}),
        (f"../../bin/x,sha256={B64},0", {"/bin/x": DIGEST.hex()}),
        (f"/etc/x,sha256={B64},0", {"/etc/x": DIGEST.hex()}),
        (f"//etc/x,sha256={B64},0", {"/etc/x": DIGEST.hex()}),
        (f"a/../b.py,sha256={B64},0\r", {"/s/b.py": DIGEST.hex()}),
        ("a.py", {"/s/a.py": ""}),
        ("a.py,,", {"/s/a.py": ""}),
        (f"a.py,md5={B64},0", {"/s/a.py": ""}),
        (f"a.py,sha512={B64},0", {"/s/a.py": ""}),
        ("a.py,sha256=short,0", {"/s/a.py": ""}),
        ("a.py,sha256=!!!,0", {"/s/a.py": ""}),
        ("a.py,sha256=\udcff\xe9,0", {"/s/a.py": ""}),
        (f"a.py,sha256={B64},0\na.py,sha256={B64},0", {"/s/a.py": DIGEST.hex()}),
        (f"a.py,sha256={B64},0\na.py,sha256={'A' * 43},0", {"/s/a.py": ""}),
        (f"a.py,sha256={B64},0\na.py,,", {"/s/a.py": ""}),
        ("a\0.py,,", {}),
        (f"{'a' * 5000},,", {}),
        ("", {}),
        ('"' + "x" * 200_000, {}),
    ],
)
def test_rows_of_a_record(row: str, found: dict[str, str]) -> None:
    """Only SHA-256 counts; rows that contradict one another say nothing; paths are where they lead."""
    assert record_rows(row, "/s", "/s/x.dist-info/RECORD").files == found


def test_a_record_lists_itself_or_not() -> None:
    """That is how an installer's is told."""
    assert record_rows("x.dist-info/RECORD,,", "/s", "/s/x.dist-info/RECORD").lists_itself
    assert not record_rows("a.py,,", "/s", "/s/x.dist-info/RECORD").lists_itself


def test_a_million_rows_take_seconds() -> None:
    """And what is beyond the bound is not read."""
    started = time.monotonic()

    found = record_rows("a.py,,\n" * 1_000_000 + "last.py,,\n", "/s", "")

    assert list(found.files) == ["/s/a.py"]
    assert time.monotonic() - started < 30


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"url": "file:///a%20b/c", "dir_info": {}}', Direct("file:///a%20b/c", folder="/a b/c")),
        ('{"url": "file:///a", "dir_info": {"editable": true}}', Direct("file:///a", folder="/a", editable=True)),
        ('{"url": "file:///a", "dir_info": {"editable": 1}}', Direct("file:///a", folder="/a")),
        ('{"url": "https://a/b", "archive_info": {}}', Direct("https://a/b", archive=True)),
        ('{"url": "https://a/b", "vcs_info": {}}', Direct("https://a/b", source=True)),
        ('{"url": "http://[a", "dir_info": {}}', Direct("http://[a")),
        ('{"url": 1}', None),
        ("[]", None),
        ("{", None),
        ("[" * 100_000, None),
        ('{"url": "\ud800", "dir_info": {}}', Direct("\ud800", folder="/\ud800")),
    ],
)
def test_where_something_came_from(text: str, found: Direct | None) -> None:
    """Anything but what installers write says nothing."""
    assert direct_url(text) == found


def test_heads_of_metadata() -> None:
    """Fields may be repeated; the description is none of them."""
    text = "Name: A\nTag: x\ntag: y\n more: z\n: nothing\nno colon\n\nName: B\n"

    assert header_fields(text) == {"name": ("A",), "tag": ("x", "y"), "": ("nothing",)}


def test_condas_records() -> None:
    """The hash of what is in the environment counts; of what a path was written into, no other does."""
    digest, other = "a" * 64, "b" * 64
    paths = [
        {"_path": "a.py", "sha256": digest},
        {"_path": "b.py", "sha256": digest, "sha256_in_prefix": other},
        {"_path": "c.py", "sha256": digest, "file_mode": "text", "prefix_placeholder": "/x"},
        {"_path": "d.py", "sha256": "x"},
        {"_path": 1},
        "e",
    ]
    text = json.dumps({"name": "n", "version": "1", "files": ["f.py", 2, "../g"], "paths_data": {"paths": paths}})

    assert conda_files(text, "/p") == (
        "n",
        "1",
        {"/p/f.py": "", "/g": "", "/p/a.py": digest, "/p/b.py": other, "/p/c.py": "", "/p/d.py": ""},
    )
    assert conda_files('{"files": 1, "paths_data": []}', "/p") == ("", "", {})


@pytest.mark.parametrize(
    ("source", "found"),
    [
        (b"MAPPING = {'a': '/x/a'}", {"a": ("/x/a",)}),
        (b"MAPPING: dict[str, str] = {'a': '/x/../a', 1: 'b', 'c': ['/y', 3]}", {"a": ("/x/../a",), "c": ("/y",)}),
        (b"MAPPING: dict[str, str]", {}),
        (b"MAPPING = dict(a='/x')", {}),
        (b"MAPPING = [1]", {}),
        (b"MAPPING = " + b"(" * 5000, {}),
        (b"\0", {}),
        (b"x = 1", {}),
    ],
)
def test_where_finders_have_modules(source: bytes, found: dict[str, tuple[str, ...]]) -> None:
    """Only a literal is read; nothing is run."""
    assert editable_mapping(source) == found


def damaged_egg(old: bytes, new: bytes) -> bytes:
    """An egg whose metadata is packed by LZMA, with some bytes changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("EGG-INFO/PKG-INFO", "Name: a\n")
    return buffer.getvalue().replace(old, new, 1)


def far_egg() -> bytes:
    """An egg whose metadata begins behind any end."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("EGG-INFO/PKG-INFO", "Name: a\n")
        archive.filelist[0].header_offset = 2**64 - 2
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"PK", b"PK\x05\x06" + bytes(18), b"\x7fELF" * 100),
        *(damaged_egg(b"\x09\x04\x05\x00", b"\x09\x04\x05\x00\xff"), damaged_egg(b"\x5d\x00", b"\xff\xff"), far_egg()),
    ],
)
def test_what_is_no_egg_holds_nothing(content: bytes) -> None:
    """Whatever it is."""
    assert egg_contents(content, "/s/x.egg") == ("", ())


def test_an_egg_tells_what_it_holds() -> None:
    """As if it were a folder; of its metadata no more than a head's worth is unpacked."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("EGG-INFO/PKG-INFO", "Name: a\n" + "x" * 50_000_000)
        archive.writestr("../../etc/a.py", "")

    text, paths = egg_contents(buffer.getvalue(), "/s/x.egg")

    assert text.startswith("Name: a\n")
    assert len(text) <= 256 * 1024
    assert paths == ("/s/x.egg/EGG-INFO/PKG-INFO", "/etc/a.py")


def test_small_lists() -> None:
    """Names of modules, entry points, installed files."""
    assert module_names("a b-c\nd/e _f\n") == {"a", "_f"}
    assert entry_points("x = lost:1\n[g]\na = m.n:f [extra]\nb\n[ h ]\nc=k\n[\n") == {"g": {"m.n"}, "h": {"k"}}
    assert entry_points("#\n" * 5000 + "[[g]]\n#a=b\n[h] x\nc=k\n") == {"h": {"k"}}
    assert entry_points(" [[g]] \na=b\n") == {"g": {"b"}}
    assert installed_files("../a.py\n\n/b.py\n", "/s/x.egg-info") == ("/s/a.py", "/b.py")


# --- all of it together -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "nodes",
    [
        {f"{SITE}/a-1.dist-info": Link("a-1.dist-info")},
        {f"{SITE}/a.dist-info": Link("/"), f"{SITE}/dep": Link("/"), f"{SITE}/b": Link("b")},
        {f"{SITE}/a-1.dist-info/RECORD": b"\xff\0" * 1000, f"{SITE}/a-1.dist-info/METADATA": b"\xff\0"},
        {f"{SITE}/a-1.dist-info/RECORD": "/,,\n..,,\n.,,\n../../../../../../../../etc/passwd,,\nbin/x,,\n"},
        {f"{SITE}/a-1.dist-info/METADATA": f"Name: {'x' * 100_000}\nVersion: \x1b[2J\ud7ff\nRequires-Dist: ;;\n"},
        {f"{SITE}/.dist-info/METADATA": "", f"{SITE}/.egg-info": "", f"{SITE}/.egg/EGG-INFO/PKG-INFO": ""},
        {f"{SITE}/dep.egg": b"PK\x03\x04" + bytes(100), f"{SITE}/x.pth": "./dep.egg\n"},
        {f"{SITE}/x.pth": "/\n/proc\n/dev\n\0\n" + "a" * 5000 + "\n"},
        {f"{SITE}/__editable___x_finder.py": "MAPPING = {'dep': '/" + "a/" * 4000 + "'}\n"},
        {f"{SITE}/{'a' * 200}.py": "", f"{SITE}/{'é' * 60}/__init__.py": ""},
    ],
)
def test_whatever_an_agent_leaves_breaks_nothing(tmp_path: Path, nodes: Nodes) -> None:
    """Links in circles, bytes that are no text, names without an end, paths that lead out."""
    signs = audited(tmp_path, nodes, tracked={"run.py": "import dep, sys\n"})

    for finding in signs.findings:
        assert (finding.field + finding.observed).isprintable()
        assert len(finding.field + finding.observed) < 5000


@pytest.mark.parametrize("bound", ["_MOST_CODE", "_MOST_DISTRIBUTIONS", "_MOST_ROWS"])
def test_what_is_too_much_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    """What was not looked at cannot be vouched for."""
    monkeypatch.setattr(_reading, bound, 1)
    nodes: Nodes = {**distribution(SITE, "one", {"one.py": ""}), **distribution(SITE, "two", {"two.py": ""})}

    assert Sign.UNREADABLE in kinds(audited(tmp_path, nodes))
