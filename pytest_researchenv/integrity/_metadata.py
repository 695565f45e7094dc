"""What installers write down of a distribution. All of it may be hostile: nothing here raises, all is bounded."""

from __future__ import annotations

import ast
import base64
import binascii
import csv
import hashlib
import io
import json
import posixpath
import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

from pytest_researchenv._parsing import parsed
from pytest_researchenv.integrity._archives import ZIP_ERRORS


__all__ = [
    "Direct",
    "Record",
    "conda_files",
    "direct_url",
    "editable_mapping",
    "egg_contents",
    "entry_points",
    "header_fields",
    "installed_files",
    "module_names",
    "record_rows",
    "wheel_files",
]

#: Lines of one RECORD; ansible's has 30,000.
_MOST_ROWS = 500_000
#: Characters of METADATA in which its header fields are; those of large projects name hundreds of requirements.
_HEADER = 256 * 1024
_MOST_NAMES = 2000
_LONGEST_PATH = 4096
_SHA256_BYTES = 32
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Record:
    """The rows of a RECORD.

    Attributes:
        files: absolute path → SHA-256 in hexadecimal; empty where a row has none, or rows contradict one another.
        lists_itself: whether the RECORD is among them, as every installer has it.
    """

    files: Mapping[str, str] = field(default_factory=dict)
    lists_itself: bool = False


@dataclass(frozen=True, slots=True)
class Direct:
    """Where a distribution was installed from, when not from an index.

    Attributes:
        url: where from, as it says.
        folder: path of the local folder; empty when it was none.
        editable: whether it is an editable install of it.
        archive: whether it was a file.
        source: whether it was a checkout of version control.
    """

    url: str = ""
    folder: str = ""
    editable: bool = False
    archive: bool = False
    source: bool = False


def header_fields(text: str) -> dict[str, tuple[str, ...]]:
    """Fields in the head of a METADATA, PKG-INFO or WHEEL: name in lower case → its values."""
    found: dict[str, list[str]] = {}
    for line in text[:_HEADER].splitlines():
        if not line.strip():
            break
        name, colon, value = line.partition(":")
        if colon and not line[0].isspace():
            found.setdefault(name.strip().lower(), []).append(value.strip())
    return {name: tuple(values) for name, values in found.items()}


def record_rows(text: str, site: str, itself: str) -> Record:
    """Read a RECORD.

    Args:
        text: all of it.
        site: the site folder, without links in its path.
        itself: its own path.
    """
    files: dict[str, str] = {}
    rows = csv.reader(line.rstrip("\r") for line in text.split("\n"))
    for _ in range(_MOST_ROWS):
        try:
            row = next(rows)
        except StopIteration:
            break
        except csv.Error:
            continue
        path = _joined(site, row[0]) if row else ""
        if path:
            digest = _digest(row[1]) if len(row) > 1 else ""
            files[path] = digest if files.get(path, digest) == digest else ""
    return Record(files, itself in files)


def _joined(folder: str, path: str) -> str:
    """Where a path in a record leads; empty for what is no path."""
    if not path or "\0" in path or len(path) > _LONGEST_PATH:
        return ""
    return "/" + posixpath.normpath(posixpath.join(folder, path)).lstrip("/")


def _digest(text: str) -> str:
    """A SHA-256 as RECORD writes it, in hexadecimal; empty for anything else."""
    algorithm, _, value = text.partition("=")
    if algorithm.strip().lower() != "sha256":
        return ""
    try:
        raw = base64.b64decode(value.strip() + "=" * (-len(value.strip()) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        return ""
    return raw.hex() if len(raw) == _SHA256_BYTES else ""


def direct_url(text: str) -> Direct | None:
    """Read a direct_url.json; None when it says nothing."""
    found = _object(text)
    url = found.get("url")
    if not isinstance(url, str):
        return None
    folder, archive = found.get("dir_info"), found.get("archive_info")
    if not isinstance(folder, dict):
        return Direct(url, archive=isinstance(archive, dict), source=isinstance(found.get("vcs_info"), dict))
    try:
        path = unquote(urlsplit(url).path)
    except ValueError:
        path = ""
    return Direct(url, folder=_joined("/", path), editable=folder.get("editable") is True)


def conda_files(text: str, prefix: str) -> tuple[str, str, dict[str, str]]:
    """Read conda's record of a package: its name, its version, and absolute path → SHA-256, empty where unknown."""
    found = _object(text)
    files = {path: "" for path in map(_text, _list(found.get("files"))) if path}
    paths = found.get("paths_data")
    for item in _list(paths.get("paths") if isinstance(paths, dict) else None):
        if not isinstance(item, dict) or not _text(item.get("_path")):
            continue
        # A path of the environment is written into files that hold the placeholder of one: that changes them.
        digest = _text(item.get("sha256_in_prefix")) or ("" if "file_mode" in item else _text(item.get("sha256")))
        files[_text(item["_path"])] = digest if _SHA256.fullmatch(digest) else ""
    absolute = {_joined(prefix, path): digest for path, digest in files.items()}
    absolute.pop("", None)
    return _text(found.get("name")), _text(found.get("version")), absolute


def installed_files(text: str, folder: str) -> tuple[str, ...]:
    """Read an installed-files.txt, whose paths are relative to the folder that it is in."""
    paths = (_joined(folder, line.strip()) for line in text.splitlines()[:_MOST_ROWS])
    return tuple(path for path in paths if path)


def egg_contents(content: bytes, path: str) -> tuple[str, tuple[str, ...]]:
    """Read a zipped egg: its PKG-INFO, and the paths of what it holds, as if it were a folder."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = archive.namelist()[:_MOST_ROWS]
            if "EGG-INFO/PKG-INFO" not in names:
                return "", ()
            with archive.open("EGG-INFO/PKG-INFO") as file:
                text = file.read(_HEADER).decode(errors="replace")
    except ZIP_ERRORS:
        return "", ()
    return text, tuple(joined for name in names if (joined := _joined(path, name)))


def wheel_files(content: bytes) -> dict[str, str]:
    """What a wheel that nobody doubts holds: path → SHA-256; nothing for what is no wheel."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
    except ZIP_ERRORS:
        return {}


def module_names(text: str) -> frozenset[str]:
    """Read a top_level.txt."""
    return frozenset(name for name in text.split()[:_MOST_NAMES] if name.isidentifier())


def entry_points(text: str) -> dict[str, frozenset[str]]:
    """Read an entry_points.txt: group → the modules that its entries name, as any version of Python reads it."""
    found: dict[str, set[str]] = {}
    group = ""
    for line in map(str.strip, text.splitlines()):
        # Some take all brackets around a name off, and others whatever comes after them.
        if header := re.match(r"\[(.+)\]", line):
            group = header[1].strip("[] ")
        elif group and "=" in line and not line.startswith("#"):
            module = line.partition("=")[2].partition(":")[0].strip()
            found.setdefault(group, set()).add(module)
    return {name: frozenset(modules) for name, modules in found.items()}


def editable_mapping(source: bytes, literal: str = "MAPPING") -> dict[str, tuple[str, ...]]:
    """Modules of an editable install and where they are, as setuptools' finder has them in a literal.

    Args:
        source: all of the finder.
        literal: its name: `MAPPING`, or `NAMESPACES`.
    """
    tree = parsed(source)
    for node in tree.body if tree else ():
        if isinstance(node, ast.Assign):
            targets: list[ast.expr] = node.targets
        elif isinstance(node, ast.AnnAssign):
            targets = [node.target]
        else:
            continue
        if node.value is not None and any(isinstance(item, ast.Name) and item.id == literal for item in targets):
            try:
                return dict(_modules_at(ast.literal_eval(node.value)))
            except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
                return {}
    return {}


def _modules_at(mapping: object) -> Iterator[tuple[str, tuple[str, ...]]]:
    for name, value in mapping.items() if isinstance(mapping, dict) else ():
        paths = tuple(
            path for path in (value if isinstance(value, list) else [value]) if isinstance(path, str) and path
        )
        if isinstance(name, str) and paths:
            yield name, paths


def _object(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _list(value: object) -> list[object]:
    return value[:_MOST_ROWS] if isinstance(value, list) else []


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
