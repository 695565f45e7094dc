"""What conda and its relatives recorded of the files that they installed into an environment."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Callable

from pytest_researchenv.integrity.protocol import Snapshot


__all__ = ["conda_sums", "has_condas_python", "is_conda"]


def is_conda(snapshot: Snapshot, prefix: str) -> bool:
    """Whether a folder is an environment that conda made."""
    return bool(snapshot.resolved(f"{prefix}/conda-meta/history"))


def conda_sums(snapshot: Snapshot, prefix: str, wanted: Callable[[str], bool] = lambda _: True) -> dict[str, str]:
    """Return SHA-256 in hexadecimal of the files of packages, by absolute path.

    Args:
        snapshot: the image.
        prefix: the environment, without links.
        wanted: whether a package is wanted, by its record's name, such as `python-3.11.9-h955ad1f_0.json`.
    """
    folder = snapshot.resolved(f"{prefix}/conda-meta")
    sums: dict[str, str] = {}

    def is_record(path: str) -> bool:
        return path.endswith(".json") and posixpath.dirname(path) == folder and wanted(posixpath.basename(path))

    for entry in snapshot.tree(folder, is_record) if folder else ():
        if not is_record(entry.path):
            continue
        try:
            record = json.loads(entry.content or b"{}")
            paths = record["paths_data"]["paths"]
            found = {one["_path"]: one.get("sha256_in_prefix") or one.get("sha256") for one in paths}
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            continue
        sums |= {
            posixpath.normpath(f"{prefix}/{path}"): digest
            for path, digest in found.items()
            if isinstance(path, str) and isinstance(digest, str)
        }
    return sums


def has_condas_python(snapshot: Snapshot, prefix: str, binary: str) -> bool:
    """Whether conda's records in a folder have an interpreter as it is; where they do not, they are an agent's.

    Args:
        snapshot: the image.
        prefix: the environment, without links.
        binary: the interpreter's file.
    """
    entry = snapshot.entry(binary)
    return entry is not None and conda_sums(snapshot, prefix, _is_python).get(binary) == entry.sha256 != ""


def _is_python(record: str) -> bool:
    return record.startswith("python-3")
