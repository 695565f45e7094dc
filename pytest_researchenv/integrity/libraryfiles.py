"""Which files of a standard library are compared with what somebody else has of it."""

from __future__ import annotations

import posixpath
from collections.abc import Collection

from pytest_researchenv.integrity.bytecode import is_cached
from pytest_researchenv.integrity.protocol import Snapshot


__all__ = ["MODULES", "compared", "goes_before", "is_python", "is_site"]

#: Endings of modules.
MODULES = (".py", ".pyc", ".so")
_HOOKS = ("sitecustomize", "usercustomize")


def is_python(record: str) -> bool:
    """Whether one of conda's records is that of a Python."""
    return record.startswith(("python-3", "libpython-", "libpython3"))


def compared(present: Collection[str], top: str) -> frozenset[str]:
    """What of a standard library is compared: neither bytecode beside sources nor start-up modules."""
    return frozenset(path for path in present if not is_cached(path) and not _is_hook(path, top))


def is_site(path: str, top: str) -> bool:
    """Whether a path is in a site folder that lies in a standard library."""
    return path.startswith((f"{top}/site-packages/", f"{top}/dist-packages/"))


def goes_before(snapshot: Snapshot, path: str) -> bool:
    """Whether Python finds a file before the base image's source of the same name.

    Args:
        snapshot: the image.
        path: absolute, of a file in a standard library.
    """
    folder, name = posixpath.split(path)
    if name.startswith("__init__.") and snapshot.base(f"{folder}.py") is not None:
        return True
    return name.endswith(".so") and snapshot.base(f"{folder}/{name.partition('.')[0]}.py") is not None


def _is_hook(path: str, top: str) -> bool:
    """Whether it is what `hooks` looks at."""
    return path.removeprefix(f"{top}/").partition("/")[0].partition(".")[0] in _HOOKS
