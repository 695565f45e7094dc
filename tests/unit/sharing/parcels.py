"""Exports made by hand, and what a results folder holds."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pytest_researchenv.cli import main
from pytest_researchenv.sharing.contents import TABLE


__all__ = ["PLACE", "brought", "files_in", "packed", "parcel", "plain", "table"]

#: Where an attempt's files lie in an export.
PLACE = "run/agent/suite/repo/attempt-001"


def table(files: Mapping[str, bytes], **changes: object) -> bytes:
    """The table of contents of some files, with some of its fields changed."""
    members = {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()} for name, content in files.items()
    }
    known = {"kind": "run", "run": "default", "created": "", "harness": "", "members": members, "images": []}
    return json.dumps({**known, "schema": 1, **changes}).encode()


def plain(name: str, content: bytes = b"") -> tuple[tarfile.TarInfo, bytes]:
    """A plain file of an archive."""
    member = tarfile.TarInfo(name)
    member.size = len(content)
    return member, content


def packed(path: Path, members: Iterable[tuple[tarfile.TarInfo, bytes]], *, kind: int = tarfile.GNU_FORMAT) -> Path:
    """An archive of these members, whatever they are."""
    with gzip.open(path, "wb") as file, tarfile.open(fileobj=file, mode="w", format=kind) as archive:
        for member, content in members:
            archive.addfile(member, io.BytesIO(content))
    return path


def parcel(path: Path, files: Mapping[str, bytes], **changes: object) -> Path:
    """An archive of these files, with its table."""
    return packed(path, [plain(TABLE, table(files, **changes)), *(plain(name, one) for name, one in files.items())])


def files_in(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but locks → its content."""
    found = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(".lock"))
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(found)}


def brought(capsys: Any, *arguments: object, code: int = 0) -> list[dict[str, Any]]:  # noqa: ANN401 - pytest's own
    """Import, and return what the command says as JSON."""
    assert main(["import", "--json", *map(str, arguments)]) == code
    return list(json.loads(capsys.readouterr().out))
