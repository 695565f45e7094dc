"""Texts are found in bodies that come in pieces, as they are and packed, and no body makes the search fail."""

from __future__ import annotations

import base64
import bz2
import gzip
import io
import json
import os
import random
import subprocess
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest

from pytest_researchenv.gateway.inside.search import PACKED_BYTES, SEARCHED_BYTES, BodySearch, Search, encoded


CANARY = "a suite canary 5b2f77f0-9c1d-4e0a-8d65-6a6f0d3c9e11"
OTHER = "another canary 0e5f3a52-7a1b-4f0e-a4a0-2f1b7c9d8e22"

RECIPE = f"# How to do it.\n#\n# {CANARY}\nuv pip install torch\n".encode()
FILLER = b"".join(b"line %d of something else\n" % number for number in range(3000))


def found(body: bytes, *, size: int = 65536, length: int | None = None) -> str:
    """What is found in a body that comes in pieces of a size."""
    search = BodySearch((OTHER, CANARY), length=length)
    for at in range(0, len(body), size):
        search.feed(body[at : at + size])
    return search.found


def zipped(*members: tuple[str, bytes], method: int = zipfile.ZIP_DEFLATED, streamed: bool = False) -> bytes:
    """A zip; a streamed one does not say beforehand how long its members are."""

    class Unseekable(io.BytesIO):
        def seekable(self) -> bool:
            return False

    stream = Unseekable() if streamed else io.BytesIO()
    with zipfile.ZipFile(stream, "w", method) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return stream.getvalue()


def tarred(*members: tuple[str, bytes]) -> bytes:
    """A tar."""
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w") as archive:
        for name, content in members:
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return stream.getvalue()


MEMBERS = (("a/__init__.py", FILLER), ("b/oracle.sh", RECIPE), ("c.py", FILLER))

PACKED: dict[str, Callable[[], bytes]] = {
    "plain": lambda: FILLER + RECIPE + FILLER,
    "gzip": lambda: gzip.compress(FILLER + RECIPE),
    "gzip of several members": lambda: gzip.compress(FILLER) + gzip.compress(RECIPE),
    "zlib": lambda: zlib.compress(FILLER + RECIPE),
    "tar": lambda: tarred(*MEMBERS),
    "tar.gz": lambda: gzip.compress(tarred(*MEMBERS)),
    "tar.gz, compressed once more on the way": lambda: gzip.compress(gzip.compress(tarred(*MEMBERS))),
    "zip": lambda: zipped(*MEMBERS),
    "zip, streamed": lambda: zipped(*MEMBERS, streamed=True),
    "zip, stored": lambda: zipped(*MEMBERS, method=zipfile.ZIP_STORED),
    "zip, stored and streamed": lambda: zipped(*MEMBERS, method=zipfile.ZIP_STORED, streamed=True),
    "zip in a stored zip": lambda: zipped(("inner.zip", zipped(*MEMBERS)), method=zipfile.ZIP_STORED),
    "zip in a zip": lambda: zipped(("x", FILLER), ("inner.zip", zipped(*MEMBERS))),
    "tar.gz in a zip": lambda: zipped(("x", FILLER), ("inner.tar.gz", gzip.compress(tarred(*MEMBERS)))),
    "zip after a damaged member": lambda: zipped(("x", FILLER))[:-200] + zipped(*MEMBERS),
    "JSON": lambda: json.dumps({"tree": [{"content": RECIPE.decode()}]}).encode(),
    "base64 in JSON": lambda: json.dumps({"content": base64.b64encode(RECIPE).decode()}).encode(),
    "base64 with line breaks in JSON": lambda: json.dumps({"content": base64.encodebytes(RECIPE).decode()}).encode(),
    "base64 in compressed JSON": lambda: gzip.compress(json.dumps({"c": base64.b64encode(RECIPE).decode()}).encode()),
}


@pytest.mark.parametrize("size", [1, 2, 3, 17, 1000, 65536])
@pytest.mark.parametrize("name", PACKED)
def test_a_text_is_found_however_it_comes(name: str, size: int) -> None:
    """Whole or split over pieces, packed as hosts pack it, and again."""
    assert found(PACKED[name](), size=size) == CANARY


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("width", [0, 60, 61, 76])
def test_base64_is_found_wherever_it_stands(before: int, width: int) -> None:
    """At each of the three offsets, and with line breaks as services put them."""
    digits = base64.b64encode(b"x" * (100 + before) + RECIPE).decode()
    lines = [digits[at : at + width] for at in range(0, len(digits), width)] if width else [digits]

    assert found(json.dumps({"content": "\n".join(lines)}).encode()) == CANARY


def test_the_parts_of_base64_are_long_enough() -> None:
    """So that nothing is found by accident."""
    assert all(len(part) > 20 for part in encoded(CANARY.encode()))


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a recipe, in several commits."""
    folder = tmp_path_factory.mktemp("repository")
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run([*git, "init", "-q"], check=True)
    for number in range(5):
        (folder / "other.txt").write_bytes(FILLER + b"%d" % number)
        (folder / f"file{number}.py").write_bytes(FILLER[number * 100 :])
        (folder / "oracle.sh").write_bytes(RECIPE + b"# step %d\n" % number)
        subprocess.run([*git, "add", "-A"], check=True)
        subprocess.run([*git, "commit", "-qm", f"step {number}"], check=True)
    return folder


def packs(repository: Path, *, sideband: bool) -> bytes:
    """What `git clone` is answered over HTTP."""
    made = subprocess.run(
        ["git", "-C", str(repository), "pack-objects", "--revs", "--stdout", "-q", "--thin", "--delta-base-offset"],
        input=b"HEAD\n",
        capture_output=True,
        check=True,
    )
    if not sideband:
        return b"0008NAK\n" + made.stdout
    lines = [b"\x02Counting objects\n"]
    lines += [b"\x01" + made.stdout[at : at + 999] for at in range(0, len(made.stdout), 999)]
    return b"000dpackfile\n" + b"".join(b"%04x" % (len(line) + 4) + line for line in lines) + b"0000"


@pytest.mark.parametrize("size", [1, 7, 65536])
@pytest.mark.parametrize("sideband", [False, True])
def test_a_text_is_found_in_what_git_fetches(repository: Path, size: int, sideband: bool) -> None:  # noqa: FBT001 - a parameter
    """Over the protocols of today and of old, and in a pack by itself."""
    answer = packs(repository, sideband=sideband)

    assert found(answer, size=size) == CANARY
    if not sideband:
        assert found(answer[8:], size=size) == CANARY


def test_a_pack_with_an_object_that_is_named_by_its_hash(repository: Path) -> None:
    """An older kind of difference: REF_DELTA."""
    made = subprocess.run(
        ["git", "-C", str(repository), "pack-objects", "--revs", "--stdout", "-q"],
        input=b"HEAD\n",
        capture_output=True,
        check=True,
    ).stdout

    assert found(made) == CANARY


def test_what_is_not_there_is_not_found() -> None:
    """Half a canary, another one's beginning, and what is packed without it."""
    half = CANARY[:-1].encode()

    for body in (FILLER, half, half + b" " + CANARY[-1:].encode(), gzip.compress(half), zipped(("x", half)), b""):
        assert found(body) == ""


def test_which_one_was_found_is_told() -> None:
    """Nothing that comes later changes it."""
    search = BodySearch((CANARY, OTHER))

    assert not search.feed(FILLER)
    assert search.feed(OTHER.encode())
    assert search.feed(CANARY.encode())
    assert search.found == OTHER


@pytest.mark.parametrize("seed", range(40))
def test_no_body_makes_it_fail(seed: int) -> None:
    """Bodies that begin as something packed and are damaged, cut or mixed: whatever comes, it goes on."""
    dice = random.Random(seed)  # noqa: S311 - no secret
    body = bytearray(dice.choice([make() for make in PACKED.values()]))
    for _ in range(dice.randrange(1, 30)):
        at = dice.randrange(len(body))
        body[at : at + dice.randrange(3)] = dice.randbytes(dice.randrange(4))
    for head in (
        b"",
        b"PACK" + bytes(8),
        b"PK\x03\x04",
        b"\x1f\x8b\x08",
        b"x\x9c",
        b"0009\x01PACK",
        b"ffff\x01",
        b"0000NAK\n",
    ):
        found(head + bytes(body), size=dice.choice([3, 100, 65536]))
        found(head + dice.randbytes(300), size=7)


def test_a_bomb_is_unpacked_to_a_limit() -> None:
    """Gigabytes of zeros in a few kilobytes keep nobody busy, and take no memory."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    megabyte = bytes(1 << 20)
    bomb = b"".join(packer.compress(megabyte) for _ in range(300)) + packer.compress(RECIPE) + packer.flush()
    begin = time.monotonic()

    assert found(gzip.compress(bomb)) == ""
    assert time.monotonic() - begin < 20


def test_a_large_body_is_not_unpacked() -> None:
    """Where its length is known to be; as it comes, its beginning is still searched."""
    packed, noise = gzip.compress(FILLER + RECIPE), gzip.compress(os.urandom(PACKED_BYTES))

    assert found(packed, length=PACKED_BYTES) == CANARY
    assert found(packed, length=PACKED_BYTES + 1) == ""
    assert found(noise + packed) == ""
    assert found(RECIPE, length=PACKED_BYTES + 1) == CANARY
    assert found(bytes(SEARCHED_BYTES - len(RECIPE)) + RECIPE) == CANARY
    assert found(bytes(SEARCHED_BYTES) + RECIPE) == ""


def test_what_else_packs_is_not_looked_into() -> None:
    """As documented: bzip2 is none of what hosts serve us with."""
    assert found(bz2.compress(RECIPE)) == ""


def test_texts_are_found_over_the_border_of_pieces() -> None:
    """At every place where it can be cut."""
    text = CANARY.encode()
    for at in range(len(text) + 1):
        search = Search((text,))
        first = search.feed(b"x" + text[:at])
        assert first or search.feed(text[at:] + b"x")


def test_without_texts_nothing_is_found() -> None:
    """An empty one is in everything, and is left out."""
    assert Search((b"",)).feed(os.urandom(100)) == b""
    assert not BodySearch(("",)).feed(FILLER)
