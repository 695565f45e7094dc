"""A distribution `dep` that the repository imports, and indexes that have it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from tests.unit.integrity.images import SITE, distribution
from tests.unit.integrity.sites import Index


__all__ = ["ABOUT", "FILES", "USES", "from_folder", "hashes", "wheel"]

USES = {"run.py": "import dep\n"}
ABOUT = f"{SITE}/dep-1.0.dist-info"
FILES: dict[str, bytes | str] = {"dep/__init__.py": "A = 1\n", "dep/core.py": "B = 2\n", "dep/more.py": "C = 3\n"}


def hashes(files: Mapping[str, bytes | str]) -> dict[str, str]:
    """Path → SHA-256."""
    raw = {path: content.encode() if isinstance(content, str) else content for path, content in files.items()}
    return {path: hashlib.sha256(content).hexdigest() for path, content in raw.items()}


def wheel(files: Mapping[str, bytes | str], name: str = "dep", version: str = "1.0") -> Index:
    """An index whose only wheel has some files, and the WHEEL that `distribution` writes."""
    about = f"{name}-{version}.dist-info/WHEEL"
    installed = distribution("", name, {}, version)
    return Index(wheels={name: hashes({**files, about: installed[f"/{about}"]})})


def from_folder(folder: str, *, editable: bool = False) -> dict[str, bytes | str]:
    """The note that pip leaves of what was installed from a folder."""
    info = {"editable": True} if editable else {}
    return {f"{ABOUT}/direct_url.json": json.dumps({"url": f"file://{folder}", "dir_info": info})}
