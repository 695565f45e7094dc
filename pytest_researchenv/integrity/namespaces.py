"""Lines of `.pth` files that make namespace packages."""

from __future__ import annotations

import posixpath
import sys

from pytest_researchenv.integrity.layout import Layout
from pytest_researchenv.integrity.protocol import Snapshot
from pytest_researchenv.integrity.pth import namespace


__all__ = ["makes_namespace"]

#: What makes a folder or a file the module of its name, where namespace packages are no more than folders.
_REGULAR = ("/__init__.py", "/__init__.pyc", ".py", ".pyc", ".so", ".abi3.so")


def makes_namespace(snapshot: Snapshot, layout: Layout, site: str, line: str) -> bool:
    """Whether a line only makes a namespace package that is there, and that is imported by its name anyway.

    One that is not there would be a stand-in. One by the name of a module in another folder of the path, or of the
    standard library, would go before that: the line puts it where all imports look first.

    Args:
        snapshot: the frozen image.
        layout: what its interpreter uses.
        site: the folder of the line's file.
        line: the line.

    Raises:
        SandboxError: the engine refuses to read.
    """
    parts = namespace(line)
    if not parts or not snapshot.resolved(posixpath.join(site, *parts)) or parts[0] in sys.stdlib_module_names:
        return False
    own = snapshot.resolved(site)
    others = {snapshot.resolved(folder) for folder in (*layout.stdlib, *layout.path)} - {"", own}
    compiled = f".cpython-{layout.version.replace('.', '')}-x86_64-linux-gnu.so"
    return not any(
        snapshot.link(f"{folder}/{parts[0]}{suffix}") for folder in others for suffix in (*_REGULAR, compiled)
    )
