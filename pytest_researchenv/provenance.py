"""Where a result came from, and whether it is still what was written: digests of code, logs and records.

A seal is no signature: whoever can edit a record can seal it again. It tells an edited file from an intact one, and
what all seals of a run come to, kept elsewhere, tells the whole run from any other. That a verdict was never so is told
by judging again (`researchenv verify`).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pytest_researchenv.errors import StoreError
from pytest_researchenv.packedlogs import DamagedLogError, open_log, plain_name


__all__ = ["BOUND", "bound_labels", "digest_of", "harness_identity", "records_in", "seal_of"]

_DISTRIBUTION = "pytest-researchenv"
_PACKAGE = Path(__file__).resolve().parent

#: Label of a frozen image → the attempt's file whose digest it has. An image's labels are part of its id.
BOUND = {"researchenv.report": "report.json", "researchenv.changes": "changes.jsonl.gz"}

_BLOCK = 1024 * 1024

#: Folders of an installed package that hold suites with their sources: data, of which every result records digests.
_DATA = ("suites", "fixtures")


@cache
def harness_identity() -> str:
    """Return what judges: the version of this package, and the SHA-256 of all its files, in hexadecimal."""
    files = {
        path.relative_to(_PACKAGE).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest() for path in _code(_PACKAGE)
    }
    try:
        name = version(_DISTRIBUTION)
    except PackageNotFoundError:
        name = "not installed"
    return f"{name} {hashlib.sha256(json.dumps(files, sort_keys=True).encode()).hexdigest()}"


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file as it is now, in hexadecimal; empty where there is none.

    That of a packed log is the log's; one that does not unpack is `damaged`.

    Raises:
        StoreError: it cannot be read.
    """
    try:
        # Not file_digest, which wants more of a file than that it can be read.
        with open_log(path) as file:
            digest = hashlib.sha256()
            while block := file.read(_BLOCK):
                digest.update(block)
            return digest.hexdigest()
    except DamagedLogError:
        return "damaged"
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise StoreError(f"cannot read {path}: {error}") from error


def bound_labels(folder: Path) -> dict[str, str]:
    """Return what binds a frozen image to what was recorded of its attempt before: label → SHA-256 of the file."""
    return {label: digest_of(folder / name) for label, name in BOUND.items()}


def records_in(folder: Path, *, but: str) -> dict[str, str]:
    """Return the name of each file in an attempt's folder that is not hidden → its SHA-256; logs as they were written.

    Args:
        folder: the attempt's.
        but: the one that is left out, which is to hold the digests.
    """
    files = (path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    names = sorted({plain_name(path.name) for path in files} - {but})
    return {name: digest_of(folder / name) for name in names}


def seal_of(record: Mapping[str, object]) -> str:
    """Return the seal of a record as its JSON has it: the SHA-256 of all but the seal itself, in hexadecimal.

    The seal of an audit is that of its result, and covers the whole audit.
    """
    kept = {name: value for name, value in record.items() if name != "seal"}
    if isinstance(result := kept.get("result"), dict):
        kept["result"] = {name: value for name, value in result.items() if name != "seal"}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _code(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name != "__pycache__" and not (folder == _PACKAGE and path.name in _DATA):
                yield from _code(path)
        elif not path.name.startswith("."):
            yield path
