"""Zip archives on the path have one meaning, or are not believed. No Docker."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest

from pytest_researchenv.integrity._archives import table_doubt
from pytest_researchenv.model import Sign
from tests.unit.integrity.images import SITE, Nodes
from tests.unit.integrity.sites import audited, kinds


def archive(name: str, comment: bytes = b"") -> bytes:
    """An archive with one file."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr(name, "")
        opened.comment = comment
    return buffer.getvalue()


def two_tables() -> bytes:
    """An archive with one table for Python, and another for readers that know of long archives."""
    short, long = archive("sitecustomize.py"), archive("tools.py")
    size, offset = struct.unpack("<II", long[-10:-2])
    end = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, size, len(short) - 22)
    where = struct.pack("<4sIQI", b"PK\6\7", 0, len(short) - 22 + size, 1)
    return short[:-22] + long[offset : offset + size] + end + where + short[-22:]


def of_version(version: int) -> bytes:
    """An archive whose table says which reader it takes."""
    whole = archive("sitecustomize.py")
    at = whole.index(b"PK\1\2") + 6
    return whole[:at] + struct.pack("<H", version) + whole[at + 2 :]


@pytest.mark.parametrize(
    "content", [b"", b"no archive", archive("a.py"), archive("a.py", b"a comment"), b"#!" + archive("a")]
)
def test_an_archive_that_all_read_alike_is_read(content: bytes) -> None:
    """With a comment or a beginning of its own, too; what is no archive is none to anybody."""
    assert table_doubt(io.BytesIO(content)) == ""


@pytest.mark.parametrize(
    "content",
    [two_tables(), of_version(99), archive("a.py") + b"more", archive("a.py")[:-2] + b"\x09\x00"],
)
def test_an_archive_of_two_readings_is_doubted(content: bytes) -> None:
    """Whatever the difference is: Python's importer reads what `zipfile` does not, and the other way round."""
    assert table_doubt(io.BytesIO(content))


@pytest.mark.parametrize("content", [two_tables(), of_version(99)])
def test_an_archive_of_two_readings_on_the_path_cannot_be_audited(tmp_path: Path, content: bytes) -> None:
    """What is found in it is not what Python finds."""
    nodes: Nodes = {f"{SITE}/x.pth": "/opt/tools.zip\n", "/opt/tools.zip": content}

    signs = audited(tmp_path, nodes, tracked={"run.py": "import dep\n"})

    assert Sign.UNREADABLE in kinds(signs)
